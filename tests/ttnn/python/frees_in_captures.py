"""Gives tensors up inside of captures without dispatch, in which nothing is really given back."""

import ttnn
from tensors import zeros
from ttmem_check import Arguments, Check, close_board, open_board

GRAPH = ttnn._ttnn.graph
SHAPE = [1, 1, 256, 256]


class CheckOfBytes(Check):
    """As usual, but for the list of buffers: ttnn's own names those that are gone, and crashes."""

    def compare_buffers(self):
        pass


def captured(work):
    """Runs something in a capture without dispatch."""
    GRAPH.begin_graph_capture(GRAPH.RunMode.NO_DISPATCH)
    try:
        work()
    finally:
        GRAPH.end_graph_capture()


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = CheckOfBytes()
    check.watch(device)
    configs = {"dram": ttnn.DRAM_MEMORY_CONFIG, "l1": ttnn.L1_MEMORY_CONFIG}
    held = {name: zeros(device, SHAPE, config) for name, config in configs.items()}
    check.step("create", lambda: None)

    def replace(name):
        # The tensor from before the capture goes, and its block stays.
        held[name] = ttnn.add(held[name], held[name])

    for name in configs:
        check.step(f"replace in {name}, captured", lambda: captured(lambda: replace(name)))
    check.step("drop what was captured", held.clear)
    check.step("create again", lambda: held.update(dram=zeros(device, SHAPE, configs["dram"])))
    check.step("free for real", held.clear)
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
