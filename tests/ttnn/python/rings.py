"""Follows the config ring: what programs take of it, where they lie, and when it begins anew.

The ring's own rules are the second witness: a program lies behind the one before it, or at the
beginning of the ring if it does not fit there, and what it takes is what its offsets came to,
which the runtime is asked for itself when a program is sent for the first time.
"""

import os

import ttmem_account
import ttnn
from tensors import zeros
from ttmem_check import GRID_REFUSALS, Arguments, Check, close_board, open_board
from ttmem_program import require

ROUNDS = 60
# Long before, a mesh is where another was, and so are its managers.
REOPENINGS = 10
SHAPE = [1, 1, 256, 256]


class Ring:
    """The ring of the compute cores, followed by its events."""

    def __init__(self, account):
        self.account = account
        self.base = self.end = 0
        self.next = None
        self.last_address = None
        self.last_sync = 0
        self.taken = self.wraps = self.stalls = 0
        self.finalized = {}
        self.sizes = {}
        self.commands = {}
        self.states = {}

    def opened(self):
        """Takes the ring as the account has it, with nothing in it."""
        rings = self.account_rings()
        require(rings, "there is no ring")
        require(all(ring["entries"] == [] for ring in rings), f"rings are not empty: {rings}")
        ring = rings[0]
        opened = [event["fields"] for event in self.last_events() if event["event"] == "config_ring_opened"]
        opened = [fields for fields in opened if fields["core_type"] == "tensix"]
        require(len(opened) == 1, f"opened {len(opened)} times")
        self.base = opened[0]["base"]
        self.end = self.base + opened[0]["size_bytes"]
        require(ring["capacity_bytes"] == opened[0]["size_bytes"], f"{ring}")
        require(ring["reserves"] == 0, f"somebody took room already: {ring}")

    def account_rings(self):
        """The first sub-device's ring of compute cores, on every device."""
        ttmem_account.flush()
        devices = self.account.snapshot()["devices"]
        rings = [ring for device in devices for ring in device["ring"]]
        own = [ring for ring in rings if ring["pid"] == os.getpid()]
        return [ring for ring in own if ring["core_type"] == "tensix" and ring["sub_device"] == 0]

    def follow(self, run):
        """Runs something and follows what it did to the ring; the programs that were sent."""
        before = self.last_events()
        run()
        sent = []
        for event in self.last_events_behind(before[-1]):
            name, fields = event["event"], event["fields"]
            if name == "program_finalized":
                self.finalized[fields["program"]] = fields["config_bytes"] + fields["text_bytes"]
            elif name == "dispatched":
                sent.append(fields["program"])
            elif name == "commands_cached":
                require(fields["program"] not in self.commands, f"made twice: {fields}")
                self.commands[fields["program"]] = fields["bytes"]
            elif name == "binary_status_changed":
                self.states.setdefault(fields["program"], []).append(fields["status"])
            elif name == "config_ring_reserved" and fields["core_type"] == "tensix":
                self.stalls += fields["stalled"]
            elif name == "config_ring_allocated" and fields["core_type"] == "tensix":
                self.take(fields)
        return sent

    def last_events(self):
        ttmem_account.flush()
        return self.account.events()

    def last_events_behind(self, known):
        events = self.last_events()
        require(known in events, "events were missed")
        return events[events.index(known) + 1 :]

    def take(self, fields):
        """Follows one program into the ring."""
        address, size = fields["address"], fields["size_bytes"]
        require(self.base <= address and address + size <= self.end, f"outside of the ring: {fields}")
        wraps = self.last_address is not None and address < self.last_address
        if self.next is not None and address != self.next:
            require(address == self.base, f"neither behind the last nor at the beginning: {fields}")
        self.wraps += wraps
        self.taken += 1
        self.next, self.last_address = address + size, address
        require(fields["sync"] > self.last_sync, f"it ends before the one before: {fields}")
        self.last_sync = fields["sync"]
        self.sizes.setdefault(fields["program"], set()).add(size)

    def compare(self):
        """Holds the account against what was followed."""
        for ring in self.account_rings():
            require(ring["reserves"] == self.taken, f"{self.taken} were taken: {ring}")
            require(ring["wraps"] == self.wraps, f"{self.wraps} wraps were followed: {ring}")
            require(ring["stalls"] == self.stalls, f"{self.stalls} stalls were followed: {ring}")
            used = sum(entry["size_bytes"] for entry in ring["entries"])
            require(ring["used_bytes"] == used <= ring["capacity_bytes"], f"{ring}")
            places = sorted((entry["address"], entry["size_bytes"]) for entry in ring["entries"])
            for (address, size), (behind, _size) in zip(places, places[1:]):
                require(address + size <= behind, f"entries lie upon each other: {ring}")
            require(ring["entries"][-1]["address"] == self.last_address, f"{ring}")
        for program, sizes in self.sizes.items():
            if program in self.finalized:
                require(sizes == {self.finalized[program]}, f"{program} took {sizes} bytes")


def operations(device):
    a = zeros(device, SHAPE, ttnn.DRAM_MEMORY_CONFIG)
    b = zeros(device, SHAPE, ttnn.L1_MEMORY_CONFIG)
    return {
        "add": lambda: ttnn.add(a, a),
        "add in l1": lambda: ttnn.add(b, b),
        "softmax": lambda: ttnn.softmax(a, -1),
        "layer_norm": lambda: ttnn.layer_norm(a),
        "matmul": lambda: ttnn.matmul(a, a),
        "transpose": lambda: ttnn.transpose(a, -2, -1),
    }


def newest_mesh(account):
    """Our number of the mesh that was opened last."""
    allocators = [own for device in account.snapshot()["devices"] for own in device["allocators"]]
    return max(own["mesh"] for own in allocators if own["pid"] == os.getpid())


def reopen(ring, arguments, name):
    """Opens the board again and again: each time its rings are those of the open mesh alone."""
    for time in range(REOPENINGS):
        device = open_board(arguments)
        run = operations(device)
        run[name]()
        rings = ring.account_rings()
        meshes = {told["mesh"] for told in rings}
        newest = newest_mesh(ring.account)
        require(meshes == {newest}, f"opening {time} is mesh {newest}, its rings are on {meshes}")
        require(all(told["reserves"] >= 1 for told in rings), f"nobody took room: {rings}")
        run.clear()
        close_board(device, arguments)
        require(not ring.account_rings(), f"opening {time}: a ring outlives its mesh")


def use_second_queue(ring, arguments, name):
    """The second queue of a mesh has rings of its own, which are not those of the account."""
    device = open_board(arguments, num_command_queues=2)
    run = operations(device)
    before = ring.last_events()[-1]
    with ttnn.command_queue(1):
        run[name]()
    events = [event["event"] for event in ring.last_events_behind(before)]
    require("dispatched" in events, f"nothing was sent: {events}")
    told = [event for event in events if event.startswith("ring_")]
    require(told == [], f"rings of the second queue are told of: {told}")
    rings = ring.account_rings()
    require(rings and all(ring["reserves"] == 0 for ring in rings), f"{rings}")
    run.clear()
    close_board(device, arguments)


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    ring = Ring(check.account)
    ring.opened()
    refusals = () if arguments.is_one_chip else GRID_REFUSALS
    run = check.step("create inputs", lambda: operations(device))
    possible = {}
    for name, operation in run.items():
        if check.step(name, lambda: ring.follow(operation), refusals):
            possible[name] = operation
    require(len(ring.finalized) >= len(possible) >= 3, f"too few programs: {ring.finalized}")
    for _round in range(ROUNDS):
        for operation in possible.values():
            require(len(ring.follow(operation)) >= 1, "nothing was sent")
        ring.compare()
    check.compare("all rounds")
    require(ring.wraps > 10, f"only {ring.wraps} wraps")
    for program, size in ring.finalized.items():
        require(size > 0, "a program takes nothing")
        # The mock has no binaries to send: only that they are there is said.
        require(ring.states[program] == ["committed"], f"{program}: {ring.states}")
        require(ring.commands[program] > 0, f"{program} has no commands")
    name = next(iter(possible))
    run.clear()
    possible.clear()
    close_board(device, arguments)
    require(not ring.account_rings(), "a ring outlives its mesh")
    reopen(ring, arguments, name)
    use_second_queue(ring, arguments, name)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
