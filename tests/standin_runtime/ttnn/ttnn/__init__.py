"""As much of ttnn as tests of memory need, on the stand-in for the runtime.

For releases of Python that ttnn has no wheel for. TTMEM_TESTS_BOARD is the path of the library that
`board.cpp` is compiled to. The folder has the name of ttnn's own, whose frames are nobody's lines.
"""

import ctypes
import math
import os

# Like ttnn's own bindings: a call has the interpreter for itself.
_board = ctypes.PyDLL(os.environ["TTMEM_TESTS_BOARD"])
_board.board_place.argtypes = [ctypes.c_uint32, ctypes.c_uint64]
_board.board_place.restype = ctypes.c_void_p
_board.board_give_back.argtypes = [ctypes.c_void_p]

DRAM_MEMORY_CONFIG, L1_MEMORY_CONFIG = range(2)
bfloat16 = 2
TILE_LAYOUT = "tile"


class Tensor:
    """A buffer that goes with the last name it has."""

    def __init__(self, size, memory):
        self.size, self.memory = size, memory
        self._placed = _board.board_place(memory, size)

    def __del__(self):
        _board.board_give_back(self._placed)


def open_device(*, device_id, l1_small_size=0):
    _board.board_open()
    return device_id


def close_device(_device):
    _board.board_close()


def zeros(shape, dtype, _layout, _device, memory):
    return Tensor(math.prod(shape) * dtype, memory)


def add(one, _other):
    return Tensor(one.size, one.memory)
