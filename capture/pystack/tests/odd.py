"""Code objects that a program made odd: each costs its own frame's line or name, and no other."""
import _thread
import ctypes
import sys
import time
import types

probe = ctypes.CDLL(sys.argv[1])
probe.probe_stack.restype = ctypes.c_size_t
probe.probe_stack.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
probe.probe_fingerprint.restype = ctypes.c_uint64
text = ctypes.create_string_buffer(1 << 16)


class Table(bytes):
    pass


class Name(str):
    pass


def odd(function, **changes):
    return types.FunctionType(function.__code__.replace(**changes), globals())


def alone():
    fingerprints.append(probe.probe_fingerprint())
    length = probe.probe_stack(text, 1 << 16); stacks.append(text.raw[:length].decode().splitlines())


def read():
    length = probe.probe_stack(text, 1 << 16)
    assert probe.probe_fingerprint() != 0
    return text.raw[:length].decode().splitlines()


def between():
    return read()


def plain():
    line = sys._getframe().f_lineno + 1
    stack = between()
    expected = [
        f"{__file__}:{read.__code__.co_firstlineno + 1} read",
        f"{__file__}:{between.__code__.co_firstlineno + 1} between",
        f"{__file__}:{line} plain",
    ]
    assert stack[:3] == expected and len(stack) == 4, (stack, expected)


lines = between.__code__.co_linetable
stacks, fingerprints = [], []
# The first stack of the process has no other frame.
_thread.start_new_thread(odd(alone, co_linetable=Table(alone.__code__.co_linetable)), ())
while not stacks:
    time.sleep(0.01)
assert stacks == [["no Python"]], stacks
plain()
for changes, expected in [
    (dict(co_linetable=Table(lines)), f"{__file__}:None between"),
    (dict(co_linetable=Table(b"")), f"{__file__}:None between"),
    (dict(co_linetable=b""), f"{__file__}:None between"),
    (dict(co_linetable=b"\xff" * 7), None),
    (dict(co_name=Name("other")), f"{__file__}:{between.__code__.co_firstlineno + 1} ?"),
    (dict(co_name=""), f"{__file__}:{between.__code__.co_firstlineno + 1} "),
    (dict(co_filename=Name("other.py")), f"?:{between.__code__.co_firstlineno + 1} between"),
    (dict(co_firstlineno=0), None),
]:
    stack = odd(between, **changes)()
    assert len(stack) == 3, (changes, stack)
    assert stack[0] == f"{__file__}:{read.__code__.co_firstlineno + 1} read", stack
    assert expected is None or stack[1] == expected, (changes, stack, expected)
    assert stack[2].startswith(f"{__file__}:") and stack[2].endswith(" <module>"), stack
    plain()
print("ok")
