"""Has call stacks told: of large buffers, of refusals and of kernels, and of nothing else.

A second process without the variable tells none.
"""

import os

LEAST_BYTES = 1 << 20
VARIABLE = "TTMEM_STACKS"
WITHOUT = "TTMEM_TESTS_WITHOUT_STACKS"

# Read by the library at its first report.
if WITHOUT not in os.environ:
    os.environ[VARIABLE] = str(LEAST_BYTES)

import ttmem_account  # noqa: E402
import ttnn  # noqa: E402
from tensors import OUT_OF_MEMORY, empty, zeros  # noqa: E402
from ttmem_check import (  # noqa: E402
    GRID_REFUSALS,
    Arguments,
    Check,
    close_board,
    equal,
    open_board,
)
from ttmem_program import require, run_again  # noqa: E402

SMALL = [1, 1, 32, 32]
LARGE = [1, 1, 1024, 1024]
MORE_THAN_THERE_IS = [1, 1, 65536, 524288]
MAX_FRAMES = 32


def libraries(frames):
    """The libraries of a stack, by their names without an ending."""
    return {frame.partition("+0x")[0].partition(".")[0] for frame in frames}


def row_of(check, tensor):
    """Our row of a tensor's buffer."""
    address = tensor.buffer_address()
    rows = [row for row in check.account.rows("buffers") if row["address"] == address]
    require(len(rows) == 1, f"{len(rows)} buffers at {address}")
    return rows[0]


def check_frames(name, frames):
    """A stack of ttnn: from its own libraries through the runtime's, without ours."""
    require(0 < len(frames) <= MAX_FRAMES, f"{name}: {len(frames)} frames")
    found = libraries(frames)
    require("libtt_metal" in found, f"{name}: {frames}")
    require(found & {"_ttnn", "_ttnncpp"}, f"{name}: {frames}")
    require("libttmem_attach" not in found, f"{name}: {frames}")
    require("AllocatorImpl" not in frames[0], f"{name}: {frames[0]}")


def follow(check, action, refusals=()):
    """Takes a step; the events that were told of it."""
    ttmem_account.flush()
    last = check.account.events()[-1]
    result = check.step("a step with stacks", action, refusals)
    told = check.account.events()
    require(last in told, "events were missed")
    return result, told[told.index(last) + 1 :]


def stack_behind(told, name):
    """The fields of the stack that was told right behind the last event of this name."""
    names = [event["event"] for event in told]
    require(name in names, f"no {name} among {names}")
    behind = len(names) - names[::-1].index(name)
    require(names[behind : behind + 1] == ["stack_noted"], f"{names[behind:]} behind {name}")
    return told[behind]["fields"]


def with_stacks(check, device):
    small = check.step("small", lambda: empty(device, SMALL, ttnn.DRAM_MEMORY_CONFIG))
    large, told = follow(check, lambda: empty(device, LARGE, ttnn.DRAM_MEMORY_CONFIG))
    row = row_of(check, large)
    require(row["charged_bytes"] >= LEAST_BYTES, f"{row}")
    check_frames("a large tensor", row["stack"])
    noted = stack_behind(told, "buffer_allocated")
    equal("the buffer of the stack", noted["buffer"], row["id"])
    require(noted["stack"].startswith(row["stack"][0]), f"{noted}")
    equal("the stack of a small tensor", row_of(check, small)["stack"], None)

    # The same place in the program: the same stack, word for word.
    twice = [empty(device, LARGE, ttnn.DRAM_MEMORY_CONFIG) for _ in range(2)]
    check.compare("two from one place")
    one, other = (row_of(check, tensor)["stack"] for tensor in twice)
    equal("stacks of one place", one, other)
    check_frames("one of two", one)

    _, told = follow(
        check,
        lambda: empty(device, MORE_THAN_THERE_IS, ttnn.DRAM_MEMORY_CONFIG),
        (OUT_OF_MEMORY,),
    )
    noted = stack_behind(told, "allocation_failed")
    equal("the buffer of a refusal", int(noted["buffer"], 16), 0)
    innermost = noted["stack"].partition(";")[0]
    require(innermost.startswith("libtt_metal.so+0x"), f"{noted}")
    require("allocate_impl" not in innermost, f"{noted}")

    a = zeros(device, SMALL, ttnn.DRAM_MEMORY_CONFIG)
    refusals = () if check.one_chip else GRID_REFUSALS
    result, told = follow(check, lambda: ttnn.add(a, a), refusals)
    if result is not None:
        noted = stack_behind(told, "kernel_loaded")
        loaded = [event["fields"] for event in told if event["event"] == "kernel_loaded"]
        equal("the program of the stack", noted["program"], loaded[-1]["program"])
        # Kernels are told when ttnn sends their program, before the runtime does anything.
        require(noted["stack"].startswith("_ttnncpp.so+0x"), f"{noted}")
        require("BinaryNgDeviceOperation" in noted["stack"], f"{noted}")
        _, told = follow(check, lambda: ttnn.add(a, a), refusals)
        names = [event["event"] for event in told]
        require("stack_noted" not in names, f"a program that was there already: {names}")


def without_stacks(check, device):
    kept = [empty(device, LARGE, ttnn.DRAM_MEMORY_CONFIG)]
    kept.append(ttnn.add(kept[0], kept[0]))
    check.compare("without stacks")
    names = {event["event"] for event in check.account.events()}
    require({"buffer_allocated", "kernel_loaded"} <= names, f"{names}")
    require("stack_noted" not in names, f"{names}")
    equal("stacks", {row["stack"] is None for row in check.account.rows("buffers")}, {True})


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.one_chip = arguments.is_one_chip
    check.watch(device)
    is_without = WITHOUT in os.environ
    (without_stacks if is_without else with_stacks)(check, device)
    close_board(device, arguments)
    check.write_summary(arguments)
    if not is_without:
        run_again(WITHOUT, without=VARIABLE)


if __name__ == "__main__":
    main()
