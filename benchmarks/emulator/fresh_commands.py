"""CPU seconds of ``autosched verify`` as a command of its own: one schedule of each operator, quickly and fully.

    python -m benchmarks.emulator.fresh_commands [--before TREE] [--depth quick full] [--repeats 3] >
    fresh_verifications.md

``--before`` is the tree of an earlier commit, whose commands run in turns with those of this one. Seconds are user and
system, of the command and all its processes; that of a quick verification is the least of ``--repeats``. The cache has
nothing but the runner at first: "new" is the first verification of a kernel, which NVRTC compiles, "again" a later one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from measurements.emulator import cache_folder
from measurements.emulator.host.build import runner

HERE = Path(__file__).resolve().parents[2]
COMMANDS = {
    "matmul": "matmul -m 4096 -n 4096 -k 4096 --dtype f16 --template matmul",
    "matvec": "matvec -m 1 -n 4096 -k 4096",
    "softmax": "softmax --rows 4096 --columns 4096",
    "layernorm": "layernorm --rows 4096 --columns 4096",
    "rmsnorm": "rmsnorm --rows 4096 --columns 4096",
    "reduce": "reduce --rows 4096 --columns 4096",
    "transpose": "transpose --rows 4096 --columns 4096",
    "copy": "copy --rows 4096 --columns 4096",
}
DEVICE = "a100"
NOTE = """## What a quick verification takes
Of the 0.5 s of RMS norm by `--schedule`, at a load of 2, on 2026-11-28: Python's start 0.02, to import numpy, typer,
rich and 130 modules of our own 0.16, to read the command and look for NVRTC and the compiler 0.03, five launches 0.11,
to plan them, draw inputs, run the float64 reference and compare 1.4 million elements 0.13, Python's end 0.01.
`--sample` adds what it takes to count the space. What the launches and comparisons do is what finds the faults: fewer
launches, blocks or checks were not tried.

What was done, in order. On 2026-11-24: NVRTC and what reads tile programs, kernel files and PTX are loaded only where
they are needed; inputs are drawn only of runs that are made. On 2026-11-26: the garbage collector leaves alone what
was imported. On 2026-11-27, each with what it saves: options that are typed right are converted without pydantic
(0.07 s); templates of other operators, records, readers of kernel files, what counts spaces and importlib.metadata are
not imported (0.08 s); the runner marks an access once, is compiled by -O2 throughout and takes a warp's loads of an
input together, half-precision numbers several at a time (half of its time in RMS norm); inputs of sampled blocks come
from a hash of 32 bits, and what blocks have written from one table (0.02 s); moments of a layer norm are computed once;
kernels are made of those sizes alone that are run.

On 2026-11-28, in the median 0.53 s before and 0.49 s behind it: inputs of sampled blocks are made in pieces that fit a
cache; a quick verification draws random inputs once and not again for the run in turns; the words that tell a kernel's
architecture are looked for as words, not as patterns; the places of a program are read once; a schedule that is given
is checked without what counts spaces; seventeen records are tuples and not frozen dataclasses.

What resists: a module costs 0.1 ms, but each frozen dataclass 0.5 ms under Python 3.11, and a verification needs eighty
of them; where addresses lie far apart, as in a transposed matrix of 2^38 elements, each page that is touched takes the
kernel some microseconds.
"""


def seconds_of(tree: Path, cache: Path, arguments: Sequence[str]) -> float:
    """Return the CPU seconds of a command, which must say that the schedule passes."""
    # Modules are kept compiled, as Python does where nobody tells it not to.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "autosched", *arguments, "--device", DEVICE],
        cwd=tree, env={**environment, "AUTOSCHED_CACHE_DIR": str(cache)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def drawn(problem: Sequence[str], folder: Path) -> Path:
    """Return the file of the schedule that ``--sample 1`` draws."""
    command = [sys.executable, "-m", "autosched", "space", *problem, "--sample", "1", "--json", "--device", DEVICE]
    out = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout
    file = folder / f"{problem[0]}.json"
    file.write_text(json.dumps({"samples": json.loads(out)["samples"]}))
    return file


def with_runner(folder: Path, tree: Path) -> Path:
    """Return a cache that holds the runner of ``tree`` alone."""
    kept = folder / "emulator"
    kept.mkdir(parents=True)
    for file in cache_folder().glob("runner-*"):
        shutil.copy2(file, kept / file.name)
    seconds_of(tree, folder, ["verify", "copy", "--rows", "8", "--columns", "8", "--sample", "1"])  # else it is built
    return folder


def quick(before: Path | None, repeats: int, folder: Path) -> list[str]:
    """Return the table of quick verifications."""
    trees = {"now": HERE, **({} if before is None else {"before": before})}
    caches = {name: with_runner(folder / name, tree) for name, tree in trees.items()}
    ways = {f"{tree}, `{how}`": (tree, how) for how in ("--sample 1", "--schedule") for tree in reversed(trees)}
    new, commands = {}, {}
    for name, text in COMMANDS.items():
        problem = text.split()
        file = drawn(problem, folder)
        chosen = {"--sample 1": ["--sample", "1"], "--schedule": ["--schedule", str(file)]}
        first = {tree: seconds_of(trees[tree], caches[tree], ["verify", *problem, "--sample", "1"]) for tree in trees}
        new[name] = first["now"]
        for way, (tree, how) in ways.items():
            commands[name, way] = (trees[tree], caches[tree], ["verify", *problem, *chosen[how]])
    least = dict.fromkeys(commands, float("inf"))
    # Round after round, so that a machine that is busy for a while makes no single operator look slow.
    for i in range(repeats):
        least = {key: min(known, seconds_of(*commands[key])) for key, known in least.items()}
        print(f"round {i + 1} of {repeats}", file=sys.stderr, flush=True)
    rows = {name: [new[name], *(least[name, way] for way in ways)] for name in COMMANDS}
    lines = [f"| quick | new, now | {' | '.join(ways)} |", "|---" * (len(ways) + 2) + "|"]
    lines += [f"| {name} | {' | '.join(f'{s:.2f}' for s in row)} |" for name, row in rows.items()]
    medians = [statistics.median(column) for column in zip(*rows.values(), strict=True)]
    return [*lines, f"| **median** | {' | '.join(f'**{s:.2f}**' for s in medians)} |"]


def full(folder: Path) -> list[str]:
    """Return the table of full verifications, once each, of kernels that nobody has compiled yet."""
    cache, seconds = with_runner(folder / "full", HERE), {}
    for name, text in COMMANDS.items():
        file = drawn(text.split(), folder)
        seconds[name] = seconds_of(HERE, cache, ["verify", *text.split(), "--schedule", str(file), "--full"])
        print(f"| {name} | {seconds[name]:.1f} |", file=sys.stderr, flush=True)
    lines = [f"| {name} | {s:.1f} |" for name, s in seconds.items()]
    return [
        "| full | new, `--schedule` |",
        "|---|---|",
        *lines,
        f"| **median** | **{statistics.median(seconds.values()):.1f}** |",
    ]


def main() -> int:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a tree of an earlier commit")
    parser.add_argument("--depth", nargs="+", choices=("quick", "full"), default=["quick", "full"])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    runner()
    with tempfile.TemporaryDirectory(prefix="fresh-commands-") as place:
        tables = []
        if "quick" in arguments.depth:
            tables.append(quick(arguments.before, arguments.repeats, Path(place)))
        if "full" in arguments.depth:
            tables.append(full(Path(place)))
    load = os.getloadavg()[2]
    print(
        f"# Verifications as commands of their own\n`python -m benchmarks.emulator.fresh_commands`, "
        f"{datetime.now(UTC):%Y-%m-%d}, a 2-core x86-64 machine with a load of {load:.0f}, "
        f"CPython {platform.python_version()}.\n"
        f"CPU seconds, user and system, of `autosched verify` for {DEVICE}: Python's start, imports, NVRTC are\n"
        "among them. A busy machine makes them longer. Goals, in the median: a quick verification 0.5 s, a full one "
        "10 s.\n"
    )
    print("\n\n".join("\n".join(table) for table in tables))
    print(f"\n{NOTE}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
