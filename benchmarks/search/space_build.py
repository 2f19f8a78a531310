"""Compare how fast autosched and Kernel Tuner build a search space, for equal parameters and restrictions.

Run ``pip install kernel_tuner`` first, then ``python benchmarks/search/space_build.py [--out FILE]``. Kernel Tuner gets
restrictions as strings (as documented), uses its default solver, and lists every legal configuration. For autosched,
"build" ends when the space is counted and ready for sampling, and "list" when arrays with all configurations exist.
Figures are median CPU times of three interleaved builds. Both tools must find the same configurations.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median

import numpy as np
from kernel_tuner.searchspace import Searchspace

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.space import Space

REPEATS = 3
# disable Kernel Tuner's limit on block sizes, because these spaces have no parameters such as block_size_x
MAX_THREADS = 1024


@dataclass(frozen=True)
class Restriction:
    """A restriction, as a string for Kernel Tuner and as a function of columns for autosched (see ``Rule``)."""

    text: str
    allows: Callable[..., BoolArray]
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    name: str
    domains: Mapping[str, Sequence[int]]
    restrictions: tuple[Restriction, ...]

    def space(self) -> Space:
        domains = [ordinal(name, values) for name, values in self.domains.items()]
        return Space(self.name, domains, [], [Rule(r.text, r.allows, r.text, names=r.names) for r in self.restrictions])

    def kernel_tuner(self) -> Searchspace:
        domains = {name: list(values) for name, values in self.domains.items()}
        return Searchspace(domains, [r.text for r in self.restrictions], MAX_THREADS)


def divides(multiple: str, *factors: str) -> Restriction:
    """Require that ``multiple`` is a multiple of the product of ``factors``."""
    product = factors[0] if len(factors) == 1 else f"({' * '.join(factors)})"

    def allows(number: IntArray, **parts: IntArray) -> BoolArray:
        return np.equal(number % math.prod(parts.values()), 0)

    names = {"number": multiple, **{name: name for name in factors}}
    return Restriction(f"{multiple} % {product} == 0", allows, names)


def clblast(name: str, **changes: Sequence[int]) -> Case:
    """Return the space of CLBlast's Xgemm kernel, with the restrictions of CLBlast's tuner."""
    domains: dict[str, Sequence[int]] = {
        "MWG": (16, 32, 64, 128), "NWG": (16, 32, 64, 128), "KWG": (32,),
        "MDIMC": (8, 16, 32), "NDIMC": (8, 16, 32), "MDIMA": (8, 16, 32), "NDIMB": (8, 16, 32), "KWI": (2,),
        "VWM": (1, 2, 4, 8), "VWN": (1, 2, 4, 8), "STRM": (0,), "STRN": (0,), "SA": (0, 1), "SB": (0, 1),
    }  # fmt: skip

    def loads(threads: str) -> Restriction:
        return Restriction(
            f"KWG % ((MDIMC * NDIMC) / {threads}) == 0",
            lambda KWG, MDIMC, NDIMC, threads: KWG * threads % (MDIMC * NDIMC) == 0,
            {"threads": threads},
        )

    restrictions = (
        divides("KWG", "KWI"),
        divides("MWG", "MDIMC", "VWM"), divides("NWG", "NDIMC", "VWN"),
        divides("MWG", "MDIMA", "VWM"), divides("NWG", "NDIMB", "VWN"),
        loads("MDIMA"), loads("NDIMB"),
    )  # fmt: skip
    return Case(name, {**domains, **changes}, restrictions)


def tensor_core_matmul() -> Case:
    """Return the space of a tensor-core matmul: tiles, arrangement of warps, padding, copies and pipeline stages."""
    tiles = (32, 64, 96, 128, 192, 256)
    domains = {
        "tile_m": tiles, "tile_n": tiles, "tile_k": (16, 32, 64),
        "warps_m": (1, 2, 4, 8), "warps_n": (1, 2, 4, 8), "warp_m": (16, 32, 64), "warp_n": (16, 32, 64),
        "pad_a": (0, 8, 16), "pad_b": (0, 8, 16), "stages": (1, 2, 3, 4),
        "vector_a": (2, 4, 8), "vector_b": (2, 4, 8), "split_k": (1, 2, 4),
    }  # fmt: skip

    def copies(minor: str, vector: str, major: str) -> Restriction:
        """Require that every thread copies the same number of whole vectors of a tile."""
        return Restriction(
            f"{major} * {minor} % (warps_m * warps_n * 32 * {vector}) == 0",
            lambda major, minor, warps_m, warps_n, vector: major * minor % (warps_m * warps_n * 32 * vector) == 0,
            {"major": major, "minor": minor, "vector": vector},
        )

    restrictions = (
        divides("tile_m", "warps_m", "warp_m"), divides("tile_n", "warps_n", "warp_n"),
        copies("tile_k", "vector_a", "tile_m"), copies("tile_n", "vector_b", "tile_k"),
        Restriction("warps_m * warps_n * 32 <= 512", lambda warps_m, warps_n: warps_m * warps_n * 32 <= 512),
        Restriction(
            "tile_m * tile_n <= warps_m * warps_n * 32 * 128",
            lambda tile_m, tile_n, warps_m, warps_n: tile_m * tile_n <= warps_m * warps_n * 32 * 128,
        ),
        Restriction(
            "(tile_m * (tile_k + pad_a) + tile_k * (tile_n + pad_b)) * 2 * stages <= 101376",
            lambda tile_m, tile_k, pad_a, tile_n, pad_b, stages: (
                (tile_m * (tile_k + pad_a) + tile_k * (tile_n + pad_b)) * 2 * stages <= 101376
            ),
        ),
    )  # fmt: skip
    return Case("tensor-core matmul", domains, restrictions)


CASES = (
    clblast("CLBlast Xgemm, as recorded"),
    clblast("CLBlast Xgemm, more values", KWG=(16, 32), STRM=(0, 1), STRN=(0, 1)),
    tensor_core_matmul(),
)


def compare(case: Case) -> str:
    """Return one row of the table."""
    ours, listed, peer_seconds = [], [], []
    for _ in range(REPEATS):
        start = time.process_time()
        space = case.space()
        space.count()
        ours.append(time.process_time() - start)
        columns = space.unrank(np.arange(space.count()))
        listed.append(time.process_time() - start)
        start = time.process_time()
        peer = case.kernel_tuner()
        peer_seconds.append(time.process_time() - start)
    names = list(case.domains)
    same = set(zip(*(columns[name].tolist() for name in names), strict=True)) == set(peer.list)
    if space.count() != peer.size or not same:
        raise SystemExit(f"{case.name}: the {space.count()} configurations differ from the {peer.size} of Kernel Tuner")
    a, b, c = median(ours), median(listed), median(peer_seconds)
    return (
        f"| {case.name} | {space.raw_count:,} | {space.count():,} | {c:.3f} s | {a:.4f} s | {b:.4f} s "
        f"| {c / a:.0f}x | {c / b:.0f}x |"
    )


def full_matmul() -> str:
    """Return a table row for the space of ``autosched tune matmul`` (all templates), which is too large to list.

    The space is built only once, because later builds in the same process reuse evaluated layouts. A run of ``tune``
    also builds the space only once.
    """
    problem, target = Matmul(4096, 4096, 4096), device("h200")
    start = time.process_time()
    space = templates_for(problem, target).space(problem, target)
    count = space.count()
    seconds = time.process_time() - start
    raw = sum(member.raw_count for member in space.members.values())
    return (
        f"| autosched matmul, f16 4096^3, h200, first build | {raw:.1e} | {count:,} | not tried "
        f"| {seconds:.3f} s | - | - | - |"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, help="also write the table to this file")
    out = options.parse_args().out
    packages = ", ".join(f"{name} {version(name)}" for name in ("kernel_tuner", "numpy"))
    lines = [
        "# Building search spaces: autosched and Kernel Tuner",
        "",
        f"{date.today()}, {os.cpu_count()} CPU cores ({platform.machine()}), Python {platform.python_version()}, "
        f"{packages}.",
        f"CPU times are medians of {REPEATS} builds in one process, in which autosched and Kernel Tuner alternate. "
        "Both find the same configurations.",
        "",
        "- *Kernel Tuner*: its default solver builds a list of all configurations. Restrictions are strings.",
        "- *build*: autosched counts the space and can then sample it.",
        "- *list*: autosched also lists every configuration, as one array per parameter.",
        "- *raw* is the number of combinations without restrictions, and *legal* the number that satisfies all "
        "restrictions.",
        "",
        "| space | raw | legal | Kernel Tuner | build | list | Kernel Tuner / build | Kernel Tuner / list |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        print(line)
    for case in CASES:
        lines.append(compare(case))
        print(lines[-1], flush=True)
    lines.append(full_matmul())
    print(lines[-1])
    if out is not None:
        out.write_text("\n".join([*lines, "", "Reproduce: `python benchmarks/search/space_build.py`.", ""]))
        print(f"written to {out}", file=sys.stderr)


if __name__ == "__main__":
    main()
