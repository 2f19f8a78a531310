"""Adapter to Triton's autotuner.

Only this file uses private names of the autotuner. These names are the same in Triton 3.4 to 3.9.

Triton looks up a tuning by ``key in tuner.cache``, times each configuration by ``tuner._bench`` and stores the fastest
by ``tuner.cache[key] = config``. A dictionary that replaces ``cache`` intercepts the look-up and the store. Triton
itself computes the key.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Tuning(Protocol):
    """Tuning of a launch whose key is new in this process."""

    def answer(self) -> Any | None:
        """Return the configuration to launch, or None if Triton should tune."""

    def time_of(self, config: Any) -> Sequence[float] | None:
        """Return the stored milliseconds of a configuration: median, lower and upper quantile; None if unknown."""

    def timed(self, config: Any, milliseconds: Sequence[float]) -> None:
        """Store the times that Triton's benchmark measured."""

    def settle(self, config: Any) -> Any:
        """Return the configuration to launch, given the configuration that Triton chose."""

    def end(self) -> None:
        """Allow other processes to tune. Called exactly once for every tuning."""


MakeTuning = Callable[
    [Any, Sequence[str], tuple[Any, ...]], Tuning
]  # a function whose arguments are the autotuner, the names of the arguments in the key, and the key


def attach(make_tuning: MakeTuning) -> Callable[[], None]:
    """Call ``make_tuning`` whenever an autotuner of this process is called with a new key.

    Args:
        make_tuning: Called with the autotuner, the names of the ``key=`` arguments that the call passes, and the key.

    Returns:
        A function that undoes the attachment; choices made so far remain.
    """
    from triton.runtime.autotuner import Autotuner

    plain_run, plain_bench = Autotuner.run, Autotuner._bench

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        cache = self.cache
        if type(cache) is not _Cache or cache.make is not make_tuning:
            if len(self.configs) < 2:  # with a single configuration, Triton does not use its cache
                return plain_run(self, *args, **kwargs)
            cache = self.cache = _Cache(self, make_tuning, cache)
        cache.of_thread.call = args, kwargs
        try:
            return plain_run(self, *args, **kwargs)
        finally:
            cache.end()

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        tuning = getattr(self.cache.of_thread, "tuning", None) if type(self.cache) is _Cache else None
        known = None if tuning is None else tuning.time_of(config)
        if known is not None:
            return list(known)
        times = plain_bench(self, *args, config=config, **meta)
        if tuning is not None:
            tuning.timed(config, times if isinstance(times, list | tuple) else (times, times, times))
        return times

    Autotuner.run, Autotuner._bench = run, bench

    def detach() -> None:
        if Autotuner.run is run:
            Autotuner.run, Autotuner._bench = plain_run, plain_bench

    return detach


class _Cache(dict[tuple[Any, ...], Any]):
    """Replacement for the cache of one autotuner: the chosen configurations, by key."""

    def __init__(self, tuner: Any, make_tuning: MakeTuning, known: Mapping[tuple[Any, ...], Any]) -> None:
        super().__init__(known)
        self.tuner, self.make = tuner, make_tuning
        self.of_thread = threading.local()  # per thread: ``call`` and ``tuning`` of the current launch

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        call = getattr(self.of_thread, "call", None)
        if call is None or getattr(self.of_thread, "tuning", None) is not None or not isinstance(key, tuple):
            return False
        args, kwargs = call
        passed = {*self.tuner.arg_names[: len(args)], *kwargs}
        names = [name for name in self.tuner.keys if name in passed and name in self.tuner.arg_names]
        tuning = self.of_thread.tuning = self.make(self.tuner, names, key)
        config = tuning.answer()
        if config is None:
            return False
        super().__setitem__(key, config)
        return True

    def __setitem__(self, key: tuple[Any, ...], config: Any) -> None:
        tuning = getattr(self.of_thread, "tuning", None)
        super().__setitem__(key, config if tuning is None else tuning.settle(config))

    def end(self) -> None:
        """End the tuning of this thread's current launch."""
        tuning = getattr(self.of_thread, "tuning", None)
        self.of_thread.call = self.of_thread.tuning = None
        if tuning is not None:
            tuning.end()
