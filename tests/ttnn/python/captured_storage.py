"""What ttnn itself says of the L1 that programs take on their cores: the second witness.

A capture without dispatch builds the programs of a call and tells the circular and dataflow
buffers of each, with sizes and cores, without a device. It knows nothing of us.
"""

import re
from dataclasses import dataclass

import ttnn

GRAPH = ttnn._ttnn.graph

# The call by which a program announces itself, before its storage.
NEXT_PROGRAM = "circular_buffer_deallocate_all"
CORE_RANGE = re.compile(r"\[(\d+)-(\d+) - (\d+)-(\d+)\]")


@dataclass(frozen=True, order=True)
class Storage:
    """A circular or dataflow buffer, or a scratchpad, of a program."""

    # In the words of our read API.
    kind: str
    size_bytes: int
    cores: tuple


def capture(call):
    """The storage of each program of a call, in the order in which they would run."""
    GRAPH.begin_graph_capture(GRAPH.RunMode.NO_DISPATCH)
    try:
        call()
    finally:
        nodes = GRAPH.end_graph_capture()
    programs = []
    for node in nodes:
        if node["node_type"] == NEXT_PROGRAM:
            programs.append([])
        elif storage := storage_of(node["node_type"], node["params"]):
            programs[-1].append(storage)
    return programs


def storage_of(node_type, params):
    """The storage that a node of the capture tells of; None of any other node."""
    if node_type == "circular_buffer_allocate":
        kind = "global" if params["globally_allocated"] == "1" else "local"
    elif node_type == "dataflow_buffer_allocate":
        kind = "dataflow_borrowed" if params["borrows_memory"] == "1" else "dataflow"
    elif node_type == "scratchpad_allocate":
        kind = "scratchpad"
    else:
        return None
    return Storage(kind, int(params["size"]), cores_of(params["core_range_set"]))


def cores_of(text):
    """The cores of a set of ranges, as ttnn writes it."""
    cores = set()
    for match in CORE_RANGE.finditer(text):
        left, top, right, bottom = (int(number) for number in match.groups())
        cores |= {(x, y) for x in range(left, right + 1) for y in range(top, bottom + 1)}
    return tuple(sorted(cores))
