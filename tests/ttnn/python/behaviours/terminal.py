"""Runs a command in a terminal of its own and types Ctrl-C when it is ready.

Started as `terminal.py RESULT COMMAND...`; the command is ready when the file RESULT says so.
What the command prints is printed, and its exit code is this program's.
"""

import os
import pty
import select
import sys

CTRL_C = b"\x03"

# Nothing to read for so long: whoever writes has written.
QUIET_SECONDS = 0.05


def is_ready(result):
    try:
        with open(result, encoding="utf-8") as file:
            return "ready" in file.read()
    except FileNotFoundError:
        return False


def main():
    result, *command = sys.argv[1:]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    typed = False
    while True:
        readable, _, _ = select.select([terminal], [], [], QUIET_SECONDS)
        if not readable:
            # Not before all was read: with Ctrl-C a terminal drops what it has not shown yet.
            if not typed and is_ready(result):
                os.write(terminal, CTRL_C)
                typed = True
            continue
        try:
            said = os.read(terminal, 1 << 16)
        except OSError:
            # The last one who had it open is gone.
            break
        if not said:
            break
        sys.stdout.buffer.write(said.replace(b"\r\n", b"\n"))
    sys.stdout.flush()
    _pid, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
