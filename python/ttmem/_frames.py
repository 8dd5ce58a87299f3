"""Frames of Python stacks, each as `file:line function`, innermost first."""

from __future__ import annotations

_OTHERS = ("/site-packages/", "/dist-packages/", "/lib/python3", "ttnn/ttnn/")
_TYPED = ("<string>", "<stdin>", "<input>", "<ipython-input")


def is_users_code(frame: str) -> bool:
    """Whether a frame is the user's: not of a package, of Python's library, of ttnn, or generated.

    The same rule as that of `ttmem top` and the reports.
    """
    is_made = frame.startswith(("<", "…")) and not frame.startswith(_TYPED)
    return not is_made and not any(part in frame for part in _OTHERS)


def user_frame(frames: tuple[str, ...]) -> str | None:
    """The innermost frame of the user's own code, or else the innermost of all."""
    own = (frame for frame in frames if is_users_code(frame))
    return next(own, frames[0] if frames else None)


def place(frame: str) -> str:
    """`/home/me/model.py:57` of `/home/me/model.py:57 forward`."""
    end = len(frame)
    while (end := frame.rfind(" ", 0, end)) > 0:
        _file, colon, line = frame[:end].rpartition(":")
        if colon and line.isdecimal():
            return frame[:end]
    return frame
