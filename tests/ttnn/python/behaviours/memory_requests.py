"""Asks ttnn for memory in every way, sensible or not, and tells what became of each request.

`PROGRAM RESULT EXPECTED ROWS COLUMNS SEED FIRST COUNT` makes the requests FIRST to FIRST + COUNT - 1
of a seed. A request depends on the seed and its number alone, so that a run can begin behind one at
which another run ended. An answer is where the tensor lies and what it is like, or the exception.
"""

import random

import ttnn
from behaviour import Run, settle

# So many requests are made of a board before it is closed and opened with other regions.
OPENED_FOR = 100
# So many tensors live at once; then some of them go.
MOST_ALIVE = 48

L1_SMALL_SIZES = (0, 0, 0, 1, 31, 32, 1024, 32 * 1024, 65_537, 512 * 1024, 2**30, 2**63)
TRACE_REGION_SIZES = (0, 0, 0, 1, 4096, 2**20 + 1, 8 * 2**20, 2**31, 2**45)
WORKER_L1_SIZES = (0, 0, 0, 0, 32, 300_000, 1_000_000, 2**31)

SIDES = (0, 1, 1, 2, 3, 7, 16, 31, 32, 32, 33, 64, 64, 65, 96, 100, 128, 256, 512, 1000, 1024)
LARGE_SIDES = (4096, 8192, 65_536, 2**20, 2**31, 2**32 - 1)
NAMES = ("TensorMemoryLayout", "Layout", "DataType", "ShardOrientation")
# Python is not given the class of host memory.
CLASS_WEIGHTS = {"DRAM": 30, "L1": 45, "L1_SMALL": 15, "TRACE": 6}
SHARDED = ("HEIGHT_SHARDED", "WIDTH_SHARDED", "BLOCK_SHARDED")
# Those of the runtime are none of these.
OWN_MISTAKES = (ValueError, IndexError, AttributeError, NameError)
# Where the text of a refusal ends; behind it the runtime has the stack on which it was.
BACKTRACE = "\nbacktrace:"


def members(kind):
    """All values of an enumeration, which need not say itself which it has."""
    named = (getattr(kind, name) for name in sorted(dir(kind)))
    return tuple(value for value in named if isinstance(value, kind))


ENUMS = {name: members(getattr(ttnn, name)) for name in NAMES}


class Form:
    """What a tensor is to be like, but for its memory."""

    def __init__(self, rng):
        self.sides = shape(rng)
        self.dtype = rng.choice((ttnn.bfloat16, rng.choice(ENUMS["DataType"])))
        self.layout = rng.choice((ttnn.TILE_LAYOUT, rng.choice(ENUMS["Layout"])))


def shape(rng):
    rank = rng.choices(range(7), weights=(1, 3, 20, 6, 30, 3, 1))[0]
    sides = [1] * max(rank - 2, 0) + [rng.choice(SIDES) for _ in range(min(rank, 2))]
    if rank > 2 and rng.random() < 0.3:
        sides[rng.randrange(rank - 2)] = rng.choice((0, 2, 3, 5))
    if rank and rng.random() < 0.04:
        sides[rng.randrange(rank)] = rng.choice(LARGE_SIDES)
    return sides


def core(rng, kind):
    """Mostly one that is there; banks of DRAM lie in one row."""
    wide = rng.random() < 0.03
    rows = 1 if kind == ttnn.BufferType.DRAM and rng.random() < 0.8 else 8
    return ttnn.CoreCoord(rng.randrange(40 if wide else 8), rng.randrange(40 if wide else rows))


def cores(rng, kind=ttnn.BufferType.L1):
    """Mostly one range; also none, several, and such that overlap."""
    count = rng.choices((1, 0, 2, 3), weights=(30, 1, 4, 2))[0]
    ranges = []
    for _ in range(count):
        one, other = core(rng, kind), core(rng, kind)
        if rng.random() < 0.97:
            low = ttnn.CoreCoord(min(one.x, other.x), min(one.y, other.y))
            other = ttnn.CoreCoord(max(one.x, other.x), max(one.y, other.y))
            one = low
        if rng.random() < 0.5:
            other = ttnn.CoreCoord(other.x, one.y)
        ranges.append(ttnn.CoreRange(one, other))
    return ttnn.CoreRangeSet(set(ranges) if rng.random() < 0.5 else ranges)


def rounded(number, step):
    return -(-number // step) * step


def fitting(rng, form, grid, way):
    """The shape of a shard: mostly one of which as many as there are cores hold the tensor."""
    if rng.random() < 0.15:
        return [rng.choice(SIDES), rng.choice(SIDES)]
    width, height = max(form.sides[-1:], default=1), 1
    for side in form.sides[:-1]:
        height *= side
    step = 32 if form.layout == ttnn.TILE_LAYOUT else 1
    height, width = rounded(height, step), rounded(width, step)
    box = grid.bounding_box().grid_size() if grid.num_cores() else ttnn.CoreCoord(1, 1)
    across, down = {
        "HEIGHT_SHARDED": (1, max(grid.num_cores(), 1)),
        "WIDTH_SHARDED": (max(grid.num_cores(), 1), 1),
        "BLOCK_SHARDED": (box.x, box.y),
    }[way]
    return [rounded(-(-height // down), step), rounded(-(-width // across), step)]


def memory(rng, form):
    kind = getattr(ttnn.BufferType, rng.choices(*zip(*CLASS_WEIGHTS.items()))[0])
    style = rng.random()
    if style < 0.4:
        return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, kind)
    if style < 0.43:
        return ttnn.MemoryConfig(rng.choice(ENUMS["TensorMemoryLayout"]), kind)
    grid, way = cores(rng, kind), rng.choice(SHARDED)
    if style < 0.6:
        shard = [rng.choice(SIDES) for _ in range(rng.randrange(1, 5))]
        if rng.random() < 0.7:
            shard = [1] * max(len(form.sides) - 2, 0) + fitting(rng, form, grid, way)
        if rng.random() < 0.998:
            # The runtime divides by them, and dies of it without us.
            shard = [max(side, 1) for side in shard]
        return ttnn.MemoryConfig(kind, ttnn.NdShardSpec(ttnn.Shape(shard), grid))
    shards = ttnn.ShardSpec(grid, fitting(rng, form, grid, way), rng.choice(ENUMS["ShardOrientation"]))
    return ttnn.MemoryConfig(getattr(ttnn.TensorMemoryLayout, way), kind, shards)


class Board:
    """The board, opened with some regions, and what lives there."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.device = None
        self.live = []
        self.semaphores = []

    def open(self, **regions):
        if self.rows * self.columns == 1:
            self.device = ttnn.open_device(device_id=0, **regions)
        else:
            self.device = ttnn.open_mesh_device(ttnn.MeshShape(self.rows, self.columns), **regions)

    def close(self):
        self.live.clear()
        self.semaphores.clear()
        if self.device is None:
            return
        close = ttnn.close_device if self.rows * self.columns == 1 else ttnn.close_mesh_device
        device, self.device = self.device, None
        close(device)

    def held(self):
        """What the allocator says of each class."""
        views = []
        for kind in CLASS_WEIGHTS:
            view = ttnn.get_memory_view(self.device, getattr(ttnn.BufferType, kind))
            views.append(
                [
                    kind,
                    view.num_banks,
                    view.total_bytes_per_bank,
                    view.total_bytes_allocated_per_bank,
                    view.largest_contiguous_bytes_free_per_bank,
                ]
            )
        return views

    def keep(self, tensor):
        self.live.append(tensor)
        return described(tensor)

    def empty(self, rng, make=ttnn.empty, form=None):
        form = form or Form(rng)
        options = {"dtype": form.dtype, "layout": form.layout, "device": self.device}
        return self.keep(make(form.sides, memory_config=memory(rng, form), **options))

    def sent(self, rng):
        """A tensor of the host's, which is small."""
        form = Form(rng)
        form.sides = [rng.choice((1, 2, 32, 33)) for _ in range(rng.randrange(1, 4))]
        return self.empty(rng, ttnn.zeros, form)

    def specified(self, rng):
        """By a specification, which may have tiles of another shape."""
        form = Form(rng)
        tile = rng.choice(((32, 32), (32, 32), (16, 32), (32, 16), (16, 16), (8, 32), (7, 9)))
        asked = memory(rng, form)
        sharded = (asked.memory_layout, asked.shard_spec)
        spec = ttnn.TensorSpec(
            ttnn.Shape(form.sides),
            form.dtype,
            form.layout,
            *(sharded if asked.shard_spec else ()),
            buffer_type=asked.buffer_type,
            tile=ttnn.Tile(tile),
        )
        return self.keep(ttnn.allocate_tensor_on_device(spec, self.device))

    def like(self, rng):
        if not self.live:
            return self.empty(rng)
        other = rng.choice(self.live)
        return self.keep(ttnn.empty_like(other, memory_config=memory(rng, Form(rng))))

    def freed(self, rng):
        if not self.live:
            return self.empty(rng)
        tensor = self.live.pop(rng.randrange(len(self.live)))
        ttnn.deallocate(tensor, force=rng.random() < 0.5)
        return [tensor.is_allocated()]

    def freed_twice(self, rng):
        if not self.live:
            return self.empty(rng)
        tensor = self.live.pop(rng.randrange(len(self.live)))
        ttnn.deallocate(tensor)
        ttnn.deallocate(tensor)
        return described(tensor)

    def semaphore(self, rng):
        kind = getattr(ttnn.BufferType, rng.choice(tuple(CLASS_WEIGHTS)))
        semaphore = ttnn.create_global_semaphore(self.device, cores(rng), 0, kind)
        address = ttnn.get_global_semaphore_address(semaphore)
        self.semaphores.append(semaphore)
        return [address]

    def captured(self, rng):
        """In a capture without a device nothing is allocated."""
        ttnn._ttnn.graph.begin_graph_capture(ttnn._ttnn.graph.RunMode.NO_DISPATCH)
        try:
            answer, alive = answer_of(lambda: self.empty(rng)), len(self.live)
            # What was made in a capture ends there.
            del self.live[alive - 1 if answer[0] == "tensor" else alive :]
        finally:
            ttnn._ttnn.graph.end_graph_capture()
        return answer

    def all_freed(self, _rng):
        self.live.clear()
        self.semaphores.clear()
        return self.held()


def described(tensor):
    """What a tensor is like, and where it lies."""
    told = ["tensor", list(tensor.shape), list(tensor.padded_shape)]
    told += [str(tensor.dtype), str(tensor.layout), str(tensor.memory_config())]
    told.append(tensor.is_allocated())
    for asked in ("address", "num_pages", "page_size", "aligned_page_size", "unique_id"):
        function = getattr(tensor, f"buffer_{asked}", None)
        told.append(answer_of(function) if function else None)
    return told


def answer_of(request):
    """What was answered, or the exception."""
    try:
        return request()
    except OWN_MISTAKES:
        raise
    except Exception as refusal:  # of whatever other type: that is what is told
        return [type(refusal).__name__, str(refusal).partition(BACKTRACE)[0]]


WAYS = (
    (Board.empty, 70),
    (Board.specified, 10),
    (Board.sent, 3),
    (Board.like, 3),
    (Board.freed, 6),
    (Board.freed_twice, 1),
    (Board.semaphore, 3),
    (Board.captured, 3),
    (Board.all_freed, 1),
)


def opened(run, board, number, seed):
    """Opens the board with the regions of a request; if that is refused, with none."""
    rng = random.Random(f"{seed} regions {number // OPENED_FOR}")
    regions = {
        "l1_small_size": rng.choice(L1_SMALL_SIZES),
        "trace_region_size": rng.choice(TRACE_REGION_SIZES),
        "worker_l1_size": rng.choice(WORKER_L1_SIZES),
    }
    run.tell(f"{number} is asked of a board with", regions)
    run.tell(f"{number} opens", answer_of(lambda: board.open(**regions)))
    if board.device is None:
        board.open()
    settle()
    run.tell(f"{number} begins with", answer_of(board.held))


def main():
    run = Run()
    rows, columns, seed, first, count = map(int, run.words)
    board = Board(rows, columns)
    ways, weights = zip(*WAYS)
    for number in range(first, first + count):
        if board.device is None or number % OPENED_FOR == 0:
            run.tell(f"{number} closes", answer_of(board.close))
            opened(run, board, number, seed)
        rng = random.Random(f"{seed} request {number}")
        way = rng.choices(ways, weights)[0]
        # What is told before tells at which request a run ended that did not come to its end.
        run.tell(f"{number} asks", way.__name__)
        run.tell(f"{number} is answered", answer_of(lambda: way(board, rng)))
        while len(board.live) > MOST_ALIVE:
            board.live.pop(rng.randrange(len(board.live)))
    run.tell("held at the end", answer_of(board.held))
    run.tell("closed", answer_of(board.close))


if __name__ == "__main__":
    main()
