"""Runs operations: with programs that are built, found in the cache, and built anew."""

import ttnn
from tensors import height_sharded, zeros
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, open_board

SHARDED_SHAPE = [1, 1, 1024, 128]


def operations(device):
    """The operations by name, and the tensors they work on."""
    a = zeros(device, [1, 1, 1024, 1024], ttnn.DRAM_MEMORY_CONFIG)
    b = zeros(device, [1, 1, 1024, 1024], ttnn.L1_MEMORY_CONFIG)
    sharded = zeros(device, SHARDED_SHAPE, height_sharded(SHARDED_SHAPE))
    return {
        "add": lambda: ttnn.add(a, a),
        "add in l1": lambda: ttnn.add(b, b),
        "add from dram into l1": lambda: ttnn.add(a, b, memory_config=ttnn.L1_MEMORY_CONFIG),
        "matmul": lambda: ttnn.matmul(a, a),
        "softmax": lambda: ttnn.softmax(a, -1),
        "layer_norm": lambda: ttnn.layer_norm(a),
        "transpose": lambda: ttnn.transpose(a, -2, -1),
        "concat": lambda: ttnn.concat([a, a], -1),
        "sharded gelu": lambda: ttnn.gelu(sharded, memory_config=height_sharded(SHARDED_SHAPE)),
        "to l1": lambda: ttnn.to_memory_config(a, ttnn.L1_MEMORY_CONFIG),
        "to dram": lambda: ttnn.to_memory_config(b, ttnn.DRAM_MEMORY_CONFIG),
        "reshape": lambda: ttnn.reshape(a, [1, 4, 256, 1024]),
    }


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    run = check.step("create inputs", lambda: operations(device))

    # Kept, so that each finds its memory where those before it left some.
    results = {name: check.step(name, operation, refusals) for name, operation in run.items()}
    half = list(results)[::2]
    check.step("free every other result", lambda: [results.pop(name) for name in half] and None)

    for name, operation in run.items():
        check.step(f"{name}, from the cache", operation, refusals)
    check.step("clear the program cache", device.clear_program_cache)
    for name, operation in run.items():
        check.step(f"{name}, after the cache was cleared", operation, refusals)

    check.step("cache off", device.disable_and_clear_program_cache)
    for name, operation in run.items():
        check.step(f"{name}, without a cache", operation, refusals)
        check.step(f"{name}, without a cache again", operation, refusals)
    check.step("cache on", device.enable_program_cache)
    for name, operation in run.items():
        check.step(f"{name}, with a cache again", operation, refusals)

    check.step("free all results", results.clear)
    check.step("free the inputs", run.clear)
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
