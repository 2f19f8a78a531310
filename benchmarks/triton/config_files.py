"""Verify the tuned-configuration files of vLLM and SGLang: ``python -m benchmarks.triton.config_files``.

``FORMAT --device h100 --dtype fp8_w8a8 ...`` verifies the installed package's files for these devices and types, as
``autosched check --format`` does. Each distinct configuration of an architecture is compiled, checked for whether it
fits on the device, and verified with the package's own kernel. Each result is appended to ``--journal``. Configurations
in the journal are not verified again, so a long run can be divided into several short runs (``--seconds``). ``--out
PAGE`` writes a page of the journal's results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autosched.integrations.config_files.file_names import FORMATS, FileName, Format
from autosched.integrations.config_files.files import BatchConfig, NoConfigs, read_folder
from autosched.integrations.config_files.tuning.pool import VerifierPool

_FOLDERS: dict[Format, tuple[str, ...]] = {
    "vllm": ("model_executor/layers",),
    "sglang": ("srt/layers", "kernels/ops"),
}
_NAMES = {"vllm": "vLLM", "sglang": "SGLang"}
_KEPT = "\n## Runs of `autosched check`\n"  # hand-written section of the page, which is copied to the new page
_HEADINGS = (
    *("kernel", "device", "type", "entries", "distinct", "sound", "wrong", "broken", "unverified", "no kernel"),
    *("not verified", "spill", "max shared bytes", "max error"),
)
_WORDS = (
    "- *Distinct*: number of different configurations. Entries with the same architecture, type, tile, warps and "
    "stages are verified once.",
    "  The values of GROUP_SIZE_M in such entries may differ. Only the first value is verified, because "
    "GROUP_SIZE_M only affects the order of blocks.",
    "- *Sound*: number of entries whose kernel compiles for the device, and fits in shared memory and registers.",
    "  In the emulator, the kernel's results agree with float64, without races, out-of-bounds accesses or undefined "
    "values.",
    "  The verified sizes lead to partial blocks, a partial last iteration, an expert without rows and an expert that "
    "belongs to another rank (expert parallelism).",
    "- *Wrong*: number of entries whose kernel compiles and fits, but fails one of these checks in the emulator.",
    "- *Broken*: number of entries that do not compile, do not fit on the device, or are not configurations.",
    "- *Unverified*: number of entries whose emulation ended without a result, for example because of a time limit.",
    "- *No kernel*: number of entries with a type for which the package's kernel cannot be called.",
    "- *Not verified*: number of entries that the run had not reached when its time was over.",
    "- *Spill*: number of distinct configurations with register spills.",
    "- *Max error*: the largest error, divided by the error that rounding and sums in f32 allow.",
)
_RIGHT, _WRONG, _BROKEN = ("sound",), ("wrong",), ("compile_error", "too_large")


@dataclass(frozen=True)
class Shipped:
    """One entry of a configuration file. The file is for a device in the device table."""

    format: Format
    name: FileName
    entry: BatchConfig

    @property
    def key(self) -> str:
        """Return a key that is equal for entries that differ only in GROUP_SIZE_M; "" for an invalid entry."""
        device = self.name.device
        if self.entry.fault or device is None:
            return ""
        config = {name: value for name, value in self.entry.config if name != "GROUP_SIZE_M"}
        return f"{self.format} {VerifierPool.key(self.name, config, device)}"

    @property
    def dtype(self) -> str:
        return self.name.dtype or "bf16"

    @property
    def group(self) -> tuple[str, str, str, str]:
        """Return format, kernel, device and type, which together identify a row on the page."""
        device = self.name.device
        kernel = "experts" if self.name.is_moe else "matmul in blocks"
        return (
            self.format,
            kernel,
            device.name if device else "",
            self.dtype + " in blocks" * bool(self.name.block_shape),
        )


def shipped(format: Format) -> list[Shipped]:
    """Return all entries of the installed package that are for devices in the device table. Raises NoConfigs."""
    spec = find_spec(format)
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    folders = [folder for root in roots for part in _FOLDERS[format] if (folder := Path(root) / part).is_dir()]
    if not folders:
        raise NoConfigs(
            f"{format} is not installed: pip install --no-deps --target FOLDER {format}, and PYTHONPATH=FOLDER"
        )
    collected = []
    for folder in folders:
        try:
            files = read_folder(folder, format)[0]
        except NoConfigs:
            continue
        collected += [Shipped(format, f.name, entry) for f in files if f.name.device is not None for entry in f.entries]
    return collected


def judge_all(entries: Sequence[Shipped], journal: Path, known: Mapping[str, Any], workers: int, seconds: float) -> int:
    """Verify entries that are not in ``known``, and append the results to the journal.

    After ``seconds``, no verification is started. Return the number of entries that were not verified.
    """
    often = Counter(e.key for e in entries if e.key and e.key not in known)
    first = {e.key: e for e in reversed(entries)}
    jobs = {key: first[key] for key, _ in often.most_common()}
    until = time.monotonic() + seconds
    left = 0
    with VerifierPool(entries[0].format, workers=workers) as pool, journal.open("a") as out:

        def judge(entry: Shipped) -> bool:
            if time.monotonic() > until:
                return False
            device = entry.name.device
            assert device is not None
            result, took = pool.verified(entry.name, dict(entry.entry.config), device)
            line = {"key": entry.key, "seconds": took, "day": f"{datetime.now(UTC):%Y-%m-%d}", **result}
            out.write(json.dumps(line) + "\n")
            out.flush()
            if result["status"] != "sound":
                print(f"{entry.key}: {result['status']}: {result['reason']}", flush=True)
            return True

        with ThreadPoolExecutor(workers) as threads:
            left = sum(not done for done in threads.map(judge, jobs.values()))
    print(f"{len(jobs) - left} of {len(jobs)} judged, {left} left", flush=True)
    return left


def read_journal(journal: Path) -> dict[str, Any]:
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


@dataclass
class Line:
    """Results of all entries for one device and type."""

    entries: int = 0
    faults: int = 0
    keys: set[str] = field(default_factory=set)
    verdicts: Counter[str] = field(default_factory=Counter)

    def take(self, entry: Shipped, known: Mapping[str, Any]) -> None:
        self.entries += 1
        if not entry.key:
            self.faults += 1
            return
        self.keys.add(entry.key)
        self.verdicts[known[entry.key]["status"] if entry.key in known else "not judged"] += 1

    def row(self, known: Mapping[str, Any]) -> str:
        rows = [known[key] for key in self.keys if key in known]
        count = self.verdicts
        shared = max((r.get("shared_bytes", 0) for r in rows), default=0)
        error = max((r.get("error_over_bound", 0.0) for r in rows), default=0.0)
        cells = [
            *(self.entries, len(self.keys)),
            *(sum(count[s] for s in kinds) for kinds in (_RIGHT, _WRONG)),
            sum(count[s] for s in _BROKEN) + self.faults,
            *(count["unverified"], count["no_kernel"], count["not judged"]),
            *(sum(bool(r.get("local_bytes")) for r in rows), f"{shared:,}", f"{error:.2f}"),
        ]
        return " | ".join(map(str, cells))


def page(entries: Sequence[Shipped], known: Mapping[str, Any], command: str) -> str:
    """Return the page of results. Devices and types without any result are listed together in one line."""
    groups: dict[tuple[str, str, str, str], Line] = defaultdict(Line)
    for entry in entries:
        groups[entry.group].take(entry, known)
    judged = {group: line for group, line in groups.items() if line.keys & known.keys()}
    rows = [known[key] for key in {k for line in judged.values() for k in line.keys} & known.keys()]
    days = sorted({r["day"] for r in rows})
    tritons = ", ".join(sorted({r["triton"] for r in rows if r.get("triton")}))
    kernels = "; ".join(sorted({r["kernel"] for r in rows if r.get("kernel")}))
    minutes = sum(r["seconds"] for r in rows) / 60
    lines = [
        "# Configuration files of vLLM and SGLang",
        "vLLM and SGLang ship files with tuned Triton configurations. This page reports whether their entries are "
        "correct for their devices.",
        "",
        "| | |",
        "|---|---|",
        f"| command | `{command}` |",
        f"| date | {_span(days)} |",
        f"| machine | {platform.machine()}, {os.cpu_count()} cores shared with other work, no GPU, Triton {tritons} |",
        f"| time | {minutes:.0f} minutes for {len(rows)} distinct configurations |",
        "| files | from wheels of PyPI (Apache-2.0); they are not in this repository |",
        f"| kernels | the packages' own, read from their installed files: {kernels} |",
        "",
        *_WORDS,
        "",
        _hopper_bf16(entries, known),
        "",
    ]
    for format in FORMATS:
        of_format = {group: line for group, line in sorted(judged.items()) if group[0] == format}
        if not of_format:
            continue
        lines += [
            f"## {_NAMES[format]}",
            "",
            f"| {' | '.join(_HEADINGS)} |",
            f"|---|---|---|{'---:|' * (len(_HEADINGS) - 3)}",
            *(
                f"| {kernel} | {device} | {kind} | {line.row(known)} |"
                for (_, kernel, device, kind), line in of_format.items()
            ),
            f"| **all** | | | {_total(of_format.values()).row(known)} |",
            "",
        ]
        if unverified := [
            f"{group[1]} {group[2]} {group[3]} ({line.entries})"
            for group, line in sorted(groups.items())
            if group[0] == format and group not in judged
        ]:
            lines += [f"Not verified in this run: {', '.join(unverified)}.", ""]
    not_sound: dict[tuple[str, str], list[Shipped]] = defaultdict(list)
    for e in entries:
        row = {"status": "broken", "reason": e.entry.fault} if e.entry.fault else known.get(e.key, {"status": "sound"})
        if row["status"] != "sound" and e.group in judged:
            not_sound[row["status"], row["reason"]].append(e)
    if not_sound:
        lines += [
            "## Not sound",
            "",
            *(_listed(*key, shipped_files) for key, shipped_files in sorted(not_sound.items())),
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _listed(status: str, reason: str, shipped_files: Sequence[Shipped]) -> str:
    """Return a line with the files and batch sizes of all entries that failed for the same reason."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for e in shipped_files:
        sizes[f"{_NAMES[e.format]}, `{e.name.text(e.format)}`"].append(e.entry.size)
    where = "; ".join(f"{name} at {', '.join(map(str, sorted(set(at))))} rows" for name, at in sorted(sizes.items()))
    return f"- {status}: {reason}: {where}"


def _hopper_bf16(entries: Sequence[Shipped], known: Mapping[str, Any]) -> str:
    """Return a paragraph on vLLM's bf16 configurations for Hopper, with their number and the time to verify them."""
    of_hopper = [
        e
        for e in entries
        if e.group[:2] == ("vllm", "experts")
        and e.dtype == "bf16"
        and e.key
        and e.name.device is not None
        and e.name.device.arch == "sm_90a"
    ]
    keys, configurations = {e.key for e in of_hopper}, {e.entry.config for e in of_hopper}
    done = keys & known.keys()
    minutes = sum(known[key]["seconds"] for key in done) / 60
    return (
        f"vLLM's files for bf16 experts on Hopper have {len(of_hopper)} entries, with "
        f"{len(configurations)} distinct configurations, or {len(keys)} if GROUP_SIZE_M is ignored.\n"
        f"{len(done)} of {len(keys)} were verified, one after another, in {minutes:.0f} minutes.\n"
        "[moe_winners.md](moe_winners.md) compares these entries with the time model's ranking."
    )


def _total(lines: Iterator[Line] | Any) -> Line:
    total = Line()
    for line in lines:
        total.entries += line.entries
        total.faults += line.faults
        total.keys |= line.keys
        total.verdicts += line.verdicts
    return total


def _span(days: Sequence[str]) -> str:
    return "never" if not days else days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.triton.config_files", description=__doc__)
    parser.add_argument("format", nargs="?", choices=FORMATS, help="package whose files are verified; default: none")
    parser.add_argument("--device", action="append", help="only this device; may be repeated")
    parser.add_argument("--dtype", action="append", help="only this type (bf16, fp8_w8a8 ...); may be repeated")
    parser.add_argument("--journal", type=Path, default=Path("config_files.jsonl"))
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="time after which no further configuration is verified",
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="page to write")
    options = parser.parse_args()
    left = 0
    try:
        if options.format is not None:
            entries = [
                e
                for e in shipped(options.format)
                if (options.device is None or e.group[2] in options.device)
                and (options.dtype is None or e.dtype in options.dtype)
            ]
            if not entries:
                parser.error("the package has no files for these devices and types")
            known = read_journal(options.journal)
            left = judge_all(entries, options.journal, known, options.workers, options.seconds)
        if options.out is not None:
            everything = [e for format in FORMATS if find_spec(format) is not None for e in shipped(format)]
            command = f"python -m benchmarks.triton.config_files --out {options.out}"
            _, heading, notes = options.out.read_text().partition(_KEPT) if options.out.exists() else ("", "", "")
            options.out.write_text(page(everything, read_journal(options.journal), command) + heading + notes)
    except NoConfigs as error:
        parser.error(str(error))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
