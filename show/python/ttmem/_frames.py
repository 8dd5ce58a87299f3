"""Frames of Python stacks, each as `file:line function`, innermost first."""

from __future__ import annotations

_OTHERS = ("/site-packages/", "/dist-packages/", "/lib/python3", "ttnn/ttnn/", "/ttmem/pytest_plugin.py", "/_pytest/", "/pluggy/", "/pytest/__main__.py", "/xdist/", "/execnet/")
_TYPED = ("<string>", "<stdin>", "<input>", "<ipython-input")
_INLINE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def is_users_code(frame: str) -> bool:
    """Whether a frame is the user's: not of a package, of Python's library, of ttnn, or generated.

    The same rule as that of `ttmem top` and the reports.
    """
    is_made = frame.startswith(("<", "…")) and not frame.startswith(_TYPED)
    return not is_made and not any(part in frame for part in _OTHERS)


def users_frames(frames: tuple[str, ...]) -> list[str]:
    """The frames of the user's own code, innermost first.

    A comprehension and the function that it stands in are one. The program by which a library
    starts a worker (`python -c`), or is started itself (`bin/pytest`), is not the user's.
    """
    found: list[str] = []
    # The file of a comprehension whose function is to come.
    inline: str | None = None
    is_inner_own = True
    for frame in frames:
        where = place(frame)
        file = where.rpartition(":")[0]
        is_start = file == "<string>" or f"/{file}".split("/")[-2] == "bin"
        starts_library = bool(found) and not is_inner_own and is_start
        is_inner_own = is_users_code(frame) and not starts_library
        if is_inner_own:
            if inline != file:
                found.append(frame)
            inline = file if frame[len(where) :].strip() in _INLINE else None
    return found


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
