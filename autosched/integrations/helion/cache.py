"""Backend for Helion's remote cache that stores entries in autosched's database.

HELION_AUTOTUNE_CACHE=RemoteAutotuneCache HELION_REMOTE_CACHE_BACKEND=autosched.integrations.helion.DatabaseBackend
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata

from helion.autotuner import RemoteCacheBackend

from autosched.integrations.helion.problem import CACHE, CacheEntry
from autosched.version import VERSION
from measurements.files.data_folder import database_or_default, default_database
from measurements.store.store import Store, StoreError
from measurements.trials.measurement import Measurement, Provenance, Status
from measurements.trials.trial import Trial, canonical_json
from search_spaces.spaces.schedule import Schedule

_ENTRY = "entry"
_NO_TIME = "Helion's cache has no times"


class DatabaseBackend(RemoteCacheBackend):  # type: ignore[misc]
    """Stores winners of Helion's own searches in the database (path or URL) named by AUTOSCHED_DB.

    With a database server, all machines and ranks share the winners. Different kernels, devices and versions have
    different keys.
    """

    def get(self, key: str) -> str | None:
        """Return the newest entry with this key, or None without an entry or database. Raises StoreError."""
        store = self._reading()
        if store is None:
            return None
        with store:
            trials = store.trials(CacheEntry(key))
        return _text_of(trials[-1]) if trials else None

    def put(self, key: str, data: str) -> None:
        """Store an entry. Raises StoreError, and ValueError if ``data`` is not JSON."""
        entry = json.loads(data)
        fields = entry.get("key", {}).get("fields", {})
        hardware = str(fields.get("hardware") or "unknown")
        with Store.open(database_or_default(None)) as store:
            store.append(
                Trial(
                    problem_key=CacheEntry(key).key(),
                    schedule=Schedule("helion", ((_ENTRY, canonical_json(entry)),)),
                    device=hardware,
                    fingerprint=canonical_json({"device": hardware}),
                    template_version=key,
                    space_version="",
                    kernel_digest=None,
                    measurement=Measurement(Status.UNRANKED, Provenance.MEASURED, _NO_TIME),
                    toolchain=f"Helion {metadata.version('helion')}",
                    driver="",
                    autosched_version=VERSION,
                    created=datetime.now(UTC),
                    sampler="helion",
                    seed=0,
                )
            )

    def list(self, max_results: int | None = None) -> Iterable[str]:
        """Return the entries of all keys, newest first. Helion starts a search with the entries of the same kernel."""
        store = self._reading()
        if store is None:
            return ()
        with store:
            trials = [r for summary in store.problems(CACHE) for r in store.entry(summary)]
        newest = {trial.problem_key: trial for trial in sorted(trials, key=lambda trial: trial.id or 0)}
        newest_first = sorted(newest.values(), key=lambda trial: trial.id or 0, reverse=True)
        return [_text_of(trial) for trial in newest_first[:max_results]]

    def _reading(self) -> Store | None:
        try:
            return Store.open(default_database(), create=False)
        except StoreError:
            return None


def _text_of(trial: Trial) -> str:
    return trial.schedule.text(_ENTRY)
