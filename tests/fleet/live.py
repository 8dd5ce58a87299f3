"""Servers with planted causes, scraped by a real Prometheus and a real VictoriaMetrics; a real Alertmanager hears of it.

Every cause is on a host of its own: its alert fires there and nowhere else, no other alert fires, and when the cause is
gone it resolves. Rules and configurations are those of deploy/, with seconds for minutes.
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import threading
import urllib.error
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dashboards
import kubernetes_validate
import proxy
import yaml
from engines import (
    DEPLOY,
    ROOT,
    TOOLS,
    TTMEM,
    Host,
    Prometheus,
    end,
    free_port,
    get,
    run,
    say,
    start_prometheus,
    used,
    wait_for,
)

SCENARIOS = ROOT / "tests/fleet/scenarios"

# A target that was slow once is not absent, and a Prometheus that has just begun has no target.
SLOW = {"TtmemServerAbsent": "10s", "TtmemNoServers": "30s"}

# Those of the last two years.
KUBERNETES = [f"1.{minor}" for minor in range(31, 38)]

CLASSES = ("dram", "l1", "l1_small", "trace")


def quick_rules(folder):
    """The rules with seconds for minutes, by the same expressions."""
    paths = []
    for name in ("ttmem-recording.rules.yml", "ttmem-alerts.rules.yml"):
        rules = yaml.safe_load((DEPLOY / "prometheus" / name).read_text())
        for group in rules["groups"]:
            group["interval"] = "1s"
            for rule in group["rules"]:
                if "for" in rule:
                    rule["for"] = SLOW.get(rule["alert"], "3s")
                expression = rule["expr"]
                rule["expr"] = expression.replace("[10m]", "[20s]")
        path = folder / name
        path.write_text(yaml.safe_dump(rules))
        paths.append(str(path))
    return paths


def configuration(folder, alertmanager_port):
    """deploy/prometheus/prometheus.yml, which scrapes every second what a file in this folder names."""
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = quick_rules(folder)
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager_port}"]
    [job] = config["scrape_configs"]
    # Processes have series of their own at once.
    job["params"] = {"min_age": ["0"]}
    job["file_sd_configs"] = [{"files": [str(folder / "targets.json")], "refresh_interval": "1s"}]
    return config


class Receiver:
    """What Alertmanager sends: (status, alert, instance)."""

    def __init__(self, processes):
        self.heard = set()
        heard = self.heard

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in body["alerts"]:
                    labels = alert["labels"]
                    heard.add((alert["status"], labels["alertname"], labels.get("instance")))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_words):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        processes.callback(self.server.shutdown)


def alertmanager_command():
    """Debian's reads templates at a fixed place below /usr/share, where they are only if its package is installed.

    For one that was taken out of the package, they are laid over that folder, for itself alone.
    """
    program = Path(shutil.which(TOOLS["alertmanager"]))
    share = program.parents[1] / "share"
    if share == Path("/usr/share") or not (share / "prometheus/alertmanager").is_dir():
        return [program]
    lay = f'mount -t overlay overlay -o "lowerdir={share}:/usr/share" /usr/share && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "--", "sh", "-c", lay, "sh", program]


def start_alertmanager(processes, receiver_port):
    config = yaml.safe_load((DEPLOY / "alertmanager/alertmanager.yml").read_text())
    quick = {"group_wait": "1s", "group_interval": "1s"}
    config["route"].update(quick)
    config["route"]["routes"][0].update(quick)
    config["receivers"][0]["webhook_configs"][0]["url"] = f"http://127.0.0.1:{receiver_port}/"
    path = processes.folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config))
    port = free_port()
    command = [*alertmanager_command(), f"--config.file={path}", f"--web.listen-address=127.0.0.1:{port}"]
    command += [f"--storage.path={processes.folder / 'alertmanager'}", "--cluster.listen-address="]
    processes.start("alertmanager", command)
    wait_for("Alertmanager", lambda: "OK" in get(f"http://127.0.0.1:{port}/-/ready"))
    return port


def start_victoria(processes, config):
    """VictoriaMetrics with the same targets; it reads no rules."""
    config = {key: config[key] for key in ("global", "scrape_configs")}
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    for job in config["scrape_configs"]:
        for limit in ("body_size_limit", "label_limit", "label_value_length_limit"):
            job.pop(limit, None)
        job["file_sd_configs"] = [{"files": files["files"]} for files in job["file_sd_configs"]]
    path = processes.folder / "victoria.yml"
    path.write_text(yaml.safe_dump(config))
    port = free_port()
    command = [TOOLS["victoria"], f"-httpListenAddr=127.0.0.1:{port}", f"-promscrape.config={path}"]
    command += [f"-storageDataPath={processes.folder / 'victoria'}", "-promscrape.fileSDCheckInterval=1s"]
    # What was scraped is found at once, not half a minute later.
    command += ["-search.latencyOffset=0s", "-memory.allowedBytes=256MB"]
    processes.start("victoria", command)
    victoria = Prometheus(f"http://127.0.0.1:{port}")
    wait_for("VictoriaMetrics", lambda: "OK" in get(f"{victoria.url}/health"))
    return victoria


def figures_of(status):
    """Samples that a server's document says there are: what it does not know has none."""
    expected = {}
    for device in status["devices"]:
        name = str(device["id"])
        for kind in CLASSES:
            of_class = device[kind]
            charged = of_class["charged_bytes"]
            capacity, union = of_class["capacity_bytes"], of_class["union_bytes"]
            per_bank, banks = of_class["largest_free_bytes_per_bank"], of_class["banks"]
            values = {
                "capacity": capacity,
                "charged": charged,
                "requested": of_class["requested_bytes"],
                "peak": of_class["peak_bytes"],
            }
            if capacity is not None and union is not None:
                values["free"] = max(capacity - union, 0)
                if per_bank is not None and banks is not None:
                    values["largest_fit"] = min(per_bank * banks, values["free"])
            for figure, value in values.items():
                if value is not None:
                    expected[(f"ttmem_device_{figure}_bytes", name, kind)] = value
    return expected


def samples_of(engine, instance):
    names = "capacity|charged|requested|peak|free|largest_fit"
    selector = f'{{__name__=~"ttmem_device_({names})_bytes",instance="{instance}"}}'
    return {(s["__name__"], s["device"], s["class"]): value for s, value in engine.query(selector)}


def check_equal(engine, host):
    """PromQL gives what the server's own document says of the same moment."""
    expected = figures_of(host.status())
    assert len(expected) > 6, expected

    def differences():
        found = samples_of(engine, host.instance)
        return {key: (found.get(key), expected.get(key)) for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}

    last = {}

    def are_equal():
        last.clear()
        last.update(differences())
        return not last

    try:
        wait_for("equal figures", are_equal)
    except AssertionError:
        raise AssertionError(f"{engine.url} and `status --json` of {host.name} differ: {last}") from None
    return len(expected)


def check_fleet(url, hosts, absent, week_source):
    """`ttmem fleet` says of the same Prometheus what the servers say of themselves."""
    asked = [TTMEM, "fleet", "--prometheus", url, "--json"]
    answer = subprocess.run(asked, capture_output=True, text=True)
    assert answer.returncode == 0, answer
    fleet = json.loads(answer.stdout)
    assert fleet["schema"] == 1
    # Nothing that an engine says of a server of ours is taken for something that cannot be.
    assert fleet["impossible_values"] == 0, fleet["impossible_example"]
    assert fleet["week_source"] == week_source, fleet["week_source"]
    by_instance = {host["instance"]: host for host in fleet["hosts"]}
    for host in hosts:
        status = host.status()
        said = by_instance[host.instance]
        assert said["is_up"], said
        assert said["devices"] == len(status["devices"]), said
        charged = sum(device["dram"]["charged_bytes"] for device in status["devices"])
        assert said["dram_charged_bytes"] == charged, (said, charged)
        most = max(used(status, place) for place in range(len(status["devices"])))
        assert abs(said["dram_used"] - most) < 1e-9, (said, most)
        assert said["dram_used_week"] >= said["dram_used"], said
    for host in absent:
        assert not by_instance[host.instance]["is_up"]
    return {(problem["kind"], problem["instance"]) for problem in fleet["problems"]}


def check_discovery(processes):
    """The relabelling of the example for Kubernetes, on labels as its discovery sets them.

    The discovery itself is not in every build of Prometheus: a file takes its place.
    """
    config = yaml.safe_load((DEPLOY / "prometheus/kubernetes.yml").read_text())
    [job] = config["scrape_configs"]
    assert job.pop("kubernetes_sd_configs")[0]["role"] == "pod"
    meta = "__meta_kubernetes_pod_"
    pod = {f"{meta}container_port_name": "http", f"{meta}phase": "Running", f"{meta}host_ip": "10.0.0.7", f"{meta}node_name": "node-7"}
    others = [pod | {f"{meta}phase": "Succeeded"}, pod | {f"{meta}container_port_name": "other"}]
    groups = [{"targets": [f"10.1.0.{place}:9400"], "labels": labels} for place, labels in enumerate([pod, *others])]
    (processes.folder / "pods.json").write_text(json.dumps(groups))
    job["file_sd_configs"] = [{"files": [str(processes.folder / "pods.json")]}]
    token = processes.folder / "token"
    token.write_text("secret\n")
    job["authorization"]["credentials_file"] = str(token)
    path = processes.folder / "kubernetes.yml"
    path.write_text(yaml.safe_dump(config))
    said = subprocess.run([TOOLS["promtool"], "check", "service-discovery", path, "ttmem"], check=True, capture_output=True, text=True)
    found = [target["labels"] for target in json.loads(said.stdout) if target["labels"]]
    [kept] = found
    assert (kept["instance"], kept["node"], kept["job"]) == ("10.0.0.7:9400", "node-7", "ttmem"), kept


def check_manifests(processes):
    """The manifests have the published schemas, and the server's container does what its probes ask for.

    There is no schema of the collector's configuration: that it defines what it names is all that is known.
    """
    for path in sorted((DEPLOY / "kubernetes").glob("*.yml")):
        for document in yaml.safe_load_all(path.read_text()):
            for version in KUBERNETES:
                kubernetes_validate.validate(document, version, strict=True)
                check_is_noticed(document, version)
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes/ttmem.yml").read_text()))
    [daemons] = [document for document in documents if document["kind"] == "DaemonSet"]
    pod = daemons["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["hostPID"] and pod["hostNetwork"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    selected = daemons["spec"]["selector"]["matchLabels"]
    assert selected.items() <= daemons["spec"]["template"]["metadata"]["labels"].items()
    check_container(processes, container)
    collector = yaml.safe_load((DEPLOY / "otel/collector.yml").read_text())
    [pipeline] = collector["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert set(pipeline[kind]) == set(collector[kind]), kind


def check_is_noticed(document, version):
    """A schema that lets a misspelt field pass would say nothing."""
    misspelt = document | {"metadata": document["metadata"] | {"lables": {}}}
    try:
        kubernetes_validate.validate(misspelt, version, strict=True)
    except kubernetes_validate.ValidationError:
        return
    raise AssertionError(f"a misspelt field of {document['kind']} passes in {version}")


def check_container(processes, container):
    """Runs the command of the container with paths of this test: its probes need no token, everything else does."""
    folder = processes.folder / "container"
    # Kubernetes lays a secret out as a link to a file in a folder that it exchanges.
    (folder / "secret").mkdir(parents=True)
    (folder / "secret/token").write_text("secret")
    (folder / "secret/token").chmod(0o400)
    (folder / "token").symlink_to("secret/token")
    port = free_port()
    places = {"/run/ttmem": folder, "/etc/ttmem/token": folder, "0.0.0.0:9400": f"127.0.0.1:{port}"}
    program, *words = container["command"]
    assert program == "ttmem"
    for old, new in places.items():
        assert any(old in word for word in words), (old, words)
        words = [word.replace(old, str(new)) for word in words]
    processes.start("container", [TTMEM, *words])
    [declared] = container["ports"]
    assert declared["containerPort"] == 9400, declared
    for probe in ("readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == declared["name"], asked
        wait_for(f"the {probe}", lambda path=asked["path"]: get(f"http://127.0.0.1:{port}{path}") is not None)
    try:
        get(f"http://127.0.0.1:{port}/metrics")
    except urllib.error.HTTPError as refused:
        assert refused.code == 401, refused
        return
    raise AssertionError("metrics are to be had without the token")


def check_top(url, host):
    """View 0 of `ttmem top`: Enter opens the server of the host that is looked for, 0 goes back."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    command = [TTMEM, "top", "--prometheus", url, "--theme", "dark"]
    variables = os.environ | {"TERM": "xterm-256color"}
    top = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=variables, start_new_session=True)
    os.close(terminal)
    os.set_blocking(master, False)
    seen = bytearray()

    def shows(text):
        def looked():
            with contextlib.suppress(BlockingIOError):
                seen.extend(os.read(master, 65536))
            return text in seen

        wait_for(f"{text} on the screen", looked)
        seen.clear()

    try:
        shows(host.instance.encode())
        os.write(master, b"/" + host.instance.encode() + b"\r")
        shows(b'find "')
        os.write(master, b"\r")
        # The tabs of a server, and its address.
        shows(b"Overview")
        os.write(master, b"0")
        shows(b"Fleet")
        os.write(master, b"q")
        wait_for("the end of top", lambda: top.poll() is not None)
        assert top.returncode == 0, top.returncode
    finally:
        end(top)
        os.close(master)


def check_rules():
    """The rules and their own tests, with the durations that they are used with."""
    folder = DEPLOY / "prometheus"
    rules = sorted(folder.glob("*.rules.yml"))
    subprocess.run([TOOLS["promtool"], "check", "rules", "--lint-fatal", *rules], check=True)
    subprocess.run([TOOLS["promtool"], "test", "rules", folder / "ttmem.test.yml"], check=True)
    subprocess.run([TOOLS["promtool"], "check", "config", folder / "prometheus.yml"], check=True)
    # Every series that a rule or a dashboard names is one of docs/metrics.md, or recorded here.
    manual = set(re.findall(r"ttmem_[a-z0-9_]+", (ROOT / "docs/metrics.md").read_text()))
    recorded = set()
    expressions = []
    for path in rules:
        for group in yaml.safe_load(path.read_text())["groups"]:
            recorded |= {rule["record"] for rule in group["rules"] if "record" in rule}
            expressions += [rule["expr"] for rule in group["rules"]]
    expressions += [target for _title, target in dashboards.expressions()]
    histogram = ("_bucket", "_sum", "_count")
    for expression in expressions:
        for name in re.findall(r"[a-z0-9_:]*ttmem_[a-z0-9_:]+", expression):
            plain = name
            for suffix in histogram:
                plain = plain.removesuffix(suffix) if plain.removesuffix(suffix) in manual else plain
            assert name in recorded or plain in manual, f"{name} is not known: {expression}"


def main(processes):
    check_rules()
    broken = dashboards.check_schema(processes.folder)
    say(f"the dashboards have the published types, {broken} with something wrong have not")
    dashboards.check_contents()
    check_manifests(processes)
    check_discovery(processes)
    say("rules, dashboards, manifests and discovery are in order")

    folder = processes.folder
    calm = Host(processes, "calm")
    causes = {
        "TtmemNearlyFull": Host(processes, "full"),
        "TtmemFragmented": Host(processes, "fragmented"),
        "TtmemGrowing": Host(processes, "growing"),
        "TtmemFailing": Host(processes, "failing"),
        "TtmemIncomplete": Host(processes, "incomplete", ["--max-clients", "1"]),
        "TtmemServerAbsent": Host(processes, "absent"),
    }
    hosts = [calm, *causes.values()]
    calm.play(SCENARIOS / "calm.toml")

    def is_calm(status):
        devices = status["devices"]
        # Programs ran, so that there is something to show of them.
        return len(devices) == 2 and used(status, 0, "l1") > 0.001 and devices[0]["cb_headroom_bytes"] is not None

    calm.freeze("tensors and programs on both chips", is_calm)

    proxy.check(processes, calm)
    say("a server is scraped through nginx with TLS, and by nobody without a certificate")

    receiver = Receiver(processes)
    alertmanager_port = start_alertmanager(processes, receiver.port)
    targets = json.dumps([{"targets": [host.instance for host in hosts]}])
    (folder / "targets.json").write_text(targets)
    config = configuration(folder, alertmanager_port)
    prometheus, _process = start_prometheus(processes, "prometheus", yaml.safe_dump(config), free_port())
    # Rules that were loaded a moment ago have recorded nothing yet; they are not missing.
    asked = subprocess.run([TTMEM, "fleet", "--prometheus", prometheus.url, "--json"], capture_output=True, text=True)
    assert json.loads(asked.stdout)["week_source"] in ("rules_without_values", "recording_rules"), asked
    victoria = start_victoria(processes, config)
    for engine in (prometheus, victoria):
        wait_for("every target", lambda e=engine: len(e.query('up{job="ttmem"} == 1')) == len(hosts))
    say(f"{len(hosts)} servers are scraped by Prometheus and VictoriaMetrics")

    # Nothing is wrong anywhere: nothing fires.
    for _moment in range(8):
        threading.Event().wait(0.5)
        assert prometheus.alerts() == set(), prometheus.alerts()

    # The causes, each on its host.
    full = causes["TtmemNearlyFull"]
    full.play(SCENARIOS / "full.toml")
    full.freeze("a full DRAM", lambda status: used(status) >= 0.955)
    fragmented = causes["TtmemFragmented"]
    fragmented.play(SCENARIOS / "fragmented.toml")
    was = {"most": 0}

    def is_thinned_out(status):
        was["most"] = max(was["most"], used(status))
        peak = status["devices"][0]["dram"]["peak_bytes"] if status["devices"] else 0
        capacity = status["devices"][0]["dram"]["capacity_bytes"] if peak else 1
        return peak / capacity > 0.85 and used(status) < 0.5

    fragmented.freeze("every second block given back", is_thinned_out)
    growing = causes["TtmemGrowing"]
    growing.play(SCENARIOS / "growing.toml")
    growing.freeze("enough marks", lambda status: len(status["marks"]) > 12)
    incomplete = causes["TtmemIncomplete"]
    incomplete.play(SCENARIOS / "calm.toml")
    wait_for("the first client", lambda: incomplete.status()["processes"])
    incomplete.play(SCENARIOS / "calm.toml")
    incomplete.freeze("a client that is refused", lambda status: any(each["incomplete"] for each in status["processes"]))
    end(causes["TtmemServerAbsent"].server)
    failing = causes["TtmemFailing"]
    failing.play(SCENARIOS / "failing.toml")
    failing.freeze("a failure", lambda status: status["failures"]["count"] > 0)

    expected = {(alert, host.instance) for alert, host in causes.items()}
    seen = set()

    def all_fired():
        now = prometheus.alerts()
        assert now <= expected, f"no cause was planted for {now - expected}"
        seen.update(now)
        return seen == expected

    wait_for("every alert", all_fired)
    say("every alert fires where its cause was planted, and no other")
    wait_for("Alertmanager to pass them on", lambda: {("firing", *alert) for alert in expected} <= receiver.heard)
    say("Alertmanager passed all of them on")

    frozen = [calm, full, fragmented, growing, incomplete]
    for engine in (prometheus, victoria):
        figures = sum(check_equal(engine, host) for host in frozen)
        say(f"{figures} figures of {len(frozen)} servers by PromQL of {engine.url} are those of `status --json`")
        # This VictoriaMetrics has no rules.
        week_source = "recording_rules" if engine is prometheus else "samples"
        kinds = check_fleet(engine.url, frozen, [causes["TtmemServerAbsent"]], week_source)
        of_causes = {
            ("full", full.instance),
            ("fragmented", fragmented.instance),
            ("growing", growing.instance),
            ("incomplete", incomplete.instance),
            ("absent", causes["TtmemServerAbsent"].instance),
        }
        failed = {("failing", failing.instance)}
        # A counter of the ten minutes before is still that of a failure.
        assert kinds - failed == of_causes, (engine.url, kinds)
    # Of Prometheus, whose rules the dashboards want.
    evaluated = dashboards.check_queries(prometheus, calm, growing)
    say(f"{evaluated} queries of the dashboards have answers")
    check_top(prometheus.url, full)
    say("`ttmem top --prometheus` shows the fleet, opens a host and goes back")
    text = subprocess.run([TTMEM, "fleet", "--prometheus", prometheus.url], check=True, capture_output=True, text=True).stdout
    say(text)

    # The causes go, and with them the alerts.
    for host in (full, fragmented, growing, incomplete, failing):
        host.stop_playing()
    causes["TtmemServerAbsent"].start()
    wait_for("every alert to resolve", lambda: prometheus.alerts() == set())
    wait_for("Alertmanager to pass that on", lambda: {("resolved", *alert) for alert in expected} <= receiver.heard)
    say("every alert resolved, and Alertmanager passed that on")

    # The scrape configuration finds nothing any more.
    nobody = ("TtmemNoServers", None)
    (folder / "targets.json").write_text("[]")
    wait_for("the alert about no servers at all", lambda: prometheus.alerts() == {nobody})
    wait_for("Alertmanager to pass it on", lambda: ("firing", *nobody) in receiver.heard)
    (folder / "targets.json").write_text(targets)
    wait_for("that alert to resolve", lambda: prometheus.alerts() == set())
    expected.add(nobody)
    say("without any target TtmemNoServers fires, and resolves with the first")
    unexpected = {heard for heard in receiver.heard if heard[1:] not in expected}
    assert unexpected == set(), unexpected


if __name__ == "__main__":
    run(main)
