"""Ends in the way that it is told, with a device that is open or was."""

import os
import signal
import sys

import ttnn
from behaviour import Run, held_bytes, open_device, zeros


def by_signal(number):
    os.kill(os.getpid(), number)


def by_exception():
    raise LookupError("nobody catches this")


# Those that run no code at the end leave their memory to the server, which gives it back.
WAYS = {
    "return": (lambda: None, {"/exit_code": 0}),
    "exit-3": (lambda: sys.exit(3), {"/exit_code": 3}),
    "exception": (by_exception, {"/exit_code": 1}),
    "os-exit": (lambda: os._exit(5), {"/exit_code": 5}),
    "sigterm": (lambda: by_signal(signal.SIGTERM), {"/signal": 15}),
    "sigkill": (lambda: by_signal(signal.SIGKILL), {"/signal": 9}),
    "abort": (os.abort, {"/signal": 6}),
}


def main():
    run = Run()
    way, state = run.words
    end, values = WAYS[way]
    device = open_device()
    tensor = zeros(device, 1024)
    total = ttnn.add(tensor, tensor)
    held = held_bytes(device, ttnn.BufferType.DRAM)
    run.tell("held", held)
    values["/devices/0/peak_bytes/dram"] = held
    values["/devices/0/end_bytes/dram"] = 0
    if state == "freed":
        del tensor, total
    if state != "open":
        ttnn.close_device(device)
        alive = state == "alive"
        values["/leak_candidates/buffers"] = 2 if alive else 0
        values["/leak_candidates/bytes"] = held if alive else 0
        values["/processes/0/released/bytes"] = 0
    run.expect(values)
    end()
    run.tell("reached", "the end")


if __name__ == "__main__":
    main()
