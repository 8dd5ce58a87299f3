"""Names the operation of every buffer: also of one that is refused, and never an earlier one.

What creates a tensor outside of any operation is named for what it is, and so is a semaphore.
"""

from concurrent.futures import ThreadPoolExecutor

import ttnn
from tensors import OUT_OF_MEMORY, empty, fill, zeros
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, equal, open_board

SHAPE = [1, 1, 256, 256]
LARGE = [1, 1, 512, 512]


class Names:
    """Looks up the operation of the buffers that a step made."""

    def __init__(self, check):
        self.check = check

    def operations(self):
        """The operation of each live buffer, by the number of the buffer."""
        return {int(row["id"], 16): row["operation"] for row in self.check.account.rows("buffers")}

    def step(self, name, action, expected, refusals=()):
        """Takes a step that allocates, and compares the names of what is new."""
        before = self.operations()
        refused = self.check.refused
        result = self.check.step(name, action, refusals)
        if self.check.refused > refused:
            return result
        after = self.operations()
        new = [operation for buffer, operation in sorted(after.items()) if buffer not in before]
        equal(f"{name}: operations of its buffers", new, expected)
        return result

    def refused(self, name, action, expected):
        """Takes a step that runs out of memory, and compares who asked for it."""
        refused = self.check.refused
        self.check.step(name, action, (OUT_OF_MEMORY,))
        equal(f"{name}: refused", self.check.refused, refused + 1)
        failure = self.check.account.last_event("allocation_failed")
        equal(f"{name}: who asked", failure["operation"], expected)


def in_thread(action):
    """What an action makes on a thread of its own; a refusal is the caller's."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(action).result()


def semaphore(device):
    """A semaphore in the L1 of one core, which the runtime allocates by itself."""
    core = ttnn.CoreCoord(0, 0)
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(core, core)})
    return ttnn.create_global_semaphore(device, cores, 0)


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    names = Names(check)
    grid_refusals = () if arguments.is_one_chip else GRID_REFUSALS
    dram, l1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG

    a = names.step("zeros", lambda: zeros(device, SHAPE, dram), ["full"])
    b = names.step("empty", lambda: empty(device, SHAPE, l1), ["empty"])
    like = names.step("empty_like", lambda: ttnn.empty_like(b), ["empty_like"])
    sent = names.step(
        "to_device", lambda: ttnn.to_device(ttnn.from_device(a), device), ["to_device"]
    )
    kept = [like, sent]
    operations = {
        "BinaryNg": lambda: ttnn.add(a, a),
        "Softmax": lambda: ttnn.softmax(a, -1),
        "LayerNorm": lambda: ttnn.layer_norm(a),
        "Matmul": lambda: ttnn.matmul(a, a),
        "Transpose": lambda: ttnn.transpose(a, -2, -1),
        "Concat": lambda: ttnn.concat([a, a], -1),
    }
    for name, operation in operations.items():
        kept.append(names.step(f"first {name}", operation, [name], grid_refusals))
        kept.append(names.step(f"second {name}", operation, [name], grid_refusals))
    add = operations["BinaryNg"]
    kept.append(names.step("add in a thread", lambda: in_thread(add), ["BinaryNg"]))
    names.step("a semaphore", lambda: kept.append(semaphore(device)), ["GlobalSemaphore"])

    large = check.step("create a large one", lambda: zeros(device, LARGE, dram))
    live = check.step("fill l1", lambda: fill(device, LARGE, l1))
    refused = {
        "add": (lambda: ttnn.add(large, large, memory_config=l1), "BinaryNg"),
        "empty": (lambda: empty(device, LARGE, l1), "empty"),
        "a thread": (lambda: in_thread(lambda: ttnn.to_memory_config(large, l1)), "Copy"),
        "to_device": (lambda: zeros(device, LARGE, l1), "full"),
    }
    for number in range(2):
        for name, (action, expected) in refused.items():
            names.refused(f"{name} into a full l1, time {number}", action, expected)
            after = f"empty after {name}"
            kept.append(names.step(after, lambda: empty(device, SHAPE, dram), ["empty"]))
    check.step("free", lambda: [live.clear(), kept.clear()] and None)
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
