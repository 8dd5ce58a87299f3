"""Stacks as the library reads them, held against Python's own: prints what differs, and "ok"."""
import asyncio
import ctypes
import functools
import gc
import os
import sys
import threading
import traceback

probe = ctypes.CDLL(sys.argv[1])
probe.probe_stack.restype = ctypes.c_size_t
probe.probe_stack.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
probe.probe_fingerprint.restype = ctypes.c_uint64
probe.probe_cost.restype = ctypes.c_double
# The same functions called with the GIL held.
holding = ctypes.PyDLL(sys.argv[1])
holding.probe_stack.restype = ctypes.c_size_t
holding.probe_stack.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

ROOM = 1 << 21
buffer = threading.local()
differing = 0
compared = 0


def read(library):
    if not hasattr(buffer, "bytes"):
        buffer.bytes = ctypes.create_string_buffer(ROOM)
    length = library.probe_stack(buffer.bytes, ROOM)
    return buffer.bytes.raw[:length].decode()


def ours(library=probe):
    # Without the frames of `read`, `ours` and `check`.
    return read(library).splitlines()[3:]


def theirs():
    # Without those of `check` and this; the cache of lines is not needed.
    frames = traceback.StackSummary.extract(
        traceback.walk_stack(sys._getframe(2)), lookup_lines=False
    )
    frames = list(frames)
    if frames and frames[0].name != sys._getframe(2).f_code.co_name:
        frames.reverse()
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


def check(library=probe):
    global differing, compared
    read_by_us, read_by_python = ours(library), theirs()
    compared += 1
    if read_by_us != read_by_python:
        differing += 1
        print("differs", read_by_us[:6], read_by_python[:6], len(read_by_us), len(read_by_python))


def plain():
    check()
    x = 1
    check(); y = (
        check(),
        x,
    )
    return y


class Class:
    def method(self):
        check()
        return self

    @classmethod
    def of_class(cls):
        check()

    @staticmethod
    def static():
        check()

    @property
    def value(self):
        check()

    def __getitem__(self, key):
        check()

    def __enter__(self):
        check()
        return self

    def __exit__(self, *exception):
        check()

    def __del__(self):
        check()


def decorated(function):
    @functools.wraps(function)
    def inside(*arguments):
        check()
        return function(*arguments)

    return inside


@decorated
@decorated
def twice():
    check()


def generator():
    check()
    yield 1
    check()
    yield from (check() for _ in range(2))


def deep(depth):
    if depth == 0:
        check()
        check(holding)
    else:
        deep(depth - 1)


async def coroutine():
    check()
    await asyncio.sleep(0)
    check()

    async def nested():
        check()

    await asyncio.gather(nested(), nested())


def by_c():
    list(map(lambda x: check(), [1, 2]))
    sorted([2, 1], key=lambda x: (check(), x)[1])
    functools.reduce(lambda a, b: check(), [1, 2, 3])


def with_exception():
    try:
        raise ValueError
    except ValueError:
        check()
    finally:
        check()


def long_function():
    # Lines that are far apart, and more instructions than a byte counts.
    total = 0
    check()


    if total:
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
        total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) + len("aaaaaaaaaaaaaaaaaaaaa") + abs(-1)
    check()
    return [check() for _ in range(2)], {check(): check() for _ in range(1)}


def everything():
    plain()
    thing = Class().method()
    thing.of_class()
    thing.static()
    thing.value
    thing[1]
    with thing:
        check()
    del thing
    twice()
    list(generator())
    by_c()
    with_exception()
    long_function()
    (lambda: check())()
    exec("def f():\n\n  check()\n\nf()\ncheck()", globals())
    exec(compile("check()", "a file with a name.py", "exec"), globals())
    exec(compile("def größe():\n check()\ngröße()", "/tmp/模型\U0001f600.py", "exec"), globals())
    eval("check()")
    asyncio.run(coroutine())
    type("Dynamic", (), {"__init__": lambda self: check()})()


def fingerprint():
    return probe.probe_fingerprint()


def fingerprints():
    """Equal stacks have equal fingerprints, different ones differ, also of code that was freed."""
    def twin():
        return fingerprint()

    def other():
        return fingerprint()

    here = [twin() for _ in range(3)]
    assert len(set(here)) == 1 and here[0] != 0, here
    assert other() != here[0]
    first, second = twin(), twin()
    assert first != second, "other lines of the caller"
    # Functions that are made, called and freed come to lie where others were.
    seen = {}
    for number in range(2000):
        space = {"fingerprint": fingerprint}
        exec(f"def f{number}(): return fingerprint()", space)
        found = space[f"f{number}"]()
        assert found not in seen, (number, seen[found])
        seen[found] = number
        del space
    # The same name and file, another body: the line differs.
    seen = {}
    for blank in range(500):
        space = {"fingerprint": fingerprint}
        exec("def f():" + "\n" * (blank % 250 + 1) + " return fingerprint()", space)
        seen.setdefault(blank % 250, set()).add(space["f"]())
        del space
    merged = set().union(*seen.values())
    assert len(merged) >= 250, len(merged)
    # The same again, with the gap in the middle of a longer body.
    seen = set()
    for blank in range(100):
        space = {"fingerprint": fingerprint}
        body = " x = 1\n" * 20
        exec(f"def f():\n{body}" + "\n" * blank + f" y = fingerprint()\n{body} return y", space)
        seen.add(space["f"]())
        del space
    assert len(seen) == 100, len(seen)
    # The same source in files whose long names differ in their folder alone.
    seen = set()
    for folder in range(100):
        space = {"fingerprint": fingerprint}
        name = f"/models/{folder:03}/" + "long_" * 20 + "name.py"
        exec(compile("def f(): return fingerprint()", name, "exec"), space)
        seen.add(space["f"]())
        del space
    assert len(seen) == 100, len(seen)


def storm():
    """Threads that allocate, take and release the GIL, fork and end."""
    stop = threading.Event()
    failures = []

    def work(number):
        try:
            while not stop.is_set():
                deep(number % 7 * 10)
                fingerprint()
                gc.collect(0)
        except BaseException as error:
            failures.append(error)

    def short():
        fingerprint()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for round in range(20):
        few = [threading.Thread(target=short) for _ in range(10)]
        for thread in few:
            thread.start()
        for thread in few:
            thread.join()
        child = os.fork()
        if child == 0:
            check()
            os._exit(0 if differing == 0 and fingerprint() != 0 else 1)
        assert os.waitpid(child, 0)[1] == 0, "the child's stack differs"
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures


if __name__ == "__main__":
    check()
    everything()
    for _ in range(3):
        thread = threading.Thread(target=everything)
        thread.start()
        thread.join()
    sys.setrecursionlimit(5000)
    threading.stack_size(256 << 20)
    thread = threading.Thread(target=deep, args=(1000,))
    thread.start()
    thread.join()
    fingerprints()
    storm()
    if len(sys.argv) > 2:
        def cost(depth):
            return probe.probe_cost(200000) if depth == 0 else cost(depth - 1)
        costs = {depth: cost(depth) for depth in (0, 18, 98)}
        print({depth + 2: round(ns, 1) for depth, ns in costs.items()}, "ns")
    print("ok" if differing == 0 else f"{differing} differ", "of", compared)
    sys.exit(differing != 0)
