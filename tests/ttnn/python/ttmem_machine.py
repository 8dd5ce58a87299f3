"""The machine that ttnn was told of: which chips it has, by the descriptor it was given."""

import os
import re

UNIQUE_ID = re.compile(r"^  (\d+): (\d+)$", re.MULTILINE)
BOARD = re.compile(r"board_type: (\w+)\}, \{chips: \[([\d, ]+)\]")


def chips():
    """The unique id and the board of each chip, by its number."""
    path = os.environ["TT_METAL_MOCK_CLUSTER_DESC_PATH"]
    with open(path, encoding="utf-8") as descriptor:
        text = descriptor.read()
    _, _, after = text.partition("chip_unique_ids:\n")
    # A section ends with the first line that is not indented.
    section = re.split(r"^\S", after, maxsplit=1, flags=re.MULTILINE)[0]
    boards = {
        int(chip): board
        for board, numbers in BOARD.findall(text)
        for chip in numbers.split(", ")
    }
    return {
        int(chip): (int(unique_id), boards[int(chip)])
        for chip, unique_id in UNIQUE_ID.findall(section)
    }
