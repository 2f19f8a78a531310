"""Make unmodified ``@triton.autotune`` kernels read their choices from a database, and store new choices in it.

autosched.triton.persist("best.db")
"""

from __future__ import annotations

import atexit
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.triton.persistence import adapter
from measurements.files.cache_folder import cache_root
from measurements.files.data_folder import database_or_default
from measurements.files.text import without_password

if TYPE_CHECKING:
    from autosched.triton.persistence.answers import Answers, Milliseconds
    from autosched.triton.persistence.identity import Identity
    from autosched.triton.persistence.tuning_locks import TuningLocks
    from search_spaces.spaces.schedule import Schedule

DEFAULT_TIMEOUT = 120.0  # seconds: longer than the tuning of most kernels, shorter than NCCL's watchdog


class Persistence:
    """Result of ``persist``, with counts and ``stop``. It is a context manager that calls ``stop`` on exit.

    Args:
        database: A path or URL; None for the user's database.
        device: Name of the GPU; None for the GPU that Triton launches on.
        timeout: Time to wait for another process that tunes the same kernel, in seconds.
    """

    def __init__(self, database: str | Path | None, device: str | None, timeout: float) -> None:
        self.database = database_or_default(database)
        self.device = device
        self.timeout = timeout
        self.answered = 0  # number of keys for which Triton timed no configuration
        self.tuned = 0  # number of keys for which Triton timed a configuration
        self._answers: Answers | None = None
        self._tuning_locks: TuningLocks | None = None
        self._guard = threading.Lock()
        self._warned: set[str] = set()
        self._detach: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Attach to Triton. Modules that use the database are not imported until a kernel is tuned."""
        self._detach = adapter.attach(self._tuning)

    def stop(self) -> None:
        """Detach from Triton, and close the database. Choices made so far remain in effect."""
        self._detach()
        if self._answers is not None:
            self._answers.close()

    def __enter__(self) -> Persistence:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    @property
    def answers(self) -> Answers:
        """Database with the stored choices and times, opened on first use."""
        from autosched.triton.persistence.answers import Answers

        with self._guard:
            if self._answers is None:
                self._answers = Answers(self.database)
            return self._answers

    @property
    def tuning_locks(self) -> TuningLocks:
        """Locks by name, shared by all processes that use the same database. Created on first use."""
        from autosched.triton.persistence.tuning_locks import TuningLocks

        with self._guard:
            if self._tuning_locks is None:
                name = sha256(str(self.database).encode()).hexdigest()[:32]
                self._tuning_locks = TuningLocks(cache_root() / "persistence" / f"{name}.lock")
            return self._tuning_locks

    def report_at_exit(self) -> None:
        """Print the counts to stderr when this process ends, unless they are zero."""
        atexit.register(self._report)

    def _report(self) -> None:
        if self.answered or self.tuned:
            name = without_password(self.database)
            print(f"autosched: {name}: {self.answered} tunings answered, {self.tuned} new", file=sys.stderr)

    def warn(self, reason: str) -> None:
        """Warn that a kernel is tuned without the database, and why. Each reason is shown once per process."""
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"autosched: {reason}; Triton tunes as usual", RuntimeWarning, stacklevel=2)

    def _tuning(self, tuner: Any, names: Sequence[str], key: tuple[Any, ...]) -> _Tuning:
        return _Tuning(self, tuner, names, key)


class _Tuning:
    """Tuning of one autotuner for one new key. After a database error, Triton tunes as usual."""

    def __init__(self, owner: Persistence, tuner: Any, names: Sequence[str], key: tuple[Any, ...]) -> None:
        self._owner, self._tuner, self._names, self._key = owner, tuner, names, key
        self._identity: Identity | None = None
        self._times: dict[Schedule, Milliseconds] = {}
        self._candidates: list[Any] = []
        self._timed = False
        self._held_lock = ExitStack()

    def answer(self) -> Any | None:
        """Return the stored choice; None if Triton must tune in this process, while other processes wait."""
        owner = self._owner
        try:
            from autosched.triton.persistence.identity import identify

            identity = identify(self._tuner, self._names, self._key, owner.device)
            choice = owner.answers.choice(identity)
            if choice is None:
                if not self._held_lock.enter_context(owner.tuning_locks.of(identity.text, owner.timeout)):
                    owner.warn(f"another process has been tuning the same kernel for {owner.timeout:g} s")
                choice = owner.answers.choice(identity)
            self._times = {} if choice is not None else owner.answers.times(identity)
        # ValueError: the tuning has no identity, or the database or cache folder cannot be used
        except (ImportError, OSError, ValueError) as error:
            owner.warn(str(error))
            return None
        self._identity = identity
        if choice is None:
            return None
        self._held_lock.close()
        owner.answered += 1
        return self._config(choice)

    def time_of(self, config: Any) -> Sequence[float] | None:
        if self._identity is None:
            return None
        if config not in self._tuner.configs:  # the configuration was created by a pruning function
            self._owner.warn("a configuration is not in the kernel's list of configurations")
            self._identity = None
            return None
        self._candidates.append(config)
        return self._times.get(self._schedule(config))

    def timed(self, config: Any, milliseconds: Sequence[float]) -> None:
        self._timed = True
        if self._identity is not None:
            try:
                self._owner.answers.keep(self._identity, self._schedule(config), milliseconds)
            except (OSError, ValueError) as error:
                self._owner.warn(str(error))

    def settle(self, config: Any) -> Any:
        """Return the choice that was stored first, by this or another process."""
        owner = self._owner
        owner.tuned += self._timed
        owner.answered += not self._timed
        if self._identity is None:
            return config
        try:
            candidates = [self._schedule(each) for each in self._candidates]
            choice = owner.answers.choose(self._identity, candidates, self._schedule(config))
        except (OSError, ValueError) as error:
            owner.warn(str(error))
            return config
        finally:
            self._held_lock.close()  # let other processes continue before this one launches the kernel
        return self._config(choice)

    def end(self) -> None:
        self._held_lock.close()

    def _schedule(self, config: Any) -> Schedule:
        assert self._identity is not None
        schedules: tuple[Schedule, ...] = self._identity.schedules
        return schedules[int(self._tuner.configs.index(config))]

    def _config(self, schedule: Schedule) -> Any:
        assert self._identity is not None
        return self._tuner.configs[self._identity.schedules.index(schedule)]


def persist(
    database: str | Path | None = None, *, device: str | None = None, timeout: float = DEFAULT_TIMEOUT
) -> Persistence:
    """Make unmodified ``@triton.autotune`` kernels of this process read their choices from a database.

    A choice is identified by the kernel's source, Triton's version, the GPU and the values of ``key=``. Times are
    stored per configuration, so that the list of configurations may change. For a key that is not stored, Triton tunes,
    and the choice is stored. Concurrent processes make the same choice: one process tunes, and the other processes wait
    for it.

    Args:
        database: A path or URL. Default: the user's database.
        device: Name of the GPU. Default: the GPU that Triton launches on.
        timeout: Time to wait for another process that tunes the same kernel, in seconds. After this time, this process
            also tunes the kernel.

    Returns:
        An object that counts answered and tuned keys. Its ``stop`` method undoes the call.

    Raises:
        StoreError: The database cannot be opened for writing.
        ValueError: ``timeout`` is negative.
    """
    if not timeout >= 0:
        raise ValueError(f"timeout must be at least 0 s, got {timeout}")
    persistence = Persistence(database, device, timeout)
    persistence.answers.open()
    persistence.start()
    return persistence


def attach_served(database: str, timeout: float) -> None:
    """Attach to Triton in a process started by ``autosched serve``."""
    persistence = Persistence(database, None, timeout)
    persistence.start()
    persistence.report_at_exit()
