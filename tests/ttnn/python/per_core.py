"""Places tensors on cores of their own, beside those that all banks share.

Only the HYBRID allocator does, and its own view leaves them out. The second witness are the tensors:
each says at which address it lies on each core of each chip, which need not be the same. On other
cores nothing is taken.
"""

import os

# Read by the runtime when it is loaded.
os.environ["TT_METAL_ALLOCATOR_MODE_HYBRID"] = "1"

from collections import defaultdict  # noqa: E402
from dataclasses import dataclass  # noqa: E402

import ttmem_account  # noqa: E402
import ttnn  # noqa: E402
from tensors import OUT_OF_MEMORY, empty  # noqa: E402
from ttmem_check import (  # noqa: E402
    CLASSES,
    Arguments,
    Check,
    close_board,
    compare_allocator,
    equal,
    equal_lists,
    open_board,
    own_allocators,
)

# Bytes of a tile, which is what a shard is made of here.
TILE_BYTES = 2048
TILE = 32


@dataclass
class Placed:
    """A tensor on some cores, with so many tiles on each."""

    tensor: ttnn.Tensor
    cores: list
    tiles: int

    def parts(self, coordinate):
        """Its places on the chip at a coordinate: address, bytes on each core, and cores."""
        cores_at = defaultdict(list)
        for x, y in self.cores:
            core = ttnn.CoreCoord(x, y)
            address = self.tensor.experimental_per_core_buffer_address(coordinate, core)
            cores_at[address].append((x, y))
        return [(address, self.tiles * TILE_BYTES, cores) for address, cores in cores_at.items()]


class PerCoreCheck(Check):
    """Compares with the allocator what it tells, and with the tensors what it does not."""

    def __init__(self):
        super().__init__()
        self.placed = []

    def coordinates(self):
        """The chips of the mesh, by coordinate."""
        (mesh,) = self.meshes
        rows, columns = mesh.shape
        found = [ttnn.MeshCoordinate(row, column) for row in range(rows) for column in range(columns)]
        return {mesh.get_device_id(coordinate): coordinate for coordinate in found}

    def parts_on(self, coordinate):
        return [part for placed in self.placed for part in placed.parts(coordinate)]

    def compare_figures(self, snapshot):
        (mesh,) = self.meshes
        devices = {device["id"]: device for device in snapshot["devices"]}
        chips = self.coordinates()
        for class_name, word in CLASSES.items():
            view = ttnn.get_memory_view(mesh, getattr(ttnn.BufferType, class_name))
            own = own_allocators(devices, list(chips), word)
            compare_allocator(own[self.numbers[mesh.id()]], mesh, word, view)
            shared = view.total_bytes_allocated_per_bank * view.num_banks
            for chip, coordinate in chips.items():
                parts = self.parts_on(coordinate) if word == "l1" else []
                alone = sum(size * len(cores) for _address, size, cores in parts)
                ours = devices[chip][word]["charged_bytes"]
                equal(f"device {chip} {word} charged_bytes", ours, shared + alone)
                self.largest = max(self.largest, shared + alone)

    def compare_buffers(self):
        (mesh,) = self.meshes
        rows = [row for row in self.account.rows("buffers") if row["class"] == "l1"]
        banks = ttnn.get_memory_view(mesh, ttnn.BufferType.L1).num_banks
        shared = [(address, size, banks) for address, size in self.shared_blocks()]
        chips = self.coordinates()
        for chip, coordinate in chips.items():
            parts = self.parts_on(coordinate)
            held = shared + [(address, size, len(cores)) for address, size, cores in parts]
            ours = [row for row in rows if chip in row["device_ids"]]
            told = [(row["address"], row["per_bank_bytes"], row["banks"]) for row in ours]
            what = f"l1 buffers (address, bytes per bank, banks) on device {chip}"
            equal_lists(what, sorted(told), sorted(held))
            self.compare_cores(chip, parts)

    def shared_blocks(self):
        """What all banks have given: address, and bytes of each."""
        (mesh,) = self.meshes
        view = ttnn.get_memory_view(mesh, ttnn.BufferType.L1)
        table = [block for block in view.block_table if block["allocated"] == "yes"]
        base = self.bases["l1"]
        return [(base + int(block["address"]), int(block["size"])) for block in table]

    def compare_cores(self, chip, parts):
        """The lowest buffer of each core: that of all, or one of its own."""
        shared = [address for address, _size in self.shared_blocks()]
        alone = defaultdict(list)
        for address, _size, cores in parts:
            for core in cores:
                alone[core].append(address)
        for core in self.account.get(f"/api/v1/l1map/{chip}")["cores"]:
            place = (core["x"], core["y"])
            theirs = min(shared + alone[place], default=None)
            equal(f"device {chip} lowest buffer of core {place}", core["lowest_buffer"], theirs)


def memory(cores, tiles, is_per_core=True):
    """Shards of so many tiles on some cores."""
    ranges = {ttnn.CoreRange(ttnn.CoreCoord(x, y), ttnn.CoreCoord(x, y)) for x, y in cores}
    shards = ttnn.ShardSpec(
        ttnn.CoreRangeSet(ranges), [TILE, TILE * tiles], ttnn.ShardOrientation.ROW_MAJOR
    )
    layout = ttnn.TensorMemoryLayout.WIDTH_SHARDED
    made = ttnn.MemoryConfig(layout, ttnn.BufferType.L1, shards)
    made.experimental_set_per_core_allocation(is_per_core)
    return made


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = PerCoreCheck()
    check.watch(device)
    grid = device.compute_with_storage_grid_size()
    every_core = [(x, y) for y in range(grid.y) for x in range(grid.x)]

    def place(cores, tiles, is_per_core=True):
        shape = [1, 1, TILE, TILE * tiles * len(cores)]
        tensor = empty(device, shape, memory(cores, tiles, is_per_core))
        if is_per_core:
            check.placed.append(Placed(tensor, cores, tiles))
        return tensor

    def free(number):
        ttnn.deallocate(check.placed.pop(number).tensor)

    check.step("two tiles on one core", lambda: place([(0, 0)], 2))
    check.step("on that core and the next", lambda: place([(0, 0), (1, 0)], 1))
    check.step("one on each core", lambda: [place([core], 1) for core in every_core])
    check.step("on a column", lambda: place([(2, y) for y in range(grid.y)], 3))
    shared = check.step("for all banks", lambda: place([(4, 4), (5, 4)], 2, False))
    check.step("on all cores at once", lambda: place(every_core, 4))
    check.step("free the first", lambda: free(0))
    check.step("where it was", lambda: place([(0, 0)], 1))
    check.step("free the one for all banks", lambda: ttnn.deallocate(shared))

    # One core is full, and the others are not.
    step = 100
    while check.refused == 0:
        check.step("fill a core", lambda: place([(3, 3)], step), (OUT_OF_MEMORY,))
    ttmem_account.flush()
    failure = check.account.last_event("allocation_failed")
    equal("the refusal is reported", failure is not None, True)
    equal("bytes of a bank that were refused", failure["per_bank_bytes"], step * TILE_BYTES)
    check.step("beside the full core", lambda: place([(3, 4)], step))

    while check.placed:
        check.step("free the last", lambda: free(-1))
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
