"""Parse ``Trial.fingerprint``, a runner's description of the machine and of the timing."""

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
    """Fields of a fingerprint; missing fields are "".

    Attributes:
        name: Full name of the device, such as "NVIDIA H200".
        arch: Architecture, such as "sm_90a".
        sm_count: Number of SMs, as text.
        cuda: Version of the CUDA runtime.
        cache: "cold" if operands came from memory, "warm" if they came from the L2 cache.
        launch: "graph" if times exclude the host, "eager" if they include it.
        clocks: "free", or the locked clock, such as "1410 MHz".
        model: Time model that estimated the time.
        derived: Origin of the device's properties, if the device is not in the tables.
        kernel: Origin of a Triton kernel from a library.
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
        """Read the JSON text of a fingerprint. Raises ValueError for text that is not a JSON object."""
        return _read(fingerprint)

    @property
    def policy(self) -> Policy:
        """Timing policy; missing fields have defaults. Raises ValueError for an invalid policy."""
        default = Policy()
        words = (self.cache or default.cache, self.launch or default.launch, self.clocks or default.clocks)
        return Policy.of(" ".join(words))

    @property
    def warm(self) -> bool:
        """True if operands were in the L2 cache."""
        return self.cache == "warm"


def stated_of(fingerprint: str) -> dict[str, str]:
    """Return all fields of a fingerprint, including fields that only other versions of autosched know.

    Raises ValueError as ``RunnerInfo.of`` does.
    """
    return {name: str(value) for name, value in _object(fingerprint).items()}


def _object(fingerprint: str) -> Mapping[str, Any]:
    content = json.loads(fingerprint)
    if not isinstance(content, Mapping):
        raise ValueError(f"a fingerprint must be a JSON object, not {fingerprint!r:.60}")
    return content


@lru_cache(maxsize=256)
def _read(fingerprint: str) -> RunnerInfo:
    content = _object(fingerprint)
    named = {"arch": "sm", **{name: name for name in _FIELDS}}
    return RunnerInfo(**{field: str(content.get(name, "") or "") for field, name in named.items()})
