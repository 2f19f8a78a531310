"""The open catalogue of operators and kernel templates: built in, from other packages, or registered in this process.

Another package adds its own by an entry point of the group ``autosched.templates``: it names a KernelTemplate, an
Operator, or a list of both, or a function without arguments that returns one of these.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from search_spaces.hardware.devices import Device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.templates.copy.template import COPY
from search_spaces.templates.matmul.template import MATMUL
from search_spaces.templates.matvec.template import MATVEC
from search_spaces.templates.row_reduction.template import ROW_REDUCTION
from search_spaces.templates.tcgen05_matmul.template import TCGEN05_MATMUL
from search_spaces.templates.tcgen05_matmul.transposed import TCGEN05_MATMUL_TRANSPOSED
from search_spaces.templates.template import KernelTemplate, TemplateSet
from search_spaces.templates.tma_matmul.template import TMA_MATMUL
from search_spaces.templates.transpose.template import TRANSPOSE
from search_spaces.templates.wgmma_matmul.template import WGMMA_MATMUL
from search_spaces.templates.wgmma_matmul.transposed import WGMMA_MATMUL_TRANSPOSED

ENTRY_POINTS = "autosched.templates"

BUILT_IN_PROBLEMS = (Matmul, Matvec, Reduce, Softmax, RmsNorm, LayerNorm, Transpose, Copy)
BUILT_IN_TEMPLATES = (
    MATMUL,
    MATVEC,
    ROW_REDUCTION,
    TRANSPOSE,
    COPY,
    WGMMA_MATMUL,
    WGMMA_MATMUL_TRANSPOSED,
    TCGEN05_MATMUL,
    TCGEN05_MATMUL_TRANSPOSED,
    TMA_MATMUL,
)

Entry = TypeVar("Entry")


class UnusableEntryPoint(UserWarning):
    """An installed package offers templates that cannot be loaded."""


class _Catalogue:
    """The built-in entries, then those of other packages, which are loaded on first use."""

    def __init__(self) -> None:
        self._operators: dict[str, Operator] = {}
        self._templates: dict[str, KernelTemplate] = {}
        self._replaceable: set[tuple[type, str]] = set()
        self._complete = False
        self.add(*(Operator.of(problem) for problem in BUILT_IN_PROBLEMS), *BUILT_IN_TEMPLATES)

    @property
    def operators(self) -> Mapping[str, Operator]:
        self._load_entry_points()
        return self._operators

    @property
    def templates(self) -> Mapping[str, KernelTemplate]:
        self._load_entry_points()
        return self._templates

    def add(self, *entries: Operator | KernelTemplate, replace: bool = False) -> None:
        """All of them or none. With ``replace``, what was added so before gives way."""
        for entry in entries:
            if not isinstance(entry, (Operator, KernelTemplate)):
                raise ValueError(f"only an Operator or a KernelTemplate can be registered, not {entry!r}")
            gives_way = replace and (type(entry), entry.name) in self._replaceable
            if self._table(entry).get(entry.name, entry) != entry and not gives_way:
                what = "operator" if isinstance(entry, Operator) else "kernel template"
                raise ValueError(f"another {what} is already called {entry.name!r}: choose a different name")
        for entry in entries:
            if self._table(entry).get(entry.name) != entry:
                self._table(entry)[entry.name] = entry
                if replace:
                    self._replaceable.add((type(entry), entry.name))

    def _table(self, entry: Operator | KernelTemplate) -> dict[str, Any]:
        return self._operators if isinstance(entry, Operator) else self._templates

    def _load_entry_points(self) -> None:
        if self._complete:
            return
        self._complete = True  # set first: loading an entry point may look up entries or register some
        for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: (p.name, p.value)):
            try:
                offered = point.load()
                offered = offered() if callable(offered) else offered
                self.add(*((offered,) if isinstance(offered, (Operator, KernelTemplate)) else offered))
            except (Exception, SystemExit) as error:  # a broken third-party package must not break the catalogue
                text = ascii(" ".join(f"{type(error).__name__}: {error}".split()))[1:-1]  # nor act on a terminal
                warnings.warn(
                    f"the entry point {point.name} ({point.value}) provides no templates ({text}): fix its package",
                    UnusableEntryPoint,
                    stacklevel=2,
                )


@cache
def _catalogue() -> _Catalogue:
    return _Catalogue()


def register(*entries: Operator | KernelTemplate, replace: bool = False) -> None:
    """Add operators and templates to the catalogue of this process. The same one may be registered again; with
    ``replace``, another one may take the name of one that was registered with ``replace`` itself.

    Raises ValueError for a name already taken, and for anything other than an operator or a template.
    """
    _catalogue().add(*entries, replace=replace)


def operators() -> tuple[Operator, ...]:
    return tuple(_catalogue().operators.values())


def operator(name: str) -> Operator:
    """Return the operator called ``name``. Raises ValueError that lists the known ones."""
    return _named(_catalogue().operators, name, "operator")


def is_operator(name: str) -> bool:
    """Whether an operator is called ``name``: a user's kernel is one once its file was read."""
    return name in _catalogue().operators


def templates() -> tuple[KernelTemplate, ...]:
    return tuple(_catalogue().templates.values())


def template(name: str) -> KernelTemplate:
    """Return the template called ``name``. Raises ValueError that lists the known ones."""
    return _named(_catalogue().templates, name, "kernel template")


def _named(table: Mapping[str, Entry], name: str, what: str) -> Entry:
    if name not in table:
        raise ValueError(f"unknown {what} {name!r}: use one of {', '.join(table)}")
    return table[name]


def candidates(problem: Problem, device: Device) -> tuple[tuple[KernelTemplate, str | None], ...]:
    """Every template of the problem's operator, each with the reason why it cannot compute ``problem``, or None."""
    return tuple((t, t.why_not(problem, device)) for t in templates() if problem.operator in t.operators)


def templates_for(problem: Problem, device: Device, only: Iterable[str | KernelTemplate] | None = None) -> TemplateSet:
    """Return the templates that can compute ``problem`` on ``device``; with ``only`` (names or templates), just those.

    Raises ValueError for an unknown name, for a template in ``only`` that cannot compute the problem, and where no
    template can, with the reason for each.
    """
    if only is not None:
        named = [template(entry) if isinstance(entry, str) else entry for entry in only]
        for one in named:
            reason = one.why_not(problem, device)
            if reason is not None:
                raise ValueError(f"the kernel template {one.name} cannot compute this problem: {reason}")
        return TemplateSet(named)
    found = candidates(problem, device)
    usable = [t for t, reason in found if reason is None]
    if not usable:
        why = "; ".join(f"{t.name}: {reason}" for t, reason in found) or "none is known"
        raise ValueError(f"no kernel template computes this problem on {device.name}: {why}")
    return TemplateSet(usable)


def problem_from_json(data: Mapping[str, Any]) -> Problem:
    """Return the problem whose ``to_json()`` was ``data``. Raises ValueError for an unknown operator or invalid
    data."""
    if not isinstance(data, Mapping):
        raise ValueError(f"the JSON of a problem must be an object, not {data!r}")
    return operator(str(data.get("operator"))).from_json(data)
