"""Is refused what it asks for, in every way, and tells the texts.

Exceptions of the runtime pass through our hooks: their types and texts must be the same, and the
program must be able to go on, on the main thread and on another.
"""

import threading

import ttnn
from behaviour import Run, open_device, zeros

L1, DRAM = ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG


def empty(device, shape, memory):
    return ttnn.empty(
        shape,
        dtype=ttnn.bfloat16,
        layout=ttnn.TILE_LAYOUT,
        device=device,
        memory_config=memory,
    )


def fill_l1(device):
    """As many tensors as there is room for; the refusal of the next one."""
    live = []
    while True:
        try:
            live.append(empty(device, [1, 1, 512, 512], L1))
        except RuntimeError as refusal:
            return live, str(refusal)


def refusal_of(request):
    try:
        request()
    except Exception as refusal:  # of whatever type: that is what is told
        return [type(refusal).__name__, str(refusal)]
    return ["nothing", ""]


def main():
    run = Run()
    device = open_device()
    a = zeros(device, 1024)
    small = zeros(device, 32)

    def refused(name, request):
        told = refusal_of(request)
        if told[0] == "nothing":
            raise AssertionError(f"{name} was not refused")
        run.tell(name, told)
        # And on with it.
        run.tell(f"after {name}", list(ttnn.add(a, a).shape))

    refused("more than dram", lambda: empty(device, [1, 1, 65536, 524288], DRAM))
    refused("more than l1", lambda: empty(device, [1, 1, 16384, 16384], L1))
    refused("shapes that do not fit", lambda: ttnn.matmul(a, small))
    refused("a word that is no layout", lambda: ttnn.to_layout(a, "upside down"))
    refused("a device that is not there", lambda: ttnn.open_device(device_id=77))
    refused("a value of Python", lambda: ttnn.create_sharded_memory_config(
        shape=[1, 1, 32, 32], core_grid=ttnn.CoreGrid(y=1, x=1), strategy="none of them"
    ))

    live, full = fill_l1(device)
    run.tell("l1 is full", [len(live), full])
    # Circular buffers and dataflow buffers meet what lies in L1.
    for name, operation in (
        ("clash of circular buffers", lambda: ttnn.multiply(a, a)),
        ("clash of dataflow buffers", lambda: ttnn.softmax(a, -1)),
    ):
        told = refusal_of(operation)
        if "clash" not in told[1]:
            raise AssertionError(f"{name}: {told}")
        run.tell(name, told)
    live.clear()
    run.tell("room again", list(ttnn.softmax(ttnn.multiply(a, a), -1).shape))

    def on_another_thread():
        refused("on a thread: more than l1", lambda: empty(device, [1, 1, 16384, 16384], L1))
        refused("on a thread: shapes that do not fit", lambda: ttnn.matmul(a, small))
        raise LookupError("nobody catches this on the thread")

    thread = threading.Thread(target=on_another_thread, name="another")
    thread.start()
    thread.join()
    run.tell("after the thread", list(ttnn.add(a, a).shape))
    del a, small
    ttnn.close_device(device)
    run.expect({"/exit_code": 0, "/leak_candidates/buffers": 0, "/anomalies": 0})


if __name__ == "__main__":
    main()
