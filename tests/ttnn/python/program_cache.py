"""Counts the programs that were found in the program cache and those that were not.

ttnn says how many programs its cache holds: one more for each that was not found, and none
while it is off.
"""

import ttnn
from tensors import zeros
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, equal, open_board

# Each operation runs nine times; a mesh may refuse some of them.
LEAST_COMPARED = 2 * 9


def sent(check):
    """The programs sent so far, of the last events: times and what the cache said."""
    return {
        event["time"]: event["fields"]["program_cache"]
        for event in check.account.events()
        if event["event"] == "dispatched"
    }


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    a = zeros(device, [1, 1, 256, 256], ttnn.DRAM_MEMORY_CONFIG)
    b = zeros(device, [1, 1, 256, 512], ttnn.DRAM_MEMORY_CONFIG)
    operations = {
        "add": lambda: ttnn.add(a, a),
        "add of another shape": lambda: ttnn.add(b, b),
        "softmax": lambda: ttnn.softmax(a, -1),
        # It is made of several operations.
        "mean": lambda: ttnn.mean(b, -1),
    }
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    is_on = True
    compared = 0

    def run(name, operation):
        """One operation, with what the cache said of each of its programs."""
        nonlocal compared
        before, held = sent(check), device.num_program_cache_entries()
        refused = check.refused
        check.step(name, operation, refusals)
        if check.refused > refused:
            return
        said = [result for time, result in sent(check).items() if time not in before]
        equal(f"{name}: it sends programs", bool(said), True)
        new = device.num_program_cache_entries() - held
        misses = new if is_on else len(said)
        equal(f"{name}: programs not found", said.count("miss"), misses)
        equal(f"{name}: programs found", said.count("hit"), len(said) - misses)
        compared += 1

    for number in range(3):
        for name, operation in operations.items():
            run(f"{name}, time {number}", operation)
    check.step("clear", device.clear_program_cache)
    for name, operation in operations.items():
        run(f"{name}, cleared", operation)
        run(f"{name}, cleared, again", operation)
    check.step("off", device.disable_and_clear_program_cache)
    is_on = False
    for name, operation in operations.items():
        run(f"{name}, off", operation)
        run(f"{name}, off, again", operation)
    check.step("on", device.enable_program_cache)
    is_on = True
    for name, operation in operations.items():
        run(f"{name}, on", operation)
        run(f"{name}, on, again", operation)
    equal("enough operations were compared", compared >= LEAST_COMPARED, True)
    close_board(device, arguments)
    check.write_summary(arguments, f"{compared} operations compared")


if __name__ == "__main__":
    main()
