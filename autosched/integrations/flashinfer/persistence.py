"""Store the choices of FlashInfer's autotuner in a database that several processes share.

Only FlashInfer's public interface is used: ``AutoTuner.get``, ``load_configs``, ``save_configs``, ``clear_cache`` and
the context ``autotune``, which are the same in versions 0.6.18 to 0.7.4. Entries are exchanged with FlashInfer through
its cache file, and stored unchanged. An entry belongs to the environment that FlashInfer records: the GPU, and the
versions of FlashInfer, CUDA, cuBLAS and cuDNN. If several entries have the same key, the first stored entry is used.
"""

from __future__ import annotations

import atexit
import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from autosched.version import VERSION
from measurements.files.data_folder import database_or_default
from measurements.files.text import without_password
from measurements.files.work_folders import temporary_folder
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status
from measurements.trials.trial import Trial, canonical_json
from search_spaces.arrays import Array, FloatArray
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import Problem, option
from search_spaces.spaces.schedule import Schedule

_MODULE = "flashinfer.autotuner.autotuner"
_NAME = "flashinfer"
_METADATA = "_metadata"
_UNIDENTIFIED = (None, "None", "unknown")


@dataclass(frozen=True)
class FlashInferEnvironment(Problem):
    """The tunings of one environment, as a problem. The schedule of a trial is an entry of FlashInfer's cache file."""

    operator: ClassVar[str] = _NAME
    summary: ClassVar[str] = "tunings of FlashInfer in one environment"

    environment: str = option("Digest of the GPU and of the versions of FlashInfer and its libraries.")

    def operands(self) -> tuple[Operand, ...]:
        """Return no operands, because FlashInfer owns the arrays."""
        return ()

    @property
    def flops(self) -> float:
        """0, because the number of operations is unknown."""
        return 0.0

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Raise ValueError, because there is no reference."""
        raise ValueError("FlashInfer's kernels have no reference here")

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Raise ValueError, because there is no reference."""
        raise ValueError("FlashInfer's kernels have no reference here")


class FlashInferEntries:
    """The FlashInfer entries of a database. Methods raise StoreError if the database cannot be used."""

    def __init__(self, database: str | Path | None) -> None:
        self.database = database_or_default(database)

    def read(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first stored value of each key."""
        problem, device, toolchain = _identity(metadata)
        entries: dict[str, Any] = {}
        with Store.open(self.database) as store:
            for trial in store.trials(problem, device, Provenance.MEASURED):
                if trial.toolchain == toolchain:
                    items = dict(trial.schedule.items)
                    entries.setdefault(str(items["key"]), json.loads(str(items["value"])))
        return entries

    def add(self, metadata: Mapping[str, Any], entries: Mapping[str, Any]) -> None:
        """Store entries, in one transaction."""
        problem, device, toolchain = _identity(metadata)
        trials = [
            Trial(
                problem_key=problem.key(),
                schedule=Schedule(_NAME, (("key", key), ("value", canonical_json(value)))),
                device=device,
                fingerprint=canonical_json({"device": device, "toolchain": toolchain, "by": _NAME}),
                template_version=str(metadata.get("flashinfer_version")),
                space_version="",
                kernel_digest=None,
                measurement=Measurement(Status.UNRANKED, Provenance.MEASURED, "FlashInfer stores no times"),
                toolchain=toolchain,
                driver="",
                autosched_version=VERSION,
                created=datetime.now(UTC),
                sampler=_NAME,
                seed=0,
            )
            for key, value in sorted(entries.items())
        ]
        with Store.open(self.database) as store:
            store.extend(trials, unless_since=store.newest())


class FlashInferPersistence:
    """Result of ``persist``, with counts and a ``stop`` method.

    Args:
        database: A path or URL; None for the user's database.
        device: Name of the GPU for tunings in which FlashInfer does not record it. None: such tunings are rejected.
    """

    def __init__(self, database: str | Path | None = None, device: str | None = None) -> None:
        self.entries = FlashInferEntries(database)
        self.answered = 0  # number of stored entries loaded into FlashInfer at the start
        self.tuned = 0  # number of new entries from this process
        self._device = device
        self._loaded = False
        self._contexts = 0
        self._guard = threading.RLock()
        self._warned: set[str] = set()
        self._detach: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Import FlashInfer's autotuner and attach to it."""
        module: Any = import_module(_MODULE)
        tuner, plain_autotune, plain_get = module.AutoTuner, module.autotune, module.AutoTuner.__dict__["get"]

        def get(cls: Any) -> Any:
            tuner = plain_get.__get__(None, cls)()
            self._load_once(tuner)
            return tuner

        @contextmanager
        def autotune(*args: Any, **kwargs: Any) -> Iterator[None]:
            with self._guard:
                self._contexts += 1
            try:
                with plain_autotune(*args, **kwargs):
                    # load the stored entries again, because ``clear_cache`` has also dropped the loaded entries
                    if kwargs.get("cache", args[1] if len(args) > 1 else None) is not None:
                        self._tried(self._load, tuner.get())
                    yield
            finally:  # store new entries now: FlashInfer has written its own cache file at the end of the context
                with self._guard:
                    self._contexts -= 1
                    if not self._contexts:
                        self._tried(self._settle, tuner.get())

        homes = [m for name in (_MODULE, "flashinfer.autotuner", "flashinfer") if (m := sys.modules.get(name))]
        homes = [m for m in homes if getattr(m, "autotune", None) is plain_autotune]
        for home in homes:
            home.autotune = autotune  # type: ignore[attr-defined]
        tuner.get = classmethod(get)

        def detach() -> None:
            tuner.get = plain_get
            for home in homes:
                home.autotune = plain_autotune  # type: ignore[attr-defined]

        self._detach = detach

    def stop(self) -> None:
        """Detach from FlashInfer. Entries that FlashInfer has loaded remain."""
        self._detach()

    def report_at_exit(self) -> None:
        """Print the counts to stderr when this process ends, unless they are zero."""
        atexit.register(self._report)

    def _report(self) -> None:
        if self.answered or self.tuned:
            name = without_password(self.entries.database)
            print(f"autosched: {name}: FlashInfer: {self.answered} entries loaded, {self.tuned} new", file=sys.stderr)

    def _load_once(self, tuner: Any) -> None:
        with self._guard:
            if not self._loaded:
                self._loaded = True
                self.answered = self._tried(self._load, tuner) or 0

    def _tried(self, action: Callable[[Any], int], tuner: Any) -> int | None:
        """Run ``action``. Print database errors as warnings, so that they never end the program."""
        try:
            return action(tuner)
        except (OSError, ValueError, KeyError) as error:
            if str(error) not in self._warned:
                self._warned.add(str(error))
                warnings.warn(f"autosched: {error}; FlashInfer tunes as usual", RuntimeWarning, stacklevel=3)
            return None

    def _load(self, tuner: Any) -> int:
        """Load the stored entries into FlashInfer, and return their number."""
        own = _saved(tuner)
        entries = self.entries.read(self._identified(own[_METADATA]))
        _hand_over(tuner, {**{k: v for k, v in own.items() if k.startswith("_")}, **_tactics(own), **entries})
        return len(entries)

    def _settle(self, tuner: Any) -> int:
        """Store FlashInfer's new entries.

        If another process has stored other values for the same keys first, load those values into FlashInfer, so that
        all processes agree.
        """
        own = _saved(tuner)
        metadata, tactics = self._identified(own[_METADATA]), _tactics(own)
        known = self.entries.read(metadata)
        new = {key: value for key, value in tactics.items() if key not in known}
        if new:
            self.entries.add(metadata, new)
            known = self.entries.read(metadata)
            self.tuned += len(new)
        differs = any(known[key] != value for key, value in tactics.items())
        if differs:  # another process stored a different value first
            tuner.clear_cache()
            _hand_over(tuner, {**{k: v for k, v in own.items() if k.startswith("_")}, **known})
        return len(known)

    def _identified(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        gpu = metadata.get("gpu")
        if gpu in _UNIDENTIFIED:
            if self._device is None:
                raise ValueError("FlashInfer does not record the name of the GPU")
            return {**metadata, "gpu": self._device}
        return metadata


def persist(database: str | Path | None = None, *, device: str | None = None) -> FlashInferPersistence:
    """Make FlashInfer's autotuner read its choices from a database, and store new choices in it.

    Args:
        database: A path or URL. Default: the user's database.
        device: Name of the GPU for tunings in which FlashInfer does not record it. Default: such tunings are not
            stored.

    Returns:
        An object that counts loaded and new entries. Its ``stop`` method undoes the call.

    Raises:
        ImportError: FlashInfer is not installed.
        StoreError: The database cannot be opened for writing.
    """
    persistence = FlashInferPersistence(database, device)
    Store.open(persistence.entries.database).close()
    persistence.start()
    return persistence


def attach_served(database: str, timeout: float) -> None:
    """Attach to FlashInfer in a process started by ``autosched serve``.

    ``timeout`` is ignored, because processes that tune with FlashInfer do not wait for each other, unlike with Triton.
    """
    persistence = FlashInferPersistence(database)
    persistence.start()
    persistence.report_at_exit()


def _identity(metadata: Mapping[str, Any]) -> tuple[FlashInferEnvironment, str, str]:
    toolchain = f"FlashInfer {metadata.get('flashinfer_version')}"
    digest = sha256(canonical_json(dict(metadata)).encode()).hexdigest()[:16]
    return FlashInferEnvironment(digest), str(metadata["gpu"]), toolchain


def _saved(tuner: Any) -> dict[str, Any]:
    """Return the content of the cache file that FlashInfer would write now."""
    with temporary_folder("flashinfer") as folder:
        file = folder / "cache.json"
        tuner.save_configs(str(file))
        content: dict[str, Any] = json.loads(file.read_text("utf-8"))
        return content


def _hand_over(tuner: Any, content: Mapping[str, Any]) -> None:
    with temporary_folder("flashinfer") as folder:
        file = folder / "cache.json"
        file.write_text(json.dumps(content), "utf-8")
        tuner.load_configs(str(file))


def _tactics(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a cache file. All keys that begin with an underscore are metadata."""
    return {key: value for key, value in content.items() if not key.startswith("_")}
