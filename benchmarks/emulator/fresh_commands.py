"""Measure the CPU seconds of ``autosched verify`` as a separate command: one schedule per operator, quick and full.

    python -m benchmarks.emulator.fresh_commands [--before TREE] [--depth quick full] [--repeats 3] [--size 4096] >
        fresh_verifications.md

``--before`` is a checkout of an earlier commit (``git worktree add``), whose commands alternate with commands of this
tree. With ``--schedule``, both trees verify the schedules that the earlier tree samples. Parameters may have been
renamed since the earlier commit, but not reordered. With ``--sample``, each tree samples its own schedules. Each number
is the minimum of ``--repeats`` runs, except for quick verifications of new kernels, which run once. "new" is the first
verification of a kernel, which includes the kernel's compilation by NVRTC. The cache then only contains the emulator's
runner, a native program. If the runner is missing, it is compiled before the measurements, which takes a minute of CPU
time. Progress is printed to stderr.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
COMMANDS = {
    "matmul": "matmul -m {size} -n {size} -k {size} --dtype f16 --template matmul",
    "matvec": "matvec -m 1 -n {size} -k {size}",
    "softmax": "softmax --rows {size} --columns {size}",
    "layernorm": "layernorm --rows {size} --columns {size}",
    "rmsnorm": "rmsnorm --rows {size} --columns {size}",
    "reduce": "reduce --rows {size} --columns {size}",
    "transpose": "transpose --rows {size} --columns {size}",
    "copy": "copy --rows {size} --columns {size}",
}
DEVICE = "a100"
NOTE = """## CPU time of a quick verification
A quick verification of RMS norm by `--schedule` takes 0.5 s of CPU time (2026-11-28, at a load of 2):

| part | CPU s |
|---|---:|
| start of Python | 0.02 |
| imports: numpy, typer, rich and 130 modules of autosched | 0.16 |
| command line, and search for NVRTC and the compiler | 0.03 |
| five launches | 0.11 |
| plan of the launches, inputs, float64 reference, comparison of 1.4 million elements | 0.13 |
| exit of Python | 0.01 |

With `--sample`, the command also counts the legal schedules.
The changes below kept all launches, blocks and checks, because these detect faults.

Changes, with the saved CPU time where it was measured:

- **2026-11-24**: NVRTC and the readers of tile programs, kernel files and PTX are only loaded when they are needed.
  Inputs are only generated for runs that are executed.
- **2026-11-26**: Python's cyclic collector ignores imported objects.
- **2026-11-27**: Options that already have the right types are converted without pydantic (0.07 s).
  Templates of other operators, records, readers of kernel files, counting of spaces and importlib.metadata are not
  imported (0.08 s).
  The emulator's runtime records each access once, and is compiled with -O2. The runtime loads an input for a whole warp
  at once, and computes several half-precision numbers at once (this saves half of the runtime's time for RMS norm).
  Inputs of sampled blocks come from a 32-bit hash, and elements that blocks write are looked up in one table (0.02 s).
  The reference computes mean and variance of a layer norm once. Kernels are only generated for the sizes that run.
- **2026-11-28**: The median fell from 0.53 to 0.49 s.
  Inputs of sampled blocks are generated in pieces that fit into a cache, and random inputs are only generated once.
  Architecture-specific instructions are detected by looking up words instead of by regular expressions.
  Source locations of a PTX program are read once. A schedule that is passed by `--schedule` is checked without counting
  all legal schedules. Seventeen frozen dataclasses were replaced by tuples.
- **2026-11-29**: Operators and rows of the device table are imported or created on first use.
  The same applies to the package `rich`, pictures and readers of files.
  Listing the operators imports no module of a command.
  A quick verification of softmax imports 544 modules instead of 573.
  The command `space copy` creates 71 dataclasses instead of 187.

CPU seconds before (590690d3) and after the changes of 2026-11-29, on two cores without a GPU, at a load of 3:

| command | before | after |
|---|---:|---:|
| quick verification (median of the eight operators) | 0.47 | 0.43 |
| `verify --help` | 0.36 | 0.22 |
| `space copy` | 0.39 | 0.29 |
| `autosched --help` | 0.33 | 0.11 |

Later on 2026-11-29: idle OpenBLAS threads now sleep immediately.
Before, they executed a busy-wait loop for 20 ms during the import of numpy.
Python does not search for reference cycles when a command ends.
Command-line options for files are declared in a separate module, and eleven more dataclasses were replaced by tuples.
A quick verification of softmax with `--schedule` (minimum of ten runs, at a load of 6) took 0.46 s before these
changes, 0.43 s after them, and 0.41 s at commit 2b5bf952.

At the end of 2026-11-29, quick verifications took 12% longer than at commit 2b5bf952 (median, all sizes 64).
Quick verifications still made the same runs, so none of the added time came from additional checks.
CPU time in ms of each cause of the slowdown, before and after the cause was fixed, at a load of 5 to 10:

| cause | before | after |
|---|---:|---:|
| the parent process freed its objects at the end, which copied memory shared with the child (`--version`) | 45 | 37 |
| all names in the headers were read, to omit constants whose names occur in no header (`copy`) | 7 | 1 |
| the check of the runner's digest held two copies of the file in memory | 6 | 2 |

The cause in the third row already existed in 2b5bf952. During the last two hours of 2026-11-29, numpy was imported
before the settings of its BLAS threads were applied. This bug is fixed.

Until 2026-11-30, full verifications of RMS norm and layer norm took 18% and 7% longer than at commit 2b5bf952.
The cause was a memory allocation, whose duration varied. Commit 2b5bf952 already contained this allocation.
The positions of 17 million written elements were computed in three arrays of 134 MB each.
The operating system clears the pages of these arrays.
This took 0.03 to 0.5 s, depending on whether huge pages were available.
Now one array is allocated, which takes 0.01 s.

These costs remain: with Python 3.11, importing a module takes 0.1 ms, and defining a frozen dataclass takes 0.5 ms.
A verification defines a hundred dataclasses. If addresses are far apart, as in a transposed matrix of 2^38 elements,
the operating system needs some microseconds for each accessed page.
"""


def seconds_of(tree: Path, cache: Path, arguments: Sequence[str]) -> float:
    """Return the CPU seconds of a command, which must accept the schedule."""
    # Let Python store compiled modules, which is its default.
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


def drawn(tree: Path, problem: Sequence[str], folder: Path) -> Path:
    """Sample a schedule with the code in ``tree``, write it to a file in ``folder``, and return the file."""
    command = [sys.executable, "-m", "autosched", "space", *problem, "--sample", "1", "--json", "--device", DEVICE]
    out = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout
    file = folder / f"schedule-{problem[0]}.json"
    file.write_text(json.dumps({"samples": json.loads(out)["samples"]}))
    return file


def drawn_by_earliest(
    trees: Mapping[str, Path], problem: Sequence[str], folders: Mapping[str, Path]
) -> dict[str, Path]:
    """Write one schedule file for each tree, and return the files.

    All files contain the schedule that the earliest tree (the last one of ``trees``) samples. Parameters are matched by
    position. If a tree samples another template, or a schedule with another number of parameters, its file contains its
    own schedule.
    """
    files = {name: drawn(tree, problem, folders[name]) for name, tree in trees.items()}
    (earliest,) = json.loads(files[list(trees)[-1]].read_text())["samples"]
    for file in files.values():
        (own,) = json.loads(file.read_text())["samples"]
        if own["template"] == earliest["template"] and len(own["schedule"]) == len(earliest["schedule"]):
            own["schedule"] = dict(zip(own["schedule"], earliest["schedule"].values(), strict=True))
            file.write_text(json.dumps({"samples": [own]}))
    return files


def with_runner(folder: Path, tree: Path) -> Path:
    """Return a cache that contains only the emulator's native runners, including the runner of ``tree``."""
    usual = Path(os.environ.get("AUTOSCHED_CACHE_DIR") or Path.home() / ".cache" / "autosched")
    progress(f"if the runner of {tree} is missing, it is compiled into {usual}")
    seconds_of(tree, usual, ["verify", "copy", "--rows", "8", "--columns", "8", "--sample", "1"])
    emulator_folder = folder / "emulator"
    emulator_folder.mkdir(parents=True)
    for file in (usual / "emulator").glob("runner-*"):
        if file.is_file():
            shutil.copy2(file, emulator_folder / file.name)
    return folder


def progress(line: str) -> None:
    """Print a line to stderr."""
    print(line, file=sys.stderr, flush=True)


def problems(size: int) -> dict[str, list[str]]:
    """Return one problem per operator, each as a list of command-line arguments."""
    return {name: text.format(size=size).split() for name, text in COMMANDS.items()}


def quick(trees: dict[str, Path], size: int, repeats: int, folder: Path) -> list[str]:
    """Return the table of quick verifications."""
    caches = {name: with_runner(folder / name, tree) for name, tree in trees.items()}
    variants = {f"{tree}, `{how}`": (tree, how) for how in ("--sample 1", "--schedule") for tree in reversed(trees)}
    new, commands = {}, {}
    for name, problem in problems(size).items():
        chosen = {tree: {"--sample 1": ["--sample", "1"]} for tree in trees}
        files = drawn_by_earliest(trees, problem, caches)
        for tree, checkout in trees.items():
            chosen[tree]["--schedule"] = ["--schedule", str(files[tree])]
            new[name, tree] = seconds_of(checkout, caches[tree], ["verify", *problem, *chosen[tree]["--schedule"]])
            # this run also compiles the kernel
            seconds_of(checkout, caches[tree], ["verify", *problem, *chosen[tree]["--sample 1"]])
            progress(f"{name}, {tree}: {new[name, tree]:.2f} s")
        for way, (tree, how) in variants.items():
            commands[name, way] = (trees[tree], caches[tree], ["verify", *problem, *chosen[tree][how]])
    least = dict.fromkeys(commands, float("inf"))
    # Measure in rounds over all operators, so that a temporarily busy machine affects all operators.
    for i in range(repeats):
        least = {key: min(known, seconds_of(*commands[key])) for key, known in least.items()}
        progress(f"round {i + 1} of {repeats}")
    rows = {
        name: [*(new[name, tree] for tree in reversed(trees)), *(least[name, way] for way in variants)]
        for name in COMMANDS
    }
    heads = [*(f"new, {tree}" for tree in reversed(trees)), *variants]
    return table("quick", heads, rows, ".2f")


def full(trees: dict[str, Path], size: int, repeats: int, folder: Path) -> list[str]:
    """Return the table of full verifications.

    Each time is the minimum of several repeats. Each repeat starts with an empty cache of compiled kernels.
    """
    caches = {name: with_runner(folder / f"full-{name}", tree) for name, tree in trees.items()}
    rows: dict[str, list[float]] = {}
    for name, problem in problems(size).items():
        rows[name] = [math.inf] * len(trees)
        files = drawn_by_earliest(trees, problem, caches)
        for _ in range(repeats):
            for column, tree in enumerate(reversed(trees)):
                command = ["verify", *problem, "--schedule", str(files[tree]), "--full"]
                with tempfile.TemporaryDirectory(dir=folder) as empty:
                    shutil.copytree(caches[tree] / "emulator", Path(empty) / "emulator")
                    seconds = seconds_of(trees[tree], Path(empty), command)
                rows[name][column] = min(rows[name][column], seconds)
        progress(f"| {name} | {rows[name]} |")
    return table("full", [f"new, {tree}, `--schedule`" for tree in reversed(trees)], rows, ".2f")


def commit_of(tree: Path) -> str:
    """Return the abbreviated commit of a tree; "no commit" outside of git."""
    command = ["git", "-C", str(tree), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "no commit"


def table(title: str, heads: Sequence[str], rows: Mapping[str, Sequence[float]], digits: str) -> list[str]:
    """Return the lines of a table, with the median of each column."""
    medians = [statistics.median(column) for column in zip(*rows.values(), strict=True)]
    return [
        f"| {title} | {' | '.join(heads)} |",
        "|---" * (len(heads) + 1) + "|",
        *(f"| {name} | {' | '.join(format(s, digits) for s in row)} |" for name, row in rows.items()),
        f"| **median** | {' | '.join(f'**{s:{digits}}**' for s in medians)} |",
    ]


def main() -> int:
    """Measure the commands, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="folder of an earlier commit's tree")
    parser.add_argument("--depth", nargs="+", choices=("quick", "full"), default=["quick", "full"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--size", type=int, default=4096, help="value of m, n, k, rows and columns (m of matvec is always 1)"
    )
    arguments = parser.parse_args()
    trees = {"now": HERE}
    if arguments.before is not None:
        if not (arguments.before / "autosched" / "__main__.py").is_file():
            parser.error(f"{arguments.before} is not a tree of this repository: git worktree add PATH COMMIT")
        trees["before"] = arguments.before.resolve()
    with tempfile.TemporaryDirectory(prefix="fresh-commands-") as folder:
        tables = []
        if "quick" in arguments.depth:
            tables.append(quick(trees, arguments.size, arguments.repeats, Path(folder)))
        if "full" in arguments.depth:
            tables.append(full(trees, arguments.size, arguments.repeats, Path(folder)))
    load = os.getloadavg()[2]
    depth = "" if len(arguments.depth) > 1 else f"--depth {arguments.depth[0]} "
    how = f"{depth}--size {arguments.size} --repeats {arguments.repeats}`"
    if arguments.before is not None:
        how = f"--before TREE {how}, where TREE is a checkout of {commit_of(arguments.before)}"
    print(
        f"# Verifications as separate commands\n`python -m benchmarks.emulator.fresh_commands {how}\n"
        f"({datetime.now(UTC):%Y-%m-%d}, two busy x86-64 cores at a load of {load:.0f}, no GPU, "
        f"CPython {platform.python_version()}).\n"
        f"The tables show CPU seconds (user and system) of `autosched verify` for {DEVICE}, including Python's start, "
        "imports and NVRTC.\nCPU times are longer on a busy machine. Goals for the medians: 0.5 s for a quick "
        "verification, 10 s for a full one.\n"
        "*before* is the checkout passed as TREE, and *now* is this checkout. *New* commands start with an empty cache "
        "of compiled kernels.\n"
    )
    print("\n\n".join("\n".join(table) for table in tables))
    print(f"\n{NOTE}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
