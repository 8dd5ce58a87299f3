"""Other interpreters of one process: their threads have their own lines, or none."""
import ctypes
import sys
import threading

try:
    import _interpreters as interpreters
    def create(): return interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    def create(): return interpreters.create(isolated=False)

probe = ctypes.CDLL(sys.argv[1])
probe.probe_stack.restype = ctypes.c_size_t
probe.probe_stack.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

# Keeps its own name and line: `inside` is called in the third line of the text.
SCRIPT = """
import ctypes
def inside(): length = probe.probe_stack(text, 1 << 16); return text.raw[:length].decode().splitlines()
probe = ctypes.CDLL({library!r})
probe.probe_stack.restype = ctypes.c_size_t
probe.probe_stack.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
text = ctypes.create_string_buffer(1 << 16)
stack = inside()
assert stack in (["no Python"], ["<string>:3 inside", "<string>:8 <module>"]), stack
with open({result!r}, "a") as result: print(stack, file=result)
"""


def main_lines():
    text = ctypes.create_string_buffer(1 << 16)
    length = probe.probe_stack(text, 1 << 16)
    return text.raw[:length].decode().splitlines()


def run(interpreter, result):
    failed = interpreters.run_string(interpreter, SCRIPT.format(library=sys.argv[1], result=result))
    assert failed is None, failed


def expect_main():
    stack = main_lines()
    line = main_lines.__code__.co_firstlineno + 2
    assert stack[0] == f"{__file__}:{line} main_lines", stack


import os
import tempfile
with tempfile.TemporaryDirectory() as folder:
    result = os.path.join(folder, "result")
    expect_main()
    others = [create(), create()]
    # They exist, and do not run.
    expect_main()
    for interpreter in others:
        run(interpreter, result)
        expect_main()
    # By another thread than the one that made it.
    for interpreter in others:
        thread = threading.Thread(target=run, args=(interpreter, result))
        thread.start()
        thread.join()
    expect_main()
    for interpreter in others:
        interpreters.destroy(interpreter)
    expect_main()
    with open(result) as lines:
        stacks = lines.read().splitlines()
    assert len(stacks) == 4, stacks
    print("ok:", set(stacks))
