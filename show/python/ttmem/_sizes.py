"""Bytes as people write and read them."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def text(count: int) -> str:
    """`84.0 MiB`, rounded as the program does: 1048575 is 1.0 MiB, not 1024.0 KiB."""
    sign, size = ("-" if count < 0 else ""), abs(count)
    if size < 1024:
        return f"{sign}{size} B"
    unit, name = 1, ""
    for name in _UNITS:
        unit *= 1024
        tenths = (size * 10 + unit // 2) // unit
        if tenths < 10_240:
            break
    return f"{sign}{tenths // 10}.{tenths % 10} {name}"


def texts(*counts: int) -> list[str]:
    """Sizes that are compared with each other: to the byte where rounding makes them equal."""
    rounded = [text(count) for count in counts]
    if len(set(rounded)) == len(set(counts)):
        return rounded
    return [f"{count} B" for count in counts]


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
    unit = words[len(number) :].strip().lower()
    if unit in ("kb", "mb", "gb", "tb"):
        binary = f"{unit[0].upper()}iB"
        raise ValueError(f"{size!r} may mean units of 1000 or of 1024; write {number.strip()}{binary}")
    powers = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "kib": 1, "mib": 2, "gib": 3, "tib": 4}
    try:
        count = float(number) * 1024 ** powers[unit]
    except (KeyError, ValueError):
        count = -1.0
    if not 0 <= count < 2**63:
        raise ValueError(f"{size!r} is no size; write for example 84MiB, 1.5GiB or 4096")
    return int(count)
