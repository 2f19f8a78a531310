"""Requests to a GPU worker: one class per operation, with its message format.

Cubins and arrays are blobs of the message, named here by their digests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measurements.runners.cuda.race import RaceRule
from measurements.trials.timing_statistics import StopRule
from measurements.workers.messages import Buffer, Message


@dataclass(frozen=True)
class Count:
    """Count the GPUs without using them. Reply: ``gpus``."""


@dataclass(frozen=True)
class Open:
    """Acquire the GPU with the index ``gpu``. Reply: its description.

    ``checks`` is the cubin of ``check_kernels``, which measurements need.
    """

    gpu: int
    checks: str | None = None


@dataclass(frozen=True)
class Health:
    """Run known-good kernels; an error if their results are wrong."""


@dataclass(frozen=True)
class Prepare:
    """Copy a problem's inputs into rotating buffers, and get float64 references and tolerances.

    The worker computes inputs, reference and tolerance from the ``problem`` if it knows the operator. Otherwise they
    are sent as bytes, which ``arrays`` lists (part, operand, digest). Reply: the number of ``copies``; or the
    ``missing`` parts and ``why``.
    """

    data: str  # name of the prepared data in later requests
    problem: Mapping[str, Any]
    seed: int
    operands: Sequence[Mapping[str, Any]]
    arrays: Mapping[str, Mapping[str, str]]
    cold_bytes: int  # total bytes of all buffers


@dataclass(frozen=True)
class SentKernel:
    """A compiled candidate: its ``cubin``, and ``launch`` as the JSON of ``Launch``."""

    cubin: str
    launch: Mapping[str, Any]


@dataclass(frozen=True)
class Incumbent:
    """The fastest kernel of this data so far, which others are timed in pairs with.

    Attributes:
        kernel: The kernel.
        seconds: Time of one launch.
        rule: Rule that decides when there are enough pairs of times.
    """

    kernel: SentKernel
    seconds: float
    rule: RaceRule


@dataclass(frozen=True)
class Measure:
    """Verify, time, and verify again.

    Reply: a status, ``seconds``, and the reason of a failure or a note on anything unusual. With an ``incumbent``,
    times are ratios to its times, multiplied by its seconds.
    """

    data: str
    kernel: SentKernel
    rule: StopRule
    best: float | None  # seconds: the fastest median of this data so far
    launch_limit: float  # seconds of one launch
    graph_below: float  # seconds: shorter launches are timed in a CUDA graph
    power: bool = False  # also the mean watts over a second of launches, null if NVML does not report it
    incumbent: Incumbent | None = None  # kernel to time in pairs with; None to time the kernel alone


@dataclass(frozen=True)
class Outputs:
    """Launch once. Reply: the digests of the outputs, by name."""

    data: str
    kernel: SentKernel
    launch_limit: float


@dataclass(frozen=True)
class Compare:
    """Time kernels and ``baselines`` (names of ``libraries.baselines``) interleaved. Reply: ``entrants``."""

    data: str
    kernels: Sequence[SentKernel]
    rounds: int
    baselines: Sequence[str]
    launch_limit: float
    graph_below: float


Request = Count | Open | Health | Prepare | Measure | Outputs | Compare
_OPERATIONS: dict[str, type[Request]] = {
    kind.__name__.lower(): kind for kind in (Count, Open, Health, Prepare, Measure, Outputs, Compare)
}


def to_message(request: Request, blobs: Mapping[str, Buffer] | None = None) -> Message:
    """Return ``request`` as a message: its fields, and ``op``, the name of its class."""
    return Message({"op": type(request).__name__.lower(), **dataclasses.asdict(request)}, blobs)


def from_message(message: Mapping[str, Any]) -> Request:
    """Return the request that ``to_message`` sent. Raises ValueError for another operation or other fields."""
    fields = dict(message)
    kind = _OPERATIONS.get(str(fields.pop("op", "")))
    if kind is None:
        raise ValueError(f"unknown operation {message.get('op')!r} of a GPU worker: use {', '.join(_OPERATIONS)}")
    try:
        if "kernel" in fields:
            fields["kernel"] = SentKernel(**fields["kernel"])
        if "kernels" in fields:
            fields["kernels"] = [SentKernel(**kernel) for kernel in fields["kernels"]]
        if "rule" in fields:
            fields["rule"] = StopRule(**fields["rule"])
        if fields.get("incumbent") is not None:
            sent = dict(fields["incumbent"])
            kernel, rule = SentKernel(**sent.pop("kernel")), RaceRule(**sent.pop("rule"))
            fields["incumbent"] = Incumbent(kernel, rule=rule, **sent)
        return kind(**fields)
    except TypeError as error:
        raise ValueError(f"{message['op']}: {error}") from error
