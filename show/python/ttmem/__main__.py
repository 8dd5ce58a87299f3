"""`python -m ttmem`: the program of this package.

`python -m ttmem run model.py` is `ttmem run -- python model.py` with this interpreter; `check` alike.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

from ._attach import find_library
from ._errors import NotAttachedError
from ._library import VARIABLE


def find_program() -> str | None:
    """The program of this environment, or else the one on the path."""
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    beside = (os.path.join(folder, "ttmem") for folder in folders)
    found = (path for path in beside if os.access(path, os.X_OK))
    return next(found, None) or shutil.which("ttmem")


def with_interpreter(words: list[str]) -> list[str]:
    """The words with this interpreter before a program of Python, unless they name a program."""
    if words[:1] not in (["run"], ["check"]) or "--" in words:
        return words
    is_python = (
        number
        for number, word in enumerate(words)
        if number > 0 and (word.endswith(".py") or word in ("-m", "-c"))
    )
    at = next(is_python, None)
    return words if at is None else [*words[:at], "--", sys.executable, *words[at:]]


def main() -> None:
    """Becomes the program."""
    program = find_program()
    if program is None:
        sys.exit(
            "ttmem: the program is neither beside this interpreter nor in PATH; "
            "install the package again"
        )
    try:
        os.environ.setdefault(VARIABLE, find_library())
    except NotAttachedError:
        # The program looks for it in places of its own, and says what it misses.
        pass
    sys.stdout.flush()
    os.execv(program, [program, *with_interpreter(sys.argv[1:])])


if __name__ == "__main__":
    main()
