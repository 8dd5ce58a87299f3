"""The plugin's file and words are those of `ttmem check`."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from ttmem import _baseline

PROGRAM = os.environ["TTMEM_TESTS_PROGRAM"]
NAME = "python modèle.py"
SIZES = [0, 1023, 1024, 1048523, 1048524, 1048575, 1 << 20, (1 << 30) + (1 << 29), 3 << 60]


def report(dram, leaked):
    """What `ttmem run --json` writes, as far as `check` reads it."""
    names = ("dram", "l1", "l1_small", "trace", "system", "cb", "kernel")
    return {
        "schema": 1,
        "command": NAME.split(),
        "exit_code": 0,
        "signal": None,
        "tracked": True,
        "lost_events": 0,
        "devices": [{"peak_bytes": {**dict.fromkeys(names, 0), "dram": dram}}],
        "processes": [],
        "leak_candidates": {"buffers": 0, "bytes": leaked},
        "peaks": [],
        "left": {"at_close": [], "at_exit": []},
    }


class Baseline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.report = Path(folder.name) / "report.json"
        self.file = Path(folder.name) / "baseline.json"

    def check(self, dram, leaked, *options):
        self.report.write_text(json.dumps(report(dram, leaked)))
        words = [PROGRAM, "check", "--baseline", self.file, "--from", self.report, *options]
        outcome = subprocess.run(words, capture_output=True, text=True, check=False)
        return outcome.returncode, outcome.stderr

    def test_one_file(self):
        """Either reads what the other wrote, and writes the same bytes."""
        others = {"t.py::test_é": {"peak_l1": 5, "leaked": 0}, "a": {}}
        _baseline.update(str(self.file), others)
        code, said = self.check(7, 1 << 40, "--update")
        self.assertEqual(code, 0, said)
        written = self.file.read_bytes()
        tests = _baseline.read(str(self.file), missing_ok=False)
        figures = {"peak_dram": 7, "peak_l1": 0, "peak_l1_small": 0, "peak_trace": 0}
        self.assertEqual(tests, {**others, NAME: {**figures, "leaked": 1 << 40}})
        _baseline.update(str(self.file), tests)
        self.assertEqual(self.file.read_bytes(), written)

    def test_what_is_no_baseline_is_refused(self):
        sizes = [-1, 1 << 64, 10**400, 1.5, True, "1", None]
        texts = [json.dumps({"schema": 1, "tests": {"t": {"unknown": size}}}) for size in sizes]
        for text in [*texts, "[" * 100_000, "", "{}", '{"schema": 1, "tests": 7}', "\x00"]:
            self.file.write_text(text)
            self.assertRaises(_baseline.BaselineError, _baseline.read, str(self.file), missing_ok=True)
        self.file.unlink()
        os.mkfifo(self.file)
        for path in (str(self.file), "/dev/zero", "/dev/tty", str(self.file.parent)):
            self.assertRaises(_baseline.BaselineError, _baseline.read, path, missing_ok=True)

    def test_those_who_update_at_once_lose_nothing(self):
        children = []
        for child in range(4):
            pid = os.fork()
            if pid == 0:
                try:
                    for number in range(20):
                        _baseline.update(str(self.file), {f"{child} {number}": {"leaked": number}})
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(pid)
        self.assertEqual([os.waitpid(pid, 0)[1] for pid in children], [0] * 4)
        self.assertEqual(len(_baseline.read(str(self.file), missing_ok=False)), 80)
        self.assertEqual(os.listdir(self.file.parent), [self.file.name])

    def test_a_file_keeps_its_place_and_its_rights(self):
        self.file.write_text('{"schema": 1, "tests": {}}')
        self.file.chmod(0o640)
        if os.getuid() == 0:
            os.chown(self.file, 12345, 12346)
        before = self.file.stat()
        folder = self.file.parent / "beside"
        folder.mkdir()
        link = folder / "link.json"
        link.symlink_to("../baseline.json")
        _baseline.check_target(str(link))
        _baseline.update(str(link), {"t": {"leaked": 1}})
        self.assertTrue(link.is_symlink())
        self.assertEqual(_baseline.read(str(self.file), missing_ok=False), {"t": {"leaked": 1}})
        after = self.file.stat()
        for name in ("st_mode", "st_uid", "st_gid"):
            self.assertEqual(getattr(after, name), getattr(before, name), name)
        self.assertEqual(os.listdir(folder), ["link.json"])

    def test_a_link_that_somebody_else_put_there_is_not_followed(self):
        """In a folder of several users the name of the new file could be guessed."""
        victim = self.file.parent / "victim"
        victim.write_text("kept")
        Path(f"{self.file}.{os.getpid()}").symlink_to(victim)
        _baseline.update(str(self.file), {"t": {}})
        self.assertEqual(victim.read_text(), "kept")

    def test_same_words(self):
        for before, now in [*zip(SIZES, SIZES[1:]), *zip(SIZES[2:], SIZES)]:
            with self.subTest(before=before, now=now):
                tests = {NAME: {"peak_dram": before, "leaked": now}}
                _baseline.update(str(self.file), tests)
                code, said = self.check(now, now)
                if now <= before:
                    self.assertEqual(code, 0, said)
                    continue
                self.assertEqual(code, 6, said)
                _verdict, line = said.splitlines()
                self.assertEqual(line.strip(), _baseline.difference("peak_dram", now, before))


if __name__ == "__main__":
    unittest.main()
