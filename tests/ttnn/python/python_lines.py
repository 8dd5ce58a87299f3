"""Lines of Python behind buffers, programs and failures equal the stack at the call.

A second process without the variable reports none.
"""

import os
import re
import sys
import threading
import traceback

VARIABLE = "TTMEM_PYTHON"
WITHOUT = "TTMEM_TESTS_WITHOUT_PYTHON"

# Read by the library at its first report.
if WITHOUT not in os.environ:
    os.environ[VARIABLE] = "1"

import ttmem_account  # noqa: E402
import ttnn  # noqa: E402
from tensors import OUT_OF_MEMORY  # noqa: E402
from ttmem_check import Arguments, Check, close_board, equal, open_board  # noqa: E402
from ttmem_program import Differs, require, run_again  # noqa: E402

SHAPE = [1, 1, 32, 32]
MORE_THAN_THERE_IS = [1, 1, 65536, 524288]


def frames_here():
    """The caller's frames as a traceback shows them, the innermost first."""
    frames = reversed(traceback.extract_stack(sys._getframe(1)))
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


def empty(device, shape=SHAPE, config=None):
    """A tensor, and the frames at the call that made it."""
    config = config or ttnn.DRAM_MEMORY_CONFIG
    make = lambda: (ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, config), frames_here())  # noqa: E731
    return make()


def row_of(check, tensor):
    ttmem_account.flush()
    address = tensor.buffer_address()
    rows = [row for row in check.account.rows("buffers") if row["address"] == address]
    require(len(rows) == 1, f"{len(rows)} buffers at {address}")
    return rows[0]


def check_tensor(check, name, made):
    """Our stack of a tensor: that of the call, below what ttnn has in Python itself."""
    tensor, frames = made
    python = row_of(check, tensor)["python"]
    require(python is not None, f"{name}: no lines")
    inner = len(python) - len(frames)
    require(inner >= 0, f"{name}: {python}, not {frames}")
    equal(f"{name}: frames", python[inner:], frames)
    for frame in python[:inner]:
        require("/ttnn/" in frame, f"{name}: {frame} lies between")


class Model:
    def __init__(self, device):
        self.device = device

    def forward(self):
        return empty(self.device)


def deep(device, depth):
    return empty(device) if depth == 0 else deep(device, depth - 1)


def check_program(check, device):
    """The line of an operation: of its program, and of the tensor that it makes."""
    one, _frames = empty(device)
    two, frames = ttnn.add(one, one), frames_here()
    equal("the line of a result", row_of(check, two)["python"][-len(frames) :], frames)
    programs = [row for row in check.account.rows("programs") if row["kind"] == "application"]
    stacks = {row["name"]: row["python"] for row in programs}
    require(len(stacks) == 1, f"{stacks}")
    (name, python), *_others = stacks.items()
    require(name is not None and "\n" not in name, f"{name}")
    equal("the line of a program", python[-len(frames) :], frames)


def check_failure(check, device):
    """An allocation that is refused: who asked, and who holds, by their lines."""
    kept = [empty(device)]
    try:
        frames = frames_here()
        ttnn.empty(MORE_THAN_THERE_IS, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)
    except RuntimeError as error:
        require(OUT_OF_MEMORY in str(error), f"{error}")
    else:
        raise Differs("more than there is was granted")
    ttmem_account.flush()
    failure = check.account.get("/api/v1/failures?count=1")["failures"][0]
    # The call is in the line below.
    place, number, function = re.fullmatch(r"(.*):(\d+) (.*)", frames[0]).groups()
    equal("the line that asked", failure["python"], f"{place}:{int(number) + 1} {function}")
    require(f"python_lines.py:{int(number) + 1}" in failure["sentence"], failure["sentence"])
    holders = {group["owner"]["python"] for group in failure["holders"]}
    # Of the user's own frames the innermost: that of the lambda.
    require(kept[0][1][0] in holders, f"{holders}")


def with_lines(check, device, arguments):
    check_tensor(check, "a function", empty(device))
    check_tensor(check, "L1", empty(device, config=ttnn.L1_MEMORY_CONFIG))
    check_tensor(check, "a method", Model(device).forward())
    check_tensor(check, "a comprehension", [empty(device) for _ in range(2)][1])
    made = []
    thread = threading.Thread(target=lambda: made.append(empty(device)))
    thread.start()
    thread.join()
    check_tensor(check, "a thread", made[0])
    space = {"empty": empty, "device": device}
    exec(compile("def made():\n\n    return empty(device)\n", "typed.py", "exec"), space)
    typed = space["made"]()
    check_tensor(check, "exec", typed)
    check.compare("tensors with lines")

    # Deeper than what is reported: both ends are, and how many frames lie between.
    tensor, frames = deep(device, 200)
    python = row_of(check, tensor)["python"]
    require("more frames" in " ".join(python), f"{python}")
    equal("the outermost frame", python[-1], frames[-1])

    check_program(check, device)
    check_failure(check, device)
    # By groups, a line is what buffers have in common.
    groups = check.account.get("/api/v1/buffers/groups?by=line")["groups"]
    require(any("python_lines.py" in (group["key"] or "") for group in groups), f"{groups}")
    found = check.account.get("/api/v1/buffers?python=typed.py")["rows"]
    equal("buffers of typed.py", [row["address"] for row in found], [typed[0].buffer_address()])


def without_lines(check, device):
    kept = [empty(device)[0]]
    kept.append(ttnn.add(kept[0], kept[0]))
    check.compare("without lines")
    equal("lines", {row["python"] is None for row in check.account.rows("buffers")}, {True})


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    is_without = WITHOUT in os.environ
    if is_without:
        without_lines(check, device)
    else:
        with_lines(check, device, arguments)
    close_board(device, arguments)
    check.write_summary(arguments)
    if not is_without:
        run_again(WITHOUT, without=VARIABLE)


if __name__ == "__main__":
    main()
