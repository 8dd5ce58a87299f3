"""Compares what ttnn holds with what our server says that it holds, step by step.

ttnn's side is its allocator's own: `get_memory_view` for the figures of a bank and its blocks,
`reports.get_buffers` for what is alive. Ours is the server's answer after a flush. Every figure
must be equal on every device; the first that is not ends the program, with its name.

A program is started as `PROGRAM SUMMARY ROWS COLUMNS SEED`. Its summary goes into a file: ttnn
writes to standard output itself.
"""

import os
import sys
from collections import Counter
from dataclasses import dataclass

import ttmem_account
import ttmem_machine
import ttnn

# The names of ttnn with the words of our read API.
CLASSES = {"DRAM": "dram", "L1": "l1", "L1_SMALL": "l1_small", "TRACE": "trace"}

L1_SMALL_SIZE = 32 * 1024
TRACE_REGION_SIZE = 8 * 1024 * 1024

# On boards of more than one chip ttnn 0.81.1 takes the same grid for 8x8 in one place and for 8x7
# in another, and refuses some operations for that.
GRID_REFUSALS = ("The compute worker grid on this device is 8x7",)

# Set where every family of hooks must be on: with the release that the programs are made for.
EVERY_FAMILY = "TTMEM_TESTS_EVERY_FAMILY"


class AccountsDiffer(Exception):
    """What ttnn says and what our server says are not the same."""


class Refused(Exception):
    """ttnn has refused a step that it should take."""


@dataclass
class Arguments:
    """How the program was started."""

    summary: str
    rows: int
    columns: int
    seed: int

    @classmethod
    def of_command_line(cls):
        summary, rows, columns, seed = sys.argv[1:]
        return cls(summary, int(rows), int(columns), int(seed))

    @property
    def is_one_chip(self):
        return self.rows * self.columns == 1


def open_board(arguments, **options):
    """Opens all of the board, as a device if it is one chip and as a mesh if not."""
    sizes = {"l1_small_size": L1_SMALL_SIZE, "trace_region_size": TRACE_REGION_SIZE, **options}
    if arguments.is_one_chip:
        return ttnn.open_device(device_id=0, **sizes)
    return ttnn.open_mesh_device(ttnn.MeshShape(arguments.rows, arguments.columns), **sizes)


def close_board(device, arguments):
    """Closes what `open_board` opened."""
    close = ttnn.close_device if arguments.is_one_chip else ttnn.close_mesh_device
    close(device)


# Peaks are asked for one by one: not after every step.
STEPS_BETWEEN_PEAKS = 16


class Check:
    """Takes steps and compares after each of them."""

    def __init__(self):
        self.account = ttmem_account.Account()
        self.meshes = []
        # Our number of each mesh, by ttnn's.
        self.numbers = {}
        # Where each class begins in a bank.
        self.bases = {}
        self.steps = 0
        # How often ttnn has refused a step, by its reason.
        self.refusals = Counter()
        self.last_refusal = ""
        self.largest = 0
        # When the library compared its account with the allocator, as far as it was looked for.
        self.own_comparisons = set()

    def watch(self, *meshes):
        """Compares these from now on: the mesh that was opened and, if it has any, its sub-meshes.

        Each is an allocator of its own on the same chips.
        """
        self.meshes = list(meshes)
        ttmem_account.flush()
        for fields in self.account.last_events("capacity_reported"):
            self.bases[fields["class"]] = fields["base"]
        self.number_meshes(self.account.snapshot())
        self.compare("open")
        self.compare_chips()

    def number_meshes(self, snapshot):
        """Finds our numbers of the meshes that are new: both sides count them as they open."""
        devices = {device["id"]: device for device in snapshot["devices"]}
        for meshes in self.meshes_by_chips():
            new = [mesh for mesh in meshes if mesh.id() not in self.numbers]
            told = set(own_allocators(devices, meshes[0].get_device_ids(), "dram"))
            unknown = sorted(told - set(self.numbers.values()))
            equal(f"meshes {[mesh.id() for mesh in new]} are known", len(unknown) >= len(new), True)
            newest = unknown[len(unknown) - len(new) :]
            self.numbers.update(zip((mesh.id() for mesh in new), newest))

    @property
    def refused(self):
        """How many steps ttnn has refused."""
        return self.refusals.total()

    def step(self, name, action, refusals=()):
        """Takes one step, compares, and gives what the step made.

        ttnn may refuse it with a text that has one of `refusals` in it: then the result is None,
        and the accounts must be equal all the same.
        """
        result = None
        try:
            result = action()
        except RuntimeError as refusal:
            # What follows are addresses of code.
            self.last_refusal = str(refusal).partition("backtrace:")[0]
            reason = next((text for text in refusals if text in self.last_refusal), None)
            if reason is None:
                raise Refused(f"{name}: {self.last_refusal}") from None
            self.refusals[reason] += 1
        self.compare(name)
        return result

    def compare(self, name):
        """Compares everything now; `name` says after which step in the difference."""
        self.steps += 1
        try:
            ttmem_account.flush()
            snapshot = self.account.snapshot()
            self.compare_figures(snapshot)
            self.compare_buffers()
            self.compare_sanity(snapshot)
            if self.steps % STEPS_BETWEEN_PEAKS == 1:
                self.compare_peaks(snapshot)
        except AccountsDiffer as difference:
            where = f"after step {self.steps}, {name}: {difference}"
            raise AccountsDiffer(f"{where}\n{ttmem_account.hook_status()}") from None

    def compare_chips(self):
        """Which chips these are: they have an id of their own, and a board.

        Older releases have no words for them: then nothing may be told.
        """
        is_known = ttmem_account.is_on("identities of chips")
        described = ttmem_machine.chips()
        told = {device["id"]: device for device in self.account.snapshot()["devices"]}
        for chip in {chip for mesh in self.meshes for chip in mesh.get_device_ids()}:
            unique_id, board = described[chip] if is_known else (0, None)
            equal(f"device {chip} unique id", int(told[chip]["unique_id"] or "0", 16), unique_id)
            equal(f"device {chip} board", told[chip]["board"], board)

    def compare_peaks(self, snapshot):
        """What was live at each peak adds up to it, of a chip and of this process on it."""
        own = [process for process in snapshot["processes"] if process["pid"] == os.getpid()]
        for device in [device for process in own for device in process["devices"]][:1]:
            for word in [*CLASSES.values(), "cb", "kernel"]:
                for whose in ["", f"&pid={os.getpid()}"]:
                    peak = self.account.get(f"/api/v1/peak/{device['id']}?of={word}{whose}")
                    live = sum(group["bytes"] for group in peak["groups"])
                    equal(f"live at the peak of {word}{whose}", live, peak["peak_bytes"])

    def compare_figures(self, snapshot):
        """Totals: of every allocator, and of every device over its allocators."""
        devices = {device["id"]: device for device in snapshot["devices"]}
        for class_name, word in CLASSES.items():
            charged = {}
            for meshes in self.meshes_by_chips():
                chips = meshes[0].get_device_ids()
                for chip in chips:
                    equal(f"device {chip} is known", chip in devices, True)
                own = own_allocators(devices, chips, word)
                for mesh in meshes:
                    view = ttnn.get_memory_view(mesh, getattr(ttnn.BufferType, class_name))
                    held = view.total_bytes_allocated_per_bank * view.num_banks
                    self.largest = max(self.largest, held)
                    compare_allocator(own.pop(self.numbers[mesh.id()], None), mesh, word, view)
                    for chip in chips:
                        charged[chip] = charged.get(chip, 0) + held
                        # Under several allocators a device has less in one piece than any.
                        if len(self.meshes) == 1:
                            ours = devices[chip][word]["largest_free_bytes_per_bank"] or 0
                            theirs = view.largest_contiguous_bytes_free_per_bank
                            equal(f"device {chip} {word} largest free", ours, theirs)
                for number, closed in own.items():
                    equal(f"closed mesh {number} {word}", closed["charged_bytes"], 0)
            for chip, held in charged.items():
                ours = devices[chip][word]["charged_bytes"]
                equal(f"device {chip} {word} charged_bytes", ours, held)

    def meshes_by_chips(self):
        """The meshes on the same chips together, in the order in which they were opened."""
        groups = {}
        for mesh in sorted(self.meshes, key=lambda mesh: mesh.id()):
            groups.setdefault(tuple(sorted(mesh.get_device_ids())), []).append(mesh)
        return list(groups.values())

    def compare_buffers(self):
        """Every live buffer: its place, its class, its layout and what it takes of a bank."""
        rows = self.account.rows("buffers")
        for meshes in self.meshes_by_chips():
            chips = sorted(meshes[0].get_device_ids())
            ours = [row for row in rows if sorted(row["device_ids"]) == chips]
            for class_name, word in CLASSES.items():
                told = sorted(
                    (row["address"], row["layout"], row["per_bank_bytes"])
                    for row in ours
                    if row["class"] == word
                )
                held = sorted(
                    buffer for mesh in meshes for buffer in self.held_buffers(mesh, class_name)
                )
                what = f"{word} buffers (address, layout, bytes per bank) on devices {chips}"
                equal_lists(what, told, held)

    def held_buffers(self, mesh, class_name):
        """What the allocator of a mesh holds: address, layout, and bytes of each bank."""
        view = ttnn.get_memory_view(mesh, getattr(ttnn.BufferType, class_name))
        # Blocks count from the beginning of their class, buffers from that of the memory.
        base = self.bases[CLASSES[class_name]]
        blocks = {
            base + int(block["address"]): int(block["size"])
            for block in view.block_table
            if block["allocated"] == "yes"
        }
        buffers = [
            buffer
            for buffer in ttnn._ttnn.reports.get_buffers([mesh])
            if buffer.buffer_type.name == class_name
        ]
        name = f"mesh {mesh.id()} {class_name}"
        if sorted(blocks) != sorted(buffer.address for buffer in buffers):
            raise AccountsDiffer(f"{name}: ttnn's blocks and buffers are not in the same places")
        return [
            (buffer.address, buffer.buffer_layout.name.lower(), blocks[buffer.address])
            for buffer in buffers
        ]

    def compare_sanity(self, snapshot):
        """Nothing was lost, nothing contradicts, and the library's own comparison agrees."""
        own = [process for process in snapshot["processes"] if process["pid"] == os.getpid()]
        equal("processes with this pid", len(own), 1)
        for key in ("lost_events", "anomalies"):
            equal(key, own[0][key], 0)
        equal("incomplete", own[0]["incomplete"], False)
        seen = {kind: count for kind, count in snapshot["anomalies"].items() if count}
        equal("anomalies", seen, {})
        for device in snapshot["devices"]:
            # The first comparison is made when a mesh is opened.
            equal(f"device {device['id']} is verified", device["verified"], True)

    def note_own_comparisons(self):
        """Looks for the library's own comparisons among the last events."""
        ttmem_account.flush()
        for event in self.account.events():
            if event["event"] == "statistics_reported" and event["fields"]["class"] == "dram":
                self.own_comparisons.add(event["time"])

    def require_own_comparisons(self):
        """The library has compared more often than when the mesh was opened."""
        times = len(self.own_comparisons)
        equal("statistics were reported more than once", times > 1, True)
        return f"{times} comparisons of its own"

    def write_summary(self, arguments, *others):
        """Says how it went; only a program that reaches this has passed."""
        if EVERY_FAMILY in os.environ:
            _runtime, *families = ttmem_account.hook_status().splitlines()
            equal("there are families of hooks", bool(families), True)
            off = [family for family in families if not family.endswith(": on")]
            equal("families of hooks that are not on", off, [])
        said = [f"{self.steps} steps equal", *others]
        said.append(f"at most {self.largest / (1 << 20):.1f} MiB of a class")
        for reason, count in self.refusals.most_common():
            said.append(f"{count} refused by ttnn: {reason}")
        with open(arguments.summary, "w", encoding="utf-8") as summary:
            summary.write("; ".join(said))


def own_allocators(devices, chips, word):
    """The allocators of this process and a class on these chips and no other, by our number.

    They are told once by each chip, which is as it should be: all must tell the same.
    """
    told = {}
    for chip, device in devices.items():
        for allocator in device["allocators"]:
            if allocator["pid"] == os.getpid() and allocator["class"] == word:
                told.setdefault(allocator["mesh"], {})[chip] = allocator
    found = {}
    for number, by_chip in told.items():
        if sorted(by_chip) == sorted(chips):
            first = by_chip[chips[0]]
            for chip, allocator in by_chip.items():
                equal_ours(f"allocator of {word} on device {chip}", allocator, first)
            found[number] = first
    return found


def compare_allocator(own, mesh, word, view):
    """Our account of the allocator of a mesh, against its own."""
    name = f"mesh {mesh.id()} {word}"
    equal(f"{name} has an allocator", own is not None, True)
    banks = view.num_banks
    expected = {
        "charged_bytes": view.total_bytes_allocated_per_bank * banks,
        "largest_free_bytes_per_bank": view.largest_contiguous_bytes_free_per_bank,
        "capacity_bytes": view.total_bytes_per_bank * banks,
        "banks": banks,
    }
    for key, value in expected.items():
        equal(f"{name} {key}", own[key], value)


def equal(what, ours, theirs):
    """Names the difference, if there is one."""
    if ours != theirs:
        raise AccountsDiffer(f"{what}: we say {ours}, ttnn says {theirs}")


def equal_ours(what, one, other):
    """Two things that our server says must be the same."""
    if one != other:
        raise AccountsDiffer(f"{what}: we say {one}, and elsewhere {other}")


def equal_lists(what, ours, theirs):
    """As `equal`, with the first place at which two lists part."""
    if ours == theirs:
        return
    pairs = zip(ours, theirs)
    place = next((n for n, (one, other) in enumerate(pairs) if one != other), None)
    if place is None:
        place = min(len(ours), len(theirs))
    raise AccountsDiffer(
        f"{what}: we have {len(ours)}, ttnn has {len(theirs)}; number {place} is with us"
        f" {ours[place : place + 1]}, with ttnn {theirs[place : place + 1]}"
    )
