"""Check folders of tuned configurations of vLLM and SGLang. Each file and each of its entries gets a finding.

If several files for one GPU architecture contain the same configuration, it is compiled and verified only once. Nothing
is timed, so slow configurations are not detected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosched.integrations.config_files.file_names import Format
from autosched.integrations.config_files.files import BatchConfig, ConfigFile, read_folder
from autosched.integrations.config_files.ladder import ladder_notes
from autosched.integrations.config_files.other_triton import OtherTriton
from autosched.integrations.config_files.tuning.pool import VerifierPool
from autosched.regression.check import CannotCheck
from autosched.regression.config_files import ConfigCheck
from autosched.regression.report import CheckFinding, CheckReport, EntryStatus
from measurements.emulator import HostFailure, check_ready

_NOT_LAUNCHED = {"compiled": EntryStatus.SOUND, "no_kernel": EntryStatus.CANNOT_COMPARE}


@dataclass(frozen=True)
class FileEntry:
    """An entry of a file, or, if ``entry`` is None, the file itself."""

    file: ConfigFile
    entry: BatchConfig | None
    folder: Path

    @property
    def name(self) -> str:
        """Name of the entry in reports: file and batch size."""
        at = self.file.path.relative_to(self.folder) if self.file.path != self.folder else Path(self.file.path.name)
        return f"{at}: {self.entry.size} rows" if self.entry else str(at)

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.file.path

    @property
    def entries(self) -> list[FileEntry]:
        """Only this entry; for a file, all entries of the file that can be verified."""
        if self.entry is not None:
            return [self]
        if self.file.name.device is None:
            return []
        return [replace(self, entry=entry) for entry in self.file.entries]


def config_entries(folder: Path, format: Format, check: ConfigCheck) -> tuple[list[FileEntry], list[str]]:
    """Return the entries to check, and a line for each file in another format.

    The entries of each file follow one entry for the file as a whole.

    Raises:
        NoConfigs: The folder contains no configuration file.
        CannotCheck: No file in the folder is for the device.
    """
    files, skipped = read_folder(folder, format)
    if check.device is not None:
        files_of_device = [f for f in files if f.name.device is not None and f.name.device.name == check.device.name]
        if not files_of_device:
            devices = ", ".join(sorted({f.name.device.name for f in files if f.name.device is not None}))
            raise CannotCheck(
                f"{folder} has files for {devices or 'no known device'}, but not for {check.device.name}: omit "
                f"--device or choose another device"
            )
        files = files_of_device
    entries = []
    for file in files:
        entries.append(FileEntry(file, None, folder))
        entries += entries[-1].entries
    return entries, skipped


def check_configs(
    folder: Path, format: Format, check: ConfigCheck, on_entry: Callable[[str], None] = lambda verdict: None
) -> CheckReport:
    """Verify all entries of a folder. Raises NoConfigs and CannotCheck, as ``config_entries`` does."""
    began = time.monotonic()
    entries, skipped = config_entries(folder, format, check)
    with ProcessConfigVerifier(format, check) as verifier:
        findings = []
        for finding in verifier.findings(entries):
            findings.append(finding)
            on_entry("" if finding.verdict.judged and not finding.verdict.fails else finding.verdict.value)
        tools = verifier.tools
    if skipped:
        tools["files of another kind"] = str(len(skipped))
    return CheckReport(str(folder), "configs", tuple(findings), tools=tools, seconds=time.monotonic() - began)


class ProcessConfigVerifier:
    """Verifies entries in separate processes. Each distinct configuration is verified once per GPU architecture.

    Raises CannotCheck if configurations cannot be verified on this machine.
    """

    def __init__(self, format: Format, check: ConfigCheck, workers: int | None = None) -> None:
        self.check = check
        self.tools: dict[str, str] = {}
        self._known: dict[tuple[Path, BatchConfig | None], CheckFinding] = {}
        self._pool = VerifierPool(format, verify=check.emulate, workers=workers)
        self._other = OtherTriton(format, check, workers) if check.with_python else None

    def __enter__(self) -> ProcessConfigVerifier:
        try:
            import torch  # noqa: F401
            import triton
        except ImportError as error:
            raise CannotCheck(
                f"configurations need Triton and torch ({error}): pip install 'autosched[triton,torch]'"
            ) from None
        if self.check.triton not in ("", triton.__version__):
            raise CannotCheck(
                f"Triton {triton.__version__} is installed: to check with {self.check.triton}, pip install "
                f"triton=={self.check.triton}"
            )
        if self.check.emulate:
            try:
                check_ready(source=False)
            except HostFailure as error:
                raise CannotCheck(
                    f"results cannot be verified on this machine: {error}; pass --no-emulate to skip verification"
                ) from error
        self.tools["triton"] = triton.__version__
        if self._other is not None:
            self._other.start()
            self.tools["other triton"] = self._other.version
        self._pool.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        self._pool.close()
        if self._other is not None:
            self._other.close()

    def findings(self, entries: Sequence[FileEntry]) -> Iterator[CheckFinding]:
        """Yield the finding of each entry, in order."""
        distinct = {_key(e): e for e in reversed(entries) if _key(e)}
        with ThreadPoolExecutor(self._pool.workers) as threads:
            jobs = {key: threads.submit(self._verified, entry) for key, entry in reversed(distinct.items())}
            try:
                for entry in entries:
                    for one in entry.entries:
                        if _key(one) in jobs:
                            jobs[_key(one)].result()
                    yield self.finding(entry)
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                if any(not job.done() for job in jobs.values()):
                    self._pool.close()

    def finding(self, entry: FileEntry) -> CheckFinding:
        """Return the finding of ``entry``, a single entry or a whole file. Verify entries that are not verified yet."""
        key = (entry.path, entry.entry)
        if key not in self._known:
            self._known[key] = self._finding(entry)
        return self._known[key]

    def _finding(self, entry: FileEntry) -> CheckFinding:
        if entry.entry is None:
            of_entries = [self.finding(one).verdict for one in entry.entries]
            return _of_file(entry, of_entries, self.tools.get("triton", ""))
        if entry.entry.fault:
            return _finding(entry, EntryStatus.BROKEN, [entry.entry.fault])
        outcome, seconds = self._verified(entry)
        numbers: dict[str, float | int | str] = {"kernel": outcome["kernel"]} if outcome.get("kernel") else {}
        for key in ("shared_bytes", "registers", "local_bytes"):
            if outcome.get("registers"):
                numbers[key] = outcome[key]
        verdict, reasons = _NOT_LAUNCHED.get(outcome["status"]), [outcome["reason"]] if outcome["reason"] else []
        verdict = verdict or EntryStatus.of_verdict(outcome["status"])
        if outcome["status"] == "ok":
            numbers["error_over_tolerance"] = outcome["error_over_bound"]
        if outcome.get("local_bytes") and not verdict.fails:
            reasons.append(f"{outcome['local_bytes']} bytes of local memory per thread: registers spill")
        if not self.check.emulate and outcome["status"] == "compiled":
            reasons.append("the configuration compiles and fits on the device; its results were not verified")
        if self._other is not None and not verdict.fails:
            began = time.monotonic()
            device = entry.file.name.device
            assert device is not None
            changed = self._other.compared(entry.file.name, dict(entry.entry.config), device, outcome)
            verdict, seconds = changed.verdict or verdict, seconds + time.monotonic() - began
            reasons += changed.reasons
            numbers |= changed.numbers
        return replace(_finding(entry, verdict, reasons, numbers), check_seconds=seconds)

    def _verified(self, entry: FileEntry) -> tuple[Mapping[str, Any], float]:
        device = entry.file.name.device
        assert entry.entry is not None and device is not None
        return self._pool.verified(entry.file.name, dict(entry.entry.config), device)


def _key(entry: FileEntry) -> str:
    """Return a key that is equal for entries with the same compiled code; "" if nothing is compiled."""
    device = entry.file.name.device
    if entry.entry is None or entry.entry.fault or device is None:
        return ""
    return VerifierPool.key(entry.file.name, dict(entry.entry.config), device)


def _of_file(entry: FileEntry, of_entries: Sequence[EntryStatus], triton: str) -> CheckFinding:
    """Return the finding of a file. A file is sound only if no entry fails and at least one entry was verified."""
    file = entry.file
    if file.name.device is None:
        return _finding(entry, EntryStatus.CANNOT_COMPARE, [f"{file.name.device_name} is not a known NVIDIA GPU"])
    notes = list(file.notes) + ladder_notes(file.entries)
    if not file.triton:
        notes.append("the file does not record the version of Triton that tuned it")
    elif triton and file.triton != triton:
        notes.append(f"tuned with Triton {file.triton}, not {triton}, so other configurations may now be faster")
    failing = [verdict for verdict in of_entries if verdict.fails]
    faults = list(file.faults)
    if failing:
        listed = ", ".join(f"{failing.count(verdict)} {verdict}" for verdict in EntryStatus if verdict in failing)
        faults.append(f"of {len(of_entries)} configurations: {listed}")
    if file.faults or failing:
        verdict = EntryStatus.BROKEN if file.faults else max(failing, key=list(EntryStatus).index)
    elif any(verdict.judged for verdict in of_entries):
        verdict = EntryStatus.SOUND
    else:
        # files without entries have a fault and are handled above, so this file has an entry
        verdict = of_entries[0]
    return _finding(entry, verdict, [*faults, *notes])


def _finding(
    entry: FileEntry,
    verdict: EntryStatus,
    reasons: Sequence[str],
    numbers: Mapping[str, float | int | str] | None = None,
) -> CheckFinding:
    name = entry.file.name
    problem: dict[str, Any] = {"experts": name.experts} if name.is_moe else {"k": name.k}
    problem |= {"n": name.n, "dtype": name.dtype or "16-bit float", "rows": entry.entry.size if entry.entry else None}
    if name.block_shape:
        problem["block_shape"] = list(name.block_shape)
    return CheckFinding(
        entry.name,
        "fused_moe" if name.is_moe else "scaled_matmul",
        problem,
        name.device.name if name.device is not None else name.device_name,
        verdict,
        tuple(reasons),
        numbers=numbers or {},
        file=str(entry.file.path),
    )
