"""A board whose memory is reported through libttmem, as a runtime would.

Needs TTMEM_TESTS_LIBRARY, the path of libttmem.so. It is loaded so that the package finds it in the
process, as it finds one that a program is linked with.
"""

import ctypes
import itertools
import os

CLASSES = {"dram": 0, "l1": 1, "system": 2, "l1_small": 3, "trace": 4}
BANKS = 4
CAPACITY_PER_BANK = 1 << 30

_numbers = itertools.count()


class Device(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("unique_id", ctypes.c_uint64),
        ("logical_id", ctypes.c_uint32),
        ("board", ctypes.c_uint32),
        ("l1_bytes_per_core", ctypes.c_uint32),
        ("l1_reserved_bytes", ctypes.c_uint32),
        ("arch", ctypes.c_uint8),
        ("grid_columns", ctypes.c_uint16),
        ("grid_rows", ctypes.c_uint16),
        ("reach", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8),
    ]


class Mesh(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("handle", ctypes.c_uint64),
        ("devices", ctypes.POINTER(ctypes.c_uint32)),
        ("device_count", ctypes.c_size_t),
        ("rows", ctypes.c_uint16),
        ("columns", ctypes.c_uint16),
        ("kind", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 3),
    ]


class Allocated(ctypes.Structure):
    _fields_ = [
        ("buffer", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("requested_bytes", ctypes.c_uint64),
        ("per_bank_bytes", ctypes.c_uint64),
        ("mesh", ctypes.c_uint32),
        ("page_bytes", ctypes.c_uint32),
        ("cores", ctypes.c_uint32),
        ("operation", ctypes.c_uint32),
        ("banks", ctypes.c_uint16),
        ("memory_class", ctypes.c_uint8),
        ("layout", ctypes.c_uint8),
        ("direction", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 3),
    ]


class Capacity(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_uint64),
        ("per_bank_bytes", ctypes.c_uint64),
        ("mesh", ctypes.c_uint32),
        ("alignment", ctypes.c_uint32),
        ("banks", ctypes.c_uint16),
        ("memory_class", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 5),
    ]


def library():
    """libttmem, for all of the process to see."""
    loaded = ctypes.CDLL(os.environ["TTMEM_TESTS_LIBRARY"], mode=ctypes.RTLD_GLOBAL)
    loaded.ttmem_buffer_next.restype = ctypes.c_uint64
    loaded.ttmem_buffer_freed.argtypes = [ctypes.c_uint32, ctypes.c_uint64]
    return loaded


LIBRARY = library()


def done(code):
    if code != 0:
        raise RuntimeError(f"libttmem answered with {code}")


def text_id(text):
    """The id of a text."""
    id, content = ctypes.c_uint32(), text.encode()
    done(LIBRARY.ttmem_text_define(content, ctypes.c_size_t(len(content)), ctypes.byref(id)))
    return id.value


def program(name):
    """The id of a new program."""
    LIBRARY.ttmem_program_next.restype = ctypes.c_uint64
    id = LIBRARY.ttmem_program_next()
    LIBRARY.ttmem_program_created.argtypes = [
        ctypes.c_uint64,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_uint64,
    ]
    done(LIBRARY.ttmem_program_created(id, text_id(name), 0, 0))
    return id


class Board:
    """Devices that no other test has, opened as one mesh."""

    def __init__(self, count=1):
        self.ids = [next(_numbers) for _ in range(count)]
        handles = (ctypes.c_uint32 * count)(*(self._define(number) for number in self.ids))
        mesh = Mesh(ctypes.sizeof(Mesh), self.ids[0], handles, count, 1, count, 0)
        id = ctypes.c_uint32()
        done(LIBRARY.ttmem_mesh_define(ctypes.byref(mesh), ctypes.byref(id)))
        self.mesh = id.value
        for handle in handles:
            done(LIBRARY.ttmem_device_opened(handle))
        done(LIBRARY.ttmem_mesh_opened(self.mesh))
        for kind in CLASSES.values():
            report = Capacity(0, CAPACITY_PER_BANK, self.mesh, 32, BANKS, kind)
            done(LIBRARY.ttmem_capacity_reported(ctypes.byref(report)))

    @staticmethod
    def _define(number):
        board = text_id("n150")
        device = Device(ctypes.sizeof(Device), 0, number, board, 1 << 20, 1 << 10, 2, 8, 8)
        id = ctypes.c_uint32()
        done(LIBRARY.ttmem_device_define(ctypes.byref(device), ctypes.byref(id)))
        return id.value

    def get_device_ids(self):
        """As a mesh device of ttnn has it."""
        return list(self.ids)

    def allocate(self, kind, per_bank_bytes, operation=0, address=0):
        """Places a buffer, which takes `BANKS` times so many bytes on each device."""
        buffer = LIBRARY.ttmem_buffer_next()
        event = Allocated(
            buffer,
            address,
            per_bank_bytes * BANKS,
            per_bank_bytes,
            self.mesh,
            32,
            0,
            operation,
            BANKS,
            CLASSES[kind],
        )
        done(LIBRARY.ttmem_buffer_allocated(ctypes.byref(event)))
        return buffer

    def free(self, buffer):
        """Gives a buffer back."""
        done(LIBRARY.ttmem_buffer_freed(self.mesh, buffer))

    def send_binary(self, program, size):
        """A program's binary of so many bytes is on each device."""
        done(LIBRARY.ttmem_binary_sent(self.mesh, ctypes.c_uint64(program), ctypes.c_uint64(size)))

    def close(self):
        """Closes the mesh: what it held is gone."""
        done(LIBRARY.ttmem_mesh_closed(self.mesh))
