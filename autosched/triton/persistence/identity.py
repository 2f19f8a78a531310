"""Identity of a tuning: the kernel's source, Triton's version, the device, and the values of the autotuner's key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
import triton

from autosched.triton.driver import emulated_launcher
from autosched.triton.tuning.function import NotATritonFunction, TritonFunction
from autosched.triton.tuning.problem import TritonProblem, problem_type
from measurements.files.text import first_line
from measurements.trials.measurement import Provenance
from search_spaces.hardware.devices import devices_of_driver_name
from search_spaces.spaces.schedule import Schedule

_UNSPOKEN = frozenset(" =\t\n")  # separates the fields in a problem's text


class NotPersistable(ValueError):
    """A tuning whose identity has no stable text, so other processes cannot find it. The message is one line."""


@dataclass(frozen=True)
class Identity:
    """Facts that all trials of one tuning share.

    ``timed`` is the problem under which times are stored. ``chosen`` is the problem under which the winner of the
    tuning's configurations is stored. To launch the kernel, a process only needs the trial of ``chosen``.
    ``schedules`` has the schedule of each configuration, in the order of the configurations.
    """

    timed: TritonProblem
    chosen: TritonProblem
    source: str
    toolchain: str
    device: str
    provenance: Provenance
    schedules: tuple[Schedule, ...]

    @property
    def text(self) -> str:
        """Text that identifies the tuning. It is the same in every process."""
        return " ".join((self.timed.key(), self.toolchain, self.device, self.provenance.value))


def identify(tuner: Any, names: Sequence[str], key: tuple[Any, ...], device: str | None = None) -> Identity:
    """Return the identity of a tuning.

    Args:
        tuner: The ``triton.runtime.Autotuner``.
        names: Arguments of ``key=`` that the call passes.
        key: Triton's key: the values of these arguments, followed by the types of all arguments that have a dtype.
        device: Name of the GPU; None for Triton's current GPU.

    Raises:
        NotPersistable: The key or the configurations contain an object without a stable text, or the GPU has no name.
    """
    try:
        function = TritonFunction.of(tuner)
    except NotATritonFunction as error:
        raise NotPersistable(str(error)) from error
    operator = problem_type(function.name)
    schedules = tuple(schedule_of(operator.operator, config) for config in tuner.configs)
    if len(set(schedules)) != len(schedules):
        raise NotPersistable(f"two configurations of {function.name} differ only in their hooks")
    configurations = "\0".join(sorted(schedule.key() for schedule in schedules))
    source = function.digest
    arguments = f"{_described(names, key)} source={_short(source)}"
    launcher = emulated_launcher()
    return Identity(
        timed=operator(arguments),
        chosen=operator(f"{arguments} configurations={_short(sha256(configurations.encode()).hexdigest())}"),
        source=source,
        toolchain=f"Triton {triton.__version__}",
        device=device or (_current_device() if launcher is None else launcher.device.name),
        provenance=Provenance.MEASURED if launcher is None else Provenance.ESTIMATED,
        schedules=schedules,
    )


def _short(digest: str) -> str:
    return digest[:16]


def schedule_of(template: str, config: Any) -> Schedule:
    """Return the values of a ``triton.Config`` as a schedule. Raises NotPersistable if a value has no stable text."""
    items = []
    for name, value in sorted(config.all_kwargs().items()):
        plain = value if isinstance(value, int) and not isinstance(value, bool) else _text(value)
        items.append((name, plain))
    return Schedule(template, tuple(items))


def _described(names: Sequence[str], key: tuple[Any, ...]) -> str:
    """Return the key as problem arguments."""
    values = [_text(value) for value in key]
    named = [f"{name}={text}" for name, text in zip(names, values, strict=False)]
    return " ".join([*named, f"types={','.join(values[len(named) :]) or 'none'}"])


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"({','.join(map(_text, value))})"
    if not (value is None or isinstance(value, bool | int | float | str | torch.dtype | triton.language.dtype)):
        raise NotPersistable(f"a {type(value).__name__} has no text that is the same in all processes")
    text = str(value)
    if _UNSPOKEN & set(text) or not text.isprintable():
        raise NotPersistable(f"{text!r:.60} cannot be stored as text")
    return text.removeprefix("torch.")


def _current_device() -> str:
    """Return the current GPU's name in the table of devices, or the driver's name for it if no single row matches."""
    try:
        name = str(torch.cuda.get_device_name(triton.runtime.driver.active.get_current_device()))
    except (AssertionError, RuntimeError) as error:  # torch was built without CUDA
        raise NotPersistable(f"the name of the GPU is unknown: {first_line(error)}") from error
    rows = devices_of_driver_name(name)
    return rows[0].name if len(rows) == 1 else name
