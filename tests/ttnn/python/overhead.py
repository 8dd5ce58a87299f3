"""What tracking costs a program: operations with it and without it, in pairs.

Tracking is paused and resumed inside one process. Afterwards the accounts are compared once more:
the costs are those of tracking that is exact. Nothing is asserted about times.

The summary is a table for people; the figures are in a JSON file beside it.
"""

import dataclasses
import json
import os
from importlib.metadata import version

import ttmem_account
import ttnn
from paired import compare
from tensors import empty, height_sharded, zeros
from ttmem_check import Arguments, Check, close_board, open_board

PAIRS = 300
# Of the rows of growth, of which there are many.
GROWTH_PAIRS = 100

PROGRAM_COUNTS = (1, 10, 100, 1_000, 10_000)
BUFFER_COUNTS = (1, 10, 100, 1_000, 10_000, 100_000)

TILE = [1, 1, 32, 32]
SHARDED_SHAPE = [1, 1, 1024, 128]


def switch(on):
    """Resumes tracking, or pauses it."""
    ttmem_account.preloaded().ttmem_attach_pause(0 if on else 1)


class Bench:
    """Compares operations and keeps what came of them."""

    def __init__(self, check):
        self.check = check
        self.rows = []

    def applied(self):
        """The events that the server has applied so far."""
        ttmem_account.flush()
        return self.check.account.snapshot()["server"]["events_applied"]

    def events_of(self, action):
        """The events that one run makes: none while paused, and some otherwise."""
        runs = 10
        counts = {}
        for on in (False, True):
            switch(on)
            before = self.applied()
            for _ in range(runs):
                action()
            counts[on] = (self.applied() - before) / runs
        if counts[False] != 0 or counts[True] < 1:
            raise AssertionError(f"events paused and not: {counts}")
        return counts[True]

    def run(self, name, action, pairs, runs, **facts):
        """Compares an operation with and without tracking."""
        action()
        events = self.events_of(action)
        row = {"name": name, "events": events, **facts}
        row.update(dataclasses.asdict(compare(action, switch, pairs, runs)))
        self.rows.append(row)
        self.check.compare(name)


def operations(bench, device):
    """What a program does all the time."""
    a = zeros(device, [1, 1, 1024, 1024], ttnn.DRAM_MEMORY_CONFIG)
    sharded_memory = height_sharded(SHARDED_SHAPE)
    sharded = zeros(device, SHARDED_SHAPE, sharded_memory)
    dram = ttnn.DRAM_MEMORY_CONFIG
    bench.run(
        "empty + deallocate",
        lambda: ttnn.deallocate(empty(device, TILE, dram)),
        PAIRS,
        400,
    )
    bench.run("cached add", lambda: ttnn.deallocate(ttnn.add(a, a)), PAIRS, 100)
    bench.run("cached matmul", lambda: ttnn.deallocate(ttnn.matmul(a, a)), PAIRS, 100)
    bench.run(
        "cached sharded gelu",
        lambda: ttnn.deallocate(ttnn.gelu(sharded, memory_config=sharded_memory)),
        PAIRS,
        100,
    )


def growth_with_programs(bench, device):
    """A cached operation while more and more programs are kept in the cache.

    It is one whose programs differ for every size, while their kernels are the same.
    """
    memory = ttnn.DRAM_MEMORY_CONFIG
    tensor = zeros(device, TILE, memory)
    device.clear_program_cache()
    made = 0
    for count in PROGRAM_COUNTS:
        while made < count:
            made += 1
            other = empty(device, [1, 1, 32, 32 * made], memory)
            ttnn.deallocate(ttnn.clone(other))
            ttnn.deallocate(other)
        if device.num_program_cache_entries() != count:
            raise AssertionError(f"{device.num_program_cache_entries()} programs, not {count}")
        bench.run(
            f"cached clone, {count} programs",
            lambda: ttnn.deallocate(ttnn.clone(tensor)),
            GROWTH_PAIRS,
            100,
            programs=count,
        )
    device.clear_program_cache()


def growth_with_buffers(bench, device):
    """A buffer that comes and goes while more and more others live."""
    memory = ttnn.DRAM_MEMORY_CONFIG
    live = []
    for count in BUFFER_COUNTS:
        while len(live) < count:
            live.append(empty(device, TILE, memory))
        bench.run(
            f"empty + deallocate, {count} buffers",
            lambda: ttnn.deallocate(empty(device, TILE, memory)),
            GROWTH_PAIRS,
            200,
            buffers=count,
        )
    live.clear()


def interval(pair, form):
    """The interval as people write it."""
    return " to ".join(form.format(value) for value in pair)


def percent(ratio):
    """How much more that is."""
    return 100 * (ratio - 1)


def table(rows):
    """The rows for people."""
    lines = [
        f"{'operation':<36} {'events':>6} {'off':>9} {'on':>9} {'more':>7}  "
        f"{'95 % interval':<19} {'of the processor time':<28} {'ns more':>7}  {'pairs':>5}"
    ]
    for row in rows:
        wall = [percent(ratio) for ratio in row["ratio_interval"]]
        cpu = [percent(ratio) for ratio in row["cpu_ratio_interval"]]
        own = f"{percent(row['cpu_ratio']):+.2f} % ({interval(cpu, '{:+.2f}')})"
        lines.append(
            f"{row['name']:<36} {row['events']:>6.1f} {row['off']:>9.0f} {row['on']:>9.0f} "
            f"{percent(row['ratio']):>+6.2f}%  {interval(wall, '{:+.2f}'):<19} {own:<28} "
            f"{row['cpu_added']:>7.0f}  {row['pairs']:>5}"
        )
    return "\n".join(lines)


def growth(bench, device):
    """Whether what lives makes it dearer."""
    growth_with_programs(bench, device)
    growth_with_buffers(bench, device)


def main(name, *parts):
    """Measures some parts, and writes what came of them: the figures under a name."""
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    bench = Bench(check)
    for part in parts:
        part(bench, device)
    close_board(device, arguments)
    figures = os.path.join(os.path.dirname(arguments.summary), f"{name}.json")
    with open(figures, "w", encoding="utf-8") as file:
        json.dump({"bench": name, "ttnn": version("ttnn"), "rows": bench.rows}, file, indent=2)
        file.write("\n")
    with open(arguments.summary, "w", encoding="utf-8") as summary:
        summary.write(table(bench.rows))


if __name__ == "__main__":
    main("attach", operations, growth)
