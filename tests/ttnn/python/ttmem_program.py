"""What programs share that run others, and that require something of what those say. Needs no ttnn."""

import os
import re
import subprocess
import sys
from pathlib import Path

# A model as its user writes it: opens the board, makes tensors, and can say what the allocator holds.
OPENED = """
import ttnn

rows, columns = ROWS, COLUMNS
if rows * columns == 1:
    device = ttnn.open_device(device_id=0)
else:
    device = ttnn.open_mesh_device(ttnn.MeshShape(rows, columns))


def zeros(side, memory):
    return ttnn.zeros([1, 1, side, side], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


def held(kind):
    view = ttnn.get_memory_view(device, kind)
    return view.total_bytes_allocated_per_bank * view.num_banks

"""
CLOSED = """
if rows * columns == 1:
    ttnn.close_device(device)
else:
    ttnn.close_mesh_device(device)
"""


# What ttnn says of a request that it refuses, by our names.
MESSAGE = re.compile(
    r"allocate (?P<requested_bytes>\d+) B (?P<class>\w+) buffer across (?P<banks>\d+) banks, where"
    r" each bank needs to store (?P<need_bytes_per_bank>\d+) B, but bank size is"
    r" (?P<bank_bytes>\d+) B \(allocated: (?P<allocated_bytes_per_bank>\d+) B, free:"
    r" (?P<free_bytes_per_bank>\d+) B, largest free block:"
    r" (?P<largest_free_bytes_per_bank>\d+) B\)"
)


class Differs(Exception):
    """Something is not as the program requires it."""


def require(holds, what):
    if not holds:
        raise Differs(what)


def message_figures(text):
    """The class and the figures of the first message of a refused request; none without one."""
    message = MESSAGE.search(text)
    if message is None:
        return None
    figures = message.groupdict()
    class_name = figures.pop("class").lower()
    return {"class": class_name} | {name: int(value) for name, value in figures.items()}


def write_model(text, rows, columns):
    """A model that uses all of the board; `text` has the parts above in it."""
    model = Path("model.py")
    model.write_text(text.replace("ROWS, COLUMNS", f"{rows}, {columns}").lstrip())
    return model


def environment_of_user():
    """The environment without what attaches this program."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "TTMEM_SOCKET")}


def run_again(marker, *, without):
    """Runs this program again, without a variable; `marker` tells it so. Its summary goes into a file beside."""
    environment = {**os.environ, marker: "1"}
    del environment[without]
    program, summary, *others = sys.argv
    subprocess.run([sys.executable, program, f"{summary}-without", *others], env=environment, check=True)
