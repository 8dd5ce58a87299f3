"""The recipe for TLS in docs/fleet.md: a real nginx with its lines, scraped by a real Prometheus with those of the scrape job."""

import re
import ssl
import subprocess
import urllib.error
import urllib.request

import yaml
from engines import ROOT, TOOLS, free_port, start_prometheus, wait_for

MANUAL = ROOT / "docs/fleet.md"

# What a distribution's nginx.conf has around a server, with everything in one folder and one process.
AROUND = """daemon off;
master_process off;
pid {folder}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{server}
}}
"""


def make_certificates(folder):
    """An authority, and what it signed for the proxy and for Prometheus; and a stranger, whom nobody signed."""

    def openssl(*words):
        subprocess.run([TOOLS["openssl"], *map(str, words)], check=True, capture_output=True, cwd=folder)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 1)
    for name in ("ca", "stranger"):
        openssl("req", "-x509", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")
    for name in ("proxy", "prometheus"):
        extensions = ("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE")
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key")
        openssl("req", "-x509", *signed, *key, *extensions, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")


def manual_block(kind, word):
    """The only block of a kind in the manual that has a word in it."""
    blocks = re.findall(rf"```{kind}\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    [block] = [block for block in blocks if word in block]
    return block


def replaced(text, places):
    for old, new in places.items():
        assert old in text, f"{old} is not in the manual's recipe"
        text = text.replace(old, str(new))
    return text


def start_nginx(processes, folder, host):
    port = free_port()
    server = replaced(
        manual_block("nginx", "ssl_certificate"),
        {
            "listen 9443 ssl": f"listen 127.0.0.1:{port} ssl",
            "/etc/ttmem/tls.crt": folder / "proxy.crt",
            "/etc/ttmem/tls.key": folder / "proxy.key",
            "/etc/ttmem/prometheus-ca.crt": folder / "ca.crt",
            "http://127.0.0.1:9400": f"http://{host.instance}",
        },
    )
    config = folder / "nginx.conf"
    config.write_text(AROUND.format(folder=folder, server=server))
    command = [TOOLS["nginx"], "-p", folder, "-e", "stderr", "-c", config]
    subprocess.run([*command, "-t"], check=True, capture_output=True)
    processes.start("nginx", command)
    return port


def asked(folder, port, path, client):
    """The code and the text of an answer of the proxy, for whoever has a client's certificate."""
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    if client:
        context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", timeout=30, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def check(processes, host):
    """Scrapes a server through the proxy; who has no certificate, and other paths, are refused."""
    folder = processes.folder / "tls"
    folder.mkdir()
    make_certificates(folder)
    port = start_nginx(processes, folder, host)
    wait_for("the proxy", lambda: asked(folder, port, "/metrics", "prometheus")[0] == 200)
    assert "ttmem_up 1" in asked(folder, port, "/metrics", "prometheus")[1]
    assert asked(folder, port, "/metrics", None)[0] == 400
    assert asked(folder, port, "/metrics", "stranger")[0] == 400
    assert asked(folder, port, "/api/v1/snapshot", "prometheus")[0] == 404
    job = yaml.safe_load(
        replaced(
            manual_block("yaml", "tls_config"),
            {
                "/etc/prometheus/ttmem-ca.crt": folder / "ca.crt",
                "/etc/prometheus/prometheus.crt": folder / "prometheus.crt",
                "/etc/prometheus/prometheus.key": folder / "prometheus.key",
                "node-7.example:9443": f"127.0.0.1:{port}",
            },
        )
    )
    config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, **job}
    prometheus, _process = start_prometheus(processes, "prometheus-tls", yaml.safe_dump(config), free_port())
    target = f'{{job="ttmem",instance="127.0.0.1:{port}"}}'
    wait_for("a scrape through the proxy", lambda: [value for _labels, value in prometheus.query(f"up{target}")] == [1])
    assert prometheus.query(f"ttmem_up{target}"), "what was scraped is a server's page"
