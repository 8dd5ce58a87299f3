"""A thousand operations by seed: creations, frees, operations, cleared caches, in any order."""

import random

import ttnn
from tensors import block_sharded, empty, height_sharded, width_sharded, zeros
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, open_board

OPERATIONS = 1000
# Above so many, freeing becomes likely; holes come from the order in which they go.
USUAL_LIVE = 40
# Elements of a tensor that is not computed with.
LARGE = 1 << 20

# What ttnn may say to a request that is as random as these. None of it is an error of its own:
# L1 may be full, or hold a tensor where a program wants its circular buffers.
REFUSALS = (
    "Out of Memory",
    "clash with L1 buffers",
    "beyond max L1 size",
    "of the allocator's L1 span are available",
    "No solution found for single_block_size",
)

DTYPES = (ttnn.bfloat16, ttnn.float32, ttnn.bfloat8_b, ttnn.uint32)
SHARDED = {
    height_sharded: ([1, 1, 512, 64], [1, 1, 1024, 128]),
    width_sharded: ([1, 1, 64, 512], [1, 1, 128, 1024]),
    block_sharded: ([1, 1, 128, 256], [1, 1, 512, 512]),
}

UNARY = {
    "gelu": ttnn.gelu,
    "relu": ttnn.relu,
    "layer_norm": ttnn.layer_norm,
    "softmax": lambda tensor: ttnn.softmax(tensor, -1),
    "transpose": lambda tensor: ttnn.transpose(tensor, -2, -1),
    "to l1": lambda tensor: ttnn.to_memory_config(tensor, ttnn.L1_MEMORY_CONFIG),
}
BINARY = {
    "add": ttnn.add,
    "multiply": ttnn.multiply,
    "concat": lambda one, other: ttnn.concat([one, other], -1),
    "matmul": lambda one, other: ttnn.matmul(one, ttnn.transpose(other, -2, -1)),
}


class Player:
    """Chooses what is next, and holds what is alive."""

    def __init__(self, device, seed):
        self.device = device
        self.random = random.Random(seed)
        self.live = []

    def next(self):
        """The name of an operation and the operation."""
        if self.random.random() < len(self.live) / (2 * USUAL_LIVE):
            return self.random.choice((self.free, self.forget))()
        return self.random.choices(
            (
                self.create,
                self.create_large,
                self.create_sharded,
                self.unary,
                self.binary,
                self.clear_cache,
            ),
            weights=(38, 4, 15, 23, 18, 2),
        )[0]()

    def create(self):
        dtype = self.random.choice(DTYPES)
        tiled = dtype == ttnn.bfloat8_b or self.random.random() < 0.7
        layout = ttnn.TILE_LAYOUT if tiled else ttnn.ROW_MAJOR_LAYOUT
        memory = self.random.choice((ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG))
        make = self.random.choice((zeros, empty))
        shape = [1, self.random.randint(1, 4), *self.random.choices(range(1, 300), k=2)]
        name = f"{make.__name__} {shape} {dtype} {layout} {memory.buffer_type}"
        return name, lambda: self.live.append(make(self.device, shape, memory, dtype, layout))

    def create_large(self):
        """A good part of L1, so that there is not always room."""
        shape = [1, self.random.randint(4, 24), 1024, 1024]
        name = f"empty {shape} in L1"
        return name, lambda: self.live.append(empty(self.device, shape, ttnn.L1_MEMORY_CONFIG))

    def create_sharded(self):
        memory = self.random.choice(list(SHARDED))
        shape = self.random.choice(SHARDED[memory])
        name = f"{memory.__name__} {shape}"
        return name, lambda: self.live.append(empty(self.device, shape, memory(shape)))

    def operand(self):
        """A tensor that every operation accepts: one that lives, or a new one.

        Some operations give back what they were given, so that one may be freed under two names.
        """
        usable = [
            tensor
            for tensor in self.live
            if tensor.is_allocated()
            and tensor.volume() < LARGE
            and tensor.dtype == ttnn.bfloat16
            and tensor.layout == ttnn.TILE_LAYOUT
            and not tensor.is_sharded()
        ]
        if not usable:
            usable = [zeros(self.device, [1, 1, 96, 160], ttnn.DRAM_MEMORY_CONFIG)]
        return self.random.choice(usable)

    def unary(self):
        name, operation = self.random.choice(list(UNARY.items()))
        tensor = self.operand()
        return f"{name} {tensor.shape}", lambda: self.live.append(operation(tensor))

    def binary(self):
        name, operation = self.random.choice(list(BINARY.items()))
        tensor = self.operand()
        return f"{name} {tensor.shape}", lambda: self.live.append(operation(tensor, tensor))

    def clear_cache(self):
        return "clear the program cache", self.device.clear_program_cache

    def taken(self):
        return self.live.pop(self.random.randrange(len(self.live)))

    def free(self):
        return "free", lambda: ttnn.deallocate(self.taken())

    def forget(self):
        return "forget", lambda: self.taken() and None


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    check.note_own_comparisons()
    player = Player(device, arguments.seed)
    refusals = REFUSALS if arguments.is_one_chip else REFUSALS + GRID_REFUSALS
    for _ in range(OPERATIONS):
        name, operation = player.next()
        check.step(f"{name} (seed {arguments.seed})", operation, refusals)
        del operation
    check.step("free all", player.live.clear)
    close_board(device, arguments)
    # Closing compares what a thousand operations have left, if not even their number did before.
    check.note_own_comparisons()
    check.write_summary(arguments, check.require_own_comparisons())


if __name__ == "__main__":
    main()
