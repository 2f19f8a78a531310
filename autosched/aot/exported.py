"""A compiled kernel to export, with its launch, its verification and the provenance of its schedule."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from autosched.aot.portable import PortableLaunch
from autosched.dispatch.provenance import KernelProvenance
from autosched.user_kernels.problem import KernelProblem
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import Device
from search_spaces.launches.launch import Launch
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import RowProblem


@dataclass(frozen=True)
class ExportedKernel:
    """A compiled kernel to export. ``launch.entry`` is the name of the kernel in the cubin.

    ``verification`` is the JSON text that the kernel's trial stores; None if this exact kernel was not verified.
    ``seconds`` is the time of the trial; 0 if a model chose the schedule.
    """

    problem: Problem
    device: Device
    launch: Launch
    portable: PortableLaunch
    cubin: bytes = field(repr=False)
    ptx: str | None = field(repr=False)
    verification: str | None = field(repr=False)
    provenance: KernelProvenance

    @property
    def digest(self) -> str:
        """Digest of the cubin."""
        return hashlib.sha256(self.cubin).hexdigest()

    @property
    def seconds(self) -> float:
        """Seconds of the tuned schedule; 0 if unknown."""
        return 0.0 if self.provenance.origin is None else self.provenance.origin.seconds

    @property
    def text(self) -> str:
        """Text by which programs select the problem, such as "matmul m=512 n=512 k=512". Omits fields with defaults."""
        shown = [f"{name}={value}" for name, value, otherwise in fields(self.problem) if value != otherwise]
        return " ".join((self.problem.operator, *shown))

    @property
    def padded(self) -> tuple[str, ...]:
        """Names of sizes that may be padded at the end of arrays. Such a size is a number of independent rows."""
        p = self.problem
        if isinstance(p, Matmul):
            rows = p.order_a == "row" and p.batch == 1 and p.reduced_axis != -2 and p.scale in ("none", "tensor")
            return ("m",) if rows else ()
        return ("rows",) if isinstance(p, RowProblem) and p.reduces_contiguous and p.outer == 1 else ()


def fields(problem: Problem) -> list[tuple[str, Any, Any]]:
    """Name, value and default of every field. The default of a required field is None."""
    # omit the digest of a kernel file, which only databases need
    hidden = ("operator", "computes") if isinstance(problem, KernelProblem) else ("operator",)
    everything = problem.to_json()
    values = {name: value for name, value in everything.items() if name not in hidden}
    rows = []
    for name, value in values.items():
        other_fields = {n: v for n, v in everything.items() if n != name}
        try:
            otherwise = problem_from_json(other_fields).to_json().get(name)
        except ValueError:
            otherwise = None
        rows.append((name, value, otherwise))
    return rows


def driver_name(device: Device) -> str:
    """Return the name by which the CUDA driver reports the device."""
    return device.driver_names[0] if device.driver_names else device.name
