"""Has children of every kind, while a device is open or before.

A child that uses no device is no process of the account. One that opens a device is, by its own
pid, and what its parent holds stays its parent's.
"""

import multiprocessing
import os
import signal
import subprocess

import ttnn
from behaviour import Run, held_bytes, open_device, zeros


def work(run, name):
    """A process of its own with a device of its own; tells its pid."""
    device = open_device()
    a = zeros(device, 512)
    run.tell(name, held_bytes(device, ttnn.BufferType.DRAM))
    del a
    ttnn.close_device(device)
    return os.getpid()


def work_and_tell_pid(run, name, pids):
    pids.put(work(run, name))


def child_exits(run):
    """Forks with a device open: children that end at once, in each way, and one that frees."""
    device = open_device()
    a, b = zeros(device, 512), zeros(device, 256)
    held = held_bytes(device, ttnn.BufferType.DRAM)
    # Not `sys.exit`: with or without us ttnn closes the device in such a child, and waits for ever.
    for name, end in (
        ("os._exit", lambda: os._exit(7)),
        ("killed", lambda: os.kill(os.getpid(), signal.SIGKILL)),
    ):
        pid = os.fork()
        if pid == 0:
            end()
        _pid, status = os.waitpid(pid, 0)
        run.tell(name, status)
    pid = os.fork()
    if pid == 0:
        # Its parent's buffer: for the account of the parent nothing happens.
        ttnn.deallocate(b)
        os._exit(0)
    _pid, status = os.waitpid(pid, 0)
    run.tell("frees", status)
    run.tell("held", [held, held_bytes(device, ttnn.BufferType.DRAM)])
    listed = subprocess.run(["ls", "-d", "/"], capture_output=True, text=True, check=True)
    run.tell("ls", [listed.stdout, listed.stderr])
    ttnn.close_device(device)
    run.expect(
        {
            "/leak_candidates/buffers": 2,
            "/leak_candidates/bytes": held,
            "/devices/0/peak_bytes/dram": held,
            "/anomalies": 0,
        }
    )
    # They are alive up to here.
    del a, b


def start_method(run, method):
    """Workers of multiprocessing; the parent has used its device before and does again after."""
    context = multiprocessing.get_context(method)
    pids = context.SimpleQueue()
    all_pids = {os.getpid()}
    if method == "spawn":
        work(run, "parent before")
    for number in range(2):
        child = context.Process(target=work_and_tell_pid, args=(run, f"child {number}", pids))
        child.start()
        child.join()
        run.tell(f"child {number} ended", child.exitcode)
        all_pids.add(pids.get())
    work(run, "parent after")
    run.tell("processes", len(all_pids))
    run.expect({"/anomalies": 0, "/leak_candidates/buffers": 0}, all_pids)


def main():
    run = Run()
    (kind,) = run.words
    if kind == "exits":
        child_exits(run)
    else:
        start_method(run, kind)


if __name__ == "__main__":
    main()
