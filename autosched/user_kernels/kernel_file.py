"""Frozen dataclasses that describe a kernel, read from TOML, from Kernel Tuner's JSON, or from Python."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

from autosched.user_kernels.arithmetic import Type
from autosched.user_kernels.expressions import Expression, Result
from measurements.trials.tolerance import checked_tolerance
from search_spaces.hardware.dtypes import DType, dtype_of
from search_spaces.launches.generated_kernel import CompileLimits
from search_spaces.launches.texture import Mode
from search_spaces.spaces.parameters import Parameter, Value

Kind = Literal["input", "output", "inout", "workspace", "scalar", "struct", "constant", "texture"]
Passing = Literal["define", "constexpr", "struct", "template"]

# Names of the launch's attributes, which rules and costs may use.
GRID, BLOCK, CLUSTER = (tuple(f"{scope}_dim_{axis}" for axis in "xyz") for scope in ("grid", "block", "cluster"))
SHARED = "dynamic_shared_bytes"
LAUNCH_FLAGS = ("cooperative", "dependent")


def launch_macros(known: Container[str]) -> dict[str, str]:
    """Return Kernel Tuner's macros for the block and grid sizes of each launch, except those already defined."""
    names = {f"block_size_{axis}": name for axis, name in zip("xyz", BLOCK, strict=True)}
    names |= {f"grid_size_{axis}": name for axis, name in zip("xyz", GRID, strict=True)}
    return {macro: name for macro, name in names.items() if macro not in known}


@dataclass(frozen=True)
class PipelineStep:
    """One launch of a pipeline: the entry function, and the arguments in the order of the function's parameters.

    ``number`` starts at 1.
    """

    entry: str
    arguments: tuple[str, ...]
    number: int = 1
    flags: tuple[str, ...] = field(default=(), repr=False)  # attributes of the launch, a subset of LAUNCH_FLAGS

    def named(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the launch attributes of this step.

        The first step has names such as ``grid_dim_x``, the second such as ``grid_dim_x_2``.
        """
        return tuple(f"{name}_{self.number}" if self.number > 1 else name for name in names)


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A user's Python function: ``callable_object``, or else the function called ``name`` in the file at ``path``.

    The path is absolute, and ``content`` is the file's text. ``time_limit`` (seconds) and ``memory_limit`` (bytes)
    apply to each call; 0 if the kernel file does not set them.
    """

    name: str
    path: str = ""
    content: str = ""
    callable_object: Callable[..., Any] | None = None
    time_limit: float = 0.0
    memory_limit: int = 0


@dataclass(frozen=True)
class InputFill:
    """Contents of an input.

    The kinds are ``normal`` (mean, standard deviation), ``uniform`` (from, to), ``integers`` (from, to, both included),
    ``constant`` (value), ``file`` (an .npy file), ``array`` (a numpy array passed from Python), and ``python`` (the
    result of a function).
    """

    kind: Literal["normal", "uniform", "integers", "constant", "file", "array", "python"]
    numbers: tuple[float, ...] = ()
    path: str = field(default="", repr=False)  # excluded from comparisons, because the path does not affect the kernel
    content: str = ""  # SHA-256 of the file, the array, or the function
    function: UserFunction | None = field(default=None, compare=False, repr=False)
    array: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Fetch:
    """Texture settings of an input (``search_spaces.launches.texture``)."""

    filter: Literal["point", "linear"] = "point"
    mode: Mode = "clamp"
    normalized: bool = False
    normalized_read: bool = False
    channels: int = 1


@dataclass(frozen=True)
class StructField:
    """One number of a struct: ``value`` is stored as a ``dtype`` at byte ``offset``."""

    offset: int
    dtype: DType
    value: Expression


@dataclass(frozen=True)
class StructValue:
    """A struct passed by value: the bytes of ``content``, which are zero where ``fields`` have values."""

    content: bytes
    fields: tuple[StructField, ...] = ()


@dataclass(frozen=True)
class KernelArgument:
    """One parameter of the entry function, or a ``__constant__`` variable (kind "constant").

    ``shape`` is set for an array, ``value`` for a scalar, and ``struct`` for a struct. An output with a ``fill`` is
    filled before each launch. ``dtype_by``, ``atol_by`` and ``rtol_by`` are expressions of the parameters. ``dtype``,
    ``atol`` and ``rtol`` are the values of these expressions for the default parameters, or for the configuration
    passed to ``KernelFile.under``. ``position`` is the file and line of the argument, for messages.
    """

    name: str
    kind: Kind
    dtype: DType
    shape: tuple[Expression, ...] = ()
    value: Expression | None = None
    fill: InputFill | None = None
    zeroed: bool = False
    atol: float | None = None
    rtol: float | None = None
    fetch: Fetch | None = None
    dtype_by: Expression | None = None
    atol_by: Expression | None = None
    rtol_by: Expression | None = None
    # excluded from ``repr``, so that digests of kernels without structs stay the same; ``content`` adds structs
    # separately
    struct: StructValue | None = field(default=None, repr=False)
    position: str = field(default="", compare=False, repr=False)

    @property
    def is_array(self) -> bool:
        """True for a pointer or texture parameter, and for a ``__constant__`` variable."""
        return self.value is None and self.struct is None

    @property
    def passed_values(self) -> tuple[Expression, ...]:
        """Expressions whose values are passed to the kernel: the value of a scalar, or the fields of a struct."""
        own = () if self.value is None else (self.value,)
        return own if self.struct is None else (*own, *(f.value for f in self.struct.fields))


@dataclass(frozen=True)
class NamedExpression:
    """An expression with a name."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class FileRule:
    """A rule of the kernel file. ``name`` is its label; the default label is the expression."""

    expression: Expression
    reason: str
    pruning: bool = False
    name: str = ""


@dataclass(frozen=True)
class KernelReference:
    """Source of the expected outputs: a Python ``function`` of the inputs, or another ``kernel``.

    The reference kernel runs with the parameters ``config``; other parameters have that kernel's defaults. Without
    ``function`` and ``kernel``, the reference is the kernel under test with the parameters ``config``. If
    ``checks_outputs``, the function also receives the outputs, and decides whether they are correct. ``position`` is
    the file and line of the reference, for messages; "" if unknown. ``time_limit`` limits the emulation of a reference
    kernel, in CPU seconds; 0 if the file does not set it.
    """

    name: str = ""
    content: str = ""
    function: UserFunction | None = field(default=None, compare=False, repr=False)
    kernel: KernelFile | None = None
    config: tuple[tuple[str, Value], ...] = ()
    checks_outputs: bool = False
    position: str = field(default="", compare=False, repr=False)
    time_limit: float = field(default=0.0, compare=False, repr=False)


@dataclass(frozen=True)
class KernelFile:
    """A user's kernel.

    ``floats`` names the parameters with float values, which are stored as strings. ``headers`` has name and text of
    every included file. Every item of ``problems`` has a value for each size.
    """

    name: str
    summary: str
    source_name: str
    source: str
    headers: tuple[tuple[str, str], ...]
    entry: str
    passing: Passing
    options: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...]
    problems: tuple[tuple[tuple[str, int], ...], ...]
    parameters: tuple[Parameter, ...]
    floats: frozenset[str]
    attributes: tuple[NamedExpression, ...]
    defines: tuple[NamedExpression, ...]
    rules: tuple[FileRule, ...]
    launch: tuple[NamedExpression, ...]  # for each step, the expressions of grid, block, cluster and shared memory
    arguments: tuple[KernelArgument, ...]
    reference: KernelReference
    metrics: tuple[NamedExpression, ...]
    proxy: tuple[NamedExpression, ...]  # sizes of a smaller equivalent problem, for the emulator
    flops: Expression | None = None
    bytes: Expression | None = None
    further: tuple[PipelineStep, ...] = ()  # all launches of a pipeline after the first
    first: tuple[str, ...] = ()  # arguments of the first launch; empty if the launch takes all arguments
    flags: tuple[str, ...] = ()  # attributes of the first launch, a subset of LAUNCH_FLAGS
    generator: UserFunction | None = field(
        default=None, compare=False, repr=False
    )  # user's function that returns the source for the values of the parameters
    is_under: bool = False  # True if types and tolerances of the arguments apply to one configuration (``under``)
    limits: CompileLimits = field(default=CompileLimits(), compare=False, repr=False)  # limits of the compilation
    defined_at: tuple[str, int] = field(
        default=("", 0), compare=False, repr=False
    )  # source file and line of the entry function
    pinned: tuple[tuple[str, Value], ...] = ()  # parameter values fixed by a command; not part of the kernel's identity

    @cached_property
    def content(self) -> str:
        """SHA-256 of everything that determines the kernels and their behaviour."""
        # ``pinned`` is excluded, because fixing a parameter does not change the result of a configuration.
        launched: tuple[Any, ...] = (self.source, self.headers, self.entry, self.passing, self.options, self.defines)
        launched += (self.arguments,)
        searched = (self.sizes, self.parameters, self.derived, self.rules, self.proxy, self.flops, self.bytes)
        launched += (self.first, self.further) if self.further else ()
        flags = tuple(step.flags for step in self.steps)
        launched += (flags,) if any(flags) else ()
        structs = tuple(a.struct for a in self.arguments if a.struct is not None)
        launched += (structs,) if structs else ()
        return hashlib.sha256(repr((launched, searched)).encode()).hexdigest()

    @cached_property
    def computes(self) -> str:
        """Digest (16 hex digits) of the computation: arguments, contents of inputs, reference and tolerances."""
        other = self.reference.kernel
        reference = [self.reference.content, None if other is None else other.content, self.reference.config]
        reference += ["checks_outputs"] if self.reference.checks_outputs else []
        arguments = [
            [
                a.name,
                a.kind,
                a.dtype.name if a.dtype_by is None else a.dtype_by.text,
                [e.text for e in a.shape],
                None if a.value is None else a.value.text,
                None if a.fill is None else [a.fill.kind, a.fill.numbers, a.fill.content],
                a.zeroed,
                a.atol if a.atol_by is None else a.atol_by.text,
                a.rtol if a.rtol_by is None else a.rtol_by.text,
                *([] if a.fetch is None else [repr(a.fetch)]),
                *([] if a.struct is None else [repr(a.struct)]),
            ]
            for a in self.arguments
        ]
        return hashlib.sha256(json.dumps([arguments, reference]).encode()).hexdigest()[:16]

    @cached_property
    def types(self) -> dict[str, Type]:
        """Names that expressions of a configuration may use, and their types."""
        types: dict[str, Type] = {name: "int" for name, _ in self.sizes}
        for p in self.parameters:
            types[p.name] = "float" if p.name in self.floats else "text" if p.is_text else "int"
        return types | {a.name: a.expression.type for a in self.derived}

    @property
    def derived(self) -> tuple[NamedExpression, ...]:
        """Named expressions of parameters and sizes: ``attributes``, then ``launch``."""
        return (*self.attributes, *self.launch)

    @property
    def steps(self) -> tuple[PipelineStep, ...]:
        """Every launch, in order. A file without a pipeline has one launch, with all arguments except constants."""
        passed = self.first or tuple(a.name for a in self.arguments if a.kind != "constant")
        return (PipelineStep(self.entry, passed, flags=self.flags), *self.further)

    @property
    def arrays(self) -> tuple[KernelArgument, ...]:
        """Arguments that are arrays."""
        return tuple(a for a in self.arguments if a.is_array)

    @cached_property
    def external_files(self) -> tuple[str, ...]:
        """Locations of files that are only read when needed, and limits of the functions in these files.

        Kernel files with the same content in two folders differ only in these values.
        """
        fills = [a.fill for a in self.arguments if a.fill is not None]
        functions = [self.reference.function, *(fill.function for fill in fills)]
        paths = [fill.path for fill in fills] + ["" if f is None else f.path for f in functions]
        limits = [0 if f is None else (f.time_limit, f.memory_limit) for f in functions]
        return (
            *paths,
            self.defined_at[0],
            repr((self.reference.time_limit, limits, self.limits)),
            *(() if self.reference.kernel is None else self.reference.kernel.external_files),
        )

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """Parameters that determine the types and tolerances of arguments."""
        expressions = (e for a in self.arguments for e in (a.dtype_by, a.atol_by, a.rtol_by) if e is not None)
        return tuple(dict.fromkeys(name for e in expressions for name in e.names))

    def under(self, config: Mapping[str, Value]) -> KernelFile:
        """Return the file, with the types and tolerances that its arguments have in a configuration.

        Raises ValueError for an unknown type, and for a tolerance that is not a non-negative number.
        """
        if not self.varying:
            return self
        return _under(self, self.external_files, tuple((name, config[name]) for name in self.varying))

    @cached_property
    def named_types(self) -> frozenset[str]:
        """Parameters whose values name the types of arguments."""
        expressions = (a.dtype_by for a in self.arguments)
        return frozenset(e.text for e in expressions if e is not None and e.names == (e.text,))

    def constants(self, sizes: Mapping[str, int]) -> dict[str, Result]:
        """Return the sizes, and the attributes that depend only on sizes.

        Raises:
            ExpressionError: An attribute is undefined.
        """
        known: dict[str, Result] = dict(sizes)
        for a in self.derived:
            if known.keys() >= set(a.expression.names):
                known[a.name] = a.expression.value(known)
        return known

    def values(self, sizes: Mapping[str, int], config: Mapping[str, Value]) -> dict[str, Result]:
        """Return the values of all names in one configuration. Attributes missing from ``config`` are computed."""
        known: dict[str, Result] = {**sizes}
        for p in self.parameters:
            known[p.name] = float(config[p.name]) if p.name in self.floats else config[p.name]
        for a in self.derived:
            known[a.name] = config[a.name] if a.name in config else a.expression.value(known)
        return known

    def metric_values(self, sizes: Mapping[str, int], config: Mapping[str, Value], seconds: float) -> dict[str, float]:
        """Return the values of all metrics for a launch that took ``seconds``.

        A metric may use earlier metrics, ``time``, ``flops`` and ``bytes``. Raises ExpressionError if a metric is
        undefined.
        """
        known = self.values(sizes, config)
        for name, cost in (("flops", self.flops), ("bytes", self.bytes)):
            if cost is not None:
                known[name] = float(cost.value(known))
        known["time"] = seconds
        metric_values_by_name = {}
        for metric in self.metrics:
            metric_values_by_name[metric.name] = known[metric.name] = float(metric.expression.value(known))
        return metric_values_by_name


@lru_cache(maxsize=256)
def _under(file: KernelFile, keys: tuple[str, ...], chosen: tuple[tuple[str, Value], ...]) -> KernelFile:
    known: dict[str, Result] = {n: float(v) if n in file.floats else v for n, v in chosen}
    return replace(file, is_under=True, arguments=tuple(_argument_under(a, known) for a in file.arguments))


def _argument_under(argument: KernelArgument, known: Mapping[str, Result]) -> KernelArgument:
    resolved = argument
    if argument.dtype_by is not None:
        resolved = replace(resolved, dtype=dtype_of(str(argument.dtype_by.value(known))))
    if argument.atol_by is not None:
        resolved = replace(resolved, atol=_tolerance(argument, argument.atol_by, known))
    if argument.rtol_by is not None:
        resolved = replace(resolved, rtol=_tolerance(argument, argument.rtol_by, known))
    return resolved


def _tolerance(argument: KernelArgument, expression: Expression, known: Mapping[str, Result]) -> float:
    return checked_tolerance(expression.value(known), f'value of the tolerance "{expression.text}" of {argument.name}')
