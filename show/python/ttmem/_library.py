"""The library that tracks this process, and how to ask it.

Nothing is imported before the first question: `import ttmem` has to be quick.
"""

from __future__ import annotations

import os

from ._errors import NotAttachedError, TtmemError

# As in `typing`, which takes longer to import than all of this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    import ctypes
    from typing import Any

# The file, and the variable that names another one; `ttmem run` reads the same.
FILE = "libttmem_attach.so"
VARIABLE = "TTMEM_ATTACH_LIBRARY"

# What can be asked: the numbers of ttmem.h.
FIGURES, SNAPSHOT, RESET, BEGIN, END, PEAKS = range(6)
ALL_DEVICES = 2**64 - 1

# The account answers in less than a millisecond, unless the machine is busy.
TIMEOUT_MILLIS = 30_000

_DISABLED, _VALUE, _TIMEOUT, _TOO_MANY, _NO_MEMORY = -1, -3, -5, -6, -7

HOW_TO_ATTACH = (
    "start the program with `ttmem run -- python model.py`, or call ttmem.attach() as its first "
    "statement, before ttnn is imported"
)

_loaded: _Loaded | None = None


class _Loaded:
    """The functions of the library in this process."""

    def __init__(self, process: ctypes.CDLL) -> None:
        import ctypes

        self.is_preloaded = hasattr(process, "ttmem_attach_ask")
        self.process = process
        kind = "attach" if self.is_preloaded else "account"
        self.ask = getattr(process, f"ttmem_{kind}_ask")
        self.ask.restype = ctypes.c_int
        self.ask.argtypes = [
            ctypes.c_uint32,
            ctypes.c_uint64,
            ctypes.c_uint32,
            ctypes.c_uint32,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(ctypes.c_size_t),
        ]
        self.free = getattr(process, f"ttmem_{kind}_free")
        self.free.restype = None
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def mark(self, name: bytes, number: int) -> int:
        import ctypes

        if self.is_preloaded:
            set_mark = self.process.ttmem_attach_mark
            set_mark.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
            return int(set_mark(name, number))
        text = ctypes.c_uint32()
        define = self.process.ttmem_text_define
        define.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint32)]
        set_mark = self.process.ttmem_mark_set
        set_mark.argtypes = [ctypes.c_uint32, ctypes.c_uint64]
        return int(define(name, len(name), ctypes.byref(text)) or set_mark(text, number))


def is_attached() -> bool:
    """Whether the library that tracks ttnn is preloaded, so that this process can be asked.

    Whether it tracks, the first question finds out. A program that is linked with libttmem and
    reports for itself can be asked without.
    """
    library = _find()
    return library is not None and library.is_preloaded


def _find() -> _Loaded | None:
    global _loaded
    if _loaded is None:
        import ctypes

        process = ctypes.CDLL(None)
        if hasattr(process, "ttmem_attach_ask") or hasattr(process, "ttmem_account_ask"):
            _loaded = _Loaded(process)
    return _loaded


def _library() -> _Loaded:
    library = _find()
    if library is None:
        raise NotAttachedError(f"this process is not tracked: {HOW_TO_ATTACH}")
    return library


def ask(what: int, subject: int = 0, max_rows: int = 0) -> dict[str, Any]:
    """Asks the account; everything that this process did before the call is in the answer."""
    import ctypes
    import json

    library = _library()
    address, length = ctypes.c_void_p(), ctypes.c_size_t()
    try:
        # No Python runs inside of the call, so that what a signal raises arrives here.
        code = library.ask(
            what, subject, max_rows, TIMEOUT_MILLIS, ctypes.byref(address), ctypes.byref(length)
        )
        _check(code)
        text = ctypes.string_at(address, length.value)
    finally:
        library.free(address, length)
    answer: dict[str, Any] = json.loads(text)
    return answer


def set_mark(name: str, number: int) -> None:
    """Records a mark."""
    _check(_library().mark(name.encode().replace(b"\0", b" "), number))


def _check(code: int) -> None:
    if code == 0:
        return
    if code == _DISABLED:
        if os.environ.get("TTMEM_DISABLE") == "1":
            raise NotAttachedError("tracking is off: TTMEM_DISABLE is 1; unset it")
        raise NotAttachedError(
            "tracking is off in this process; a line on stderr that begins with `ttmem:` says why"
        )
    if code == _TIMEOUT:
        seconds = TIMEOUT_MILLIS // 1000
        raise TtmemError(f"the account did not answer in {seconds} s: is the machine overloaded?")
    if code == _TOO_MANY:
        raise TtmemError("too many ttmem.track blocks are open; close those that are done")
    if code == _NO_MEMORY:
        raise TtmemError("this process is at its limit of memory: there is none for the answer")
    if code == _VALUE:
        raise TtmemError("this block was begun in another process, or has ended")
    raise TtmemError(f"the library answered with {code}; is it of another version than the package?")
