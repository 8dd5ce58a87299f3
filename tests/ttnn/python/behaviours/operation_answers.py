"""Runs every operation of `operation_kinds` and tells what came of each: results, or the exception.

`PROGRAM RESULT EXPECTED ROWS COLUMNS`. Each is built, found in the cache, and built anew with the
results before it alive.
"""

import pathlib
import sys

# The operations are those of the programs that compare accounts.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from behaviour import L1_SMALL_SIZE, Run, settle  # noqa: E402
from memory_requests import Board, answer_of, described  # noqa: E402
from operation_kinds import all_operations  # noqa: E402


def results(made):
    """What an operation has made: a tensor, or several."""
    if isinstance(made, (list, tuple)):
        return [results(one) for one in made]
    return described(made) if hasattr(made, "memory_config") else str(made)


def main():
    run = Run()
    board = Board(*map(int, run.words))
    board.open(l1_small_size=L1_SMALL_SIZE)
    settle()
    operations = all_operations(board.device)
    for time in ("built", "from the cache"):
        for name, operation in operations.items():
            run.tell(f"{name}, {time}", answer_of(lambda: results(operation())))
    run.tell("programs", board.device.num_program_cache_entries())
    board.device.clear_program_cache()
    kept = []

    def keep(operation):
        kept.append(operation())
        return results(kept[-1])

    for name, operation in operations.items():
        run.tell(f"{name}, kept", answer_of(lambda: keep(operation)))
    run.tell("held with all results", board.held())
    kept.clear()
    operations.clear()
    run.tell("held at the end", board.held())
    run.tell("closed", answer_of(board.close))


if __name__ == "__main__":
    main()
