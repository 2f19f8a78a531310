"""The open catalogue of operators and kernel templates: built in, from other packages, or registered in this process.

Another package adds its own by an entry point of the group ``autosched.templates``. It names a KernelTemplate, an
Operator, a list of both, or a function without arguments that returns one of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from search_spaces.hardware.devices import Device
from search_spaces.installed import load_offers
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.templates.template import KernelTemplate, TemplateSet
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.attention_backward import AttentionBackward
from search_spaces.tile_operators.cross_entropy import CrossEntropy, CrossEntropyBackward
from search_spaces.tile_operators.decode_attention import DecodeAttention
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyDlogits
from search_spaces.tile_operators.qk_norm_rope import QkNormRope
from search_spaces.tile_operators.qk_norm_rope_append import QkNormRopeAppend
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul
from search_spaces.tile_operators.rmsnorm_quantize import RmsNormQuantize
from search_spaces.tile_operators.router_topk import RouterTopK
from search_spaces.tile_operators.tile_problem import TileOperator

ENTRY_POINTS = "autosched.templates"

BUILT_IN_PROBLEMS: tuple[type[Problem], ...] = (Matmul, Matvec, Reduce, Softmax, RmsNorm, LayerNorm, Transpose, Copy)
TILE_PROBLEMS: tuple[type[TileOperator], ...] = (
    *(DecodeAttention, QuantizedMatmul, GroupedMatmul, Attention, AttentionBackward),
    *(RmsNormQuantize, QkNormRope, QkNormRopeAppend, RouterTopK),
    *(CrossEntropy, CrossEntropyBackward, LinearCrossEntropy, LinearCrossEntropyDlogits),
)
"""Problems whose only template has the same name and consists of tile programs."""


class BuiltInTemplate(NamedTuple):
    """A built-in template, imported on demand, so that a verification imports only those of its operator."""

    name: str  # also the name of the constant, in capitals
    operators: tuple[str, ...]
    module: str  # relative to search_spaces.templates

    def load(self) -> KernelTemplate:
        """Import the template."""
        loaded: KernelTemplate = getattr(import_module(f"search_spaces.templates.{self.module}"), self.name.upper())
        return loaded


class BuiltInTileProgram(NamedTuple):
    """The template of a problem defined by tile programs; importing it imports their compiler."""

    problem: type[TileOperator]

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators that it computes."""
        return (self.problem.operator,)

    def load(self) -> KernelTemplate:
        """Import the template."""
        from search_spaces.tile_operators.tile_template import tile_template

        return tile_template(self.problem)


BUILT_IN_TEMPLATES = (
    BuiltInTemplate("matmul", ("matmul",), "matmul.template"),
    BuiltInTemplate("matvec", ("matvec", "matmul"), "matvec.template"),
    BuiltInTemplate("row_reduction", ("reduce", "softmax", "rmsnorm", "layernorm"), "row_reduction.template"),
    BuiltInTemplate("transpose", ("transpose",), "transpose.template"),
    BuiltInTemplate("copy", ("copy",), "copy.template"),
    BuiltInTemplate("wgmma_matmul", ("matmul",), "wgmma_matmul.template"),
    BuiltInTemplate("wgmma_matmul_transposed", ("matmul",), "wgmma_matmul.transposed"),
    BuiltInTemplate("tcgen05_matmul", ("matmul",), "tcgen05_matmul.template"),
    BuiltInTemplate("tcgen05_matmul_transposed", ("matmul",), "tcgen05_matmul.transposed"),
    BuiltInTemplate("tma_matmul", ("matmul",), "tma_matmul.template"),
    BuiltInTemplate("wgmma_matmul_padded", ("matmul",), "wgmma_matmul.padded"),
    BuiltInTemplate("tcgen05_matmul_padded", ("matmul",), "tcgen05_matmul.padded"),
    BuiltInTemplate("tma_matmul_padded", ("matmul",), "tma_matmul.padded"),
)


class _Catalogue:
    """The built-in entries, then those of other packages, which are loaded on first use."""

    def __init__(self) -> None:
        self._operators: dict[str, Operator] = {}
        self._templates: dict[str, KernelTemplate | BuiltInTemplate | BuiltInTileProgram] = {
            **{t.name: t for t in BUILT_IN_TEMPLATES},
            **{p.operator: BuiltInTileProgram(p) for p in TILE_PROBLEMS},
        }
        self._replaceable: set[tuple[type, str]] = set()
        self._complete = False
        self.add(*(Operator.of(problem) for problem in (*BUILT_IN_PROBLEMS, *TILE_PROBLEMS)))

    @property
    def operators(self) -> Mapping[str, Operator]:
        """All operators by name."""
        self._load_entry_points()
        return self._operators

    @property
    def template_names(self) -> tuple[str, ...]:
        """Names of all templates."""
        self._load_entry_points()
        return tuple(self._templates)

    def templates_of(self, operator: str) -> tuple[KernelTemplate, ...]:
        """Return the templates of an operator."""
        self._load_entry_points()
        names = [name for name, entry in self._templates.items() if operator in entry.operators]
        return tuple(map(self.template, names))

    def template(self, name: str) -> KernelTemplate:
        """Return the template called ``name``."""
        entry = self._templates[name]
        if isinstance(entry, BuiltInTemplate | BuiltInTileProgram):
            entry = self._templates[name] = entry.load()
        return entry

    def add(self, *entries: Operator | KernelTemplate, replace: bool = False) -> None:
        """Add all entries or none. With ``replace``, entries that were added with ``replace`` are replaced."""
        for entry in entries:
            if not isinstance(entry, (Operator, KernelTemplate)):
                raise ValueError(f"only an Operator or a KernelTemplate can be registered, not {entry!r}")
            gives_way = replace and (type(entry), entry.name) in self._replaceable
            if self._known(entry) not in (None, entry) and not gives_way:
                what = "operator" if isinstance(entry, Operator) else "kernel template"
                raise ValueError(f"another {what} is already called {entry.name!r}: choose a different name")
        for entry in entries:
            if self._known(entry) != entry:
                table: dict[str, Any] = self._operators if isinstance(entry, Operator) else self._templates
                table[entry.name] = entry
                if replace:
                    self._replaceable.add((type(entry), entry.name))

    def _known(self, entry: Operator | KernelTemplate) -> Operator | KernelTemplate | None:
        """Return the entry with the name of ``entry``, or None."""
        if isinstance(entry, Operator):
            return self._operators.get(entry.name)
        return self.template(entry.name) if entry.name in self._templates else None

    def _load_entry_points(self) -> None:
        if self._complete:
            return
        self._complete = True  # set first: loading an entry point may look up entries or register some
        load_offers(ENTRY_POINTS, "templates", self._add_offered)

    def _add_offered(self, offered: Operator | KernelTemplate | Iterable[Operator | KernelTemplate]) -> None:
        self.add(*((offered,) if isinstance(offered, (Operator, KernelTemplate)) else offered))


@cache
def _catalogue() -> _Catalogue:
    return _Catalogue()


def register(*entries: Operator | KernelTemplate, replace: bool = False) -> None:
    """Add operators and templates to the catalogue of this process.

    Args:
        entries: Operators and templates; registering the same one again has no effect.
        replace: Whether an entry may take the name of one that was itself registered with ``replace``.

    Raises:
        ValueError: For a name already taken, or anything other than an operator or a template.
    """
    _catalogue().add(*entries, replace=replace)


def operators() -> tuple[Operator, ...]:
    """Return all operators."""
    return tuple(_catalogue().operators.values())


def operator(name: str) -> Operator:
    """Return the operator called ``name``. Raises ValueError that lists the known ones."""
    known = _catalogue().operators
    _check_name(name, known, "operator")
    return known[name]


def is_operator(name: str) -> bool:
    """Whether an operator is called ``name``; a user's kernel is one after its file was read."""
    return name in _catalogue().operators


def templates() -> tuple[KernelTemplate, ...]:
    """Return all templates."""
    return tuple(map(_catalogue().template, _catalogue().template_names))


def template_names() -> tuple[str, ...]:
    """Return the names of all templates, without importing them."""
    return _catalogue().template_names


def template(name: str) -> KernelTemplate:
    """Return the template called ``name``. Raises ValueError that lists the known ones."""
    _check_name(name, _catalogue().template_names, "kernel template")
    return _catalogue().template(name)


def _check_name(name: str, known: Collection[str], what: str) -> None:
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}: use one of {', '.join(known)}")


def candidates(problem: Problem, device: Device) -> tuple[tuple[KernelTemplate, str | None], ...]:
    """Return every template of the problem's operator, with the reason why it cannot compute ``problem``, or None."""
    return tuple((t, t.why_not(problem, device)) for t in _catalogue().templates_of(problem.operator))


def templates_for(problem: Problem, device: Device, only: Iterable[str | KernelTemplate] | None = None) -> TemplateSet:
    """Return the templates that can compute ``problem`` on ``device``.

    Args:
        problem: The problem.
        device: The GPU.
        only: Names or templates to choose from. Default: all.

    Raises:
        ValueError: For an unknown name, for a template in ``only`` that cannot compute the problem, and if no template
            can, with the reason for each.
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
    """Return the problem whose ``to_json()`` was ``data``. Raises ValueError for invalid data."""
    if not isinstance(data, Mapping):
        raise ValueError(f"the JSON of a problem must be an object, not {data!r}")
    return operator(str(data.get("operator"))).from_json(data)
