"""Captures graphs while it is tracked: the runtime's own listener and ours beside each other.

In a NO_DISPATCH capture nothing is allocated, so nothing may be booked: what is asked for there
would be more than all the rest, and must not be in the peak.
"""

import ttnn
from behaviour import Run, held_bytes, open_device, zeros

GRAPH = ttnn._ttnn.graph
# Operations with circular buffers, with dataflow buffers, and with both.
OPERATIONS = (lambda a: ttnn.add(a, a), lambda a: ttnn.softmax(a, -1), lambda a: ttnn.matmul(a, a))


def capture(mode, work):
    GRAPH.begin_graph_capture(mode)
    try:
        work()
    finally:
        graph = GRAPH.end_graph_capture()
    for node in graph:
        # How long it took is never the same.
        node.pop("duration_ns", None)
    return graph


def main():
    run = Run()
    device = open_device()
    a = zeros(device, 512)
    peak = held_bytes(device, ttnn.BufferType.DRAM)

    def operate():
        nonlocal peak
        results = [operation(a) for operation in OPERATIONS]
        peak = max(peak, held_bytes(device, ttnn.BufferType.DRAM))
        return results

    def wish():
        """Far more than `operate` takes, if it were taken."""
        large = zeros(device, 8192)
        return [operation(large) for operation in OPERATIONS]

    run.tell("without dispatch", capture(GRAPH.RunMode.NO_DISPATCH, wish))
    run.tell("held after it", held_bytes(device, ttnn.BufferType.DRAM))
    run.tell("normal", capture(GRAPH.RunMode.NORMAL, operate))
    run.tell("normal, from the program cache", capture(GRAPH.RunMode.NORMAL, operate))
    run.tell("peak", peak)
    del a
    ttnn.close_device(device)
    run.expect(
        {
            "/exit_code": 0,
            "/anomalies": 0,
            "/devices/0/peak_bytes/dram": peak,
            "/devices/0/peak_bytes/l1": 0,
            "/leak_candidates/buffers": 0,
        }
    )


if __name__ == "__main__":
    main()
