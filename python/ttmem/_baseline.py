"""Figures of tests in a file, to compare later runs with."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1


class BaselineError(Exception):
    """The file cannot be used."""


def read(path: str, *, missing_ok: bool) -> dict[str, dict[str, int]]:
    """The figures of a file, by test.

    Raises:
        BaselineError: when there is none, or it is no baseline.
    """
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except FileNotFoundError:
        if missing_ok:
            return {}
        raise BaselineError(f"there is no baseline {path}; --ttmem-update writes it") from None
    except (OSError, ValueError) as error:
        raise BaselineError(f"the baseline {path} cannot be read: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BaselineError(f"{path} is no baseline of this version (schema {SCHEMA})")
    tests: Any = document.get("tests")
    is_figures = isinstance(tests, dict) and all(
        isinstance(sizes, dict) and all(type(size) is int for size in sizes.values())
        for sizes in tests.values()
    )
    if not is_figures:
        raise BaselineError(f"{path} is no baseline: its `tests` are not sizes by test")
    figures: dict[str, dict[str, int]] = tests
    return figures


def write(path: str, tests: dict[str, dict[str, int]]) -> None:
    """Writes a file whole or not at all; tests are in order, so that differences are small."""
    ordered = {test: tests[test] for test in sorted(tests)}
    text = json.dumps({"schema": SCHEMA, "tests": ordered}, indent=1)
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    os.replace(beside, path)
