"""Waits to be interrupted, once, with a device open: as by Ctrl-C."""

import time

import ttnn
from behaviour import Run, held_bytes, open_device, zeros

# Long enough for a signal that comes twice to be seen.
MEANWHILE_SECONDS = 0.3


def main():
    run = Run()
    device = open_device()
    a = zeros(device, 512)
    held = held_bytes(device, ttnn.BufferType.DRAM)
    run.expect({"/signal": 2, "/devices/0/peak_bytes/dram": held, "/devices/0/end_bytes/dram": 0})
    try:
        run.tell("ready", list(a.shape))
        time.sleep(600)
    except KeyboardInterrupt:
        run.tell("interrupted", 1)
        time.sleep(MEANWHILE_SECONDS)
        # From here: whether it was still telling or slept already is chance.
        raise KeyboardInterrupt from None


if __name__ == "__main__":
    main()
