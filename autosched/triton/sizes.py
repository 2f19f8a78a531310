"""Stress sizes: the minimum and maximum of a range, and neighbours of powers of two, which cause partial tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Size = Mapping[str, int]
_OTHER_SIZE = 17  # value of each size while another size varies; not a multiple of any tile size


def stress_sizes(**ranges: tuple[int, int]) -> list[Size]:
    """Return stress sizes: all minima, all maxima, and for each size in turn, neighbours of powers of two.

    ``ranges`` has the minimum and maximum of each size. Raises ValueError for an empty range.
    """
    for name, (least, most) in ranges.items():
        if least > most:
            raise ValueError(f"empty range of {name}: {least} is greater than {most}")
    small = {name: min(max(_OTHER_SIZE, least), most) for name, (least, most) in ranges.items()}
    sizes: dict[tuple[int, ...], Size] = {}
    for size in (
        {name: least for name, (least, _) in ranges.items()},
        *({**small, name: value} for name, range_ in ranges.items() for value in _values(*range_)),
        {name: most for name, (_, most) in ranges.items()},
    ):
        sizes.setdefault(tuple(size.values()), size)
    return list(sizes.values())


def _values(least: int, most: int) -> Iterator[int]:
    """Yield the bounds of the range, p + 1 for each power of two p in it, and p - 1 and p for the largest p."""
    powers = [2**k for k in range(most.bit_length()) if least <= 2**k <= most]
    candidates = [least, *(p + 1 for p in powers), *(p + k for p in powers[-1:] for k in (-1, 0)), most]
    yield from dict.fromkeys(v for v in candidates if least <= v <= most)


def named(size: Size) -> str:
    """Return the sizes as text, such as "m=33, n=64"."""
    return ", ".join(f"{name}={value}" for name, value in size.items())
