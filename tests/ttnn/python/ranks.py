"""`ttmem run -- mpirun`: four ranks that use ttnn, each exact, and the odd ones named."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from ttmem_program import CLOSED, OPENED, environment_of_user, require, write_model

# Each rank has a board of its own: ttnn is not to make one system of them.
ALONE = """
import os, signal, sys, time
from pathlib import Path

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for name in [name for name in os.environ if name.startswith(("OMPI_", "PMIX_", "TT_MESH_")) and "backing" not in name]:
    del os.environ[name]
"""
WORK = """
weights = zeros(2048 if rank == 3 else 1024, ttnn.DRAM_MEMORY_CONFIG)
activations = zeros(512, ttnn.L1_MEMORY_CONFIG)
print("held", rank, held(ttnn.BufferType.DRAM), held(ttnn.BufferType.L1), flush=True)
if sys.argv[1:] == ["killed"]:
    Path(f"rank-{rank}").touch()
    while rank == 1 and not all(Path(f"rank-{other}").exists() for other in range(4)):
        time.sleep(0.01)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        signal.pause()
activations = None
if rank != 1:
    weights = None
"""
MODEL = ALONE + OPENED + WORK + CLOSED

# Whoever runs the tests may be root, and the machine may have fewer cores than ranks.
MPI_ARGUMENTS = ["--allow-run-as-root", "--oversubscribe", "--mca", "oob_tcp_if_include", "lo"]
MPIRUN = ["mpirun", *MPI_ARGUMENTS]


class Job:
    """Runs ranks under `ttmem run` as a user does, with a server of its own."""

    def __init__(self, rows, columns):
        self.model = write_model(MODEL, rows, columns)
        self.ttmem = os.environ["TTMEM_TESTS_PROGRAM"]
        self.environment = environment_of_user()

    def run(self, *launcher, **more):
        """The exit code, the report, and what each rank's allocator held."""
        report = Path("report.json")
        command = [self.ttmem, "run", "--json", f"--report={report}", "--", *launcher]
        environment = {**self.environment, **more}
        outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        # tt-run has a prefix before each line of a rank.
        held = re.findall(r"^(?:\[\d+,\d+\]<stdout>: ?)?held (\d+) (\d+) (\d+)$", outcome.stdout, re.MULTILINE)
        held = {int(rank): {"dram": int(dram), "l1": int(l1)} for rank, dram, l1 in held}
        require(report.exists(), f"no report:\n{outcome.stderr}")
        require(len(held) == 4, f"only ranks {sorted(held)} came far:\n{outcome.stdout}{outcome.stderr}")
        return outcome.returncode, json.loads(report.read_text()), held

    def python(self, *arguments):
        return [sys.executable, str(self.model), *arguments]

    @contextmanager
    def second_server(self):
        """A server beside that of the run, and a function that asks it."""
        socket = Path("second.sock").absolute()
        command = [self.ttmem, "serve", "--quiet", "--socket", socket]
        server = subprocess.Popen(command, env=self.environment)

        def status():
            asked = [self.ttmem, "status", "--json", "--socket", socket]
            said = subprocess.run(asked, env=self.environment, capture_output=True, text=True, check=True)
            return json.loads(said.stdout)

        try:
            yield socket, status
        finally:
            server.terminate()
            server.wait()


def peaks(rank):
    return {kind: rank["peak_bytes"][kind] for kind in ("dram", "l1")}


def check_ranks(job):
    """One rank takes more, one leaks, one reports to another server."""
    with job.second_server() as (socket, status):
        elsewhere = ["-x", f"TTMEM_SOCKET={socket}"]
        launched = [*MPIRUN, "-n", "2", *job.python(), ":", "-n", "1", *elsewhere, *job.python(), ":", "-n", "1", *job.python()]
        code, report, held = job.run(*launched)
        processes = status()["processes"]
    require(code == 0, f"code {code}")
    ranks = report["ranks"]
    require(ranks["world_size"] == 4, ranks)
    found = {rank["rank"]: peaks(rank) for rank in ranks["ranks"]}
    here = {rank: held[rank] for rank in (0, 1, 3)}
    require(found == here, f"{found}, the allocators {here}")
    require(ranks["missing"] == [2], ranks["missing"])
    labels = [process["labels"].get("rank") for process in processes]
    require(labels == ["2"], f"the other server has the ranks {labels}")
    most = {kind: max(on["peak"][kind] for on in processes[0]["devices"]) for kind in ("dram", "l1")}
    require(most == held[2], f"the other server has {most}, the allocator {held[2]}")
    leaking = [rank["rank"] for rank in ranks["ranks"] if rank["held_at_close"]["buffers"]]
    require(leaking == [1], f"ranks {leaking} left something")
    [most] = ranks["imbalances"]
    expected = {"class": "dram", "rank": 3, "bytes": held[3]["dram"], "median_bytes": held[0]["dram"]}
    require(most == expected, f"{most}, not {expected}")
    require(ranks["first_ended"] is None, ranks["first_ended"])


def check_killed(job):
    """The launcher ends all when one is killed; the first is named."""
    code, report, held = job.run(*MPIRUN, "-n", "4", *job.python("killed"))
    require(code != 0, "mpirun took no notice")
    ranks = report["ranks"]
    found = {rank["rank"]: peaks(rank) for rank in ranks["ranks"]}
    require(found == held and len(found) == 4, f"{found}, the allocators {held}")
    require(ranks["first_ended"]["rank"] == 1, ranks["first_ended"])
    require(ranks["missing"] == [], ranks["missing"])


def check_tt_run(job):
    """ttnn's own launcher, with a board for each of four ranks."""
    packages = os.environ["TTMEM_TESTS_PACKAGES"]
    descriptor = os.environ["TT_METAL_MOCK_CLUSTER_DESC_PATH"]
    home = Path(importlib.util.find_spec("ttnn").origin).parent
    graph = home / "tt_metal/fabric/mesh_graph_descriptors/n150_mesh_graph_descriptor.textproto"
    bindings = [{"rank": rank, "mesh_id": rank, "mesh_host_rank": 0} for rank in range(4)]
    # JSON is YAML.
    Path("bindings.yaml").write_text(json.dumps({"rank_bindings": bindings, "mesh_graph_desc_path": str(graph)}))
    boards = {"rank_to_cluster_mock_cluster_desc": {rank: descriptor for rank in range(4)}}
    Path("boards.yaml").write_text(json.dumps(boards))
    launcher = [Path(sys.executable).with_name("tt-run"), "--bare", "--mpi-args", " ".join(MPI_ARGUMENTS)]
    launcher += ["--rank-binding", "bindings.yaml", "--mock-cluster-rank-binding", "boards.yaml"]
    code, report, held = job.run(*launcher, *job.python(), PYTHONPATH=packages, TT_METAL_HOME=str(home))
    require(code == 0, f"code {code}")
    ranks = report["ranks"]
    found = {rank["rank"]: peaks(rank) for rank in ranks["ranks"]}
    require(found == held, f"{found}, the allocators {held}")
    require(ranks["world_size"] == 4 and ranks["missing"] == [], ranks)


def main():
    summary, rows, columns, _seed = sys.argv[1:]
    said = "SKIPPED: there is no mpirun"
    if shutil.which("mpirun") or os.environ.get("CI") == "true":
        job = Job(rows, columns)
        check_ranks(job)
        check_killed(job)
        check_tt_run(job)
        said = "twelve ranks equal to their allocators; the odd ones are named"
    with open(summary, "w", encoding="utf-8") as file:
        file.write(said)


if __name__ == "__main__":
    main()
