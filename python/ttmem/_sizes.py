"""Bytes as people write and read them."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def text(count: int) -> str:
    """`84.0 MiB`."""
    sign, size = ("-" if count < 0 else ""), float(abs(count))
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            number = f"{size:.0f}" if unit == "B" else f"{size:.1f}"
            return f"{sign}{number} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes any size")


def parse(size: int | str) -> int:
    """The bytes of `"84 MiB"`, `"1.5G"`, `"4096"` or a number; units are of 1024.

    Raises:
        ValueError: when it is no size.
    """
    if isinstance(size, int):
        if size < 0:
            raise ValueError(f"{size} is no size: it is negative")
        return size
    words = size.strip()
    number = words.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = words[len(number) :].strip().lower().removesuffix("b").removesuffix("i")
    powers = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
    try:
        count = float(number) * 1024 ** powers[unit]
    except (KeyError, ValueError):
        count = -1.0
    if not 0 <= count < 2**63:
        raise ValueError(f"{size!r} is no size; write for example 84MiB, 1.5GiB or 4096")
    return int(count)
