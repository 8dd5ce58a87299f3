"""Carries out what explanations propose, in calls that hold memory themselves.

A call that fails may have placed buffers before, and it has inputs. What it placed is never proposed;
of what else is proposed the inputs are left alone, as the proposal says, and with the rest released
the call succeeds, or nothing more is proposed. Figures are those of ttnn's own message.
"""

import os
import re

# Read by the library at its first report.
os.environ["TTMEM_PYTHON"] = "1"

import ttmem_account  # noqa: E402
import ttnn  # noqa: E402
from tensors import OUT_OF_MEMORY, empty, small_sharded, zeros  # noqa: E402
from ttmem_check import Arguments, Check, close_board, equal, open_board  # noqa: E402
from ttmem_program import message_figures  # noqa: E402

MEETS_BUFFER = "clash with L1 buffers"
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
# A call that fails again after a release is released for again, a few times.
MOST_ATTEMPTS = 12
# What every release depends on that is known from a call of Python.
CONDITION = re.compile(r"unless this call uses (it|them)")


class Advised:
    """A device with tensors that the program could release, and calls that fail on it."""

    def __init__(self, arguments, **options):
        self.arguments = arguments
        self.device = open_board(arguments, **options)
        self.check = Check()
        self.check.watch(self.device)
        self.held = []
        self.verdicts = []

    def hold(self, tensor):
        self.held.append(tensor)
        return tensor

    def places(self):
        """All that is allocated now, by class and address."""
        ttmem_account.flush()
        rows = self.check.account.rows("buffers")
        return {(row["class"], row["address"]) for row in rows}

    def fail(self, name, call, calls_before=False):
        """The explanation of a call that fails, and what was allocated before it; none if it fits.

        After calls before it, of which the last places nothing, that is what is allocated now.
        """
        before, refused = self.places(), self.check.refused
        made = self.check.step(name, call, (OUT_OF_MEMORY, MEETS_BUFFER))
        if self.check.refused == refused:
            del made
            return None, before
        before = self.places() if calls_before else before
        failure = self.check.account.get("/api/v1/failures?count=1")["failures"][0]
        self.verdicts.append(failure["verdict"])
        self.compare_figures(name, failure)
        self.compare_proposals(name, failure, before)
        return failure, before

    def compare_figures(self, name, failure):
        """Our figures are those of ttnn's message."""
        figures = message_figures(self.check.last_refusal)
        if figures is None:
            equal(f"{name}: refused by an allocator", failure["request"], None)
            return
        for key, value in figures.items():
            equal(f"{name}: {key}", failure["request"][key], value)

    def compare_proposals(self, name, failure, before):
        """Nothing is proposed that the call itself placed, and all of it on one condition."""
        for proposal in proposals(failure):
            for block in proposal["blocks"]:
                place = (block["owner"]["class"], block["address"])
                equal(f"{name}: {place} was there before", place in before, True)
                equal(f"{name}: {place} is not of the call", block["owner"]["of_call"], False)
            equal(f"{name}: condition", bool(CONDITION.fullmatch(proposal["unless"])), True)
        for advice in failure["advice"]:
            if advice.startswith(("release", "or release")):
                equal(f"{name}: {advice}", bool(CONDITION.search(advice)), True)
        for each in (failure["clash"] or {}).get("in_the_way") or []:
            owner, address = each["block"]["owner"], each["block"]["address"]
            equal(f"{name}: {address}", owner["of_call"], (owner["class"], address) not in before)

    def carry_out(self, name, call, inputs=()):
        """Releases what is proposed until the call fits, or nothing more is proposed.

        Gives how many tensors were released, and the explanation that has nothing to release; none if it fits.
        """
        released = 0
        for attempt in range(MOST_ATTEMPTS):
            failure, _before = self.fail(f"{name}, attempt {attempt}", call)
            if failure is None:
                return released, None
            able = [found for found in map(self.tensors_of, proposals(failure)) if found]
            kept = [found for found in able if not any(one is i for one in found for i in inputs)]
            if not kept:
                return released, failure
            for tensor in kept[0]:
                released += 1
                self.held = [one for one in self.held if one is not tensor]
                ttnn.deallocate(tensor)
        raise AssertionError(f"{name}: fails in spite of {MOST_ATTEMPTS} releases")

    def tensors_of(self, proposal):
        """The tensors of a proposal; none if one of them is not the program's."""
        addresses = {block["address"] for block in proposal["blocks"]}
        found = [one for one in self.held if one.buffer_address() in addresses]
        return found if len(found) == len(addresses) == proposal["buffers"] else None

    def close(self):
        close_board(self.device, self.arguments)
        return self.verdicts


def proposals(failure):
    return [failure[key] for key in ("release", "other_release") if failure[key]]


def of_one_loop(arguments):
    """A line that keeps what it makes: earlier calls of it are not the one that fails."""
    advised = Advised(arguments)
    made = []

    def keep():
        for _ in range(1000):
            made.append(advised.hold(empty(advised.device, [1, 1, 2048, 2048], L1)))

    failure, _before = advised.fail("a loop", keep, calls_before=True)
    lines = {block["owner"]["python"] for each in proposals(failure) for block in each["blocks"]}
    equal("a loop: its own line is proposed", len(lines), 1)
    equal("a loop: proposals", len(proposals(failure)), 2)
    first = advised.tensors_of(failure["release"])
    equal("a loop: a tensor of it", len(first), 1)
    ttnn.deallocate(first[0])
    advised.check.step("a loop: fits", lambda: empty(advised.device, [1, 1, 2048, 2048], L1))
    return advised.close()


def of_shards(arguments):
    """A request for some of the banks only."""
    advised = Advised(arguments)
    advised.hold(empty(advised.device, [1, 1, 6144, 4096], L1))
    shape = [1, 1, 4096, 512]
    shards = ttnn.create_sharded_memory_config(
        shape, ttnn.CoreGrid(y=1, x=4), ttnn.ShardStrategy.HEIGHT
    )
    failure, _before = advised.fail("shards", lambda: empty(advised.device, shape, shards))
    equal("shards: banks", failure["request"]["banks"], 4)
    carried_out = advised.carry_out("shards", lambda: empty(advised.device, shape, shards))
    equal("shards: carried out", carried_out, (1, None))
    return advised.close()


def of_short_pages(arguments):
    """Pages that are no multiple of the alignment, which the allocator rounds up each."""
    verdicts = []
    for columns in (6, 10, 24):
        advised = Advised(arguments, l1_small_size=64)
        shards = small_sharded(51, columns)
        shape = [1, 1, 4 * 51, columns]
        call = lambda: empty(advised.device, shape, shards, layout=ttnn.ROW_MAJOR_LAYOUT)  # noqa: B023,E731
        failure, _before = advised.fail(f"rows of {columns}", call)
        equal(f"rows of {columns}: nothing is proposed", proposals(failure), [])
        verdicts += advised.close()
    return verdicts


def of_output(arguments):
    """Storage of a program that meets the output of its own call."""
    advised = Advised(arguments)
    advised.hold(empty(advised.device, [1, 1, 4096, 2048], L1))
    x = zeros(advised.device, [1, 1, 4096, 8192], DRAM)
    failure, _before = advised.fail("output", lambda: ttnn.softmax(x, -1, memory_config=L1))
    own = [each for each in failure["clash"]["in_the_way"] if each["block"]["owner"]["of_call"]]
    equal("output: in the way", len(own), 1)
    said = [advice for advice in failure["advice"] if "this call placed 1 buffer" in advice]
    equal("output: it is said whose it is", len(said), 1)
    equal("output: it is not proposed", "release" in said[0], False)
    advised.check.step("output in DRAM", lambda: ttnn.softmax(x, -1, memory_config=DRAM))
    return advised.close()


def has_64_cores(device):
    """Whether L1 is as large as the sizes of a case assume: on larger chips its call succeeds."""
    grid = device.compute_with_storage_grid_size()
    return grid.x * grid.y == 64


def of_input(arguments):
    """The smallest buffer to release is the call's own input; the next best is beside it."""
    advised = Advised(arguments)
    if not has_64_cores(advised.device):
        return advised.close()
    for _ in range(4):
        advised.hold(empty(advised.device, [1, 1, 2048, 4096], L1))
    x = advised.hold(zeros(advised.device, [1, 1, 1024, 4096], L1))

    def call():
        first = ttnn.concat([x, x], dim=2, memory_config=L1)
        return ttnn.add(first, first, memory_config=L1)

    released, left = advised.carry_out("input", call, inputs=[x])
    equal("input: fits", left, None)
    equal("input: something was released", released > 0, True)
    return advised.close()


def of_temporaries(arguments):
    """A call of several programs that fails behind its first tensors."""
    # With the larger one only what it holds itself is in the way in the end.
    verdicts = of_convolution(arguments, 6, fits=True)
    return verdicts + of_convolution(arguments, 8, fits=False)


def of_convolution(arguments, images, fits):
    advised = Advised(arguments, l1_small_size=32768)
    if not has_64_cores(advised.device):
        return advised.close()
    advised.hold(empty(advised.device, [1, 1, 8192, 4096], L1))
    side, channels = 112, 64
    x = zeros(
        advised.device, [1, 1, images * side * side, channels], DRAM, layout=ttnn.ROW_MAJOR_LAYOUT
    )
    kernel = [channels, channels, 3, 3]
    weights = ttnn.Tensor(
        [0.5] * (channels * channels * 9), kernel, ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT
    )
    config = ttnn.Conv2dConfig(
        weights_dtype=ttnn.bfloat16, shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    )

    def call():
        return ttnn.conv2d(
            input_tensor=x,
            weight_tensor=weights,
            in_channels=channels,
            out_channels=channels,
            device=advised.device,
            kernel_size=(3, 3),
            stride=(1, 1),
            padding=(1, 1),
            batch_size=images,
            input_height=side,
            input_width=side,
            conv_config=config,
            slice_config=ttnn.Conv2dL1FullSliceConfig,
        )

    failure, _before = advised.fail("temporaries", call)
    equal("temporaries: it fails", failure is not None, True)
    own = [group for group in failure["holders"] if group["owner"]["of_call"]]
    equal("temporaries: it holds some itself", bool(own), True)
    released, left = advised.carry_out("temporaries", call)
    equal("temporaries: released", released, 1)
    equal("temporaries: fits", left is None, fits)
    if left:
        said = [advice for advice in left["advice"] if "this call placed 2 buffers" in advice]
        equal("temporaries: it is said whose they are", len(said), 1)
    return advised.close()


def main():
    arguments = Arguments.of_command_line()
    cases = [of_one_loop, of_shards, of_short_pages]
    # On boards of more chips ttnn has other reasons to refuse these.
    if arguments.is_one_chip:
        cases += [of_output, of_input, of_temporaries]
    verdicts = [verdict for case in cases for verdict in case(arguments)]
    check = Check()
    kinds = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in sorted(set(verdicts)))
    check.write_summary(arguments, f"advised: {kinds}")


if __name__ == "__main__":
    main()
