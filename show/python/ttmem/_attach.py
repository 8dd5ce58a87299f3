"""Starting the interpreter again with the library preloaded."""

from __future__ import annotations

import os
import stat
import sys

from ._errors import NotAttachedError
from ._library import FILE, VARIABLE, is_attached

# Set to the pid of a process that was started again: a second time would be for ever.
_TRIED = "TTMEM_ATTACH_TRIED"


def attach(*, python_lines: bool = True) -> None:
    """Has this program tracked, by starting it anew with the library preloaded.

    The interpreter executes itself with the same arguments, so what ran before this call runs
    again: call it first, before ttnn is imported. In a process that is tracked already it does
    nothing, so that the second time the program goes on from here.

    Args:
        python_lines: also record the line of Python behind each buffer.

    Raises:
        NotAttachedError: when it is too late or impossible, with what to do instead.
    """
    if is_attached():
        return
    obstacle = _obstacle()
    if obstacle is not None:
        raise NotAttachedError(f"cannot attach: {obstacle}")
    library = find_library()
    before = os.environ.get("LD_PRELOAD", "")
    changes = {"LD_PRELOAD": f"{library}:{before}" if before else library, _TRIED: str(os.getpid())}
    if python_lines and "TTMEM_PYTHON" not in os.environ:
        changes["TTMEM_PYTHON"] = "1"
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # execve takes no empty name.
    arguments = [sys.orig_argv[0] or sys.executable, *sys.orig_argv[1:]]
    try:
        os.execve(sys.executable, arguments, {**os.environ, **changes})
    except OSError as error:
        raise NotAttachedError(
            f"cannot attach: {sys.executable} cannot be started anew: {error.strerror}; start the "
            "program with `ttmem run -- python model.py`"
        ) from error


def find_library() -> str:
    """The library of this package, or the one that TTMEM_ATTACH_LIBRARY names.

    Raises:
        NotAttachedError: when it is not there, or the loader cannot take its path.
    """
    named = os.environ.get(VARIABLE)
    path = os.path.abspath(named or os.path.join(os.path.dirname(__file__), "lib", FILE))
    if not os.path.isfile(path):
        raise NotAttachedError(
            f"there is no library at {path}; install the package again, or have {VARIABLE} name it"
        )
    if any(letter in path for letter in ": $"):
        raise NotAttachedError(
            f"{path} cannot be preloaded: LD_PRELOAD has no way to write a colon, a space or a dollar"
        )
    return path


def _obstacle() -> str | None:
    """Why the interpreter cannot be started anew; None if it can."""
    modules = sys.modules
    if os.environ.get(_TRIED) == str(os.getpid()):
        return (
            "this process was started anew with LD_PRELOAD, and the loader did not take it: "
            f"{_refusal_of_loader()}"
        )
    if "ipykernel" in modules or "google.colab" in modules:
        return (
            "a notebook's kernel cannot be started anew from inside; start Jupyter with "
            "`ttmem run -- jupyter lab`, or restart the kernel with LD_PRELOAD set to "
            f"{_library_or_name()} and TTMEM_PYTHON=1 in the `env` of its kernel.json"
        )
    if hasattr(sys, "ps1") or sys.flags.interactive or "IPython" in modules:
        return "an interactive session would be lost; start it with `ttmem run -- python`"
    if any(name in modules for name in ("ttnn", "ttnn._ttnn", "tt_lib")) or _is_runtime_loaded():
        return (
            "ttnn is loaded already, and what it holds would be lost; call ttmem.attach() before "
            "the first `import ttnn`"
        )
    process = modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        return "this is a worker of multiprocessing; attach in the program that starts it"
    threading = modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return "other threads run already and would be lost; call ttmem.attach() before them"
    arguments = sys.orig_argv
    if not sys.executable or not arguments:
        return "this interpreter is part of another program; preload the library into that one"
    if not _is_same_program(sys.executable):
        return (
            f"this process is not {sys.executable} but has Python embedded; preload "
            f"{_library_or_name()} into it by LD_PRELOAD"
        )
    program = _program(arguments)
    if program is None:
        return (
            "the program comes from standard input, which cannot be read again; start it with "
            "`ttmem run -- python -`, or put it into a file"
        )
    return None if program in ("-c", "-m") else _obstacle_of_script(program)


def _program(arguments: list[str]) -> str | None:
    """What an interpreter with these arguments runs: -c, -m or a path; None is standard input."""
    words = iter(arguments[1:])
    for word in words:
        if word == "--":
            word = next(words, "-")
            return None if word == "-" else word
        if not word.startswith("-"):
            return word
        if word == "-":
            return None
        if word == "--check-hash-based-pycs":
            next(words, None)
        if word.startswith("--"):
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter in "cm":
                return f"-{letter}"
            if letter in "WX":
                # The rest of the word is its value, or the next one.
                if place == len(word):
                    next(words, None)
                break
    return None


def _obstacle_of_script(path: str) -> str | None:
    """Why the interpreter could not read a script again."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        mode = os.stat(path).st_mode
        is_moved = False
        if main is not None and not os.path.isabs(path) and os.path.isabs(main):
            is_moved = os.path.isfile(path) and not os.path.samefile(path, main)
    except OSError:
        is_moved = True
    if is_moved:
        return (
            f"there is no {path} in the folder that the program has changed to; call "
            "ttmem.attach() before os.chdir()"
        )
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return (
            f"the program comes from {path}, a pipe, which cannot be read again; start it with "
            "`ttmem run`, or put it into a file"
        )
    return None


def _refusal_of_loader() -> str:
    """Why the library was not preloaded, in the loader's words where it has any."""
    import subprocess

    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    environment = {name: each for name, each in os.environ.items() if name != "LD_PRELOAD"}
    try:
        loaded = subprocess.run(
            [sys.executable, "-S", "-c", code, find_library()],
            env={**environment, "TTMEM_DISABLE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, NotAttachedError) as error:
        return str(error)
    if loaded.returncode != 0:
        said = loaded.stderr.strip().splitlines()
        return said[-1].removeprefix("OSError: ") if said else f"it ended with {loaded.returncode}"
    return "it ignores the variable for setuid programs and has no part in static ones"


def _library_or_name() -> str:
    try:
        return find_library()
    except NotAttachedError:
        return FILE


def _is_runtime_loaded() -> bool:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any("libtt_metal" in line for line in maps)
    except OSError:
        return False


def _is_same_program(path: str) -> bool:
    try:
        return os.path.samefile(path, "/proc/self/exe")
    except OSError:
        return False
