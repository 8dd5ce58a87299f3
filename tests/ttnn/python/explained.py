"""Fails in every way memory can fail in, and holds each explanation against the allocator.

Verdict, figures and culprits must be those of the allocator's own block table, lines of Python those
of the calls. What is proposed is
carried out: with the buffers released, or the region as large as it says, the request fits, and
with any less it does not.
"""

import inspect
import os

# Read by the library at its first report.
os.environ["TTMEM_PYTHON"] = "1"

import ttmem_account  # noqa: E402
import ttnn  # noqa: E402
from operation_kinds import Inputs  # noqa: E402
from tensors import OUT_OF_MEMORY, empty, fill, small_sharded, zeros  # noqa: E402
from ttmem_check import (  # noqa: E402
    CLASSES,
    Arguments,
    Check,
    close_board,
    equal,
    open_board,
)
from ttmem_program import message_figures  # noqa: E402

MEETS_BUFFER = "clash with L1 buffers"
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
# What a region's size is a multiple of.
SMALL_STEP = {ttnn.Arch.WORMHOLE_B0: 32, ttnn.Arch.BLACKHOLE: 64}


def line_of(function, text):
    """The line of a function that has a text in it, as our reports have it."""
    lines, first = inspect.getsourcelines(function)
    place = next(place for place, line in enumerate(lines) if text in line)
    return f"{function.__code__.co_filename}:{first + place} {function.__name__}"


# All tensors of this program that fill memory come from here.
EMPTY_LINE = line_of(empty, "return ttnn.empty")


class Blocks:
    """A bank of a class by the allocator's own table: what is taken, by address, and its end."""

    def __init__(self, check, device, class_name):
        self.view = ttnn.get_memory_view(device, getattr(ttnn.BufferType, class_name))
        self.base = check.bases.get(CLASSES[class_name], 0)
        self.taken = sorted(
            (self.base + int(block["address"]), int(block["size"]))
            for block in self.view.block_table
            if block["allocated"] == "yes"
        )
        self.end = self.base + self.view.total_bytes_per_bank

    def span(self, first, last):
        """What is free in one piece when the blocks from `first` up to `last` are released."""
        start = sum(self.taken[first - 1]) if first > 0 else self.base
        end = self.taken[last][0] if last < len(self.taken) else self.end
        return start, end

    def smallest_release(self, need):
        """By trying every run of neighbours: fewest bytes, then fewest blocks."""
        found = []
        for first in range(len(self.taken) + 1):
            for last in range(first, len(self.taken) + 1):
                start, end = self.span(first, last)
                if end - start >= need:
                    size = sum(size for _address, size in self.taken[first:last])
                    found.append((size, last - first))
                    break
        return min(found)


class Failures:
    """Steps that must be refused, and what is said of each."""

    def __init__(self, check, device):
        self.check = check
        self.device = device
        self.explained = []

    def refuse(self, name, action, refusals=(OUT_OF_MEMORY,)):
        """The explanation of a step that must be refused, as the newest that the server has."""
        refused = self.check.refused
        self.check.step(name, action, refusals)
        equal(f"{name}: refused", self.check.refused, refused + 1)
        failure = newest(self.check)
        self.explained.append(failure["verdict"])
        return failure

    def refuse_request(self, name, class_name, action, verdict):
        """As `refuse`, of a request to an allocator, with all figures."""
        blocks = Blocks(self.check, self.device, class_name)
        failure = self.refuse(name, action)
        equal(f"{name}: verdict", failure["verdict"], verdict)
        equal(f"{name}: left open", failure["unknown"], [])
        equal(f"{name}: line", failure["python"], EMPTY_LINE)
        lines = {group["owner"]["python"] for group in failure["holders"]}
        equal(f"{name}: lines of the holders", lines, {EMPTY_LINE})
        view, request = blocks.view, failure["request"]
        expected = {
            "class": CLASSES[class_name],
            "banks": view.num_banks,
            "bank_bytes": view.total_bytes_per_bank,
            "allocated_bytes_per_bank": view.total_bytes_allocated_per_bank,
            "free_bytes_per_bank": view.total_bytes_free_per_bank,
            "largest_free_bytes_per_bank": view.largest_contiguous_bytes_free_per_bank,
        }
        for key, value in expected.items():
            equal(f"{name}: {key}", request[key], value)
        held = [(group["buffers"], group["bytes_per_bank"]) for group in failure["holders"]]
        equal(f"{name}: buffers of all holders", sum(n for n, _ in held), len(blocks.taken))
        held = sum(size for _, size in held)
        equal(f"{name}: bytes of all holders", held, view.total_bytes_allocated_per_bank)
        return failure, blocks


def newest(check):
    ttmem_account.flush()
    return check.account.get("/api/v1/failures?count=1")["failures"][0]


def full_and_in_pieces(failures, name, class_name, memory, shape):
    """Capacity, then fragmentation, then what was proposed."""
    check, device = failures.check, failures.device
    double = shape[:2] + [shape[2] * 2, shape[3]]
    live = check.step(f"fill {name}", lambda: fill(device, shape, memory))
    failures.refuse_request(
        f"{name} is full", class_name, lambda: empty(device, double, memory), "capacity"
    )
    for tensor in live[1::2]:
        ttnn.deallocate(tensor)
    del live[1::2]
    failure, blocks = failures.refuse_request(
        f"{name} is in pieces", class_name, lambda: empty(device, double, memory), "fragmentation"
    )
    proposal, need = failure["release"], failure["request"]["need_bytes_per_bank"]
    proposed = (proposal["bytes_per_bank"], proposal["buffers"])
    equal(f"{name}: the smallest release", proposed, blocks.smallest_release(need))
    places = {(block["address"], block["size_bytes"]) for block in proposal["blocks"]}
    equal(f"{name}: released blocks are blocks", places <= set(blocks.taken), True)
    marked = [row["address"] for row in failure["map"] if row["in_release"]]
    equal(f"{name}: marked in the map", sorted(marked), sorted(a for a, _ in places))
    addresses = {address for address, _size in places}
    released = [tensor for tensor in live if tensor.buffer_address() in addresses]
    equal(f"{name}: tensors to release", len(released), len(addresses))
    release(released, None)
    fits = check.step(f"{name}: with that released it fits", lambda: empty(device, double, memory))
    ttnn.deallocate(fits)
    release(live, None)
    check.compare(f"{name} is empty")


def clashes(failures):
    """Storage of programs over L1 tensors: whose they are, and that it runs without them."""
    check, device = failures.check, failures.device
    a = check.step("create", lambda: zeros(device, [1, 1, 1024, 1024], DRAM))
    # What each places, and the name of the operation as the runtime has it. Dataflow buffers are
    # checked before ttnn says which operation sends them; their line is known. Each from a second line,
    # too: the runtime has the program in its cache by then.
    operations = {
        "circular_buffers": (
            lambda: ttnn.add(a, a),
            lambda: ttnn.add(a, a),
            "BinaryNg",
        ),
        "dataflow_buffers": (
            lambda: ttnn.softmax(a, -1),
            lambda: ttnn.softmax(a, -1),
            None,
        ),
    }
    for kind, (operation, from_elsewhere, operation_name) in operations.items():
        live = check.step("fill l1", lambda: fill(device, [1, 1, 512, 512], L1))
        failure = failures.refuse(f"{kind} clash", operation, (MEETS_BUFFER,))
        equal(f"{kind}: verdict", failure["verdict"], "clash")
        equal(f"{kind}: operation", failure["operation"], operation_name)
        equal(f"{kind}: line", failure["python"], lambda_line(operation))
        clash = failure["clash"]
        equal(f"{kind}: storage", clash["storage"], kind)
        blocks = Blocks(check, device, "L1")
        equal(f"{kind}: the lowest buffer", clash["limit"], blocks.taken[0][0])
        start, end = clash["storage_start"], clash["storage_end"]
        in_the_way = [
            (address, size, min(address + size, end) - max(address, start))
            for address, size in blocks.taken
            if address < end
        ]
        said = [
            (each["block"]["address"], each["block"]["size_bytes"], each["overlap_bytes"])
            for each in clash["in_the_way"]
        ]
        equal(f"{kind}: buffers in the way", said, in_the_way)
        lines = {each["block"]["owner"]["python"] for each in clash["in_the_way"]}
        equal(f"{kind}: lines of the buffers in the way", lines, {EMPTY_LINE})
        equal(f"{kind}: overlap", clash["overlap_bytes"], end - clash["limit"])
        # Without one of them it would clash with the next; without all of them it runs.
        addresses = [address for address, _size, _overlap in in_the_way]
        *others, highest = addresses
        release(live, others)
        again = failures.refuse(f"{kind} clash with the last one", operation, (MEETS_BUFFER,))
        equal(f"{kind}: the one that is left", again["clash"]["limit"], highest)
        release(live, [highest])
        check.step(f"{kind} with nothing in the way", operation)
        live += check.step("fill l1 again", lambda: fill(device, [1, 1, 512, 512], L1))
        for number, again in enumerate((from_elsewhere, operation)):
            failure = failures.refuse(f"{kind} clash of a cached program", again, (MEETS_BUFFER,))
            equal(f"{kind}: line of call {number}", failure["python"], lambda_line(again))
        release(live, None)
        check.compare("l1 is empty")
    ttnn.deallocate(a)


def lambda_line(function):
    """A lambda of one line, as our reports have it."""
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno} <lambda>"


def release(tensors, addresses):
    """Frees the tensors at some addresses, or all of them."""
    for tensor in tensors:
        if tensor.is_allocated() and (addresses is None or tensor.buffer_address() in addresses):
            ttnn.deallocate(tensor)


def with_small_region(arguments, size, action):
    """Opens the board with so much of the small region, and takes one step there.

    Gives the explanation if it was refused, and what is held of the region if not.
    """
    device = open_board(arguments, l1_small_size=size, trace_region_size=0)
    check = Check()
    check.watch(device)
    made = check.step(f"small region of {size}", lambda: action(device), (OUT_OF_MEMORY,))
    failure = newest(check) if check.refused else None
    if failure:
        compare_region(check.last_refusal, size, failure)
    blocks = Blocks(check, device, "L1_SMALL")
    held = blocks.end - blocks.taken[0][0] if blocks.taken else 0
    step = SMALL_STEP[device.arch()]
    del made
    close_board(device, arguments)
    return failure, held, step


def compare_region(refusal, given, failure):
    """A region that is too small, by the figures of the allocator's own text."""
    name = f"small region of {given}"
    equal(f"{name}: verdict", failure["verdict"], "region_too_small")
    equal(f"{name}: left open", failure["unknown"], [])
    figures = message_figures(refusal)
    for key, value in figures.items():
        equal(f"{name}: {key}", failure["request"][key], value)
    held = sum(group["bytes_per_bank"] for group in failure["holders"])
    equal(f"{name}: bytes of all holders", held, figures["allocated_bytes_per_bank"])
    setting = failure["setting"]
    equal(f"{name}: setting", (setting["name"], setting["given"]), ("l1_small_size", given))


def enlarged(arguments, name, action):
    """Enlarges the region as it is proposed, from nothing: what is enough in the end is the least."""
    size, verdicts, full = 0, [], False
    while True:
        failure, held, step = with_small_region(arguments, size, action)
        if failure is None:
            break
        verdicts.append(failure["verdict"])
        full = full or bool(failure["holders"])
        equal(f"{name}: more is proposed than was given", failure["setting"]["value"] > size, True)
        size = failure["setting"]["value"]
    equal(f"{name}: the smallest size", size, -(-held // step) * step)
    return verdicts, full


def shards(device):
    return empty(device, [1, 1, 24, 64], small_sharded(6, 64), layout=ttnn.ROW_MAJOR_LAYOUT)


def convolution(device):
    inputs = Inputs(device)
    return inputs, inputs.convolution()


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    failures = Failures(check, device)
    full_and_in_pieces(failures, "dram", "DRAM", DRAM, [1, 1, 16384, 16384])
    full_and_in_pieces(failures, "l1", "L1", L1, [1, 1, 512, 512])
    clashes(failures)
    close_board(device, arguments)
    verdicts = failures.explained
    # On boards of more chips ttnn has other reasons to refuse a convolution.
    if arguments.is_one_chip:
        none, _full = enlarged(arguments, "a tensor", shards)
        equal("no small region: refusals", len(none), 1)
        of_convolution, full = enlarged(arguments, "conv2d", convolution)
        equal("conv2d: refused with some of it in the region", full, True)
        verdicts += none + of_convolution
    kinds = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in sorted(set(verdicts)))
    check.write_summary(arguments, f"explained: {kinds}")


if __name__ == "__main__":
    main()
