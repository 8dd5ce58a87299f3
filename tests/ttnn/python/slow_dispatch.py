"""Runs operations without dispatch cores: the host launches every chip by itself."""

import os

# Read by the runtime when it is loaded.
os.environ["TT_METAL_SLOW_DISPATCH_MODE"] = "1"

import ttmem_account  # noqa: E402
import ttnn  # noqa: E402
from tensors import zeros  # noqa: E402
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, open_board  # noqa: E402
from ttmem_program import require  # noqa: E402

SHAPE = [1, 1, 256, 256]
# On some boards ttnn refuses a part of the operations.
LEAST_FOLLOWED = 3
# What dispatch cores alone have.
FAST_EVENTS = ("ring_", "prefetch", "binary_", "commands_")


def events(account):
    ttmem_account.flush()
    count = ttmem_account.EVENTS_KEPT
    return account.get(f"/api/v1/last?pid={os.getpid()}&count={count}")["events"]


def follow(account, operation):
    """Runs an operation; what was told of it."""
    last = events(account)[-1]
    operation()
    told = events(account)
    require(last in told, "events were missed")
    told = told[told.index(last) + 1 :]
    fast = [event["event"] for event in told if event["event"].startswith(FAST_EVENTS)]
    require(not fast, f"{fast}")
    return told


def of_name(told, name):
    return [event["fields"] for event in told if event["event"] == name]


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    a = zeros(device, SHAPE, ttnn.DRAM_MEMORY_CONFIG)
    b = zeros(device, SHAPE, ttnn.L1_MEMORY_CONFIG)
    run = {
        "add": lambda: ttnn.add(a, a),
        "add in l1": lambda: ttnn.add(b, b),
        "softmax": lambda: ttnn.softmax(a, -1),
        "layer_norm": lambda: ttnn.layer_norm(a),
        "matmul": lambda: ttnn.matmul(a, a),
    }
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    followed = 0
    for name, operation in run.items():
        first = check.step(name, lambda: follow(check.account, operation), refusals)
        if first is None:
            continue
        followed += 1
        sent = of_name(first, "dispatched")
        require(len(sent) == 1 and sent[0]["path"] == "slow", f"{name}: {sent}")
        require(sent[0]["program_cache"] == "miss", f"{name}: {sent}")
        kernels = [fields["kernel"] for fields in of_name(first, "kernel_loaded")]
        require(kernels and len(set(kernels)) == len(kernels), f"{name}: kernels {kernels}")
        storage = [(fields["cb"], *fields["devices"]) for fields in of_name(first, "cb_allocated")]
        require(storage and len(set(storage)) == len(storage), f"{name}: storage {storage}")
        again = check.step(f"{name} again", lambda: follow(check.account, operation), refusals)
        sent = of_name(again, "dispatched")
        require(len(sent) == 1 and sent[0]["program_cache"] == "hit", f"{name}: {sent}")
        # The host writes it anew.
        require(not sent[0]["binary_reused"], f"{name}: {sent}")
        require(not of_name(again, "kernel_loaded"), f"{name}: kernels were told of twice")
    require(followed >= LEAST_FOLLOWED, f"ttnn has refused all but {followed} operations")
    run.clear()
    del a, b
    close_board(device, arguments)
    check.write_summary(arguments, f"{followed} operations followed")


if __name__ == "__main__":
    main()
