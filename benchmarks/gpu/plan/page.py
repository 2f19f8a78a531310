"""Create the page of a plan's results."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.gpu.plan.results import Results
from search_spaces.hardware.devices import Device


def page(results: Results, device: Device, *, simulated: bool = False) -> str:
    """Return a Markdown page of the parts that have results."""
    lines = [f"# {'Simulated' if simulated else 'Measured on'} {device.name}", ""]
    for title, rows in (
        ("Bandwidth", _yardsticks(results)),
        ("Next to cuBLAS", _finals(results)),
        ("Trials", _trials(results)),
        ("Hardware counters", _plain(results, "counters", "metrics")),
        ("Host time", _times(results, "host")),
        ("Next to torch", _language(results)),
    ):
        if rows:
            lines += [f"## {title}", "", *rows, ""]
    return "\n".join(lines).rstrip()


def _yardsticks(results: Results) -> list[str]:
    yardsticks = results.of("yardsticks")
    copies = {key: row for key, row in yardsticks.items() if "entrants" in row}
    if not copies:
        return []
    best = max((_rate(row, name) for row in copies.values() for name in row["entrants"]), default=0.0)
    lines = [
        f"The highest bandwidth in all rows is {best:,.0f} GB/s. It is the reference for bandwidth.",
        "",
        "| problem | autosched, GB/s | memcpy | torch |",
        "|---|---:|---:|---:|",
    ]
    for key, row in copies.items():
        cells = [f"{_rate(row, name):,.0f}" if _rate(row, name) else "" for name in ("autosched", "copy", "torch")]
        lines.append(f"| {key} | {' | '.join(cells)} |")
    if "sustained" in yardsticks:
        rounds = yardsticks["sustained"]["rounds"]
        first, last = rounds[0], rounds[-1]
        lines += [
            "",
            f"A matmul of 8192^3 in bf16 first takes {_us(first['seconds'])}, and {_us(last['seconds'])} after "
            f"{last['at']:.1f} s, at {last['clock_mhz']} MHz; "
            f"cuBLAS takes {_us(first['library'])} and {_us(last['library'])}.",
        ]
    return lines


def _rate(row: dict[str, Any], name: str) -> float:
    median = row["entrants"][name]["median"]
    return row["bytes"] / median / 1e9 if median else 0.0


def _finals(results: Results) -> list[str]:
    rows = results.of("finals")
    if not rows:
        return []
    lines = [
        "*Ours* is the fastest of autosched's schedules. A ratio is the time of *ours* divided by the library's time, "
        "with a 95% interval; below 1, autosched is faster. *cuBLASLt* is the fastest of cuBLASLt's algorithms, "
        "including cuBLAS's own choice.",
        "",
        "| shape | ours | cuBLAS | ours / cuBLAS | ours / cuBLASLt |",
        "|---|---:|---:|---:|---:|",
    ]
    logs = []
    for key, row in rows.items():
        ours = min((e["median"] for e in row["ours"] if e["median"]), default=None)
        ratios = row["ratios"]
        if "library" in ratios:
            logs.append(math.log(ratios["library"]["median"]))
        best = max((r for r in ratios.values()), key=lambda r: r["median"], default=None)
        cells = [_us(ours), _us(row["library"]["median"]), _ratio(ratios.get("library")), _ratio(best)]
        lines.append(f"| {key} | {' | '.join(cells)} |")
    if logs:
        mean = math.exp(sum(logs) / len(logs))
        lines += ["", f"Geometric mean of {len(logs)} shapes: autosched takes {mean:.3f} times as long as cuBLAS."]
    return lines


def _trials(results: Results) -> list[str]:
    rows = {key: row for key, row in results.of("trials").items() if not row.get("cut")}
    if not rows:
        return []
    count, seconds = sum(r["measured"] for r in rows.values()), sum(r["seconds"] for r in rows.values())
    wrong = sum(r["wrong"] for r in rows.values())
    lines = [
        f"{count} trials of {len(rows)} problems in {seconds:.0f} s; {wrong} trials had wrong results.",
        "",
        "| problem | trials | best |",
        "|---|---:|---:|",
    ]
    return [*lines, *(f"| {key} | {row['measured']} | {_us(row['best'])} |" for key, row in rows.items())]


def _plain(results: Results, part: str, name: str) -> list[str]:
    lines: list[str] = []
    for key, row in results.of(part).items():
        lines += ["", f"{key}: {row['reason']}"] if name not in row else ["", f"{key}:", ""]
        lines += [f"- {metric}: {value}" for metric, value in row.get(name, {}).items()]
    return lines[1:]


def _times(results: Results, part: str) -> list[str]:
    lines = []
    for key, row in results.of(part).items():
        times = row.get("microseconds")
        text = ", ".join(f"{name} {t:.2f} us" for name, t in times.items()) if times else row["reason"]
        lines.append(f"- {key}: {text}")
    return lines


def _language(results: Results) -> list[str]:
    rows = results.of("language")
    if not rows:
        return []
    lines = ["| operator | autosched | torch | ratio | torch computes |", "|---|---:|---:|---:|---|"]
    for key, row in rows.items():
        ours, torch = row["ours"]["autosched"], row.get("microseconds", {}).get("torch")
        cells = [f"{t:.2f} us" if t else "" for t in (ours, torch)]
        ratio = f"{ours / torch:.3f}" if ours and torch else ""
        text = "; ".join(row[name] for name in ("torch_computes", "reason") if name in row)
        lines.append(f"| {key} | {' | '.join(cells)} | {ratio} | {text} |")
    return lines


def _us(seconds: float | None) -> str:
    return f"{seconds * 1e6:.2f} us" if seconds and math.isfinite(seconds) else ""


def _ratio(row: dict[str, Any] | None) -> str:
    return f"{row['median']:.3f} ({row['low']:.3f} to {row['high']:.3f})" if row else ""
