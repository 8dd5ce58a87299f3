"""`python -m ttmem`: the program of this package.

`python -m ttmem run model.py` is `ttmem run -- python model.py` with this interpreter.
"""

import os
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

LIBRARY = Path(__file__).parent / "lib" / "libttmem_attach.so"


def main() -> NoReturn:
    program = Path(sysconfig.get_path("scripts")) / "ttmem"
    if not program.exists():
        sys.exit(f"ttmem: {program} is missing; install the package again")
    words = sys.argv[1:]
    # What follows `run` and its options is a program of Python, unless it says which program it is.
    at = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
    if words[:1] == ["run"] and "--" not in words and at is not None:
        words[at:at] = ["--", sys.executable]
    if LIBRARY.exists():
        os.environ.setdefault("TTMEM_ATTACH_LIBRARY", str(LIBRARY))
    os.execv(program, [str(program), *words])


if __name__ == "__main__":
    main()
