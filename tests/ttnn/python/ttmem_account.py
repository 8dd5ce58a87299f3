"""What our server says of this process: the account that is compared with ttnn's own.

Needs the environment of an attached process: TTMEM_SOCKET, and for `flush` the preloaded library.
"""

import ctypes
import http.client
import json
import os
import socket

# Flushing takes milliseconds, unless the machine is busy.
FLUSH_MILLIS = 60_000
# The server's own limit of rows in an answer.
ROWS_AT_ONCE = 10_000
# So many of the last events of a process the server keeps.
EVENTS_KEPT = 256


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the server's Unix socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


class Account:
    """Asks the server."""

    def __init__(self):
        self.socket_path = os.environ["TTMEM_SOCKET"]

    def get(self, path):
        """The document at a path of the read API."""
        return self.ask("GET", path)

    def post(self, path):
        """What the server answers to a change."""
        return self.ask("POST", path)

    def ask(self, method, path):
        connection = UnixConnection(self.socket_path)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status} {body.decode()}")
        return json.loads(body)

    def snapshot(self):
        """Totals per device, allocator and process."""
        return self.get("/api/v1/snapshot")

    def events(self):
        """The last events of this process, the last one last."""
        return self.get(f"/api/v1/last?pid={os.getpid()}&count={EVENTS_KEPT}")["events"]

    def last_events(self, name):
        """The fields of the last events of this name, as far as they are kept."""
        return [event["fields"] for event in self.events() if event["event"] == name]

    def last_event(self, name):
        """The fields of the last event of this name; None if it is none of the last ones."""
        fields = self.last_events(name)
        return fields[-1] if fields else None

    def rows(self, kind):
        """All rows of a kind (`buffers`, `cbs`, `kernels`) of this process."""
        rows, cursor = [], ""
        while cursor is not None:
            page = self.get(f"/api/v1/{kind}?limit={ROWS_AT_ONCE}{cursor and '&cursor=' + cursor}")
            rows += [row for row in page["rows"] if row["pid"] == os.getpid()]
            cursor = page["next"]
        return rows


def preloaded():
    """The attach library of this process."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "ttmem_attach_flush"):
        raise RuntimeError("the attach library is not preloaded")
    return library


def flush():
    """Waits until the server has applied all that this process has reported."""
    code = preloaded().ttmem_attach_flush(ctypes.c_uint32(FLUSH_MILLIS))
    if code != 0:
        raise RuntimeError(f"ttmem_attach_flush: {code}\n{hook_status()}")


def is_on(family):
    """Whether a family of hooks is."""
    return f"{family}: on" in hook_status().splitlines()


def hook_status():
    """Which hooks are on, and why others are off: a line for each family of them."""
    buffer = ctypes.create_string_buffer(1 << 16)
    preloaded().ttmem_attach_status(buffer, ctypes.c_size_t(len(buffer)))
    return buffer.value.decode()
