"""`ttmem doctor` reads the counters that ttnn itself keeps in shared memory: its own words, of a process that lives,
of one that was killed, and when those that were killed have taken every slot."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import ttmem_machine
import ttnn
from tensors import zeros
from ttmem_check import Arguments, close_board, equal, open_board
from ttmem_program import environment_of_user

SIDE = 1024
# What is asked for: elements of two bytes. The allocator takes more.
REQUESTED = SIDE * SIDE * 2

# The slots of a file of version 3: where they begin, how long each is and how many there are.
SLOTS = (856, 120, 64)

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


def machine_ids():
    """The unique ids of this machine's chips."""
    return {unique_id for unique_id, _board in ttmem_machine.chips().values()}


def doctor():
    """What `ttmem doctor` says."""
    command = [os.environ["TTMEM_TESTS_PROGRAM"], "doctor", "--json"]
    said = subprocess.run(command, env=environment_of_user(), capture_output=True, text=True, check=False)
    return json.loads(said.stdout)


def counters(pid):
    """What is counted for a process, by the unique id of the chip: its state and the bytes."""
    machine = doctor()["machine"]
    files = {int(file["id"], 16): file for file in machine["unmatched"]}
    equal("files", machine_ids() <= set(files), True)
    for unique_id in machine_ids():
        equal("error", files[unique_id]["error"], None)
        equal("source", files[unique_id]["source"], "shm")
    counted = (process for process in machine["processes"] if process["pid"] == pid)
    return {
        int(use["id"], 16): {"state": process["state"], "bytes": use["upstream"]}
        for process in counted
        for use in process["unmatched"]
    }


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
    with subprocess.Popen([sys.executable, str(program)], env=environment_of_user()) as process:
        process.wait()
    equal("how it ended", process.returncode, -9)
    left = counters(process.pid)
    equal("states of the killed", {process["state"] for process in left.values()}, {"dead"})
    equal("what it left", all(process["bytes"]["dram"] >= REQUESTED for process in left.values()), True)
    return process.pid


def take_every_slot(killed):
    """As many processes that were killed as there are slots: one of them is enough to tell how each leaves its slot."""
    first, length, count = SLOTS
    for unique_id in machine_ids():
        with open(f"/dev/shm/tt_device_{unique_id}_memory", "r+b") as file:
            content = bytearray(file.read())
            slots = [content[first + length * slot :][:length] for slot in range(count)]
            (left,) = (slot for slot in slots if struct.unpack_from("<i", slot) == (killed,))
            file.seek(first)
            file.write(bytes(left) * count)


def check_full(arguments, killed):
    """No slot is left: ttnn counts nobody, which is said, and what is then to do helps."""
    take_every_slot(killed)
    device = open_board(arguments)
    tensor = zeros(device, [1, 1, SIDE, SIDE], ttnn.DRAM_MEMORY_CONFIG)
    equal("counted without a slot", counters(os.getpid()), {})
    errors = doctor()["machine"]["errors"]
    equal("it is said of", any("not counted" in error for error in errors), True)
    ttnn.deallocate(tensor)
    close_board(device, arguments)
    (check,) = (check for check in doctor()["checks"] if check["name"] == "tt-metal")
    equal("said", "every slot is taken" in check["found"], True)
    (remedy,) = re.findall(r"`(rm [^`]+)`", check["remedy"])
    files = {f"/dev/shm/tt_device_{unique_id}_memory" for unique_id in machine_ids()}
    equal("to be removed", files <= set(remedy.split()), True)
    # Others that it names may be another's.
    for file in files:
        os.remove(file)
    device = open_board(arguments)
    check_alive(device)
    close_board(device, arguments)


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check_alive(device)
    close_board(device, arguments)
    killed = check_killed(arguments)
    check_full(arguments, killed)
    with open(arguments.summary, "w", encoding="utf-8") as summary:
        summary.write("what ttnn counts itself, of one that lives, of the killed, and with no slot left")


if __name__ == "__main__":
    main()
