"""Catalogue of operators and kernel templates, which are built-in, from other packages, or registered at run time.

Another package adds operators and templates by an entry point of the group ``autosched.templates``. The entry point
names a KernelTemplate, an Operator, a list of these, or a function without arguments that returns any of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from search_spaces.installed import load_offers

if TYPE_CHECKING:
    from search_spaces.hardware.devices import Device
    from search_spaces.operators.operator import Operator
    from search_spaces.operators.problem import Problem
    from search_spaces.templates.template import KernelTemplate, TemplateSet
    from search_spaces.tile_operators.tile_problem import TileOperator

ENTRY_POINTS = "autosched.templates"


class BuiltInOperator(NamedTuple):
    """A built-in operator. It is imported on first use, so that a command imports only the operators that it needs."""

    name: str
    module: str  # name of the module, relative to search_spaces
    problem: str  # name of the class of its problems

    def problem_type(self) -> type[Problem]:
        """Import the class of the operator's problems."""
        loaded: type[Problem] = getattr(import_module(f"search_spaces.{self.module}"), self.problem)
        return loaded


BUILT_IN_OPERATORS = (
    BuiltInOperator("matmul", "operators.matmul", "Matmul"),
    BuiltInOperator("matvec", "operators.matvec", "Matvec"),
    BuiltInOperator("reduce", "operators.row_reduction", "Reduce"),
    BuiltInOperator("softmax", "operators.row_reduction", "Softmax"),
    BuiltInOperator("rmsnorm", "operators.row_reduction", "RmsNorm"),
    BuiltInOperator("layernorm", "operators.row_reduction", "LayerNorm"),
    BuiltInOperator("transpose", "operators.transpose", "Transpose"),
    BuiltInOperator("copy", "operators.copy", "Copy"),
)
TILE_OPERATORS = (
    BuiltInOperator("decode_attention", "tile_operators.decode_attention", "DecodeAttention"),
    BuiltInOperator("quantized_matmul", "tile_operators.quantized_matmul", "QuantizedMatmul"),
    BuiltInOperator("grouped_matmul", "tile_operators.grouped_matmul", "GroupedMatmul"),
    BuiltInOperator("attention", "tile_operators.attention", "Attention"),
    BuiltInOperator("attention_backward", "tile_operators.attention_backward", "AttentionBackward"),
    BuiltInOperator("rmsnorm_quantize", "tile_operators.rmsnorm_quantize", "RmsNormQuantize"),
    BuiltInOperator("qk_norm_rope", "tile_operators.qk_norm_rope", "QkNormRope"),
    BuiltInOperator("qk_norm_rope_append", "tile_operators.qk_norm_rope_append", "QkNormRopeAppend"),
    BuiltInOperator("router_topk", "tile_operators.router_topk", "RouterTopK"),
    BuiltInOperator("cross_entropy", "tile_operators.cross_entropy", "CrossEntropy"),
    BuiltInOperator("cross_entropy_backward", "tile_operators.cross_entropy", "CrossEntropyBackward"),
    BuiltInOperator("linear_cross_entropy", "tile_operators.linear_cross_entropy", "LinearCrossEntropy"),
    BuiltInOperator("linear_cross_entropy_dlogits", "tile_operators.linear_cross_entropy", "LinearCrossEntropyDlogits"),
)
"""Operators that are defined by tile programs. The only template of each has the operator's name."""


class BuiltInTemplate(NamedTuple):
    """A built-in template. It is imported on first use, so that a command imports only the templates that it needs."""

    name: str  # name of the template; the module's constant has this name in capitals
    operators: tuple[str, ...]
    module: str  # name of the module, relative to search_spaces.templates

    def load(self) -> KernelTemplate:
        """Import the template."""
        loaded: KernelTemplate = getattr(import_module(f"search_spaces.templates.{self.module}"), self.name.upper())
        return loaded


class BuiltInTileProgram(NamedTuple):
    """Template of an operator that tile programs define. Loading it imports the compiler of tile programs."""

    operator: BuiltInOperator

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators that the template can compute."""
        return (self.operator.name,)

    def load(self) -> KernelTemplate:
        """Import the template."""
        from search_spaces.tile_operators.tile_template import tile_template

        return tile_template(cast("type[TileOperator]", self.operator.problem_type()))


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
    """All operators and templates: first built-in ones, then entries of other packages. Entries load on first use."""

    def __init__(self) -> None:
        self._operators: dict[str, Operator | BuiltInOperator] = {
            o.name: o for o in (*BUILT_IN_OPERATORS, *TILE_OPERATORS)
        }
        self._templates: dict[str, KernelTemplate | BuiltInTemplate | BuiltInTileProgram] = {
            **{t.name: t for t in BUILT_IN_TEMPLATES},
            **{o.name: BuiltInTileProgram(o) for o in TILE_OPERATORS},
        }
        self._replaceable: set[tuple[type, str]] = set()
        self._complete = False

    @property
    def operator_names(self) -> tuple[str, ...]:
        """Names of all operators."""
        self._load_entry_points()
        return tuple(self._operators)

    def operator(self, name: str) -> Operator:
        """Return the operator called ``name``."""
        entry = self._operators[name]
        if isinstance(entry, BuiltInOperator):
            from search_spaces.operators.operator import Operator

            entry = self._operators[name] = Operator.of(entry.problem_type())
        return entry

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
        """Add all entries, or none on an error.

        With ``replace``, an entry may replace an earlier entry that was also added with ``replace``.
        """
        # Imported on first use, because these imports take 100 ms.
        from search_spaces.operators.operator import Operator
        from search_spaces.templates.template import KernelTemplate

        for entry in entries:
            if not isinstance(entry, (Operator, KernelTemplate)):
                raise ValueError(f"only an Operator or a KernelTemplate can be registered, not {entry!r}")
            gives_way = replace and (type(entry), entry.name) in self._replaceable
            if self._known(entry) not in (None, entry) and not gives_way:
                kind = "operator" if isinstance(entry, Operator) else "kernel template"
                raise ValueError(f"another {kind} is already called {entry.name!r}: choose a different name")
        for entry in entries:
            if self._known(entry) != entry:
                table: dict[str, Any] = self._operators if isinstance(entry, Operator) else self._templates
                table[entry.name] = entry
                if replace:
                    self._replaceable.add((type(entry), entry.name))

    def _known(self, entry: Operator | KernelTemplate) -> Operator | KernelTemplate | None:
        """Return the existing entry that has the name of ``entry``; None if there is none."""
        from search_spaces.operators.operator import Operator

        if isinstance(entry, Operator):
            return self.operator(entry.name) if entry.name in self._operators else None
        return self.template(entry.name) if entry.name in self._templates else None

    def _load_entry_points(self) -> None:
        if self._complete:
            return
        # Set this before loading, because an entry point may look up or register entries while it is loaded.
        self._complete = True
        load_offers(ENTRY_POINTS, "templates", self._add_offered)

    def _add_offered(self, offered: Operator | KernelTemplate | Iterable[Operator | KernelTemplate]) -> None:
        self.add(*(offered if isinstance(offered, Iterable) else (offered,)))


@cache
def _catalogue() -> _Catalogue:
    return _Catalogue()


def register(*entries: Operator | KernelTemplate, replace: bool = False) -> None:
    """Add operators and templates to the catalogue of this process.

    Args:
        entries: Operators and templates. Registering the same object again has no effect.
        replace: True if an entry may replace an entry of the same name that was also registered with ``replace``.

    Raises:
        ValueError: A name is already in use, or an object is neither an operator nor a template.
    """
    _catalogue().add(*entries, replace=replace)


def operators() -> tuple[Operator, ...]:
    """Return all operators."""
    return tuple(map(_catalogue().operator, _catalogue().operator_names))


def operator_names() -> tuple[str, ...]:
    """Return the names of all operators, without importing them."""
    return _catalogue().operator_names


def operator(name: str) -> Operator:
    """Return the operator called ``name``. Raises ValueError, which lists the known operators."""
    _check_name(name, _catalogue().operator_names, "operator")
    return _catalogue().operator(name)


def is_operator(name: str) -> bool:
    """Return True if an operator is called ``name``. Reading a kernel file adds the user's kernel as an operator."""
    return name in _catalogue().operator_names


def tile_problems() -> tuple[type[TileOperator], ...]:
    """Import all ``TILE_OPERATORS`` and return their problem types."""
    return tuple(cast("type[TileOperator]", o.problem_type()) for o in TILE_OPERATORS)


def templates() -> tuple[KernelTemplate, ...]:
    """Return all templates."""
    return tuple(map(_catalogue().template, _catalogue().template_names))


def template_names() -> tuple[str, ...]:
    """Return the names of all templates, without importing them."""
    return _catalogue().template_names


def template(name: str) -> KernelTemplate:
    """Return the template called ``name``. Raises ValueError, which lists the known templates."""
    _check_name(name, _catalogue().template_names, "kernel template")
    return _catalogue().template(name)


def _check_name(name: str, known: Collection[str], kind: str) -> None:
    if name not in known:
        raise ValueError(f"unknown {kind} {name!r}: use one of {', '.join(known)}")


def candidates(problem: Problem, device: Device) -> tuple[tuple[KernelTemplate, str | None], ...]:
    """Return every template of the problem's operator, with None or the reason why it cannot compute ``problem``."""
    return tuple((t, t.why_not(problem, device)) for t in _catalogue().templates_of(problem.operator))


def templates_for(problem: Problem, device: Device, only: Iterable[str | KernelTemplate] | None = None) -> TemplateSet:
    """Return the templates that can compute ``problem`` on ``device``.

    Args:
        problem: The problem.
        device: The GPU.
        only: Names or templates to choose from. Default: all.

    Raises:
        ValueError: A name is unknown, a template in ``only`` cannot compute the problem, or no template can. The
            message has the reasons.
    """
    from search_spaces.templates.template import TemplateSet

    if only is not None:
        named = [template(entry) if isinstance(entry, str) else entry for entry in only]
        for one in named:
            reason = one.why_not(problem, device)
            if reason is not None:
                raise ValueError(f"the kernel template {one.name} cannot compute this problem: {reason}")
        return TemplateSet(named)
    with_reasons = candidates(problem, device)
    usable = [t for t, reason in with_reasons if reason is None]
    if not usable:
        why = "; ".join(f"{t.name}: {reason}" for t, reason in with_reasons) or "none is known"
        raise ValueError(f"no kernel template computes this problem on {device.name}: {why}")
    return TemplateSet(usable)


def problem_from_json(data: Mapping[str, Any]) -> Problem:
    """Return the problem whose ``to_json()`` was ``data``. Raises ValueError for invalid data."""
    if not isinstance(data, Mapping):
        raise ValueError(f"the JSON of a problem must be an object, not {data!r}")
    return operator(str(data.get("operator"))).from_json(data)
