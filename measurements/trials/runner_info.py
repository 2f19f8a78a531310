"""The reader of ``Trial.fingerprint``: what a runner said of the machine and the way in which it timed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from measurements.trials.policy import Policy

_FIELDS = ("name", "sm_count", "cuda", "cache", "launch", "clocks", "model", "derived", "kernel")


@dataclass(frozen=True)
class RunnerInfo:
    """The fields of a fingerprint; a field that the runner did not state is "".

    Attributes:
        name: the device's name for people, such as "NVIDIA H200".
        arch: the architecture, such as "sm_90a".
        sm_count: how many SMs the device has, in digits.
        cuda: the version of the CUDA runtime.
        cache: "cold" where operands came from memory, "warm" where they came from the L2.
        launch: "graph" where no host is in the times, "eager" where one is.
        clocks: "free", or what they were locked to, such as "1410 MHz".
        model: the model that estimated the time.
        derived: where the device's row comes from, if it is not one of the tables.
        kernel: where the code of a library's Triton kernel comes from.
    """

    name: str = ""
    arch: str = ""
    sm_count: str = ""
    cuda: str = ""
    cache: str = ""
    launch: str = ""
    clocks: str = ""
    model: str = ""
    derived: str = ""
    kernel: str = ""

    @classmethod
    def of(cls, fingerprint: str) -> RunnerInfo:
        """Read the JSON text of a fingerprint. Raises ValueError for text that is not JSON object."""
        return _read(fingerprint)

    @property
    def policy(self) -> Policy:
        """Timing policy; missing parts have defaults. Raises ValueError for an invalid policy."""
        default = Policy()
        words = (self.cache or default.cache, self.launch or default.launch, self.clocks or default.clocks)
        return Policy.of(" ".join(words))

    @property
    def warm(self) -> bool:
        """True if operands were in the L2 cache."""
        return self.cache == "warm"


def stated_of(fingerprint: str) -> dict[str, str]:
    """Return everything that a fingerprint states, fields of other versions included.

    Raises ValueError as ``RunnerInfo.of``.
    """
    return {name: str(value) for name, value in _object(fingerprint).items()}


def _object(fingerprint: str) -> Mapping[str, Any]:
    said = json.loads(fingerprint)
    if not isinstance(said, Mapping):
        raise ValueError(f"a fingerprint is a JSON object, not {fingerprint!r:.60}")
    return said


@lru_cache(maxsize=256)
def _read(fingerprint: str) -> RunnerInfo:
    said = _object(fingerprint)
    named = {"arch": "sm", **{name: name for name in _FIELDS}}
    return RunnerInfo(**{field: str(said.get(name, "") or "") for field, name in named.items()})
