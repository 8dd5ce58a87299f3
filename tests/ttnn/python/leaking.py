"""A loop that leaves one tensor behind in each of its steps names its line; without it none is.

Each step sets a mark. A step also makes a tensor that it gives back, replaces another, and the
program holds some from before the first step on.
"""

import os

# Read by the library at its first report.
os.environ["TTMEM_PYTHON"] = "1"

import ttmem_account  # noqa: E402
import ttnn  # noqa: E402
from ttmem_check import Arguments, Check, close_board, equal, open_board  # noqa: E402

KIND = ([1, 1, 32, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT)
STEPS = 20
# Behind the line that leaves a tensor behind.
MARKED = "# this one"


class Loop:
    def __init__(self, check, device):
        self.check = check
        self.device = device
        self.weights = [ttnn.empty(*KIND, device, ttnn.DRAM_MEMORY_CONFIG) for _ in range(4)]
        self.state = None
        self.forgotten = []

    def step(self, leaks):
        self.check.account.post("/api/v1/mark?name=step")
        where = (self.device, ttnn.DRAM_MEMORY_CONFIG)
        ttnn.deallocate(ttnn.empty(*KIND, *where))
        self.state = ttnn.empty(*KIND, *where)
        if leaks:
            self.forgotten.append(ttnn.empty(*KIND, *where))  # this one

    def growing(self):
        ttmem_account.flush()
        leaks = self.check.account.get("/api/v1/leaks")
        return [group for group in leaks["growing"] if group["pid"] == os.getpid()]


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    loop = Loop(check, device)
    for _ in range(STEPS):
        loop.step(leaks=False)
    equal("growing without a leak", loop.growing(), [])
    for _ in range(STEPS + 2):
        loop.step(leaks=True)
    check.compare("after the steps")
    growing = loop.growing()
    equal("lines that grow", [group["line"] for group in growing], [leaking_line()])
    group = growing[0]
    equal("the mark", group["mark"], "step")
    size = group["each_bytes"]
    equal("a tensor in each step", group["bytes_per_step"], size)
    close_board(device, arguments)
    check.write_summary(arguments)


def leaking_line():
    with open(__file__, encoding="utf-8") as source:
        numbers = [number for number, line in enumerate(source, 1) if line.endswith(f"{MARKED}\n")]
    return f"{__file__}:{numbers[-1]} step"


if __name__ == "__main__":
    main()
