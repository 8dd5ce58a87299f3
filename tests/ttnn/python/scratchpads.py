"""Runs operations whose kernels have scratchpads, beside dataflow buffers or alone.

A capture of the same operation without a device is the second witness for sizes and cores; the
end of what a program places, when it is refused, is the witness for the places.
"""

import re

import ttnn
from tensors import fill, zeros
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, equal, open_board

CLASH = "clash with L1 buffers"
# How an operation says so itself, before its program does.
DOES_NOT_FIT = "does not fit in L1"
REGION_END = re.compile(r"region ends at (\d+)")
RANGE = re.compile(r"\[(\d+)-(\d+) - (\d+)-(\d+)\]")
WITNESSED = {"dataflow_buffer_allocate": "dataflow", "scratchpad_allocate": "scratchpad"}


def operations(device):
    """Operations by name, each with storage of its own."""
    tiled = zeros(device, [1, 1, 256, 256], ttnn.DRAM_MEMORY_CONFIG)
    rows = zeros(
        device, [1, 1, 64, 250], ttnn.DRAM_MEMORY_CONFIG, layout=ttnn.ROW_MAJOR_LAYOUT
    )
    return {
        "pad": lambda: ttnn.pad(tiled, [(0, 0), (0, 0), (0, 64), (0, 64)], 0.0),
        "pad rows": lambda: ttnn.pad(rows, [(0, 0), (0, 0), (0, 5), (0, 6)], 0.0),
        "slice": lambda: ttnn.slice(tiled, [0, 0, 0, 0], [1, 1, 64, 64]),
        "slice rows": lambda: ttnn.slice(rows, [0, 0, 3, 0], [1, 1, 40, 50]),
        "reshape": lambda: ttnn.reshape(tiled, [1, 1, 128, 512]),
        "reshape rows": lambda: ttnn.reshape(rows, [1, 1, 125, 128]),
    }


def captured(operation):
    """What a capture without a device says that an operation places: kind, cores and bytes."""
    graph = ttnn._ttnn.graph
    graph.begin_graph_capture(graph.RunMode.NO_DISPATCH)
    try:
        operation()
    finally:
        nodes = graph.end_graph_capture()
    placed = [
        (WITNESSED[node["node_type"]], node["params"])
        for node in nodes
        if node["node_type"] in WITNESSED
    ]
    return sorted(
        (kind, count_cores(what["core_range_set"]), what["size"]) for kind, what in placed
    )


def count_cores(text):
    """The cores of the ranges in a text."""
    corners = (map(int, found.groups()) for found in RANGE.finditer(text))
    return sum((right - left + 1) * (low - high + 1) for left, high, right, low in corners)


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    run = check.step("create", lambda: operations(device))
    chip = device.get_device_ids()[0]
    ends = {}
    for name, operation in run.items():
        before = {row["program"] for row in check.account.rows("cbs")}
        refused = check.refused
        check.step(name, operation, refusals)
        if check.refused > refused:
            continue
        theirs = captured(operation)
        rows = check.account.rows("cbs")
        new = [row for row in rows if row["program"] not in before and chip in row["device_ids"]]
        ours = sorted((row["kind"], row["cores"], row["size_bytes"]) for row in new)
        equal(f"{name}: kind, cores and bytes", ours, theirs)
        equal(f"{name}: has scratchpads", any(row["kind"] == "scratchpad" for row in new), True)
        # One after the other, without a byte of one in another.
        new.sort(key=lambda row: row["address"])
        for one, next_one in zip(new, new[1:]):
            apart = one["address"] + one["size_bytes"] <= next_one["address"]
            equal(f"{name}: storage is apart", apart, True)
        ends[name] = max(row["address"] + row["size_bytes"] for row in new)
        again = len(rows)
        check.step(f"{name} again", operation)
        equal(f"{name}: storage after it ran again", len(check.account.rows("cbs")), again)

    check.step("clear the program cache", device.clear_program_cache)
    equal("storage without programs", check.account.rows("cbs"), [])
    live = check.step("fill l1", lambda: fill(device, [1, 1, 256, 512], ttnn.L1_MEMORY_CONFIG))
    clashes = 0
    for name, end in ends.items():
        refused = check.refused
        check.step(f"{name} with l1 full", run[name], (CLASH, DOES_NOT_FIT))
        if check.refused > refused and CLASH in check.last_refusal:
            clashes += 1
            equal(f"{name}: the end", end, int(REGION_END.search(check.last_refusal).group(1)))
            told = check.account.last_event("clashed")
            equal(f"{name}: the end of the clash", told["region_end"], end)
    equal("something clashes", clashes > 0, True)
    check.step("free", live.clear)
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
