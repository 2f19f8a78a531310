"""What a GPU worker can be asked: one class an operation, and how each travels as a message.

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
    """How many GPUs there are, none of which is touched. Answer: ``gpus``."""


@dataclass(frozen=True)
class Open:
    """Take the GPU with the index ``gpu``. Answer: what it is.

    ``checks`` is the cubin of ``check_kernels``; without it nothing can be measured.
    """

    gpu: int
    checks: str | None = None


@dataclass(frozen=True)
class Health:
    """Run known-good kernels; an error if their answers are wrong."""


@dataclass(frozen=True)
class Prepare:
    """Copy a problem's inputs into rotating buffers, and get float64 references and tolerances.

    Inputs, reference and tolerance each come as bytes, where ``arrays`` has them (part, operand, digest), or from the
    ``problem``, where the worker knows its operator. Answer: ``missing`` parts, which it can get neither way, and
    ``why``; else the number of ``copies``.
    """

    data: str  # names what is prepared: later requests refer to it
    problem: Mapping[str, Any]
    seed: int
    operands: Sequence[Mapping[str, Any]]
    arrays: Mapping[str, Mapping[str, str]]
    cold_bytes: int  # of all buffers together


@dataclass(frozen=True)
class SentKernel:
    """A compiled candidate: its ``cubin``, and ``launch`` as ``Launch`` writes itself as JSON."""

    cubin: str
    launch: Mapping[str, Any]


@dataclass(frozen=True)
class Incumbent:
    """The fastest kernel of this data so far, with which others are raced.

    Attributes:
        kernel: The kernel.
        seconds: Of one launch.
        rule: When the pairs of times suffice.
    """

    kernel: SentKernel
    seconds: float
    rule: RaceRule


@dataclass(frozen=True)
class Measure:
    """Verify, time, and verify again.

    Answer: a status, ``seconds``, and a reason: why there are none, or what is unusual about them. With an
    ``incumbent``, times are the ratios to its times, multiplied by its seconds.
    """

    data: str
    kernel: SentKernel
    rule: StopRule
    best: float | None  # seconds: the fastest median of this data so far
    launch_limit: float  # seconds of one launch
    graph_below: float  # seconds: shorter launches are timed in a CUDA graph
    power: bool = False  # also the mean watts of a second of launches, null where NVML does not tell
    incumbent: Incumbent | None = None  # times are taken in pairs with it


@dataclass(frozen=True)
class Outputs:
    """Launch once. Answer: the digests of the outputs, by name."""

    data: str
    kernel: SentKernel
    launch_limit: float


@dataclass(frozen=True)
class Compare:
    """Time kernels and ``baselines`` (names of ``libraries.baselines``) interleaved. Answer: ``entrants``."""

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
    """Return ``request`` as it travels: its fields, and ``op``, the name of its class."""
    return Message({"op": type(request).__name__.lower(), **dataclasses.asdict(request)}, blobs)


def from_message(message: Mapping[str, Any]) -> Request:
    """Return the request that ``to_message`` sent. Raises ValueError for another operation or other fields."""
    fields = dict(message)
    kind = _OPERATIONS.get(str(fields.pop("op", "")))
    if kind is None:
        raise ValueError(f"{message.get('op')!r} is no operation of a GPU worker: use {', '.join(_OPERATIONS)}")
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
