"""Python's multiprocessing through ctypes: parent and children hold what they hold.

Arguments: libttmem.so, and the start method. The first line on stdout has the children's pids.
"""

import ctypes
import multiprocessing
import os
import sys

CHILDREN = 4


def legacy_library():
    return ctypes.CDLL(sys.argv[1])


def hold(library, count):
    """Holds buffers of 49152 bytes, by the calls that need no structures."""
    for number in range(1, count + 1):
        library.ttmem_legacy_report_allocation(
            0, ctypes.c_uint64(49152), 0, ctypes.c_uint64(number << 12)
        )
    assert library.ttmem_client_flush(20000) == 0


def child(pids, go_on):
    hold(legacy_library(), 2)
    pids.put(os.getpid())
    go_on.wait()


def main():
    library = legacy_library()
    hold(library, 3)
    context = multiprocessing.get_context(sys.argv[2])
    pids, go_on = context.SimpleQueue(), context.Event()
    children = [context.Process(target=child, args=(pids, go_on)) for _ in range(CHILDREN)]
    for process in children:
        process.start()
    print("children", *sorted(pids.get() for _ in children), flush=True)
    sys.stdin.readline()
    go_on.set()
    for process in children:
        process.join()
    assert all(process.exitcode == 0 for process in children)
    library.ttmem_legacy_report_deallocation(0, ctypes.c_uint64(1 << 12))
    assert library.ttmem_client_flush(20000) == 0
    print("parent", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
