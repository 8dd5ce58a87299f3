"""The Python package: its figures equal ttnn's after every step, its peaks are the true ones.

They come from the account of this process. The server's, which every step is compared with as well,
has no part in them.
"""

import os
import random
import sys
from pathlib import Path

# Read by the library at its first report.
os.environ["TTMEM_PYTHON"] = "1"
OWN_PACKAGE = os.environ["TTMEM_TESTS_OWN_PACKAGE"]
sys.path.insert(0, OWN_PACKAGE)

import ttmem  # noqa: E402
import ttnn  # noqa: E402
from random_ops import REFUSALS, Player  # noqa: E402
from tensors import empty, height_sharded, small_sharded, zeros  # noqa: E402
from ttmem_check import (  # noqa: E402
    CLASSES,
    GRID_REFUSALS,
    Arguments,
    Check,
    close_board,
    equal,
    open_board,
)

PLACED = 120
OPERATIONS = 150


class Own:
    """Compares the package's figures with the allocator's."""

    def __init__(self, device):
        self.device = device
        self.chips = len(device.get_device_ids())
        # The most that was seen; that is the peak while every step places or frees one buffer.
        self.highest = dict.fromkeys(CLASSES, 0)

    def view(self, class_name):
        """Bytes that ttnn holds of a class on all chips, and could."""
        view = ttnn.get_memory_view(self.device, getattr(ttnn.BufferType, class_name))
        everywhere = view.num_banks * self.chips
        held, could = view.total_bytes_allocated_per_bank, view.total_bytes_per_bank
        return held * everywhere, could * everywhere

    def compare(self):
        for class_name, kind in CLASSES.items():
            held, could = self.view(class_name)
            self.highest[class_name] = max(self.highest[class_name], held)
            equal(f"memory_allocated {kind}", ttmem.memory_allocated(self.device, kind), held)
            equal(f"{kind} of all devices", ttmem.memory_allocated(kind=kind), held)
            for chip in self.device.get_device_ids():
                ours = ttmem.memory_allocated(chip, kind)
                equal(f"{kind} of device {chip}", ours * self.chips, held)
            free_and_total = ttmem.mem_get_info(self.device, kind)
            equal(f"mem_get_info {kind}", free_and_total, (could - held, could))

    def compare_peaks(self):
        for class_name, kind in CLASSES.items():
            ours = ttmem.max_memory_allocated(self.device, kind)
            equal(f"max_memory_allocated {kind}", ours, self.highest[class_name])


def place_and_free(device, own, check, seed):
    """One buffer at a time, in every class."""
    choice, live = random.Random(seed), []

    def place():
        size = 32 * choice.randint(1, 40)
        shape = [1, 1, 512, size]
        memory = choice.choice((ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG, None))
        if memory is not None:
            return live.append(empty(device, shape, memory))
        if choice.random() < 0.5:
            return live.append(empty(device, shape, height_sharded(shape)))
        small = empty(device, [1, 1, 128, 32], small_sharded(32, 32))
        return live.append(small)

    def free():
        ttnn.deallocate(live.pop(choice.randrange(len(live))))

    for number in range(PLACED):
        step = free if live and choice.random() < 0.45 else place
        check.step(f"{step.__name__} (seed {seed})", step, REFUSALS)
        own.compare()
        own.compare_peaks()
        if number == PLACED // 2:
            ttmem.reset_peak_memory_stats(device)
            own.highest = {name: own.view(name)[0] for name in CLASSES}
    live.clear()


def peak_inside(device, own):
    """What is gone when an expression is done was there at its peak."""
    one = zeros(device, [1, 1, 256, 256], ttnn.DRAM_MEMORY_CONFIG)
    changed = ttnn.multiply(one, one)
    sum_ = ttnn.add(changed, one)
    highest = own.view("DRAM")[0]
    del changed, sum_
    with ttmem.track("expression") as tracked:
        result = ttnn.add(ttnn.multiply(one, one), one)
    equal("peak of the expression", tracked.peak["dram"], highest)
    equal("delta of the expression", tracked.delta["dram"], own.view("DRAM")[0] - tracked.before["dram"])
    equal("what it left", [each.kind for each in tracked.leaked], ["dram"])
    lines = tracked.peak_lines()
    equal("lines at the peak", sum(each.bytes for each in lines), highest)
    own = [each for each in lines if not each.is_before]
    equal("of the block", sum(each.bytes for each in own), highest - tracked.before["dram"])
    of_run = ttmem.peak_lines(device, ttnn.BufferType.L1)
    equal("of the run", sum(each.bytes for each in of_run), ttmem.max_memory_allocated(device, "L1"))
    del result


def leak(device, kept):
    with ttmem.track("leaking") as tracked:
        kept.append(zeros(device, [1, 1, 64, 64], ttnn.L1_MEMORY_CONFIG)); line = here()  # noqa: E702
        ttnn.deallocate(zeros(device, [1, 1, 64, 64], ttnn.L1_MEMORY_CONFIG))
    return tracked, line


def here():
    return f"{__file__}:{sys._getframe(1).f_lineno}"


def name_leak(device):
    """A leak has the line that placed it, among the frames of the call."""
    kept = []
    tracked, line = leak(device, kept)
    equal("leaks", len(tracked.leaked), 1)
    places = [frame.rpartition(" ")[0] for frame in tracked.leaked[0].stack]
    equal(f"{line} is in {places}", line in places, True)
    equal("leaked bytes", tracked.leaked_bytes, tracked.delta["l1"])
    with ttmem.track("clean") as clean:
        zeros(device, [1, 1, 64, 64], ttnn.L1_MEMORY_CONFIG)
    equal("leaks of a clean block", clean.leaked, ())


def close_with_a_tensor(device, arguments):
    """What is held when the board is closed was left behind; then nobody knows what is free."""
    with ttmem.track("until the close") as tracked:
        kept = [zeros(device, [1, 1, 64, 64], ttnn.DRAM_MEMORY_CONFIG)]
        held = ttmem.memory_allocated(device)
        close_board(device, arguments)
    left = [(each.is_closed, each.kind) for each in tracked.leaked]
    equal("left at the close", left, [(True, "dram")])
    equal("its bytes", tracked.leaked_bytes, held)
    for chip in range(arguments.rows * arguments.columns):
        try:
            ttmem.mem_get_info(chip)
        except ttmem.TtmemError as error:
            equal("the reason", "is closed" in str(error), True)
        else:
            raise AssertionError(f"device {chip} is closed and has free memory")
    kept.clear()


def main():
    arguments = Arguments.of_command_line()
    equal("the package", Path(ttmem.__file__).parents[1], Path(OWN_PACKAGE))
    equal("attached", ttmem.is_attached(), True)
    ttmem.attach()
    device = open_board(arguments)
    own, check = Own(device), Check()
    check.watch(device)
    own.compare()
    place_and_free(device, own, check, arguments.seed)
    peak_inside(device, own)
    name_leak(device)
    refusals = REFUSALS if arguments.is_one_chip else REFUSALS + GRID_REFUSALS
    player = Player(device, arguments.seed)
    for _ in range(OPERATIONS):
        name, operation = player.next()
        check.step(f"{name} (seed {arguments.seed})", operation, refusals)
        del operation
        own.compare()
    check.step("free all", player.live.clear)
    close_with_a_tensor(device, arguments)
    equal("held at the end", ttmem.memory_allocated(), 0)
    equal("lost events", ttmem.memory_snapshot().lost_events, 0)
    check.write_summary(arguments, f"{PLACED} peaks equal")


if __name__ == "__main__":
    main()
