"""An interpreter that ends while a daemon thread is inside a native call."""
import ctypes
import sys
import threading
import time

probe = ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
probe.probe_fingerprint.restype = ctypes.c_uint64
probe.probe_late.argtypes = [ctypes.c_uint64]


def deep(depth):
    return probe.probe_late(500) if depth == 0 else deep(depth - 1)


assert probe.probe_fingerprint() != 0
threading.Thread(target=deep, args=(50,), daemon=True).start()
time.sleep(0.1)


class Last:
    """Takes what the interpreter has freed, and waits for the thread."""

    def __del__(self, malloc=libc.malloc, memset=libc.memset, sleep=time.sleep):
        for size in range(16, 4096, 16):
            for _ in range(20):
                memset(malloc(size), 0x41, size)
        sleep(1)


# This module stays with the frames of the thread; that one goes.
sys.last = Last()
