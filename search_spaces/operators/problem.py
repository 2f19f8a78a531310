"""Interface of every operator's problem: operands, reference, tolerance, and name in a database."""

from __future__ import annotations

import dataclasses
import json
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from search_spaces.arrays import Array, BoolArray, FloatArray
from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import RANDOM, InputCase, StressInputs
from search_spaces.operators.part import Indices

DRAWN = 4_194_301  # the largest prime below 2^22


def standard_normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, scale: float = 1.0) -> Array:
    """Return random values with a normal distribution; beyond DRAWN elements they repeat.

    Generating hundreds of millions would take longer than measuring a kernel. The period is prime, so it does not
    divide the stride of a tile or a row, and an element at a wrong position still has a different value.

    Args:
        rng: Random generator.
        shape: Shape of the array.
        dtype: Storage type of the values.
        scale: Their standard deviation.

    Returns:
        The array.
    """
    drawn = rng.standard_normal(dtype.values * min(math.prod(shape), DRAWN), dtype=np.float32)
    return np.resize(dtype.store(drawn * np.float32(scale)), shape)


def whole_number(name: str, value: Any, least: int) -> int:
    """Return ``value`` as an int, from any integer type. Raises ValueError for other types and below ``least``."""
    try:
        number = least - 1 if isinstance(value, bool | np.bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return number


def option(help: str, default: Any = dataclasses.MISSING, *, flag: str = "", choices: tuple[str, ...] = ()) -> Any:
    """Return a field of a problem that the command line sets.

    Args:
        help: Help text.
        default: Default value. Without it the field is required; "" stands for a value that ``__post_init__`` derives
            from other fields.
        flag: Name of the option; "" for the field's name.
        choices: Allowed values; empty for any.

    Returns:
        The dataclass field.
    """
    return dataclasses.field(default=default, metadata={"help": help, "flag": flag, "choices": choices})


class EarlierReference(ValueError):
    """The JSON describes a problem of a user's file that has been edited since."""


DIVISORS = (16, 8, 1)  # divisors of dynamic sizes; sizes divisible by the first two allow wider accesses


def divisor_of(size: int) -> int:
    """Return the first of DIVISORS that divides a dynamic size; it selects the kernel."""
    return next(n for n in DIVISORS if size % n == 0)


@dataclass(frozen=True)
class Problem(ABC):
    """A computation with its sizes and types.

    Subclasses are frozen dataclasses of JSON scalars; equal problems have equal ``key()``.
    """

    operator: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def operands(self) -> tuple[Operand, ...]:
        """Return inputs, then outputs: the arrays a caller passes."""

    @abstractmethod
    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the outputs in float64 for stored inputs, without rounding to the output type; shapes as in memory."""

    @abstractmethod
    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the largest absolute error allowed for each element of each output (a rounding-error bound)."""

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return ``reference`` and ``tolerance``, without computing the reference twice."""
        return self.reference(inputs), self.tolerance(inputs)

    @property
    def described(self) -> str:
        """Readable name, if a user's file gives more information than the JSON; else ""."""
        return ""

    @property
    def defined_at(self) -> tuple[str, int]:
        """File and line of the user's kernel, line 0 if unknown; ("", 0) for an operator without a file."""
        return "", 0

    @property
    def checks_outputs(self) -> bool:
        """True if outputs are not compared element by element with ``reference``."""
        return False

    def reference_dtype(self, output: str) -> DType | None:
        """Return the type to which the reference of an output is rounded; None for exact values."""
        return None

    @property
    def unordered(self) -> tuple[str, ...]:
        """Names of the output vectors whose elements may be in any order."""
        return ()

    def check_outputs(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> str | None:
        """Check stored outputs, if the problem has such a function.

        Args:
            inputs: Stored inputs.
            outputs: Stored outputs.

        Returns:
            An error message, "" for correct outputs, or None for a problem whose outputs are compared with
            ``reference``.
        """
        return None

    def unchanged(self, inputs: Mapping[str, Array]) -> Mapping[str, BoolArray]:
        """Return masks of the elements of ``inout`` arrays that must keep every bit, by array name."""
        return {}

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """Sizes along which rows are independent, each with a large typical value; empty if there are none.

        Every array either has one row per index of the size along one axis, or is the same for all of them.
        """
        return {}

    def of_batch(self, size: int) -> Self:
        """Return the problem with another number of rows along its first batch size. Raises ValueError without one."""
        if not self.batch_sizes:
            raise ValueError(f"{self.operator} has no size along which rows are batched")
        return dataclasses.replace(self, **{next(iter(self.batch_sizes)): size})

    @property
    def dynamic_sizes(self) -> tuple[str, ...]:
        """Names of the fields that a launch passes, so that one kernel serves all their values."""
        return ()

    @property
    def scalar_fields(self) -> tuple[str, ...]:
        """Names of the fields that a launch passes by value; one kernel serves all values, without specialisation."""
        return ()

    def at_other_sizes(self, values: Mapping[str, Any]) -> tuple[Self, ...]:
        """Return further problems that the kernel of a schedule with these ``values`` must compute correctly.

        They have dynamic sizes at and around the edges of its tiles, and scalars at the ends of their ranges.
        """
        return ()

    def _take_defaults(self, **values: str) -> None:
        """Set these fields if they are empty."""
        for name, value in values.items():
            if getattr(self, name) == "":
                object.__setattr__(self, name, value)

    def _take_types(self, *names: str) -> None:
        """Normalise the spelling of types in these fields; unknown names are unchanged."""
        for name in names:
            object.__setattr__(self, name, canonical(getattr(self, name)))

    def _take_dtype(self, name: str, dtype: str) -> None:
        """Set the field called ``name`` to ``dtype`` if that is given.

        Raises:
            ValueError: Both are given and differ.
        """
        value, default = canonical(getattr(self, name)), type(self).__dataclass_fields__[name].default
        if dtype and value not in (default, canonical(dtype)):
            raise ValueError(f"{name} is {value!r} and dtype {canonical(dtype)!r}: give one of them")
        object.__setattr__(self, name, canonical(dtype) if dtype else value)

    def _take_sizes(self, *names: str, least: int = 1) -> None:
        """Convert these fields to ints. Raises ValueError for one that is not an integer or is too small."""
        for name in names:
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))

    def _take_extents(self, *names: str) -> None:
        """Convert sizes of matrices, which kernels index by 32 bits. Also raises ValueError from 2^30 on."""
        self._take_sizes(*names)
        for name in names:
            if getattr(self, name) >= 2**30:
                raise ValueError(f"{name} must be under 2^30, not {getattr(self, name)}")

    def further_parts(self, name: str, positions: Indices) -> Iterator[ProblemPart]:
        """Return ``parts`` of another output called ``name``; empty if an element depends on too many inputs."""
        return iter(())

    @property
    def signed_zeros(self) -> bool:
        """True if a kernel must not return -0 if the reference is +0."""
        return False

    @property
    @abstractmethod
    def flops(self) -> float:
        """Number of floating-point operations."""

    @cached_property
    def min_bytes(self) -> int:
        """Bytes that any kernel must move between DRAM and the chip: each operand once."""
        return sum(o.bytes for o in self.operands())

    def metrics(self, config: Mapping[str, int | str], seconds: float) -> Mapping[str, float]:
        """Return further metrics of a launch, by name and unit ("GB/s").

        FLOP/s or bytes per second are always shown.

        Args:
            config: Parameters of the schedule, and possibly attributes.
            seconds: Time of the launch.
        """
        return {}

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of all ``metrics``."""
        return ()

    @property
    def reduction_is_inferred(self) -> bool:
        """True if the reduced problem for the emulator is inferred, rather than declared."""
        return False

    def remedy_of_unset(self, name: str) -> str:
        """Return a remedy for a kernel that reads the array ``name`` before it is written; "" for autosched's."""
        return ""

    def under(self, values: Mapping[str, int | str]) -> Problem:
        """Return the problem that a schedule with these values solves.

        It differs from this one if the schedule chooses types of arrays, which are then part of its key.
        """
        return self

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal inputs, stored in the operands' types."""
        rng = np.random.default_rng(seed)
        return {o.name: standard_normal(rng, o.shape, o.dtype) for o in self.operands() if o.role == "input"}

    def input_cases(self) -> tuple[InputCase, ...]:
        """Return the edge cases that a kernel must support; cases that reveal faults most often come first."""
        return ()

    def stress_inputs(self, seed: int) -> Iterator[StressInputs]:
        """Yield inputs that cover each of ``input_cases``, several of them at a time."""
        return iter(())

    def drawn_inputs(self, seed: int) -> Iterator[StressInputs]:
        """Yield the random inputs of a seed, then ``stress_inputs``."""
        yield StressInputs((RANDOM,), self.random_inputs(seed))
        yield from self.stress_inputs(seed)

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Return smaller problems that together compute the elements of the first output at ``positions``.

        ``positions`` are ascending, in memory order. The result is empty if an element depends on too many inputs.
        """
        return iter(())

    def to_json(self) -> dict[str, Any]:
        """Return the operator's name and the fields, for ``from_json``."""
        return {"operator": self.operator, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the problem whose ``to_json()`` was ``data``.

        Raises ValueError for missing, unknown or wrong fields.
        """
        fields_given = {k: v for k, v in data.items() if k != "operator"}
        fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
        needed = [n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING]
        missing = [name for name in needed if name not in fields_given]
        for complaint, names in (("needs", missing), ("has no", [name for name in fields_given if name not in fields])):
            if names:
                raise ValueError(f"this is not the JSON of a {cls.operator} problem: it {complaint} {', '.join(names)}")
        try:
            return cls(**fields_given)
        except TypeError as error:
            raise ValueError(f"this is not the JSON of a {cls.operator} problem: {error}") from error

    @staticmethod
    def check(value: object) -> Problem:
        """Return ``value`` unchanged. Raises ValueError if it is not a problem."""
        if not isinstance(value, Problem):
            raise ValueError(f"expected a problem, such as Matmul(m=64, n=64, k=64), not {value!r}")
        return value

    def key(self) -> str:
        """Canonical text of the problem, used as its identity in databases."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))


class ProblemPart(NamedTuple):
    """A smaller problem, and the positions of its operands in those of the large one.

    ``problem`` computes ``outputs`` of the large problem from its ``inputs``. For each operand of ``problem``, and in
    its shape, they contain indices into the large array, in memory order.
    """

    problem: Problem
    inputs: Mapping[str, Indices]
    outputs: Mapping[str, Indices]


def sum_growth(count: int) -> float:
    """Return the number of roundings of 2^-24 that a sum of ``count`` terms accumulates.

    It is at most one per addition. Because their signs are random, the total rarely exceeds 6 sqrt(count) (Higham and
    Mary 2019). 16 are added for the last steps of the reduction tree.
    """
    return min(count, 6.0 * math.sqrt(count)) + 16.0
