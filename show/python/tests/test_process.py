"""Starting: attached, not attached, started again, and the program behind `python -m ttmem`."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
ATTACH = os.environ["TTMEM_TESTS_ATTACH"]
PROGRAM = os.environ["TTMEM_TESTS_PROGRAM"]


def run(*arguments, stdin=None, cwd=None, **variables):
    """Runs this interpreter; its outcome."""
    unset = ("LD_PRELOAD", "TTMEM_ATTACH_TRIED", "TTMEM_PYTHON", "TTMEM_DISABLE")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment["PYTHONPATH"] = str(PACKAGE)
    environment["TTMEM_ATTACH_LIBRARY"] = ATTACH
    environment.update(variables)
    environment = {name: value for name, value in environment.items() if value is not None}
    return subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def script(folder, text):
    path = Path(folder) / "model.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


class Process(unittest.TestCase):
    def refused(self, code, reason, *options, **variables):
        outcome = run(*options, "-c", textwrap.dedent(code), **variables)
        self.assertNotEqual(outcome.returncode, 0, outcome.stdout)
        self.assertIn("NotAttachedError", outcome.stderr)
        self.assertIn(reason, outcome.stderr)
        self.assertNotIn("LEFT", outcome.stdout)

    def test_importing_imports_next_to_nothing(self):
        code = """
        import sys
        before = set(sys.modules)
        import ttmem
        print(sorted(name for name in set(sys.modules) - before if not name.startswith("ttmem")))
        """
        outcome = run("-c", textwrap.dedent(code))
        self.assertEqual(outcome.stdout.strip(), "['__future__']", outcome.stderr)

    def test_without_the_library_the_error_says_what_to_do(self):
        self.refused("import ttmem; ttmem.memory_allocated()", "ttmem run -- python model.py")
        self.refused("import ttmem; ttmem.track('x').__enter__()", "call ttmem.attach()")

    def test_where_tracking_is_off_the_error_says_why(self):
        off = {"LD_PRELOAD": ATTACH, "TTMEM_DISABLE": "1"}
        self.refused("import ttmem; ttmem.memory_allocated()", "TTMEM_DISABLE is 1", **off)
        self.refused("import ttmem; ttmem.mark('x')", "TTMEM_DISABLE is 1", **off)

    def test_a_program_is_started_again_once_with_all_its_arguments(self):
        text = """
        import os, sys
        import ttmem
        print("begun", len(sys.argv), flush=True)
        ttmem.attach()
        ttmem.attach()
        assert ttmem.is_attached()
        ttmem.mark("there")
        print(sys.argv[1:], os.environ["LD_PRELOAD"], os.environ["TTMEM_PYTHON"], sys.flags.optimize)
        print(ttmem.memory_allocated(), ttmem.memory_snapshot())
        """
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, text)
            # One that is there to be kept; which one does not matter.
            outcome = run("-O", path, "--a b", "*", LD_PRELOAD=os.environ["TTMEM_TESTS_LIBRARY"])
        said = outcome.stdout.splitlines()
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        preloaded = f"{ATTACH}:{os.environ['TTMEM_TESTS_LIBRARY']}"
        self.assertEqual(said[:2], ["begun 3", "begun 3"])
        self.assertEqual(said[2], f"['--a b', '*'] {preloaded} 1 1")
        self.assertEqual(said[3], "0 no device was opened")

    def test_a_program_of_the_command_line_or_a_module_is_started_again(self):
        code = "import ttmem, sys; ttmem.attach(); print(ttmem.is_attached(), sys.argv[1:])"
        self.assertEqual(run("-c", code, "x").stdout.strip(), "True ['x']")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "module.py").write_text(code)
            outcome = run("-m", "module", "y", PYTHONPATH=f"{folder}:{PACKAGE}")
        self.assertEqual(outcome.stdout.strip(), "True ['y']", outcome.stderr)

    def test_a_library_that_the_loader_refuses_is_tried_once(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder, "broken.so")
            broken.write_text("no library")
            code = "import ttmem; print('begun', flush=True); ttmem.attach(); print('LEFT')"
            outcome = run("-c", code, TTMEM_ATTACH_LIBRARY=str(broken))
        self.assertIn("the loader did not take it", outcome.stderr)
        self.assertRegex(outcome.stderr, "broken.so: (file too short|invalid ELF header)")
        self.assertEqual(outcome.stdout.split(), ["begun", "begun"])

    def test_it_refuses_where_something_would_be_lost(self):
        attach = "\nimport ttmem; ttmem.attach(); print('LEFT')"
        module = "import sys, types; sys.modules['{}'] = types.ModuleType('x')" + attach
        self.refused(module.format("ttnn"), "before the first `import ttnn`")
        self.refused(module.format("ipykernel"), "ttmem run -- jupyter lab")
        self.refused("import sys; sys.ps1 = '>'" + attach, "ttmem run -- python")
        thread = "import threading, time; threading.Thread(target=time.sleep, args=(1,)).start()"
        self.refused(thread + attach, "other threads")
        self.refused(attach, "there is no library at /none", TTMEM_ATTACH_LIBRARY="/none")
        self.refused(attach, "a colon, a space or", TTMEM_ATTACH_LIBRARY=self.spaced())

    def test_a_program_that_cannot_be_read_again_is_not_started_again(self):
        attach = "import ttmem; ttmem.attach(); print('LEFT')"
        for words in ([], ["-u", "-"], ["-X", "dev"]):
            outcome = run(*words, stdin=attach)
            self.assertIn("standard input, which cannot be read again", outcome.stderr, words)
            self.assertIn("ttmem run -- python -", outcome.stderr, words)
            self.assertNotEqual(outcome.returncode, 0, words)
        outcome = run("/dev/stdin", stdin=attach)
        self.assertIn("/dev/stdin, a pipe", outcome.stderr)
        self.assertNotEqual(outcome.returncode, 0)

    def test_options_before_the_program_are_understood(self):
        from ttmem._attach import _program

        for words in ("", "-", "-u", "-u -", "-X dev", "-Xdev", "-W ignore -B", "-BuWignore", "-- -"):
            self.assertIsNone(_program(["python", *words.split()]), words)
        self.assertIsNone(_program(["python", "--check-hash-based-pycs", "always"]))
        for words in ("m.py", "-X dev m.py -", "-Wignore m.py", "-- m.py -c", "-uB m.py -m x"):
            self.assertEqual(_program(["python", *words.split()]), "m.py", words)
        for words in ("-c -", "-Buc x", "-OWignore -c x -", "-cx"):
            self.assertEqual(_program(["python", *words.split()]), "-c", words)
        self.assertEqual(_program(["python", "-Im", "module", "m.py"]), "-m")
        attach = "import ttmem; ttmem.attach(); print(ttmem.is_attached())"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "__main__.py").write_text(attach)
            outcome = run("-X", "dev", "--", folder, "-")
        self.assertEqual(outcome.stdout.strip(), "True", outcome.stderr)

    def test_after_a_change_of_folder_it_refuses_what_it_would_not_find(self):
        text = "import os, ttmem; os.chdir(os.sep); ttmem.attach(); print('LEFT')"
        with tempfile.TemporaryDirectory() as folder:
            script(folder, text)
            outcome = run("model.py", cwd=folder)
        self.assertIn("before os.chdir()", outcome.stderr)
        self.assertNotIn("LEFT", outcome.stdout)

    def test_where_the_program_cannot_be_started_again_nothing_is_changed(self):
        code = """
        import os, ttmem
        os.environ["LONG"] = "a" * 200_000
        before = dict(os.environ)
        try:
            ttmem.attach()
        except ttmem.NotAttachedError as error:
            print(error, os.environ == before)
        """
        said = run("-c", textwrap.dedent(code)).stdout
        self.assertIn("Argument list too long; start the program with `ttmem run", said)
        self.assertIn("True", said)

    def spaced(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, "a b.so")
        path.write_text("")
        return str(path)

    def test_threads_that_ask_do_not_disturb_the_end_of_the_interpreter(self):
        code = """
        import threading, time, ttmem
        def loop():
            while True:
                ttmem.memory_allocated()
        for _ in range(4):
            threading.Thread(target=loop, daemon=True).start()
        time.sleep(0.05)
        """
        for _ in range(4):
            outcome = run("-c", textwrap.dedent(code), LD_PRELOAD=ATTACH)
            self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))

    def test_a_worker_of_multiprocessing_is_attached_with_its_program(self):
        text = """
        import multiprocessing, ttmem
        def work(_number):
            try:
                ttmem.attach()
                return ttmem.is_attached(), ttmem.memory_allocated()
            except ttmem.NotAttachedError as error:
                return str(error)
        if __name__ == "__main__":
            {attach}
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(pool.map(work, [1]))
        """
        with tempfile.TemporaryDirectory() as folder:
            attached = run(script(folder, text.format(attach="ttmem.attach()")))
            alone = run(script(folder, text.format(attach="pass")))
        self.assertEqual(attached.stdout.splitlines(), ["[(True, 0)]"] * 2, attached.stderr)
        for line in alone.stdout.splitlines():
            self.assertIn("attach in the program that starts it", line)

    def test_the_module_runs_the_program_with_this_interpreter(self):
        path = f"{Path(PROGRAM).parent}:{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as folder:
            text = "import sys, ttmem; print(sys.executable, sys.argv[1:], ttmem.is_attached())"
            model = script(folder, text)
            report = str(Path(folder, "report"))
            own_server = {"TTMEM_SOCKET": None, "XDG_RUNTIME_DIR": folder, "PATH": path}
            outcome = run("-m", "ttmem", "run", "--report", report, model, "a", "--b", **own_server)
            self.assertEqual(
                outcome.stdout.strip(), f"{sys.executable} ['a', '--b'] True", outcome.stderr
            )
        self.assertIn("ttmem", run("-m", "ttmem", "--version", PATH=path).stdout)

    def test_without_the_program_the_module_says_what_to_do(self):
        outcome = run("-m", "ttmem", "status", PATH="/nonexistent")
        self.assertIn("install the package again", outcome.stderr)
        self.assertEqual(outcome.returncode, 1)


if __name__ == "__main__":
    unittest.main()
