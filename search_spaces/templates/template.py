"""Kernel templates, each of which computes an operator by one method. Search and cost models use this interface."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import package_folder
from search_spaces.operators.problem import Problem
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.spaces.union_space import UnionSpace
from search_spaces.templates.compiler_controls import CompilerControls, plain
from search_spaces.templates.device_source import DeviceSource, for_device
from search_spaces.templates.drawing import Drawing

if TYPE_CHECKING:  # only for type hints, because most programs do not need orders of sums
    from search_spaces.spaces.sum_order import OrderPart

_SHARED = "search_spaces.templates.common"  # package with the rules that templates share
_IMPORT = re.compile(r"^(?:from|import) [^\n(]*(?:\([^)]*\))?[^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class KernelTemplate:
    """One method of computing an operator.

    All functions receive problems that ``supports`` accepts.

    Attributes:
        name: Name of the template.
        summary: One line for users.
        operators: Names of the operators that the template computes.
        source: Device code, if any.
        space: Returns the schedules of a problem on a device.
        lower: Returns the kernel of a valid config.
        supports: Returns None, or a sentence with the reason why the template cannot compute a problem on a device.
        counts: Returns the cost counts of a config. Without this function, schedules cannot be ranked before they are
            measured.
        counts_are_bounds: True if counts are only lower bounds, such as the counts of a user's template.
        proxy: Returns the smallest problem with the same remainders, for the emulator. Without this function, problems
            are emulated unchanged.
        long_proxy: Returns a second problem for the emulator, whose loops have more iterations than in the problem of
            ``proxy``; None if that problem is sufficient.
        content: Further text that is part of the version.
        walk: Device code that returns the tiles of each block (``autosched/kernels/matmul/walk.cuh``). Templates with a
            walk have the attributes of ``Tiling``.
        compile_options: Compiler options of all kernels of the template.
        sum_order: Returns the order in which a schedule adds terms, for rules that require bitwise equal results.
            Without this function, the order is unknown.
        packages: Names of further Python packages that the functions use, whose code is part of the version.
    """

    name: str
    summary: str
    operators: tuple[str, ...]
    source: DeviceSource | None
    space: Callable[[Any, Device], Space]
    lower: Callable[[Any, Config, Device], GeneratedKernel]
    supports: Callable[[Any, Device], str | None] = lambda problem, device: None
    counts: Callable[[Any, Config, Device], CostCounts] | None = None
    counts_are_bounds: bool = False
    proxy: Callable[[Any, Schedule], Any] | None = None
    long_proxy: Callable[[Any, Schedule], Any | None] | None = None
    drawings: Callable[[Any, Config, Device], tuple[Drawing, ...]] = lambda problem, config, device: ()
    content: str = ""
    walk: DeviceSource | None = None
    compile_options: tuple[str, ...] = ()
    sum_order: Callable[[Any, Device], tuple[OrderPart, ...]] | None = None
    packages: tuple[str, ...] = ()

    def why_not(self, problem: Problem, device: Device) -> str | None:
        """Return the reason why this template cannot compute ``problem`` on ``device``, or None if it can."""
        if problem.operator not in self.operators:
            return f"{self.name} computes {' and '.join(self.operators)}, not {problem.operator}"
        return self.supports(problem, device)

    def config(self, problem: Problem, schedule: Schedule, device: Device) -> Config:
        """Return ``schedule`` with all derived values.

        Raises:
            ValueError: If the schedule violates a validity constraint (the message has its name and reason), or if this
                template cannot compute the problem.
        """
        reason = self.why_not(problem, device)
        if reason is not None:
            raise ValueError(reason)
        CompilerControls.of(schedule)  # raises ValueError for compiler controls that are out of range
        schedule = plain(schedule)
        return self.space(problem, device).valid.valid_config(schedule)

    def kernel(self, problem: Problem, schedule: Schedule, device: Device) -> GeneratedKernel:
        """Return the kernel of one schedule. Raises ValueError as ``config`` does."""
        kernel = for_device(self.lower(problem, self.config(problem, schedule, device), device), device)
        return CompilerControls.of(schedule).applied(kernel)

    @cached_property
    def version(self) -> str:
        """SHA-256 (hex) of the code of the template.

        The digest covers ``content``, the modules of all functions except ``sum_order``, the modules of ``packages``,
        the shared rules that these modules use, and the device source. It does not depend on the names of packages or
        on import statements.
        """
        functions = (self.space, self.lower, self.supports, self.counts, self.proxy, self.long_proxy)
        texts = dict(m for f in functions if f is not None and f.__module__ != __name__ for m in _modules(f.__module__))
        texts |= {module: text for package in self.packages for module, text in _package(package)}
        shared = dict(_package(_SHARED))
        while used := [n for n in shared if n not in texts and any(n in text for text in texts.values())]:
            texts |= {name: shared[name] for name in used}
        digest = hashlib.sha256(self.content.encode())
        for name, text in sorted((name.rpartition(".")[2], _IMPORT.sub("", text)) for name, text in texts.items()):
            digest.update(f"{name}\0{len(text)}\0{text}".encode())
        if self.source is not None:
            digest.update(self.source.digest.encode())
        return digest.hexdigest()


def _modules(name: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of a module, and of the modules in the same package, whose constants the module may use."""
    module = sys.modules.get(name)
    package = getattr(module, "__package__", None)
    if package and package not in (__package__, _SHARED):
        yield from _package(package)
        return
    file = getattr(module, "__file__", None)  # None if the code was typed at an interactive prompt
    if file is not None:
        yield name, Path(file).read_text("utf-8")


def _package(name: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of every module of a package."""
    for file in package_folder(name).iterdir():
        if file.name.endswith(".py"):
            yield f"{name}.{file.name.removesuffix('.py')}", file.read_text("utf-8")


class TemplateSet:
    """A set of templates with different names, such as the templates that a search uses."""

    def __init__(self, templates: Sequence[KernelTemplate]) -> None:
        """Collect the templates. Raises ValueError for duplicate names."""
        self._by_name = {t.name: t for t in templates}
        if len(self._by_name) < len(templates):
            raise ValueError(f"two templates have the same name: {', '.join(t.name for t in templates)}")

    def __iter__(self) -> Iterator[KernelTemplate]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def compile_options(self) -> tuple[str, ...]:
        """Compiler options of the kernels of all templates."""
        first, *rest = [t.compile_options for t in self] or [()]
        return tuple(option for option in first if all(option in more for more in rest))

    def space(self, problem: Problem, device: Device) -> UnionSpace:
        """Return every schedule of all of these templates."""
        return UnionSpace(template.space(problem, device) for template in self)

    def of(self, schedule: Schedule) -> KernelTemplate:
        """Return the template of ``schedule``. Raises ValueError if it is not in this set."""
        if schedule.template not in self._by_name:
            raise ValueError(f"unknown kernel template {schedule.template!r}: use one of {', '.join(self._by_name)}")
        return self._by_name[schedule.template]

    def kernel(self, problem: Problem, schedule: Schedule, device: Device) -> GeneratedKernel:
        """Return the kernel of one schedule. Raises ValueError if its template cannot generate it."""
        return self.of(schedule).kernel(problem, schedule, device)
