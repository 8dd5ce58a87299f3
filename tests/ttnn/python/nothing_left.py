"""Looks at the account when a program has ended: no device may be charged for anything.

The server may learn of the end a little later than we do, so it is asked for a while.
"""

import sys
import time

import ttmem_account

PATIENCE_SECONDS = 30


def left():
    """What is still charged, by device and class."""
    snapshot = ttmem_account.Account().snapshot()
    found = {}
    for device in snapshot["devices"]:
        for word in ("dram", "l1", "l1_small", "trace", "system"):
            found[f"device {device['id']} {word}"] = device[word]["charged_bytes"]
        for word in ("cb", "kernel"):
            found[f"device {device['id']} {word}"] = device[word]["registered_bytes"]
    return {name: count for name, count in found.items() if count}


def main():
    deadline = time.monotonic() + PATIENCE_SECONDS
    while found := left():
        if time.monotonic() > deadline:
            sys.exit(f"left after the end of the program: {found}")
        time.sleep(0.01)


if __name__ == "__main__":
    main()
