"""Checks folders of tuned configurations that vLLM and SGLang ship: a finding for each entry, and one for each file.

A configuration is compiled and proven once for each architecture that it is used on. No time is taken: what is slow
here is not seen.
"""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosched.regression.check import CannotCheck
from autosched.regression.report import Finding, Report, Verdict
from autosched.triton.configs.file_names import Format
from autosched.triton.configs.files import ConfigFile, Entry, read_folder
from autosched.triton.configs.ladder import ladder_notes
from measurements.compiler.pool import usable_cores
from measurements.emulator import HostFailure, check_host
from measurements.files.text import one_line
from measurements.workers.transport import WorkerError, WorkerFailed, WorkerTimeout
from measurements.workers.worker import Worker
from search_spaces.hardware.devices import Device

_WORKER = "autosched.triton.configs.worker"
_TIMEOUT = 300.0  # seconds of one configuration: a compile, and an emulation that has a limit of its own
_VERDICTS = {
    "sound": Verdict.SOUND,
    "compiled": Verdict.SOUND,
    "no_kernel": Verdict.CANNOT_COMPARE,
    "compile_error": Verdict.BROKEN,
    "too_large": Verdict.BROKEN,
    "wrong": Verdict.WRONG,
    "unproven": Verdict.UNCERTAIN,
}


@dataclass(frozen=True)
class ConfigCheck:
    """``device`` restricts the files to those of one device. ``emulate``: prove each configuration.
    ``triton`` is the version that must be installed, "" for whichever is."""

    format: Format
    device: Device | None = None
    emulate: bool = True
    triton: str = ""


@dataclass(frozen=True)
class ConfigEntry:
    """One entry of a file, by its place in it; ``entry`` is None for the file as a whole."""

    file: ConfigFile
    entry: Entry | None
    folder: Path

    @property
    def name(self) -> str:
        at = self.file.path.relative_to(self.folder) if self.file.path != self.folder else Path(self.file.path.name)
        return f"{at}: {self.entry.size} rows" if self.entry else str(at)


def config_entries(folder: Path, check: ConfigCheck) -> tuple[list[ConfigEntry], list[str]]:
    """The file itself and its entries, file by file; and a line for each file that is no such file.

    Raises NoConfigs, CannotCheck where no file is for the device.
    """
    files, skipped = read_folder(folder, check.format)
    if check.device is not None:
        mine = [f for f in files if f.name.device is not None and f.name.device.name == check.device.name]
        if not mine:
            held = ", ".join(sorted({f.name.device.name for f in files if f.name.device is not None}))
            raise CannotCheck(f"{folder} holds nothing for {check.device.name}, but for {held or 'no known device'}")
        files = mine
    found = []
    for file in files:
        found.append(ConfigEntry(file, None, folder))
        if file.name.device is not None:
            found += [ConfigEntry(file, entry, folder) for entry in file.entries]
    return found, skipped


def check_configs(folder: Path, check: ConfigCheck, told: Callable[[str], None] = lambda note: None) -> Report:
    """Raises NoConfigs, CannotCheck."""
    began = time.monotonic()
    entries, skipped = config_entries(folder, check)
    with ConfigJudge(check) as judge:
        findings = []
        for finding in judge.findings(entries):
            findings.append(finding)
            told("" if finding.verdict.judged and not finding.verdict.fails else finding.verdict.value)
        tools = judge.tools
    if skipped:
        tools["files of another kind"] = str(len(skipped))
    return Report(str(folder), "configs", tuple(findings), tools=tools, seconds=time.monotonic() - began)


class ConfigJudge:
    """Judges entries, in processes of its own, each distinct configuration of an architecture once.

    Raises CannotCheck where configurations cannot be proven here.
    """

    def __init__(self, check: ConfigCheck, workers: int | None = None) -> None:
        self.check = check
        self.tools: dict[str, str] = {}
        self._count = workers or usable_cores()
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._stack = ExitStack()
        self._known: dict[str, tuple[Mapping[str, Any], float]] = {}

    def __enter__(self) -> ConfigJudge:
        try:
            import torch  # noqa: F401
            import triton
        except ImportError as error:
            raise CannotCheck(
                f"--format needs Triton and torch ({error}): pip install 'autosched[triton,torch]'"
            ) from None
        if self.check.triton not in ("", triton.__version__):
            raise CannotCheck(
                f"Triton {triton.__version__} is installed: pip install triton=={self.check.triton} to check with that"
            )
        if self.check.emulate:
            try:
                check_host(source=False)
            except HostFailure as error:
                raise CannotCheck(f"the numbers cannot be checked here: {error}; or give --no-emulate") from error
        self.tools["triton"] = triton.__version__
        for _ in range(self._count):
            self._idle.put(self._stack.enter_context(Worker(_WORKER)))
        return self

    def __exit__(self, *_: Any) -> None:
        self._stack.close()

    def findings(self, entries: Sequence[ConfigEntry]) -> Iterator[Finding]:
        """One for each entry, in their order."""
        distinct = {self._key(e): e for e in reversed(entries) if self._key(e)}
        with ThreadPoolExecutor(self._count) as threads:
            jobs = {key: threads.submit(self._judged, key, entry) for key, entry in distinct.items()}
            try:
                for entry in entries:
                    key = self._key(entry)
                    if key:
                        jobs[key].result()
                    yield self.finding(entry)
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                if any(not job.done() for job in jobs.values()):
                    self._stack.close()

    def finding(self, entry: ConfigEntry) -> Finding:
        """Of one entry, which is judged now if it was not yet."""
        if entry.entry is None:
            return _of_file(entry, self.tools.get("triton", ""))
        if entry.entry.fault:
            return _finding(entry, Verdict.BROKEN, [entry.entry.fault])
        found, seconds = self._judged(self._key(entry), entry)
        numbers: dict[str, float | int | str] = {"kernel": found["kernel"]} if found.get("kernel") else {}
        for key in ("shared_bytes", "registers", "local_bytes"):
            if found.get("registers"):
                numbers[key] = found[key]
        verdict, reasons = _VERDICTS[found["status"]], [found["reason"]] if found["reason"] else []
        if found["status"] == "sound":
            numbers["error_over_tolerance"] = found["error_over_bound"]
        if found.get("local_bytes") and not verdict.fails:
            reasons.append(f"{found['local_bytes']} bytes of a thread lie in local memory: registers spill")
        if not self.check.emulate and found["status"] == "compiled":
            reasons.append("it compiles and fits; nothing was proven")
        return replace(_finding(entry, verdict, reasons, numbers), check_seconds=seconds)

    def _key(self, entry: ConfigEntry) -> str:
        """What the compiled code depends on; "" where there is nothing to compile."""
        name, device = entry.file.name, entry.file.name.device
        if entry.entry is None or entry.entry.fault or device is None:
            return ""
        kind = [name.is_moe, name.dtype, name.block_shape, name.per_channel]
        limits = [device.arch, device.shared_per_block]
        return json.dumps([*kind, *limits, entry.entry.config])

    def _judged(self, key: str, entry: ConfigEntry) -> tuple[Mapping[str, Any], float]:
        if key in self._known:
            return self._known[key]
        began = time.monotonic()
        worker = self._idle.get()
        try:
            found = self._asked(worker, entry)
        finally:
            self._idle.put(worker)
        self._known[key] = found, time.monotonic() - began
        return self._known[key]

    def _asked(self, worker: Worker, entry: ConfigEntry) -> Mapping[str, Any]:
        device = entry.file.name.device
        assert entry.entry is not None and device is not None
        request = {
            "format": self.check.format,
            "name": entry.file.path.name,
            "config": dict(entry.entry.config),
            "device": device.name,
            "prove": self.check.emulate,
        }
        try:
            return worker.request(request, _TIMEOUT)
        except WorkerFailed as error:  # our own fault: say so, and go on with the others
            return {"status": "unproven", "reason": one_line(f"it could not be judged: {error}")}
        except WorkerTimeout:
            return {"status": "unproven", "reason": f"it took more than {_TIMEOUT:.0f} s"}
        except WorkerError as error:
            return {"status": "compile_error", "reason": one_line(f"the compiler ended the process: {error}")}


def _of_file(entry: ConfigEntry, triton: str) -> Finding:
    file = entry.file
    if file.name.device is None:
        return _finding(entry, Verdict.CANNOT_COMPARE, [f"{file.name.device_name} is no NVIDIA GPU with a row here"])
    notes = list(file.notes) + ladder_notes(file.entries)
    if not file.triton:
        notes.append("nobody wrote down which Triton tuned it")
    elif triton and file.triton != triton:
        notes.append(f"Triton {file.triton} tuned it, and {triton} is installed: it may not be the fastest any more")
    return _finding(entry, Verdict.BROKEN if file.faults else Verdict.SOUND, [*file.faults, *notes])


def _finding(
    entry: ConfigEntry, verdict: Verdict, reasons: Sequence[str], numbers: Mapping[str, float | int | str] | None = None
) -> Finding:
    name = entry.file.name
    problem: dict[str, Any] = {"experts": name.experts} if name.is_moe else {"k": name.k}
    problem |= {"n": name.n, "dtype": name.dtype or "16-bit float", "rows": entry.entry.size if entry.entry else None}
    if name.block_shape:
        problem["block_shape"] = list(name.block_shape)
    return Finding(
        entry.name,
        "fused_moe" if name.is_moe else "scaled_matmul",
        problem,
        name.device.name if name.device is not None else name.device_name,
        verdict,
        tuple(reasons),
        numbers=numbers or {},
    )
