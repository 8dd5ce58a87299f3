"""Real engines on loopback, each in a folder of its own, and questions to them."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

# For what should take moments, on a machine that is busy.
PATIENCE = 120

TTMEM = os.environ["TTMEM"]
TOOLS = {name: os.environ[f"FLEET_{name.upper()}"] for name in ("prometheus", "promtool", "alertmanager", "victoria", "nginx", "openssl")}
ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, condition):
    """Waits until a condition gives something; what it gives."""
    deadline = time.monotonic() + PATIENCE
    last = None
    while time.monotonic() < deadline:
        try:
            found = condition()
            if found:
                return found
        except (OSError, urllib.error.URLError, ValueError) as error:
            last = error
        time.sleep(0.2)
    raise AssertionError(f"waited {PATIENCE} s in vain for {what}" + (f": {last}" if last else ""))


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def get_json(url):
    return json.loads(get(url))


class Processes(contextlib.ExitStack):
    """Programs that do not outlive the test, and a folder for what they write."""

    def __init__(self):
        super().__init__()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="ttmem-fleet-")))

    def start(self, name, command, variables=None):
        log = self.enter_context(open(self.folder / f"{name}.log", "wb"))
        # A group of its own: who is ended, is ended with its children.
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | (variables or {}),
        )
        self.callback(end, process)
        return process

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in self.folder.glob("*.log"))


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Prometheus:
    """Anything that answers like one."""

    def __init__(self, url):
        self.url = url

    def query(self, expression, at=None):
        """The values of an expression: labels and value."""
        asked = {"query": expression} | ({"time": at} if at else {})
        answer = get_json(f"{self.url}/api/v1/query?{urllib.parse.urlencode(asked)}")
        assert answer["status"] == "success", (expression, answer)
        result = answer["data"]["result"]
        if answer["data"]["resultType"] == "scalar":
            return [({}, float(result[1]))]
        return [(sample["metric"], float(sample["value"][1])) for sample in result]

    def alerts(self):
        """Alerts that fire: (name, instance)."""
        found = get_json(f"{self.url}/api/v1/alerts")["data"]["alerts"]
        return {(a["labels"]["alertname"], a["labels"].get("instance")) for a in found if a["state"] == "firing"}


def start_prometheus(processes, name, config, port, storage=()):
    path = processes.folder / f"{name}.yml"
    path.write_text(config)
    subprocess.run([TOOLS["promtool"], "check", "config", path], check=True, stdout=subprocess.DEVNULL)
    command = [TOOLS["prometheus"], f"--config.file={path}", f"--web.listen-address=127.0.0.1:{port}"]
    command += [f"--storage.tsdb.path={processes.folder / name}", "--web.enable-lifecycle", *storage]
    process = processes.start(name, command)
    prometheus = Prometheus(f"http://127.0.0.1:{port}")
    wait_for(name, lambda: "Ready" in get(f"{prometheus.url}/-/ready"))
    return prometheus, process


class Host:
    """A server, and a program on the model that can be stopped in its tracks."""

    def __init__(self, processes, name, options=()):
        self.processes, self.name, self.options = processes, name, list(options)
        self.socket = processes.folder / f"{name}.sock"
        self.port = free_port()
        self.instance = f"127.0.0.1:{self.port}"
        self.loads = []
        self.start()

    def start(self):
        command = [TTMEM, "serve", "--quiet", "--no-legacy-socket", "--socket", self.socket]
        command += ["--http", self.instance, "--http-names", *self.options]
        self.server = self.processes.start(f"serve-{self.name}", command)
        wait_for(f"the server {self.name}", lambda: "ttmem_up 1" in get(f"http://{self.instance}/metrics"))

    def play(self, scenario, rate=400):
        """Starts a program that plays a scenario, slowly enough to be met in the middle of it."""
        command = [TTMEM, "load", "--clients", 1, "--rate", rate, "--duration", 3600]
        command += ["--scenario", scenario, "--socket", self.socket]
        # As under Slurm: job and rank are labels.
        variables = {"SLURM_JOB_ID": "4711", "SLURM_PROCID": "0"}
        load = self.processes.start(f"load-{self.name}-{len(self.loads)}", command, variables)
        self.loads.append(load)
        return load

    def freeze(self, what, condition):
        """Waits for a state of the server, then stops the programs: everything stays as it is."""
        wait_for(f"{what} on {self.name}", lambda: condition(self.status()))
        for load in self.loads:
            for pid in children(load.pid):
                os.kill(pid, signal.SIGSTOP)

        def is_still():
            first, second = self.status(), self.status()
            applied = [status["server"]["events_applied"] for status in (first, second)]
            return applied[0] == applied[1] and condition(second)

        wait_for(f"{self.name} to stand still", is_still)

    def stop_playing(self):
        for load in self.loads:
            end(load)
        self.loads.clear()

    def status(self):
        command = [TTMEM, "status", "--json", "--http", f"http://{self.instance}"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def children(pid):
    """The processes that a process started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def used(status, device=0, kind="dram"):
    of_class = status["devices"][device][kind] if status["devices"] else None
    if not of_class or not of_class["capacity_bytes"]:
        return 0
    return of_class["union_bytes"] / of_class["capacity_bytes"]


def say(*words):
    print(*words, flush=True)


def run(main):
    """Runs a test; what the engines said is printed if it fails."""
    with Processes() as processes:
        try:
            main(processes)
        except BaseException:
            say(processes.logs())
            raise
    say("passed")
    sys.exit(0)
