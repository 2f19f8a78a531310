"""Every file of TritonBench_G in the emulator: ``python -m benchmarks.triton.tritonbench FOLDER --out PAGE``.

Each file runs as by ``autosched verify --python FILE --blocks N``, in a process of its own. What came of it is a line
of ``--journal``; files that have one are not run again, unless they did not compile with another Triton, or
were not done in time with more blocks. ``judged_findings.toml`` says of each finding whether it is true.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import shlex
import statistics
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import triton

from autosched.triton import LaunchRecord, ProofSettings
from autosched.triton.program import run_program
from search_spaces.hardware.devices import device as device_named

JUDGED = Path(__file__).with_name("judged_findings.toml")
SIZES = Path(__file__).with_name("sizes")  # programs that run a file's kernels at sizes that provoke
_ENDED = "the program was ended"
_GRACE = 60.0  # seconds that a file may take beyond its limit, to end the launch that runs


@dataclass(frozen=True)
class Found:
    """A finding: ``file`` is the name of the file that ``line`` is in."""

    grade: str
    kind: str
    file: str
    line: int
    kernel: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """Of one file, compiled by a version of Triton, with so many blocks of a launch at most. ``failure`` is empty where
    the program ended well; ``left_out`` counts blocks that did not run. ``program``: in place of the file, one that
    runs its kernels at other sizes."""

    name: str
    program: str
    triton: str
    blocks: int
    seconds: float
    cpu_seconds: float
    launches: int
    kernels: int
    left_out: int
    failure: str
    found: tuple[Found, ...]

    @property
    def faults(self) -> list[Found]:
        return [f for f in self.found if f.grade == "fault"]

    def runs_again(self, blocks: int) -> bool:
        """Whether it did not compile with another Triton, or was not done with more blocks.

        A program that launches nothing may have caught what the compiler raised.
        """
        if self.failure.startswith(_ENDED):
            return blocks < self.blocks
        not_compiled = "CompilationError" in self.failure or not (self.failure or self.launches)
        return not_compiled and self.triton != triton.__version__

    def verdict(self, faults: Sequence[Found]) -> str:
        if faults:
            return "findings"
        return "not done" if self.failure or not self.launches else "clean"


def run_file(path: Path, program: Path, device: str, blocks: int, limit: float) -> Outcome:
    """``program`` is the file itself, or what imports it; the file's folder is on the path."""
    began = time.monotonic()
    # Torch and Triton take seconds to be imported: a server has them, and forks for each file.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["autosched.triton.program"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_here, args=(path, program, device, blocks, limit, sender))
    process.start()
    sender.close()
    outcome = None
    if receiver.poll(limit + _GRACE):
        with suppress(EOFError):
            outcome = receiver.recv()
    process.kill()
    process.join()
    seconds = time.monotonic() - began
    if outcome is None:
        outcome = Outcome(
            path.stem, _name_of(path, program), triton.__version__, blocks, seconds, 0.0, 0, 0, 0, _ENDED, ()
        )
    return replace(outcome, seconds=seconds)


def _run_here(path: Path, program: Path, device: str, blocks: int, limit: float, sender: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.path.insert(0, str(path.parent))
    proof = run_program(program, [], device_named(device), ProofSettings(blocks=blocks), seconds=limit)
    launches = proof.session.launches
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    outcome = Outcome(
        path.stem,
        _name_of(path, program),
        triton.__version__,
        blocks,
        0.0,
        sum(u.ru_utime + u.ru_stime for u in used),
        len(launches),
        len({launch.kernel for launch in launches}),
        sum(launch.left_out for launch in launches),
        proof.failure,
        tuple(_findings(launches)),
    )
    sender.send(outcome)


def _name_of(path: Path, program: Path) -> str:
    return "" if program == path else program.name


def _findings(launches: Sequence[LaunchRecord]) -> Iterator[Found]:
    seen = set()
    for launch in launches:
        for f in launch.findings:
            key = (f.grade, f.kind, f.file, f.line)
            if key not in seen:
                seen.add(key)
                yield Found(str(f.grade), str(f.kind), Path(f.file).name, f.line, launch.kernel, f.message)


def read(journal: Path) -> list[Outcome]:
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [_outcome(json.loads(line)) for line in lines]


def _outcome(row: dict[str, Any]) -> Outcome:
    return Outcome(**(row | {"found": tuple(Found(**f) for f in row["found"])}))


def run_all(
    folder: Path, names: Sequence[str], journal: Path, device: str, blocks: int, limit: float, workers: int
) -> list[Outcome]:
    """All files; those that the journal lacks, and those that may do better now, are run before."""
    known = {(o.name, o.program): o for o in read(journal)}
    jobs = []
    for path in (folder / f"{name}.py" for name in names):
        for program in (path, SIZES / f"{path.stem}_sizes.py"):
            outcome = known.get((path.stem, _name_of(path, program)))
            if program.exists() and (outcome is None or outcome.runs_again(blocks)):
                jobs.append((path, program))
    with journal.open("a") as out, ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(run_file, *job, device, blocks, limit) for job in jobs]
        for outcome in (done.result() for done in as_completed(running)):
            out.write(json.dumps(asdict(outcome)) + "\n")
            out.flush()
            print(
                f"{outcome.name}: {outcome.verdict(outcome.faults)} {outcome.seconds:.0f} s {outcome.failure}",
                flush=True,
            )
            known[outcome.name, outcome.program] = outcome
    return sorted(known.values(), key=lambda o: (o.name, o.program))


@dataclass(frozen=True)
class Judged:
    """What reading each file's findings came to. ``confirmed`` files have bugs that others have confirmed.
    ``compiler``: kinds of findings that are the compiler's, and why."""

    confirmed: tuple[str, ...]
    findings: Mapping[str, tuple[bool, str]]  # by file: true, and why
    failures: Mapping[str, str]  # by file: whose fault it is that it does not run
    compiler: Mapping[str, str]

    def of_file(self, outcome: Outcome) -> list[Found]:
        """Return the faults that are not the compiler's."""
        return [f for f in outcome.faults if f.kind not in self.compiler]

    @classmethod
    def read(cls, path: Path = JUDGED) -> Judged:
        data = tomllib.loads(path.read_text())
        return cls(
            tuple(data["confirmed"]),
            {name: (bool(row["true"]), str(row["why"])) for name, row in data.get("findings", {}).items()},
            dict(data.get("failures", {})),
            dict(data.get("compiler", {})),
        )


def page(outcomes: Sequence[Outcome], judged: Judged, command: str, target: str) -> str:
    """Return the page of results."""
    by_name: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.name, []).append(outcome)
    plain = [o for o in outcomes if not o.program]
    seen = {o.name for o in outcomes if any(f.file == f"{o.name}.py" for f in judged.of_file(o))}
    as_it_is = {o.name for o in plain if judged.of_file(o)}
    reported = [name for name in judged.confirmed if name in seen]
    at_sizes = len([name for name in reported if name not in as_it_is])
    others = [name for name in by_name if name not in judged.confirmed]
    with_findings = [name for name in others if any(judged.of_file(o) for o in by_name[name])]
    false = [name for name in with_findings if name in judged.findings and not judged.findings[name][0]]
    open_ = [name for name in by_name if any(judged.of_file(o) for o in by_name[name]) and name not in judged.findings]
    compiled = {kind: [o.name for o in plain if any(f.kind == kind for f in o.faults)] for kind in judged.compiler}
    failed = [o for o in plain if o.failure or not o.launches]
    cpu = [o.cpu_seconds for o in plain]
    lines = [
        "# TritonBench_G in the emulator",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores shared with other work, for "
        f"{target}: `{command}`.",
        "",
        "The files are those of thunlp/TritonBench, `data/TritonBench_G_v1` (Apache-2.0), unchanged, on CPU tensors. "
        "Confirmed memory bugs are those of thunlp/TritonBench#12. Of a launch with more blocks than the table says, "
        "so many ran, once, in ascending order. What Triton 3.9 does not compile (block pointers) ran with 3.6.",
        "",
        f"- Of the {len(judged.confirmed)} files with confirmed bugs, {len(reported)} are reported at a line of the "
        f"file (compute-sanitizer, by the same thread: 8), {at_sizes} of them only at a size of our own (`sizes/`).",
        f"- Of the {len(others)} others that were run, {len(with_findings)} have findings. Read one by one: "
        f"{len(with_findings) - len(false) - len(set(open_) & set(with_findings))} true, {len(false)} false, "
        f"{len(set(open_) & set(with_findings))} not read.",
        f"- {len(failed)} of {len(plain)} files did not run to their end; what was found before counts.",
        f"- A file takes {statistics.median(cpu):.0f} s of CPU in the median, {_quantile(cpu, 0.9):.0f} s at the 90th "
        f"percentile: compiles and emulation, without the 4 s in which torch and Triton are imported, and without what "
        f"was running when a file was ended. {sum(cpu) / 60:.0f} minutes for all. On this machine, used by others too, "
        f"a file took {statistics.median(o.seconds for o in plain):.0f} s in the median.",
        "",
        "## Files with confirmed bugs",
        "",
        "| file | reported at | what |",
        "|---|---|---|",
        *(_row(name, by_name.get(name, []), judged) for name in judged.confirmed),
        "",
        "## Findings in other files",
        "",
        "| file | reported at | what |",
        "|---|---|---|",
        *(_row(name, by_name[name], judged) for name in with_findings),
        "",
        "## Findings of the compiler's",
        "",
        *(
            f"- {why}. In {len(names)} files: {', '.join(names)}."
            for kind, why in judged.compiler.items()
            if (names := compiled[kind])
        ),
        "",
        "## Files that did not run to their end",
        "",
        "| file | why |",
        "|---|---|",
        *(f"| {o.name} | {judged.failures.get(o.name) or _cell(o.failure or 'launches no kernel')} |" for o in failed),
        "",
        "## All",
        "",
        "| file | verdict | Triton | launches | blocks of one, at most | left out of all | CPU s |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {o.name}{' at sizes' * bool(o.program)} | {o.verdict(judged.of_file(o))} | {o.triton} | {o.launches} "
            f"| {o.blocks} | {o.left_out} | {o.cpu_seconds:.0f} |"
            for o in outcomes
        ),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, outcomes: Sequence[Outcome], judged: Judged) -> str:
    places: dict[str, dict[int, None]] = {}
    for outcome in outcomes:
        for f in judged.of_file(outcome):
            places.setdefault(f.kind, {})[f.line] = None
    shown = "; ".join(f"{kind} {', '.join(map(str, sorted(lines)))}" for kind, lines in places.items())
    if name in judged.findings:
        true, why = judged.findings[name]
        text = why if true else f"**False.** {why}"
    else:
        text = "not read" if shown else judged.failures.get(name, "not reported")
    return f"| {name} | {shown or '-'} | {text} |"


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) < 200 else f"{text[:120]} ... {text[-70:]}"


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="data/TritonBench_G_v1 of a clone of thunlp/TritonBench")
    parser.add_argument("--out", type=Path, help="the page that is written")
    parser.add_argument("--journal", type=Path, default=Path("tritonbench.jsonl"))
    parser.add_argument("--device", default="h100")
    parser.add_argument("--blocks", type=int, default=8, help="of larger launches only so many blocks run")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a file")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--file", action="append", help="only this one, without .py")
    parser.add_argument("--page-only", action="store_true", help="run nothing; write the page of what the journal has")
    given = parser.parse_args()
    judged = Judged.read()
    names = sorted(path.stem for path in given.folder.glob("*.py"))
    if not names:
        parser.error(f"{given.folder} has no Python files")
    if given.file:
        names = given.file
    elif given.page_only:
        names = []
    # Those with confirmed bugs first.
    names = sorted(names, key=lambda name: name not in judged.confirmed)
    outcomes = run_all(given.folder, names, given.journal, given.device, given.blocks, given.limit, given.workers)
    if given.out:
        shown = f"python -m benchmarks.triton.tritonbench data/TritonBench_G_v1 --device {given.device} --blocks "
        shown += shlex.join([str(given.blocks), "--limit", f"{given.limit:g}", "--out", str(given.out)])
        given.out.write_text(page(outcomes, judged, shown, given.device))


if __name__ == "__main__":
    main()
