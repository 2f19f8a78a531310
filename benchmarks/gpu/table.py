"""Output of the GPU command: a line per shape during the run, and the table at its end."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from autosched.version import VERSION
from measurements.runners.cuda.libraries.baselines import OTHER_BASELINES
from measurements.trials.vendor_library import LIBRARY
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem


def table(r: Mapping[str, Any], device: Device) -> str:
    """Return a short table of the contents of ``results.json`` for a run on ``device``."""
    lines = [f"autosched {VERSION} on {r['device'].get('name', device.name)}, {r['began']}"]
    tests = r["tests"]
    if tests is not None:
        late = ", not in time" if tests["timed_out"] else ""
        lines.append(f"gpu tests: {tests['passed']} passed, {tests['failed']} failed, {tests['skipped']} skipped{late}")
    if r["agreement"]:
        same, bits = (sum(bool(row.get(k)) for row in r["agreement"]) for k in ("agrees", "same_bits"))
        lines.append(f"emulator: {same} of {len(r['agreement'])} candidates agree, {bits} bit for bit")
    for row in r["sampled"]:
        statuses = ", ".join(f"{n} {status}" for status, n in sorted(row["failures"].items())) or "all ok"
        lines.append(
            f"random schedules of {short_name(problem_from_json(row['problem']))}: {row['trials']}, {statuses}"
        )
    lines.append("")
    entrants = tuple(f"/{name}" for name in ("library", *OTHER_BASELINES))
    head = (
        "shape",
        "trials",
        "ok",
        "best",
        "us",
        "TFLOP/s",
        "GB/s",
        *entrants,
        "/library warm",
        "/cublaslt warm",
        "clear",
    )
    rows = [head, *(_cells(row) for row in r["shapes"])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    lines.append("")
    lines.append(
        "/NAME: autosched's time divided by the time of NAME in the same rounds; below 1, autosched is faster. copy: a "
        "copy of at least as many bytes. cublaslt: the fastest algorithm of cuBLASLt, including cuBLAS's own choice. "
        "warm: operands are in L2. best: whether the library or autosched had the fastest kernel. us: the time of "
        "this kernel"
    )
    geomean = _geomean([row["compared"].get("library") for row in r["shapes"]])
    if geomean:
        lines.append(f"geometric mean over {geomean[1]} shapes: {geomean[0]:.3f} times the library's time")
    lines += [f"left out: {reason}" for reason in r["left_out"]]
    return "\n".join(lines)


def named(purpose: str, problem: Problem) -> str:
    short = short_name(problem)
    return short if short.startswith(purpose) else f"{purpose} {short}"


def line(row: dict[str, Any]) -> str:
    _, trials, ok, whose, us, flops, rate, library, *_ = _cells(row)
    speed = f"{us} us, {flops} TFLOP/s, {rate} GB/s, {library} times the library's time"
    return f"{ok} of {trials} trials ok, best ({whose}) {speed}"


def short_name(problem: Problem) -> str:
    """Return a short name of a problem, which distinguishes the problems of one benchmark."""
    fields = {k: v for k, v in problem.to_json().items() if k != "operator"}
    sizes = "x".join(str(fields.pop(k)) for k in list(fields) if isinstance(fields[k], int) and fields[k] > 1)
    if isinstance(problem, Matmul):
        orders = "".join(order[0] for order in (problem.order_a, problem.order_b))
        size = f"{problem.m}x{problem.n}x{problem.k}{f' b{problem.batch}' * (problem.batch > 1)}"
        return f"{size} {problem.a} {orders}{f' {problem.epilogue}' * (problem.epilogue != 'none')}"
    return f"{problem.operator} {sizes} {fields.get('dtype', fields.get('x', ''))}".rstrip()


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    best, remeasured = row["best"], row["remeasured"]
    failed = sum(row["failures"].values())
    short = short_name(problem_from_json(row["problem"]))
    if best is None:
        return (short, str(row["trials"]), str(row["trials"] - failed), *["-"] * (8 + len(OTHER_BASELINES)))
    ratios = [_ratio(row["compared"], name) for name in ("library", *OTHER_BASELINES)]
    ratios += [_ratio(row["compared_warm"], name) for name in ("library", "cublaslt")]
    return (
        short,
        str(row["trials"]),
        str(row["trials"] - failed),
        "library" if best["template"] == LIBRARY else "own",
        f"{best['timing']['median'] * 1e6:.2f}",
        f"{row['flops_per_second'] / 1e12:.1f}",
        f"{row['bytes_per_second'] / 1e9:.0f}",
        *ratios,
        "-" if remeasured is None else "yes" if remeasured["clear"] else "no",
    )


def _ratio(compared: Mapping[str, Any], name: str) -> str:
    """Return autosched's time divided by an entrant's time.

    The time of "cublaslt" is that of cuBLASLt or of cuBLAS, whichever is shorter.
    """
    names = ("cublaslt", "library") if name == "cublaslt" and compared.get(name) else (name,)
    ratios = [(compared.get(each) or {}).get("ratio") for each in names]
    medians = [ratio["median"] for ratio in ratios if ratio is not None]
    return f"{max(medians):.3f}" if medians else "-"


def _geomean(compared: Sequence[dict[str, Any] | None]) -> tuple[float, int] | None:
    ratios = [c["ratio"]["median"] for c in compared if c is not None and c["ratio"] is not None]
    return (math.exp(statistics.fmean(math.log(r) for r in ratios)), len(ratios)) if ratios else None
