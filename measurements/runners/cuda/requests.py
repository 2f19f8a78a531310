"""Requests to a GPU worker: one class per operation, with its message format.

Cubins and arrays are sent as blobs of the message; fields name a blob by its digest.
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

    ``checks`` is the cubin of ``check_kernels``, with which results of kernels are verified.
    """

    gpu: int
    checks: str | None = None


@dataclass(frozen=True)
class Health:
    """Run known-good kernels. The reply is an error if their results are wrong."""


@dataclass(frozen=True)
class Prepare:
    """Copy a problem's inputs into rotating buffers, and obtain float64 references and tolerances.

    If the worker knows the operator, it computes inputs, reference and tolerance from the ``problem``. Otherwise, the
    request sends these arrays as blobs; ``arrays`` maps each kind of array to operands and the digests of their blobs.
    The reply is the number of ``copies``. If the worker lacks arrays, the reply has their kinds as ``missing``, and the
    reason as ``why``.
    """

    data: str  # name of the prepared data in later requests
    problem: Mapping[str, Any]
    seed: int
    operands: Sequence[Mapping[str, Any]]
    arrays: Mapping[str, Mapping[str, str]]
    cold_bytes: int  # total bytes of all rotating buffers


@dataclass(frozen=True)
class SentKernel:
    """A compiled candidate: its ``cubin``, and ``launch`` as the JSON of ``Launch``."""

    cubin: str
    launch: Mapping[str, Any]


@dataclass(frozen=True)
class Incumbent:
    """The fastest kernel so far on the same data. Later kernels are timed in pairs with it.

    Attributes:
        kernel: The kernel.
        seconds: Time of one launch.
        rule: Rule that decides whether there are enough pairs of times.
    """

    kernel: SentKernel
    seconds: float
    rule: RaceRule


@dataclass(frozen=True)
class Measure:
    """Verify a kernel, time it, and verify it again.

    Reply: a status, ``seconds``, and the reason of a failure or a note on anything unusual. With an ``incumbent``, each
        time is a ratio to the incumbent's time, multiplied by ``incumbent.seconds``.
    """

    data: str
    kernel: SentKernel
    rule: StopRule
    best: float | None  # fastest median in seconds so far on the same data
    launch_limit: float  # time limit of one launch in seconds
    graph_below: float  # in seconds; shorter launches are timed in a CUDA graph
    # if True, the reply also has the mean power over a second of launches; null if NVML does not report it
    power: bool = False
    # kernel with which this kernel is timed in pairs; None to time this kernel alone
    incumbent: Incumbent | None = None


@dataclass(frozen=True)
class Outputs:
    """Launch a kernel once. Reply: the digests of the outputs, by name."""

    data: str
    kernel: SentKernel
    launch_limit: float


@dataclass(frozen=True)
class Compare:
    """Time the kernels and the ``baselines`` (names in ``libraries.baselines``) in alternation. Reply: ``entrants``."""

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
    """Convert the result of ``to_message`` to a request. Raises ValueError if the operation or a field is unknown."""
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
