"""Runs every operation that ttnn accepts on the board: built, found in the cache, built anew."""

from operation_kinds import all_operations
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, open_board


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    run = check.step("create inputs", lambda: all_operations(device))
    for time in ("", ", from the cache"):
        for name, operation in run.items():
            check.step(f"{name}{time}", operation, refusals)
    check.step("clear the program cache", device.clear_program_cache)
    results = {
        name: check.step(f"{name}, and keep it", operation, refusals)
        for name, operation in run.items()
    }
    check.step("free all results", results.clear)
    check.step("free the inputs", run.clear)
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
