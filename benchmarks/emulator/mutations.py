"""Plant faults in the device code, one at a time, and check that a verification reports each fault.

    python -m benchmarks.emulator.mutations [--of headers|ptx|all] [--sample 1000] [--seed 0] [--workers 2]
        [--header F ...] [--case NAME ...] [--log FILE]
    python -m benchmarks.emulator.mutations --again LOG
    python -m benchmarks.emulator.mutations --report LOG [LOG ...]

``mutants`` edits C++ headers. ``ptx_mutants`` edits inline PTX and the PTX of golden kernels. A mutant of a header is
verified with the cases that include the header (``cases_of_mutants``), until one verification reports the mutant. A
mutant of a case's PTX is verified with this case. Verifications are quick; if all pass, the smallest cases are verified
in full. Mutants that do not compile, or that do not change the PTX of any case, do not count. Results are appended to a
log, which a later run continues. The report lists the survivors. For each survivor that is known to be an equivalent
program, ``benchmarks/emulator/equivalent_mutants.toml`` gives the reason.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from autosched.verify.run import Depth, Run
from autosched.verify.runs import Execute
from autosched.verify.schedules import verify_kernel
from benchmarks.emulator.cases_of_mutants import OF_CASE, cases_of, program
from benchmarks.emulator.mutants import Mutant, mutants_of
from benchmarks.emulator.mutation_cases import Case, all_cases, cases_of_columns
from benchmarks.emulator.ptx_equivalence import why_same
from benchmarks.emulator.ptx_mutants import asm_of, drawn_of_ptx, mutants_of_asm
from measurements.compiler.nvrtc import PTX_OPTIONS, PtxOutput, compile_to_ptx, toolchain_version
from measurements.emulator import Emulation, Order, emulate_ptx
from measurements.emulator.architecture import ptx_arch, source_arch
from measurements.files.cache_folder import cache_root, make_folder, publish
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers, include_dir

EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
FOLDERS = ("kernels", "common", "intrinsics", "ptx")
INLINE_PTX = "ptx/"  # headers in which each function wraps one instruction
WGMMA = (
    *("kernels/wgmma_matmul", "intrinsics/wgmma.cuh", "intrinsics/wgmma_copy.cuh", "intrinsics/wgmma_out.cuh"),
    *("intrinsics/wgmma_fragment.cuh", "common/finish.cuh", "common/realign.cuh"),
)  # prefixes of the headers that wgmma_matmul uses; other kernels use some of these headers too
# The time limit of a launch is TIME_LIMIT seconds or SLOWER times the time of the correct launch, whichever is longer.
TIME_LIMIT = 8.0
SLOWER = 10.0
FULL = "full verification: "  # prefix of messages from full verifications
MOST_CASES = 24  # maximum number of cases with which a header's mutant is verified; if no case reports it, it survives
FULL_CASES = 2  # if all quick verifications pass, this many of the smallest cases are also verified in full


def right_ptx(case: Case) -> PtxOutput:
    """Return the unmodified PTX of a case."""
    with _COMPILING:  # one thread compiles the PTX for all threads
        return _right_ptx(case.kernel.source, case.kernel.entry, case.kernel.compile_options)


def _right_text(case: Case) -> str:
    return right_ptx(case).text or ""


_COMPILING = Lock()


@lru_cache(maxsize=256)
def _right_ptx(source: str, entry: str, options: tuple[str, ...]) -> PtxOutput:
    """Return the PTX of a correct kernel, from the cache of this machine if an earlier run compiled it.

    Without the cache, a small run would spend most of its time on compiling correct kernels.
    """
    headers = Headers.from_folder(include_dir())
    request = (source, entry, source_arch(source, headers), headers.digest, *PTX_OPTIONS, *options, toolchain_version())
    path = cache_root() / "mutants" / f"{sha256(json.dumps(request).encode()).hexdigest()}.json"
    if path.exists():
        return PtxOutput(**json.loads(path.read_text()))
    ptx = compile_to_ptx(source, entry, source_arch(source, headers), headers, (*PTX_OPTIONS, *options))
    make_folder(path.parent)
    publish(path, json.dumps(ptx._asdict()).encode())
    return ptx


def ptx_of(kernel: GeneratedKernel) -> PtxOutput:
    return compile_to_ptx(
        kernel.source, kernel.entry, ptx_arch(kernel), kernel.headers, (*PTX_OPTIONS, *kernel.compile_options)
    )


@dataclass(frozen=True)
class Outcome:
    """Outcome of a mutant.

    ``result`` is "reported", "survived", "same" (a survivor that is an equivalent program), "unreached" or "refused"
    (by the compiler). ``said`` is the message of the verification or the compiler.
    """

    header: str
    line: int
    kind: str
    start: int
    old: str
    new: str
    result: str
    case: str
    said: str
    seconds: float


def all_mutants(header: str | None = None) -> list[Mutant]:
    """Return the mutants of every header, or of headers with this prefix ("kernels/matmul.cuh", "ptx/")."""
    root = Path(include_dir()) / "autosched"
    files = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.cuh"))
    names = [str(path.relative_to(root)) for path in files]
    if header is not None and not any(name.startswith(header) for name in names):
        raise SystemExit(f"unknown header {header}: use one of {', '.join(names)}")
    return [
        mutant
        for path, name in zip(files, names, strict=True)
        if name.startswith(header or "")
        for mutant in (mutants_of_asm if name.startswith(INLINE_PTX) else mutants_of)(name, path.read_text())
    ]


def alternate(groups: Iterable[Iterable[Mutant]]) -> Iterator[Mutant]:
    """Yield the first item of each group, then the second item of each group, and so on.

    Groups are evaluated lazily.
    """
    left = [iter(group) for group in groups]
    while left:
        having = []
        for group in left:
            for mutant in islice(group, 1):
                yield mutant
                having.append(group)
        left = having


def drawn_ptx_mutants(cases: Sequence[Case], seed: int) -> Iterator[Mutant]:
    """Yield all mutants of the PTX of ``cases`` in random order, one from each case in turn.

    A case is compiled only when its first mutant is needed.
    """

    def of_case(i: int) -> Iterator[Mutant]:
        yield from drawn_of_ptx(
            OF_CASE + cases[i].name, right_ptx(cases[i]).text or "", np.random.default_rng((seed, i))
        )

    return alternate(of_case(int(i)) for i in np.random.default_rng(seed).permutation(len(cases)))


def sample(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return ``count`` mutants in random order. A larger sample begins with the mutants of a smaller sample."""
    order = np.random.default_rng(seed).permutation(len(mutants))
    return [mutants[i] for i in order[:count]]


def sample_of_all(cases: Sequence[Case], count: int, seed: int) -> list[Mutant]:
    """Return ``count`` mutants, alternating between wgmma headers, inline PTX, all other headers, and PTX of cases.

    A larger sample begins with the mutants of a smaller sample.
    """
    parts: dict[str, list[Mutant]] = {"wgmma": [], "inline": [], "others": []}
    for mutant in all_mutants():
        inline = mutant.header.startswith(INLINE_PTX)
        parts["inline" if inline else "wgmma" if mutant.header.startswith(WGMMA) else "others"].append(mutant)
    groups = [*(sample(part, count, seed) for part in parts.values()), drawn_ptx_mutants(cases, seed)]
    return list(islice(alternate(groups), count))


def run(mutant: Mutant, cases: Iterable[Case]) -> Outcome:
    """Compile and verify ``mutant`` with the ``cases`` that contain it, until one verification reports it."""
    started = time.monotonic()
    result, case_name, message = "refused", "", ""
    files = dict(Headers.from_folder(include_dir()).files)
    of_ptx, of_asm = mutant.header.startswith(OF_CASE), mutant.header.startswith(INLINE_PTX)
    headers, opcode = Headers.of({}), ""
    tried: list[tuple[Case, GeneratedKernel, PtxOutput]] = []
    if not of_ptx:
        name = f"autosched/{mutant.header}"
        headers = Headers.of(files | {name: mutant.applied(files[name])})
        opcode = _opcode(files[name], mutant) if of_asm else ""
    columns = 0 if of_ptx else _columns(files[f"autosched/{mutant.header}"], mutant)
    verified: list[Case] = []
    chosen = cases_of_columns(columns) if columns else cases_of(mutant, cases, verified, _right_text)
    for case in chosen:
        if len(tried) == MOST_CASES:
            break
        right = right_ptx(case)
        kernel = case.kernel
        if opcode not in (right.text or ""):
            result = "unreached" if result == "refused" else result
            continue
        if of_ptx:
            compiled = right._replace(text=mutant.applied(right.text or ""))
        else:
            kernel = case.with_headers(headers)
            compiled = ptx_of(kernel)
            if compiled.text is None:  # the mutant does not compile, often because of a static_assert
                errors = [line for line in compiled.log.splitlines() if "error" in line]
                result, case_name, message = "refused", case.name, (errors or [compiled.log])[0][:200]
                break
            if program(compiled.text) == program(right.text or ""):
                result = "unreached" if result == "refused" else result
                continue
        tried.append((case, kernel, compiled))
        verified.append(case)
        result, message = _judged(_last_run(case, kernel, executed(compiled)))
        case_name = case.name
        if result != "survived":
            break
    if result == "survived":
        for case, kernel, compiled in sorted(tried, key=lambda one: one[0].cost)[:FULL_CASES]:
            result, message = _judged(_last_run(case, kernel, executed(compiled), "full"))
            case_name = case.name
            if result != "survived":
                break
    if result == "survived" and of_ptx:
        case, _, _ = tried[0]
        right = right_ptx(case)
        why = why_same(right.text or "", mutant, partial(_passes, case, right))
        result, message = ("same", why) if why else (result, message)
    seconds = round(time.monotonic() - started, 2)
    return Outcome(**asdict(mutant), result=result, case=case_name, said=message, seconds=seconds)


def _opcode(text: str, mutant: Mutant) -> str:
    """Return the opcode of the ``asm`` statement that a mutant edits, or "" if it edits no ``asm`` statement.

    The mutant affects only kernels that contain this opcode.
    """
    for asm in asm_of(text):
        if asm.start <= mutant.start < asm.end:
            return asm.opcode
    return ""


def _columns(text: str, mutant: Mutant) -> int:
    """Return n if the mutated line defines the wgmma instruction with n columns, and 0 for any other line."""
    match = re.match(r"\s*EACH\((\d+), ", text[text.rindex("\n", 0, mutant.start) + 1 :])
    return int(match[1]) if match else 0


def _judged(last: Run) -> tuple[str, str]:
    """Return a mutant's result and a message that explains it, from the last run of the mutant's verification."""
    if last.status in ("compile_error", "unsupported"):
        return "refused", last.reason[:200]
    if last.status != "ok":
        return "reported", f"{last.status}: {last.reason}"[:200]
    return "survived", ""


def _last_run(case: Case, kernel: GeneratedKernel, execute: Execute, depth: Depth = "quick") -> Run:
    """Verify ``kernel`` in place of the correct kernel of a case, and return the last run.

    The time limit is extended if the correct kernel is also slow, as on a busy machine.
    """
    last = _verified(case, kernel, execute, TIME_LIMIT, depth)
    if last.status == "timeout":
        runs = list(verify_kernel(case.problem, case.kernel, execute=executed(right_ptx(case))))
        limit = SLOWER * max(run.emulation.run_seconds for run in runs)
        if limit > TIME_LIMIT:
            last = _verified(case, kernel, execute, limit, depth)
    return last


def _verified(case: Case, kernel: GeneratedKernel, execute: Execute, time_limit: float, depth: Depth) -> Run:
    *_, last = verify_kernel(case.problem, kernel, time_limit=time_limit, depth=depth, execute=execute)
    return replace(last, reason=f"{FULL}{last.reason}") if depth == "full" and last.status != "ok" else last


def _passes(case: Case, right: PtxOutput, text: str) -> bool:
    ptx = right._replace(text=text)
    *_, last = verify_kernel(case.problem, case.kernel, time_limit=TIME_LIMIT, execute=executed(ptx))
    return last.status == "ok"


def judged_again(log: Path) -> Iterator[Outcome]:
    """Verify the survivors of the log again, and return the mutants whose result changed."""
    cases = all_cases()
    for outcome in read(log):
        if outcome.result == "survived":
            mutant = Mutant(**{name: getattr(outcome, name) for name in Mutant.__dataclass_fields__})
            rerun = run(mutant, cases)
            if rerun.result != "survived":
                yield rerun


def executed(ptx: PtxOutput) -> Execute:
    """Return a function that emulates a kernel with the PTX ``ptx`` in place of the kernel's own PTX."""

    def execute(kernel: GeneratedKernel, inputs: Mapping[str, Array], *, time_limit: float, order: Order) -> Emulation:
        return emulate_ptx(ptx.text or "", replace(kernel, entry=ptx.entry), inputs, time_limit=time_limit, order=order)

    return execute


def run_all(mutants: Sequence[Mutant], cases: Sequence[Case], log: Path, workers: int) -> Iterator[Outcome]:
    """Return the outcomes of mutants that are not in ``log``, and append each to the log immediately."""
    known = {(o.header, o.start, o.old, o.new) for o in read(log)} if log.exists() else set()
    left = [m for m in mutants if (m.header, m.start, m.old, m.new) not in known]
    print(f"{len(mutants)} mutants, of which {len(left)} are run with {len(cases)} cases", file=sys.stderr)
    with log.open("a") as file, ThreadPoolExecutor(workers) as pool:
        for done in as_completed([pool.submit(run, mutant, cases) for mutant in left]):
            outcome = done.result()
            file.write(json.dumps(asdict(outcome)) + "\n")
            file.flush()
            yield outcome


def read(log: Path) -> list[Outcome]:
    """Return the newest outcome of each mutant in the log."""
    outcomes: dict[tuple[object, ...], Outcome] = {}
    for line in log.read_text().splitlines():
        outcome = Outcome(**json.loads(line))
        outcomes[(outcome.header, outcome.start, outcome.old, outcome.new)] = outcome
    return list(outcomes.values())


def reasons() -> list[Mapping[str, Any]]:
    """Return the known reasons why survivors are equivalent programs.

    An entry has ``header`` (a prefix of the header's name), ``text`` (text that the edit touches) and ``reason``.
    ``old``, ``new`` and ``has`` (a part of the new text) restrict an entry to some edits of this text.
    """
    return list(tomllib.loads(EQUIVALENT.read_text())["mutant"])


def why_equivalent(outcome: Outcome, text: str | None, known: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the reason in ``known`` why the mutant of ``outcome`` is an equivalent program.

    ``text`` is the text of the mutated header; None for the PTX of a case.
    """
    for entry in known:
        if not outcome.header.startswith(entry["header"]) or entry.get("has", "") not in outcome.new:
            continue
        part = entry["text"]
        if not (part in outcome.old if text is None else _touches(text, part, outcome)):
            continue
        if outcome.line not in entry.get("lines", [outcome.line]):
            continue
        if entry.get("old", outcome.old) == outcome.old and entry.get("new", outcome.new) == outcome.new:
            return str(entry["reason"])
    return None


def _touches(text: str, part: str, edit: Outcome) -> bool:
    """Return True if an edit of ``text`` is inside an occurrence of ``part``, or contains one."""
    end = edit.start + len(edit.old)
    spans = (match.span() for match in re.finditer(re.escape(part), text))
    return any((a <= edit.start and end <= b) or (edit.start <= a and b <= end) for a, b in spans)


def report(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown page: scores by file and kind, survivors by reason."""
    known = reasons()
    root = Path(include_dir()) / "autosched"
    texts = {o.header: (root / o.header).read_text() for o in outcomes if not o.header.startswith(OF_CASE)}
    survivors = [o for o in outcomes if o.result in ("survived", "same")]
    why = {o: o.said or why_equivalent(o, texts.get(o.header), known) for o in survivors}
    open_ones = [o for o in survivors if why[o] is None]
    counted = [o for o in outcomes if o.result == "reported" or o in open_ones]
    reported = sum(o.result == "reported" for o in counted)
    left = Counter(o.result for o in outcomes)
    share = 100.0 * reported / len(counted) if counted else 0.0
    text = [
        f"Of {len(outcomes)} mutants, {left['refused']} do not compile, {left['unreached']} affect no case, and "
        f"{len(survivors) - len(open_ones)} are equivalent to the correct program. Of the remaining {len(counted)}, "
        f"{reported} are reported ({share:.1f}%).",
        "",
        "| file | reported | survived | equivalent | not reached | do not compile |",
        "|---|---|---|---|---|---|",
    ]
    for header in sorted({o.header for o in outcomes}):
        of_header = [o for o in outcomes if o.header == header]
        same = sum(why.get(o) is not None for o in of_header)
        by = Counter(o.result for o in of_header)
        row = (by["reported"], by["survived"] + by["same"] - same, same, by["unreached"], by["refused"])
        text.append(f"| `{header}` | " + " | ".join(map(str, row)) + " |")
    text += ["", "| fault | reported | survived |", "|---|---|---|"]
    for kind in sorted({o.kind for o in counted}):
        of_kind = Counter(o.result for o in counted if o.kind == kind)
        text.append(f"| {kind} | {of_kind['reported']} | {of_kind['survived']} |")
    for title, chosen in (("Survivors", open_ones), ("The same program", [o for o in survivors if why[o] is not None])):
        if not chosen:
            continue
        text += ["", f"## {title}", "| line | edit | why |", "|---|---|---|"]
        for o in sorted(chosen, key=lambda o: (o.header, o.line)):
            edit = " -> ".join("`" + " ".join(x.split()).replace("|", "\\|") + "`" for x in (o.old, o.new))
            text.append(f"| `{o.header}:{o.line}` | {edit} | {why[o] or ''} |")
    return "\n".join(text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", choices=("headers", "ptx", "all"), default="headers")
    parser.add_argument("--sample", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--header", nargs="+", default=[""], help="name of a header, or prefix of names (ptx/)")
    parser.add_argument("--case", nargs="+", default=[], help="only cases whose names contain this (stream_k)")
    parser.add_argument("--log", type=Path, default=Path("mutations.jsonl"))
    parser.add_argument("--report", type=Path, nargs="+", metavar="LOG")
    parser.add_argument("--again", type=Path, metavar="LOG", help="verify the survivors in a log again")
    options = parser.parse_args()
    if options.report:
        print(report([outcome for log in options.report for outcome in read(log)]), end="")
        return 0
    if options.again:
        for outcome in judged_again(options.again):
            with options.again.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
            print(f"{outcome.header}:{outcome.line} {outcome.old!r} -> {outcome.new!r}: {outcome.said}", flush=True)
        return 0
    cases = all_cases()
    if options.case:
        cases = [case for case in cases if any(name in case.name for name in options.case)]
    if options.of == "ptx":
        mutants = list(islice(drawn_ptx_mutants(cases, options.seed), options.sample))
    elif options.of == "all":
        mutants = sample_of_all(cases, options.sample, options.seed)
    else:
        chosen = [mutant for header in options.header for mutant in all_mutants(header)]
        mutants = sample(chosen, options.sample, options.seed)
    counts: Counter[str] = Counter()
    for outcome in run_all(mutants, cases, options.log, options.workers):
        counts[outcome.result] += 1
        if outcome.result == "survived":
            print(f"{outcome.header}:{outcome.line} {outcome.kind}: {outcome.old!r} -> {outcome.new!r}", flush=True)
    print(dict(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
