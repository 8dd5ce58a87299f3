"""Compares the L1 that programs take on their cores with a second witness.

Circular and dataflow buffers are in no report of ttnn while they are there. What each call must
have placed is known all the same: a capture of it has their sizes and cores, and where the last
one ends stands in the refusal that ttnn gives when a tensor is in the way. Residence is told by
order: on every core it is the last program that ran there.
"""

import re

import ttmem_account
import ttnn
from captured_storage import capture
from operation_kinds import all_operations
from tensors import OUT_OF_MEMORY, fill
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, equal, equal_lists, open_board

# ttnn refuses to capture it, by a check that forgets about captures.
NO_CAPTURE = ("max_pool2d",)

# One program each, all storage of its own on one set of cores, the same however much L1 is free,
# and a result in DRAM. Layer norm looks for itself whether there is room, and does not clash.
CLASHING = (
    "add",
    "add a row",
    "add float32",
    "matmul in two ways",
    "matmul in one way",
    "softmax",
    "relu",
    "transpose",
    "concat",
    "permute",
)
CONVOLUTION = "conv2d at once"
# Without storage of their own on any core these would show nothing.
CENTRAL = ("matmul", "softmax", "layer_norm", "conv2d", CONVOLUTION)

# Storage that takes L1, and storage that lies inside of tensors.
OWN = ("local", "dataflow", "scratchpad")
INSIDE_TENSORS = ("global", "dataflow_borrowed")

CLASH = "clash with L1 buffers"
REGION_END = re.compile(r"region ends at (\d+)")
# Tensors that L1 is filled with: 8 KiB of each bank, less than any of the programs needs.
FILLING = [1, 1, 512, 512]


class Account:
    """What our server says now of the storage of programs, and of L1 with it."""

    def __init__(self, check):
        ttmem_account.flush()
        self.devices = check.account.snapshot()["devices"]
        # A tensor is moved because of where it lies, which a capture does not know.
        moves = {
            row["program"] for row in check.account.rows("kernels") if row["program_name"] == "Move"
        }
        self.rows = [row for row in check.account.rows("cbs") if row["program"] not in moves]

    def programs(self, device):
        """The storage of each program on a device, as kind, size and number of cores."""
        programs = {}
        for row in self.rows:
            if device["id"] in row["device_ids"]:
                storage = (row["kind"], row["size_bytes"], row["cores"])
                programs.setdefault(row["program"], []).append(storage)
        return {tuple(sorted(storages)) for storages in programs.values()}

    def region_ends(self, device):
        """Where the storage of each program ends that has some of its own."""
        ends = {}
        for row in self.rows:
            if device["id"] in row["device_ids"] and row["kind"] in OWN:
                end = row["address"] + row["size_bytes"]
                ends[row["program"]] = max(end, ends.get(row["program"], 0))
        return set(ends.values())


class Witness:
    """What a capture says of a call: the storage of its programs, and what is there at the end."""

    def __init__(self, captured):
        self.programs = [storages for storages in captured if storages]
        # The last program on each core.
        self.on_core = {}
        for storages in self.programs:
            for core in {core for storage in storages for core in storage.cores}:
                self.on_core[core] = storages

    def shown(self):
        """The storage of each program, in the form of our account."""
        return {
            tuple(sorted((each.kind, each.size_bytes, len(each.cores)) for each in storages))
            for storages in self.programs
        }

    def bytes_by_core(self, kinds):
        """What of these kinds lies on each core."""
        found = {}
        for core, storages in self.on_core.items():
            there = [each for each in storages if each.kind in kinds and core in each.cores]
            found[core] = sum(each.size_bytes for each in there)
        return found


def l1_bytes(mesh):
    """What tensors take of the L1 of a chip, by the allocator."""
    kinds = (ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL)
    views = [ttnn.get_memory_view(mesh, kind) for kind in kinds]
    return sum(view.total_bytes_allocated_per_bank * view.num_banks for view in views)


def compare_storage(account, mesh, name, witness):
    """Our account after a call against the capture of it."""
    own = sum(witness.bytes_by_core(OWN).values())
    for chip in account.devices:
        where = f"{name}, device {chip['id']}"
        told, captured = account.programs(chip), witness.shown()
        equal_lists(f"{where}: storage of programs", sorted(told), sorted(captured))
        resident = sum(witness.bytes_by_core(OWN + INSIDE_TENSORS).values())
        equal(f"{where}: resident", chip["cb"]["resident_bytes"], resident)
        occupied = chip["l1"]["reserved_bytes"] + l1_bytes(mesh) + own
        equal(f"{where}: occupied", chip["l1"]["occupied_bytes"], occupied)
        if name in CENTRAL:
            equal(f"{where}: has storage of its own", bool(account.region_ends(chip)), True)


def compare_clash(check, name, ends):
    """A refusal that was just given: its end of the region, and our report of it."""
    region_end = int(REGION_END.search(check.last_refusal).group(1))
    equal(f"{name}: the ends of its programs have that of the clash", region_end in ends, True)
    ours = check.account.last_event("clashed")
    equal(f"{name}: the end of the region in our report", ours and ours["region_end"], region_end)
    return region_end


def clash_at_once(check, device, run, ends, captured_ends):
    """Calls that find L1 full. Where their storage would end is known from the capture too."""
    live = check.step("fill l1", lambda: fill(device, FILLING, ttnn.L1_MEMORY_CONFIG))
    for name in CLASHING:
        if name in ends:
            clashes = check.refusals[CLASH]
            check.step(f"{name} in full l1", run[name], (CLASH,))
            equal(f"{name}: clashes in full l1", check.refusals[CLASH] - clashes, 1)
            region_end = compare_clash(check, name, ends[name])
            equal(f"{name}: the end by its sizes", captured_ends[name], region_end)
    check.step("make room", live.clear)


def clash_until_room(check, device, name, call, ends):
    """Gives L1 back until a call of several programs fits: each has to be in the way once."""
    live = check.step("fill l1", lambda: fill(device, FILLING, ttnn.L1_MEMORY_CONFIG))
    found = set()
    while True:
        clashes, refused = check.refusals[CLASH], check.refused
        check.step(f"{name} among {len(live)} tensors", call, (CLASH, OUT_OF_MEMORY))
        if check.refused == refused:
            break
        if check.refusals[CLASH] > clashes:
            found.add(compare_clash(check, name, ends))
        ttnn.deallocate(live.pop())
    check.step("make room", live.clear)
    equal(f"{name}: the farthest end was in the way", max(ends) in found, True)


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    run = check.step("create inputs", lambda: all_operations(device))

    ends, captured_ends, programs = {}, {}, 0
    for name in (name for name in run if name not in NO_CAPTURE):
        check.step("clear the program cache", device.clear_program_cache)
        equal(f"storage before {name}", Account(check).rows, [])
        captured = check.step(f"{name}, captured", lambda: capture(run[name]), refusals)
        if captured is None:
            continue
        equal(f"storage after the capture of {name}", Account(check).rows, [])
        witness = Witness(captured)
        result = check.step(name, run[name])
        account = Account(check)
        compare_storage(account, device, name, witness)
        del result
        ends[name] = account.region_ends(account.devices[0])
        largest = max(witness.bytes_by_core(OWN).values(), default=0)
        captured_ends[name] = check.bases["l1"] + largest
        programs += len(witness.programs)

    check.step("clear the program cache", device.clear_program_cache)
    clash_at_once(check, device, run, ends, captured_ends)
    if CONVOLUTION in ends:
        clash_until_room(check, device, CONVOLUTION, run[CONVOLUTION], ends[CONVOLUTION])
    check.step("free the inputs", run.clear)
    close_board(device, arguments)
    compared = f"{programs} programs of {len(ends)} calls as captured"
    check.write_summary(arguments, compared)


if __name__ == "__main__":
    main()
