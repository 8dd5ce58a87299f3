"""The kinds of tensors that the programs make: every layout, in every class of memory."""

import ttnn

# The shards of the sharded layouts lie on so many rows and columns of cores.
SHARD_GRID = ttnn.CoreGrid(y=4, x=4)

# How the allocator begins when there is no room.
OUT_OF_MEMORY = "Out of Memory"

# No board has room for as many of the tensors that memory is filled with.
ENDLESS = 100_000


def sharded_in_l1(strategy, shape):
    """Shards of a tensor of this shape, one on each core of the grid."""
    return ttnn.create_sharded_memory_config(
        shape=shape,
        core_grid=SHARD_GRID,
        strategy=strategy,
        orientation=ttnn.ShardOrientation.ROW_MAJOR,
    )


def height_sharded(shape):
    return sharded_in_l1(ttnn.ShardStrategy.HEIGHT, shape)


def width_sharded(shape):
    return sharded_in_l1(ttnn.ShardStrategy.WIDTH, shape)


def block_sharded(shape):
    return sharded_in_l1(ttnn.ShardStrategy.BLOCK, shape)


def small_sharded(rows, columns):
    """In the small region of L1, which takes sharded tensors only: so many rows on each core."""
    grid = ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 0))
    shards = ttnn.ShardSpec(
        ttnn.CoreRangeSet({grid}), [rows, columns], ttnn.ShardOrientation.ROW_MAJOR
    )
    layout = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    return ttnn.MemoryConfig(layout, ttnn.BufferType.L1_SMALL, shards)


def dram_sharded(device, layout, shard_shape):
    """Shards in the banks of DRAM, one in each, with its number of banks."""
    banks = device.dram_grid_size().x
    grid = ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(banks - 1, 0))
    shards = ttnn.ShardSpec(
        ttnn.CoreRangeSet({grid}), list(shard_shape), ttnn.ShardOrientation.ROW_MAJOR
    )
    return ttnn.MemoryConfig(layout, ttnn.BufferType.DRAM, shards), banks


def zeros(device, shape, memory, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT):
    """A tensor that is filled on the host and sent."""
    return ttnn.zeros(shape, dtype=dtype, layout=layout, device=device, memory_config=memory)


def empty(device, shape, memory, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT):
    """A tensor that is only allocated."""
    return ttnn.empty(shape, dtype=dtype, layout=layout, device=device, memory_config=memory)


def fill(device, shape, memory):
    """As many tensors as there is room for."""
    live = []
    try:
        for _ in range(ENDLESS):
            live.append(empty(device, shape, memory))
    except RuntimeError as refusal:
        if OUT_OF_MEMORY not in str(refusal):
            raise
        return live
    raise AssertionError("memory without an end")
