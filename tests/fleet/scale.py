"""Many hosts in one Prometheus: what it costs.

One server has a real account: the model plays on as many devices as a host has, and its `/metrics` is taken again and
again while it plays. Those pages are then served as many hosts, each at a moment of its own, so that values change from
scrape to scrape as they do in life. Prints what Prometheus has and needs, and how long questions take.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml
from engines import (
    DEPLOY,
    TTMEM,
    Host,
    get,
    run,
    say,
    free_port,
    start_prometheus,
    wait_for,
)

INTERVAL = 15

# Processes that hold memory on each host: a rank for each device of a large board.
PROCESSES = 8

SCENARIO = """
about = "every chip holds something, and it moves"
boards = ["galaxy"]

steps = [
  { run = "request", for = "i", times = 1000000 },
]

[values]
tokens = { from = 32, to = 4096, step = 32 }

[device]
l1_small_size = 32768
trace_region_size = "24M"

[blocks]
request = [
  { pick = "tokens" },
  { tensor = "x", shape = [1, 1, "tokens", 4096] },
  { tensor = "y", shape = [1, 1, 32, "tokens"], memory = "l1" },
  { free = ["x", "y"] },
]
"""


def pages(processes, board, devices, count):
    """Pages of a real server on whose devices the model plays."""
    host = Host(processes, "model")
    scenario = processes.folder / "scale.toml"
    scenario.write_text(SCENARIO.replace('"galaxy"', f'"{board}"'))
    for _process in range(PROCESSES):
        host.play(scenario, rate=300)

    def has_all():
        page = get(f"http://{host.instance}/metrics?min_age=0")
        # Known in full: a device whose mesh was not opened yet has fewer samples.
        known = set(re.findall(r'ttmem_device_largest_fit_bytes\{device="([^"]+)",class="trace"', page))
        own = set(re.findall(r'ttmem_process_charged_bytes\{pid="(\d+)"', page))
        return len(known) >= devices and len(own) >= PROCESSES

    wait_for(f"{devices} devices and {PROCESSES} processes", has_all)
    found = []
    while len(found) < count:
        found.append(get(f"http://{host.instance}/metrics?min_age=0").encode())
        time.sleep(0.5)
    host.stop_playing()
    return found


class Simulated:
    """All hosts behind one address, each below a path of its own."""

    def __init__(self, processes, found):
        self.sent_bytes = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                number = int(self.path.split("/")[2])
                # A moment of its own, which goes on: no two hosts change together.
                moment = int(time.time() / INTERVAL) + number * 7
                body = found[moment % len(found)]
                outer.sent_bytes += len(body)
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        processes.callback(self.server.shutdown)


def configuration(simulated, hosts, folder):
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    del config["alerting"]
    config["rule_files"] = [str(DEPLOY / "prometheus" / name) for name in config["rule_files"]]
    [job] = config["scrape_configs"]
    groups = [
        {
            "targets": [f"127.0.0.1:{simulated.port}"],
            "labels": {"instance": f"node-{number}.example:9400", "__metrics_path__": f"/host/{number}/metrics"},
        }
        for number in range(hosts)
    ]
    (folder / "targets.json").write_text(json.dumps(groups))
    job["file_sd_configs"] = [{"files": [str(folder / "targets.json")]}]
    return yaml.safe_dump(config)


def resident_bytes(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def folder_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def of_itself(url, name):
    """A figure that Prometheus exposes of itself."""
    page = get(f"{url}/metrics")
    found = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else None


QUESTIONS = {
    "fullest hosts": "topk(10, instance_class:ttmem_used:max_ratio)",
    "every device": "1 - ttmem_device_free_bytes / (ttmem_device_capacity_bytes > 0)",
    "devices in pieces": 'count(1 - ttmem_device_largest_fit_bytes{class=~"dram|l1"} / (ttmem_device_free_bytes > ttmem_device_capacity_bytes / 50) > 0.75)',
    "refused lately": "max by (instance) (increase(ttmem_failures_total[10m]))",
    "a week of the fleet, recorded": "max_over_time(instance_class:ttmem_used:max_ratio[1w])",
    "a week of the fleet, all samples": "max by (instance, class) (1 - min_over_time(ttmem_device_free_bytes[1w]) / (max_over_time(ttmem_device_capacity_bytes[1w]) > 0))",
}


def main(processes):
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--hosts", type=int, default=200)
    arguments.add_argument("--board", default="galaxy")
    arguments.add_argument("--devices", type=int, default=32)
    arguments.add_argument("--seconds", type=int, default=600)
    arguments.add_argument("--quick", action="store_true", help="a minute, to see that it runs")
    options = arguments.parse_args()
    if options.quick:
        options.seconds = 60

    found = pages(processes, options.board, options.devices, 24)
    lines = [line for line in found[0].decode().splitlines() if line and not line.startswith("#")]
    say(f"a page of one host: {len(lines)} samples, {len(found[0])} bytes; {options.devices} devices, {PROCESSES} processes")
    simulated = Simulated(processes, found)
    config = configuration(simulated, options.hosts, processes.folder)
    prometheus, process = start_prometheus(processes, "prometheus", config, free_port())
    wait_for("every host", lambda: len(prometheus.query("ttmem_up")) == options.hosts)
    began, processor = time.monotonic(), processor_seconds(process.pid)
    most = 0
    while time.monotonic() - began < options.seconds:
        most = max(most, resident_bytes(process.pid))
        time.sleep(1)
    elapsed = time.monotonic() - began
    processor = (processor_seconds(process.pid) - processor) / elapsed

    series = of_itself(prometheus.url, "prometheus_tsdb_head_series")
    samples = of_itself(prometheus.url, "prometheus_tsdb_head_samples_appended_total")
    up = len(prometheus.query("up == 1"))
    assert up == options.hosts, f"{up} of {options.hosts} hosts are scraped"
    durations = [value for _labels, value in prometheus.query("scrape_duration_seconds")]
    per_host = [value for _labels, value in prometheus.query("scrape_samples_scraped")]
    say(f"{options.hosts} hosts x {options.devices} devices, every {INTERVAL} s, for {elapsed:.0f} s")
    say(f"series: {series:.0f} ({statistics.mean(per_host):.0f} of each host); samples per second: {sum(per_host) / INTERVAL:.0f}")
    if samples:
        say(f"samples appended: {samples:.0f}")
    say(f"memory: {most / 2**20:.0f} MiB at most, {most / series / 1024:.1f} KiB per series")
    say(f"processor: {processor:.2f} of a core")
    on_disk = folder_bytes(processes.folder / "prometheus")
    say(f"on disk: {on_disk / 2**20:.0f} MiB, of it the log of what is in memory")
    say(f"scrapes: median {statistics.median(durations) * 1000:.0f} ms, slowest {max(durations) * 1000:.0f} ms")
    groups = json.loads(get(f"{prometheus.url}/api/v1/rules"))["data"]["groups"]
    rules = max(group["evaluationTime"] for group in groups)
    say(f"rules: slowest group {rules * 1000:.0f} ms every 30 s")
    for what, expression in QUESTIONS.items():
        times, processor = [], processor_seconds(process.pid)
        for _time in range(5):
            asked = time.monotonic()
            rows = len(prometheus.query(expression))
            times.append(time.monotonic() - asked)
        processor = (processor_seconds(process.pid) - processor) / len(times)
        say(f"query, {what}: median {statistics.median(times) * 1000:.0f} ms, {processor * 1000:.0f} ms of processor, {rows} rows")
    asked = time.monotonic()
    answer = subprocess.run([TTMEM, "fleet", "--prometheus", prometheus.url, "--json"], check=True, capture_output=True, text=True)
    took = time.monotonic() - asked
    hosts = len(json.loads(answer.stdout)["hosts"])
    assert hosts == options.hosts, hosts
    say(f"ttmem fleet: {took * 1000:.0f} ms for {hosts} hosts")


if __name__ == "__main__":
    run(main)
