"""Starting the interpreter again with the library preloaded."""

from __future__ import annotations

import os
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
    os.environ["LD_PRELOAD"] = f"{library}:{before}" if before else library
    os.environ[_TRIED] = str(os.getpid())
    if python_lines:
        os.environ.setdefault("TTMEM_PYTHON", "1")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os.execv(sys.executable, sys.orig_argv)


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
    if ":" in path or " " in path:
        raise NotAttachedError(
            f"{path} cannot be preloaded: LD_PRELOAD has no way to write a colon or a space"
        )
    return path


def _obstacle() -> str | None:
    """Why the interpreter cannot be started anew; None if it can."""
    modules = sys.modules
    if os.environ.get(_TRIED) == str(os.getpid()):
        return (
            "this process was started anew with LD_PRELOAD, and the loader did not take it: it "
            "ignores the variable for setuid programs and has no part in static ones"
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
    if len(arguments) == 1 or "-" in arguments[1:2]:
        return "the program comes from standard input, which cannot be read again"
    return None


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
