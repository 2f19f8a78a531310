"""Recordings: files of trials that were measured on a GPU. Searches replay recordings, and models learn from them.

A file is gzip-compressed JSON lines. A recording is a header line with the device, the toolchain and the number of
trials, followed by one line per trial (``Trial.to_json``). A file may contain several recordings, so files can be
joined with ``cat``. Recordings that are installed with autosched are in ``recorded/<device>/``, one file per problem:

    python -m measurements.trials.recording FILE...      # install the recordings of FILE
"""

from __future__ import annotations

import argparse
import glob
import gzip
import hashlib
import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Self

from measurements.files.atomic_write import publish
from measurements.files.text import harmless
from measurements.trials.measurement import Provenance, Status
from measurements.trials.policy import DEFAULT, NONE
from measurements.trials.problem_key import operator_of
from measurements.trials.trial import Trial, canonical_json
from measurements.trials.vendor_library import is_library
from search_spaces.operators.problem import Problem

FORMAT = 2
RECORDED = Path(__file__).resolve().parent / "recorded"
SUFFIX = ".jsonl.gz"
MOST_BYTES = 2**29  # maximum size of a decompressed file in bytes, about 400,000 trials
_LONGEST_LINE = 2**20
_SMALL = 2**24  # decompressed size in bytes up to which any compression ratio is allowed
_MOST_GROWTH = 200  # maximum compression ratio of larger files; recordings have ratios of 10 to 30
_HEAD = 2**12  # bytes at the beginning of a file that are searched for the keys of its format

_EMPTY = "the file is empty"
_NO_HEADER = "the file does not begin with the header of a recording"
_HEADER = ("problem", "device", "fingerprint", "spaces", "autosched_version", "toolchain")


class RecordingError(ValueError):
    """A file is not a recording. The message is one printable sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(harmless(message))


@dataclass(frozen=True)
class Recording:
    """Measured trials of one problem on one GPU with one toolchain, in chronological order.

    ``fingerprint`` is JSON text that describes everything that may affect times (device, driver, toolchain). ``spaces``
    has the version of each kernel template's space. Raises RecordingError if there are no trials, if trials differ in
    origin, or if a time was not measured.
    """

    trials: tuple[Trial, ...]

    def __post_init__(self) -> None:
        if not self.trials:
            raise RecordingError("a recording needs at least one trial")
        first = _origin(self.trials[0])
        for trial in self.trials:
            if trial.provenance is not Provenance.MEASURED or trial.status is Status.UNRECORDED:
                raise RecordingError(
                    f"a recording has only measured trials, but a trial is {trial.provenance} ({trial.status})"
                )
            for name, value in _origin(trial).items():
                if value != first[name]:
                    raise RecordingError(f"all trials of a recording must have the same {name}: record them separately")
            if trial.space_version != self.spaces[trial.schedule.template]:
                raise RecordingError(
                    "all trials of a template must have the same space_version: record them separately"
                )

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> tuple[Self, ...]:
        """Group ``trials`` into recordings, in the order of their first trials.

        Trials that were not measured, and trials of the vendor's library, are skipped.
        """
        groups: list[tuple[dict[str, str], dict[str, str], list[Trial]]] = []
        for trial in trials:
            if trial.provenance is not Provenance.MEASURED or is_library(trial.schedule):
                continue
            origin, template, version = _origin(trial), trial.schedule.template, trial.space_version
            fitting = (g for g in groups if g[0] == origin and g[1].get(template, version) == version)
            chosen = next(fitting, None)
            if chosen is None:
                groups.append(chosen := (origin, {}, []))
            _, spaces, group = chosen
            spaces[template] = version
            group.append(trial)
        return tuple(cls(tuple(group)) for _, _, group in groups)

    @property
    def problem(self) -> Problem:
        """Problem of the recording. Raises ValueError for an operator that this version does not know."""
        return self.trials[0].problem

    @property
    def problem_key(self) -> str:
        """Key of the problem, which all trials share."""
        return self.trials[0].problem_key

    @property
    def device(self) -> str:
        """Name of the device, which look-ups compare exactly."""
        return self.trials[0].device

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the runner, which all trials share."""
        return self.trials[0].fingerprint

    @cached_property
    def spaces(self) -> dict[str, str]:
        """Version of each template's space."""
        return {trial.schedule.template: trial.space_version for trial in reversed(self.trials)}

    @property
    def autosched_version(self) -> str:
        """Version of autosched that recorded the trials."""
        return self.trials[0].autosched_version

    @property
    def toolchain(self) -> str:
        """Compiler and version that compiled the kernels."""
        return self.trials[0].toolchain

    @property
    def ok(self) -> int:
        """Number of trials with a time."""
        return sum(r.ok for r in self.trials)


def write(path: str | os.PathLike[str], recordings: Sequence[Recording]) -> None:
    """Write ``recordings`` to ``path`` atomically. Equal recordings give equal bytes.

    Raises OSError.
    """
    _publish(Path(path), _packed(recordings))


def append(path: str | os.PathLike[str], recordings: Sequence[Recording]) -> None:
    """Append ``recordings`` to a file atomically; the file is created if missing. Raises OSError."""
    target = Path(path)
    _publish(target, (target.read_bytes() if target.exists() else b"") + _packed(recordings))


def _packed(recordings: Sequence[Recording]) -> bytes:
    lines = [json.dumps(line, separators=(",", ":")) for r in recordings for line in _lines(r)]
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def _publish(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    publish(target, content)


def read(path: str | os.PathLike[str]) -> tuple[Recording, ...]:
    """Return the recordings in a file. Raises OSError, and RecordingError if the file is malformed or truncated."""
    if Path(path).is_fifo():  # a pipe can only be read once, but the file is read twice
        raise RecordingError(f"{path} is a pipe: give a file")
    if _is_kernel_tuners(path):
        raise RecordingError(
            f"{path} is a Kernel Tuner cache, from which models cannot learn: give a recording of autosched, "
            "or search the cache with autosched replay"
        )
    with _refusing(path), gzip.open(path) as file:
        return tuple(_parsed(_read_lines(file)))


@contextmanager
def _refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors caused by a malformed file to RecordingError."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise RecordingError(f"{path} is not a complete gzip file of text: {error}") from error
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{path} is not a recording: {error}") from error


def _is_kernel_tuners(path: str | os.PathLike[str]) -> bool:
    """Return True if a file, plain or compressed by gzip, begins like a Kernel Tuner cache or T4 results."""
    with open(path, "rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            head = file.read(_HEAD)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return False
    return any(key in head for key in (b'"tune_params_keys"', b'"kernel_name"', b'"schema_version"'))


def refuse_bomb(packed: int, unpacked: int) -> None:
    """Raise ValueError if the compression ratio of a file is implausible."""
    if unpacked > max(_SMALL, _MOST_GROWTH * packed):
        raise ValueError(f"the decompressed file is more than {_MOST_GROWTH} times as large as the compressed file")


def _read_lines(file: gzip.GzipFile) -> Iterator[str]:
    """Yield lines during decompression, so that a small malicious file cannot fill the memory.

    Raises ValueError if the file or a line is too long.
    """
    left = MOST_BYTES
    packed = os.fstat(file.fileno()).st_size
    while line := file.readline(min(_LONGEST_LINE, left) + 1):
        left -= len(line)
        refuse_bomb(packed, MOST_BYTES - left)
        if len(line) > _LONGEST_LINE or left < 0:
            raise ValueError(
                f"the decompressed file has more than {MOST_BYTES:,} bytes, or a line has more than {_LONGEST_LINE:,}"
            )
        yield line.decode().rstrip("\r\n")


def find(problem_key: str, device: str, folder: str | os.PathLike[str] | None = None) -> Recording | None:
    """Return the newest recording of exactly this problem and device with the default policy; None if there is none.

    Raises RecordingError if the file is damaged.
    """
    path = path_of(problem_key, device, folder)
    if not path.is_file():
        return None
    wanted = problem_key, device
    same = [r for r in read(path) if (r.problem_key, r.device) == wanted and r.trials[0].policy in (NONE, DEFAULT)]
    return max(same, key=lambda r: r.trials[-1].created, default=None)


def recorded_problems(
    operator: str, device: str, folder: str | os.PathLike[str] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the recorded problems of an operator on a device. Only headers are read.

    Args:
        operator: Name of the operator.
        device: Name of the GPU.
        folder: Folder of the recordings. Default: RECORDED.

    Returns:
        The keys of the problems, and one line for each file whose header cannot be read.
    """
    root = Path(RECORDED if folder is None else folder) / device
    keys, unreadable = [], []
    for path in sorted(root.glob(f"{glob.escape(operator)}-*{SUFFIX}")):
        try:
            with _refusing(path), gzip.open(path) as file:
                line = next(_read_lines(file), None)
                if line is None:
                    raise ValueError(_EMPTY)
                header = json.loads(line)
                if not _is_header(header):
                    raise ValueError(_NO_HEADER)
                key = canonical_json(header["problem"])
        except (RecordingError, OSError) as error:
            unreadable.append(harmless(str(error)))
            continue
        if operator_of(key) == operator:
            keys.append(key)
    return tuple(keys), tuple(unreadable)


def installed(folder: str | os.PathLike[str] | None = None) -> dict[str, int]:
    """Return the number of recorded problems in ``folder`` (default: RECORDED), by device."""
    paths = sorted(Path(RECORDED if folder is None else folder).glob(f"*/*{SUFFIX}"))
    return dict(Counter(path.parent.name for path in paths))


def install(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """Copy the recordings in a file to ``folder`` (default: RECORDED). Existing recordings are not replaced.

    Returns the paths of the written files. Raises RecordingError and OSError.
    """
    by_path: dict[Path, list[Recording]] = {}
    for recording in read(path):
        by_path.setdefault(path_of(recording.problem_key, recording.device, folder), []).append(recording)
    for target, new in by_path.items():
        existing = read(target) if target.is_file() else ()
        write(target, [*existing, *(r for r in new if r not in existing)])
    return tuple(by_path)


def path_of(problem_key: str, device: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of a problem's recordings below ``folder`` (default: RECORDED).

    Raises:
        RecordingError: ``device`` is not a folder name.
    """
    if not device or device != os.path.basename(device) or device.startswith("."):
        raise RecordingError(f"the device name {device!r} cannot be the name of a folder")
    operator = operator_of(problem_key) or "unknown"
    if not (device + operator).isprintable():
        raise RecordingError(f"the device {device!r} or the operator {operator!r} cannot be used in a file name")
    digest = hashlib.sha256(problem_key.encode()).hexdigest()[:16]
    return Path(RECORDED if folder is None else folder) / device / f"{os.path.basename(operator)}-{digest}{SUFFIX}"


def _origin(trial: Trial) -> dict[str, str]:
    return {
        "problem": trial.problem_key,
        "device": trial.device,
        "fingerprint": trial.fingerprint,
        "autosched_version": trial.autosched_version,
        "toolchain": trial.toolchain,
    }


def _lines(recording: Recording) -> Iterator[dict[str, Any]]:
    header, first = _origin(recording.trials[0]), recording.trials[0].to_json()
    texts = {name: first[name] for name in ("problem", "fingerprint")}
    yield {"recording": FORMAT, "trials": len(recording.trials), **header, **texts, "spaces": recording.spaces}
    for trial in recording.trials:
        yield {**trial.to_json(), "id": None}  # an id is only valid in the database that assigned it


def _parsed(lines: Iterator[str]) -> Iterator[Recording]:
    header_seen = False
    for line in lines:
        header = json.loads(line)
        if not _is_header(header):
            raise ValueError(_NO_HEADER)
        if header["recording"] != FORMAT:
            raise ValueError(
                f"the file's format is {header['recording']}, but this version of autosched reads {FORMAT}: upgrade "
                "autosched"
            )
        count = header["trials"]
        if type(count) is not int or count < 0:
            raise ValueError("the header has no valid number of trials")
        # Each line is parsed before the next is decompressed, because a malicious file may have any number of lines.
        trials = tuple(Trial.from_json(json.loads(line)) for line in islice(lines, min(count, sys.maxsize)))
        if len(trials) < count:
            raise ValueError(f"the file is truncated: its header states {count} trials")
        recording = Recording(trials)
        canonical = {name: canonical_json(header[name]) for name in ("problem", "fingerprint")}
        for name, value in _origin(recording.trials[0]).items():
            if value != canonical.get(name, header[name]):
                raise ValueError(f"the header and the trials differ in {name}")
        if recording.spaces != header["spaces"]:
            raise ValueError("the header and the trials differ in the versions of their search spaces")
        header_seen = True
        yield recording
    if not header_seen:
        raise ValueError(_EMPTY)


def _is_header(line: Any) -> bool:
    return (
        isinstance(line, Mapping)
        and all(name in line for name in ("recording", "trials", *_HEADER))
        and all(isinstance(line[name], Mapping) for name in ("problem", "fingerprint"))
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the recordings in the given files, and print the paths of the written files."""
    parser = argparse.ArgumentParser(prog="python -m measurements.trials.recording", description="Install recordings.")
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"recordings ({SUFFIX})")
    parser.add_argument("--folder", default=str(RECORDED), help="target folder (default: autosched's own folder)")
    options = parser.parse_args(arguments)
    try:
        for file in options.files:
            for path in install(file, options.folder):
                print(path)
    except (RecordingError, OSError) as error:
        print(f"recording: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
