"""`ttmem doctor` reads the counters that ttnn itself keeps in shared memory: its own words, of a process that lives
and of one that was killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import ttmem_machine
import ttnn
from tensors import zeros
from ttmem_check import Arguments, close_board, equal, open_board

SIDE = 1024
# What is asked for: elements of two bytes. The allocator takes more.
REQUESTED = SIDE * SIDE * 2

KILLED = '''
import os, signal
import ttnn

rows, columns = {rows}, {columns}
if rows * columns == 1:
    device = ttnn.open_device(device_id=0)
else:
    device = ttnn.open_mesh_device(ttnn.MeshShape(rows, columns))
held = ttnn.zeros([1, 1, {side}, {side}], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)
os.kill(os.getpid(), signal.SIGKILL)
'''


def environment():
    """That of a user's shell."""
    kept = os.environ.items()
    return {name: value for name, value in kept if name not in ("LD_PRELOAD", "TTMEM_SOCKET")}


def counters(pid):
    """What is counted for a process, by the unique id of the chip."""
    command = [os.environ["TTMEM_TESTS_PROGRAM"], "doctor", "--json"]
    said = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    document = json.loads(said.stdout)
    machine = {unique_id for unique_id, _board in ttmem_machine.chips().values()}
    files = [file for file in document["upstream"] if file["id"] in machine]
    equal("files", {file["id"] for file in files}, machine)
    found = {}
    for file in files:
        equal("error", file["error"], None)
        equal("source", file["source"], "shm")
        for process in file["processes"]:
            if process["pid"] == pid:
                found[file["id"]] = process
    return found


def differences(after, before, kind):
    """How much more is counted on each chip."""
    none = {"bytes": {kind: 0}}
    return {chip: process["bytes"][kind] - before.get(chip, none)["bytes"][kind] for chip, process in after.items()}


def check_alive(device):
    """Tensors of this process."""
    before = counters(os.getpid())
    for memory, kind in ((ttnn.DRAM_MEMORY_CONFIG, "dram"), (ttnn.L1_MEMORY_CONFIG, "l1")):
        tensor = zeros(device, [1, 1, SIDE, SIDE], memory)
        held = counters(os.getpid())
        equal("states", {process["state"] for process in held.values()}, {"alive"})
        equal(f"{kind} of a tensor", set(differences(held, before, kind).values()), {REQUESTED})
        equal("chips", len(held), len(ttmem_machine.chips()))
        ttnn.deallocate(tensor)
        freed = counters(os.getpid())
        equal(f"{kind} when it is freed", set(differences(freed, before, kind).values()), {0})


def check_killed(arguments):
    """A process that could not take its figures out."""
    program = Path("killed.py")
    program.write_text(KILLED.format(rows=arguments.rows, columns=arguments.columns, side=SIDE).lstrip())
    with subprocess.Popen([sys.executable, str(program)], env=environment()) as process:
        process.wait()
    equal("how it ended", process.returncode, -9)
    left = counters(process.pid)
    equal("states of the killed", {process["state"] for process in left.values()}, {"dead"})
    equal("what it left", all(process["bytes"]["dram"] >= REQUESTED for process in left.values()), True)


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check_alive(device)
    close_board(device, arguments)
    check_killed(arguments)
    with open(arguments.summary, "w", encoding="utf-8") as summary:
        summary.write("what ttnn counts itself, of a process that lives and of one that was killed")


if __name__ == "__main__":
    main()
