"""The operations that programs go through: each by its name, with all that it works on.

They are chosen for what they do with memory: programs with circular buffers, with dataflow
buffers, with ones that lie inside of tensors, and with several programs one after the other.
"""

import ttnn
from tensors import block_sharded, dram_sharded, empty, height_sharded, width_sharded, zeros

ROW_MAJOR = ttnn.ROW_MAJOR_LAYOUT
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG

TALL, WIDE, SQUARE = [1, 1, 1024, 128], [1, 1, 128, 1024], [1, 1, 512, 512]
# An image as operations of images want it: one row for each of its points.
IMAGE_SIDE, CHANNELS = 64, 64
KERNEL_SIDE = 3


class Inputs:
    """What the operations work on, made once."""

    def __init__(self, device):
        def make(*shape, memory=DRAM, **others):
            return zeros(device, list(shape), memory, **others)

        self.device = device
        self.large = make(1, 1, 1024, 1024)
        self.large_in_l1 = make(1, 1, 1024, 1024, memory=L1)
        self.small = make(1, 1, 64, 64)
        self.row = make(1, 1, 1, 1024)
        self.rows = make(1, 1, 1024, 512, layout=ROW_MAJOR)
        # Neither side is a multiple of a tile's.
        self.padded = make(3, 5, 33, 65)
        self.odd_rows = make(1, 1, 33, 65, layout=ROW_MAJOR)
        self.few_rows = make(1, 1, 32, 64, layout=ROW_MAJOR)
        self.eights = make(1, 2, 256, 256, dtype=ttnn.bfloat8_b)
        self.floats = make(1, 1, 256, 256, dtype=ttnn.float32)
        self.indices = make(1, 64, dtype=ttnn.uint32, layout=ROW_MAJOR)
        self.table = make(512, 256, layout=ROW_MAJOR)
        self.tall = make(*TALL, memory=height_sharded(TALL))
        self.wide = make(*WIDE, memory=width_sharded(WIDE))
        self.square = make(*SQUARE, memory=block_sharded(SQUARE))
        self.tall_in_dram = make(*TALL)
        self.square_in_dram = make(*SQUARE)
        self.tall_factor = make(1, 1, 128, 128)
        banks_memory, banks = dram_sharded(device, ttnn.TensorMemoryLayout.WIDTH_SHARDED, (64, 96))
        self.in_banks = empty(device, [1, 1, 64, 96 * banks], banks_memory)
        self.heads = make(1, 8, 256, 64)
        self.fused_heads = make(1, 256, 3 * 512)
        self.image = make(1, 1, IMAGE_SIDE * IMAGE_SIDE, CHANNELS, layout=ROW_MAJOR)
        self.pixels = make(1, 16, 16, 4, layout=ROW_MAJOR)
        # On the host: an operation sends them itself, in the order it wants them.
        weights = CHANNELS * CHANNELS * KERNEL_SIDE * KERNEL_SIDE
        kernel = [CHANNELS, CHANNELS, KERNEL_SIDE, KERNEL_SIDE]
        self.weights = ttnn.Tensor([0.5] * weights, kernel, ttnn.bfloat16, ROW_MAJOR)
        self.bias = ttnn.Tensor([0.5] * CHANNELS, [1, 1, 1, CHANNELS], ttnn.bfloat16, ROW_MAJOR)

    def convolution(self, **others):
        return ttnn.conv2d(
            input_tensor=self.image,
            weight_tensor=self.weights,
            bias_tensor=self.bias,
            in_channels=CHANNELS,
            out_channels=CHANNELS,
            batch_size=1,
            input_height=IMAGE_SIDE,
            input_width=IMAGE_SIDE,
            kernel_size=(KERNEL_SIDE, KERNEL_SIDE),
            stride=(1, 1),
            padding=(1, 1),
            device=self.device,
            **others,
        )

    def convolution_in(self, layout):
        """With the image in shards of this layout."""
        return self.convolution(conv_config=ttnn.Conv2dConfig(shard_layout=layout))

    def pool(self, operation):
        return operation(
            self.image, 1, IMAGE_SIDE, IMAGE_SIDE, CHANNELS, [2, 2], [2, 2], [0, 0], [1, 1]
        )


def elementwise(i):
    return {
        "add": lambda: ttnn.add(i.large, i.large),
        "add in l1": lambda: ttnn.add(i.large_in_l1, i.large_in_l1),
        "add a row": lambda: ttnn.add(i.large, i.row),
        "add bfloat8_b": lambda: ttnn.add(i.eights, i.eights),
        "add float32": lambda: ttnn.add(i.floats, i.floats),
        "add padded": lambda: ttnn.add(i.padded, i.padded),
        "add tall": lambda: ttnn.add(i.tall, i.tall, memory_config=i.tall.memory_config()),
        "add square": lambda: ttnn.add(i.square, i.square, memory_config=i.square.memory_config()),
        "add in place": lambda: ttnn.add_(i.large_in_l1, i.large_in_l1),
        "multiply into l1": lambda: ttnn.multiply(i.large, i.large_in_l1, memory_config=L1),
        "relu": lambda: ttnn.relu(i.large),
        "exp in l1": lambda: ttnn.exp(i.large_in_l1),
        "gelu of shards": lambda: ttnn.gelu(i.wide, memory_config=i.wide.memory_config()),
        "typecast to bfloat8_b": lambda: ttnn.typecast(i.large, ttnn.bfloat8_b),
        "typecast to uint32": lambda: ttnn.typecast(i.large, ttnn.uint32),
        "where": lambda: ttnn.where(i.large, i.large, i.large),
        "clone": lambda: ttnn.clone(i.large),
    }


def blocks(**others):
    """The blocks that a product of two large tensors is cut into; else the free L1 decides."""
    return {
        "compute_with_storage_grid_size": ttnn.CoreCoord(4, 4),
        "in0_block_w": 2,
        "out_subblock_h": 1,
        "out_subblock_w": 2,
        "fused_activation": None,
        **others,
    }


def products(i):
    grid = ttnn.CoreGrid(y=4, x=4)
    in_two_ways = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        **blocks(per_core_M=8, per_core_N=8, transpose_mcast=False)
    )
    in_one_way = ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
        **blocks(per_core_M=32, per_core_N=2, fuse_batch=True, mcast_in0=True)
    )
    shards = ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG
    return {
        "matmul": lambda: ttnn.matmul(i.large, i.large),
        "matmul in l1": lambda: ttnn.matmul(i.large_in_l1, i.large_in_l1, memory_config=L1),
        "matmul bfloat8_b": lambda: ttnn.matmul(i.eights, i.eights),
        "matmul on 16 cores": lambda: ttnn.matmul(i.large, i.large, core_grid=grid),
        "matmul in two ways": lambda: ttnn.matmul(i.large, i.large, program_config=in_two_ways),
        "matmul in one way": lambda: ttnn.matmul(i.large, i.large, program_config=in_one_way),
        "matmul square": lambda: ttnn.matmul(
            i.square, i.square_in_dram, memory_config=i.square.memory_config()
        ),
        "matmul tall": lambda: ttnn.matmul(
            i.tall, i.tall_factor, memory_config=i.tall.memory_config()
        ),
        "matmul wide": lambda: ttnn.matmul(i.wide, i.large, memory_config=shards),
        "linear": lambda: ttnn.linear(i.large, i.large, bias=i.row),
        "attention": lambda: ttnn.transformer.scaled_dot_product_attention(
            i.heads, i.heads, i.heads, is_causal=True
        ),
        "split heads": lambda: ttnn.transformer.split_query_key_value_and_split_heads(
            i.fused_heads, num_heads=8
        ),
        "concatenate heads": lambda: ttnn.transformer.concatenate_heads(i.heads),
    }


def normalizations(i):
    groups = ttnn.CoreGrid(y=4, x=4)
    return {
        "softmax": lambda: ttnn.softmax(i.large, -1),
        "softmax in l1": lambda: ttnn.softmax(i.large_in_l1, -1),
        "softmax padded": lambda: ttnn.softmax(i.padded, -1),
        "softmax of columns": lambda: ttnn.softmax(i.padded, -2),
        "layer_norm": lambda: ttnn.layer_norm(i.large),
        "layer_norm weighted": lambda: ttnn.layer_norm(i.large, weight=i.row, bias=i.row),
        "layer_norm square": lambda: ttnn.layer_norm(
            i.square, memory_config=i.square.memory_config()
        ),
        "rms_norm": lambda: ttnn.rms_norm(i.large),
        "group_norm": lambda: ttnn.group_norm(
            i.tall_in_dram, num_groups=4, core_grid=groups, inplace=False
        ),
    }


def reductions(i):
    return {
        "sum": lambda: ttnn.sum(i.large, -1),
        "sum of all": lambda: ttnn.sum(i.large, (-1, -2)),
        "mean": lambda: ttnn.mean(i.large, -1),
        "max": lambda: ttnn.max(i.large, -1),
        "argmax": lambda: ttnn.argmax(i.few_rows, dim=-1),
        "topk": lambda: ttnn.topk(i.large, 32),
        "sort": lambda: ttnn.sort(i.small),
        "cumsum": lambda: ttnn.cumsum(i.large, -1),
    }


def movements(i):
    wider = [(0, 0), (0, 0), (0, 32), (0, 32)]
    return {
        "transpose": lambda: ttnn.transpose(i.large, -2, -1),
        "transpose rows": lambda: ttnn.transpose(i.rows, -2, -1),
        "permute": lambda: ttnn.permute(i.padded, (0, 2, 3, 1)),
        "permute rows": lambda: ttnn.permute(i.rows, (0, 3, 2, 1)),
        "concat": lambda: ttnn.concat([i.large, i.large], -1),
        "concat rows": lambda: ttnn.concat([i.rows, i.rows], 2),
        "reshape": lambda: ttnn.reshape(i.large, [1, 4, 256, 1024]),
        "reshape and move": lambda: ttnn.reshape(i.large, [1, 1, 512, 2048]),
        "reshape padded": lambda: ttnn.reshape(i.padded, [1, 1, 15 * 33, 65]),
        "slice": lambda: ttnn.slice(i.large, [0, 0, 0, 0], [1, 1, 64, 64]),
        "slice rows": lambda: i.rows[:, :, 3:77, 5:99],
        "split": lambda: ttnn.split(i.large, 512, -1),
        "pad": lambda: ttnn.pad(i.large, wider, 0.0),
        "repeat": lambda: ttnn.repeat(i.small, [1, 2, 1, 3]),
        "embedding": lambda: ttnn.embedding(i.indices, i.table),
        "embedding in tiles": lambda: ttnn.embedding(
            i.indices, i.table, layout=ttnn.TILE_LAYOUT
        ),
    }


def layouts(i):
    fewer_cores = ttnn.create_sharded_memory_config(
        shape=TALL, core_grid=ttnn.CoreGrid(y=2, x=4), strategy=ttnn.ShardStrategy.HEIGHT
    )
    return {
        "to rows": lambda: ttnn.to_layout(i.large, ROW_MAJOR),
        "to tiles": lambda: ttnn.to_layout(i.rows, ttnn.TILE_LAYOUT),
        "tilize with padding": lambda: ttnn.tilize_with_val_padding(
            i.odd_rows, [1, 1, 64, 96], 0.0
        ),
        "untilize padded": lambda: ttnn.to_layout(i.padded, ROW_MAJOR),
        "to l1": lambda: ttnn.to_memory_config(i.large, L1),
        "to dram": lambda: ttnn.to_memory_config(i.large_in_l1, DRAM),
        "to tall shards": lambda: ttnn.to_memory_config(i.tall_in_dram, height_sharded(TALL)),
        "to square shards": lambda: ttnn.interleaved_to_sharded(
            i.square_in_dram, block_sharded(SQUARE)
        ),
        "from square shards": lambda: ttnn.sharded_to_interleaved(i.square, L1),
        "to fewer cores": lambda: ttnn.reshard(i.tall, fewer_cores),
        "from the banks of dram": lambda: ttnn.to_memory_config(i.in_banks, DRAM),
    }


def images(i):
    sharded = ttnn.TensorMemoryLayout
    return {
        "conv2d": i.convolution,
        "conv2d at once": lambda: i.convolution(slice_config=ttnn.Conv2dL1FullSliceConfig),
        "conv2d tall": lambda: i.convolution_in(sharded.HEIGHT_SHARDED),
        "conv2d square": lambda: i.convolution_in(sharded.BLOCK_SHARDED),
        "conv2d wide": lambda: i.convolution_in(sharded.WIDTH_SHARDED),
        "max_pool2d": lambda: i.pool(ttnn.max_pool2d),
        "upsample": lambda: ttnn.upsample(i.pixels, 2),
        "fold": lambda: ttnn.fold(i.pixels, 2, 2),
    }


def all_operations(device):
    """Every operation by its name."""
    inputs = Inputs(device)
    groups = (elementwise, products, normalizations, reductions, movements, layouts, images)
    return {name: operation for group in groups for name, operation in group(inputs).items()}
