"""Tune published kernels, written as kernel files: ``python -m benchmarks.users_kernels.published``.

Each file is tuned with estimated times for one device. Every new best configuration is verified in the emulator. The
final best is verified in full. The results, and the error messages of rejected files, are in
``benchmarks/results/published_kernels.md``.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from autosched import KernelSpec, tune
from autosched.tuning.result import TuneResult
from autosched.verify import stored
from search_spaces.hardware.devices import device

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "results" / "published_kernels.md"
FROM = {"kernel_tuner": "Kernel Tuner", "hub": "benchmark hub", "bat": "BAT"}


def files() -> list[Path]:
    """Return the kernel files, ordered by origin."""
    return [path for folder in FROM for path in sorted((HERE / folder).glob("*.toml"))]


def tuned(path: Path, chip: str, trials: int, verification_seconds: float) -> TuneResult:
    """Tune the kernel of a file, and return the result. Raises ValueError if the kernel cannot be used."""
    with tempfile.TemporaryDirectory() as folder:
        return tune(
            KernelSpec.from_file(path).problem(),
            trials=trials,
            database=Path(folder) / "best.db",
            device=chip,
            backend="estimate",
            workers=1,
            verification_seconds=verification_seconds,
        )


def row(path: Path, result: TuneResult) -> str:
    space = KernelSpec.from_file(path).template.space(result.problem, result.device)
    best = result.best
    time = "none" if best is None or best.seconds is None else f"{best.seconds * 1e6:.4g} us"
    shown = "" if best is None else ", ".join(f"{k} {v}" for k, v in best.schedule.values.items())
    failures = "".join(f", {n} {status}" for status, n in result.failures.items())
    return (
        f"| {path.stem} | {FROM[path.parent.name]} | {space.count():,} | {result.ok} of {len(result.trials)}{failures} "
        f"| {time} | {shown} | {_verification(result)} |"
    )


def _verification(result: TuneResult) -> str:
    """Return the verification of the best configuration in one line, or the reason why there is none."""
    if result.best is None or result.best.verification is None:
        return result.why_none
    return stored.summary(result.best.verification).partition("; emulator")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="a100")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--verification-seconds", type=float, default=0.0)
    parser.add_argument(
        "--only", nargs="*", help="tune only these files (names without .toml), and do not write the page"
    )
    options = parser.parse_args()
    rows, verified, refused = [], 0, []
    for path in files():
        if options.only and path.stem not in options.only:
            continue
        try:
            result = tuned(path, device(options.device).name, options.trials, options.verification_seconds)
        except ValueError as error:
            refused.append(f"| {path.stem} | {FROM[path.parent.name]} | {error} |")
            print(refused[-1], flush=True)
            continue
        verified += result.best is not None and result.best.verification is not None
        rows.append(row(path, result))
        print(rows[-1], flush=True)
    seconds = options.verification_seconds
    more = f" --verification-seconds {seconds:g}" if seconds else ""
    full = f", and the final best configuration in full, for at most {seconds:g} s" if seconds else ""
    today, everything = f"{datetime.now(UTC):%Y-%m-%d}", len(rows) + len(refused)
    lines = [
        "# Published kernels, written the way their users would write them",
        f"`python -m benchmarks.users_kernels.published{more}`, {today}, NVRTC 13, two shared cores, no GPU.",
        f"Each kernel has {options.trials} trials, with estimated times for {options.device}. "
        f"Every new best configuration is verified in the emulator{full}.",
        "The kernels were written for this project, modelled on kernels of",
        "Kernel Tuner's examples, its benchmark hub and BAT. Their sizes are small enough to emulate all blocks. Each "
        "has a reference or a check in numpy.",
        "",
        f"{len(rows)} of {everything} kernels were tuned, of which {verified} are verified. {len(refused)} were "
        f"rejected.",
        "",
        "| kernel | from | configurations | trials | best (estimated) | its parameters | verification |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        "| refused | from | reason |",
        "|---|---|---|",
        *refused,
        "",
    ]
    if not options.only:
        PAGE.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
