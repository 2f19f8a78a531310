"""Interface of problems: operands, reference, tolerance, and key in databases."""

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

DRAWN = 4_194_301  # number of random values that are generated before they repeat: the largest prime below 2^22


def standard_normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, scale: float = 1.0) -> Array:
    """Return random values with a normal distribution. They repeat after DRAWN elements.

    Generating hundreds of millions of values would take longer than measuring a kernel. The period is prime, so it does
    not divide the stride of a tile or a row. An element at a wrong position therefore still has a different value.

    Args:
        rng: Random generator.
        shape: Shape of the array.
        dtype: Storage type of the values.
        scale: Standard deviation of the values.

    Returns:
        The array.
    """
    drawn = rng.standard_normal(dtype.values * min(math.prod(shape), DRAWN), dtype=np.float32)
    return np.resize(dtype.store(drawn * np.float32(scale)), shape)


def whole_number(name: str, value: Any, least: int) -> int:
    """Convert a value of any integer type to an int. Raises ValueError for other types, and values below ``least``."""
    try:
        number = least - 1 if isinstance(value, bool | np.bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return number


def option(help: str, default: Any = dataclasses.MISSING, *, flag: str = "", choices: tuple[str, ...] = ()) -> Any:
    """Return a dataclass field of a problem, which the command line can set.

    Args:
        help: Help text.
        default: Default value. Without a default, the field is required. "" means that ``__post_init__`` derives the
            value from other fields.
        flag: Name of the option; "" for the field's name.
        choices: Allowed values; empty if any value is allowed.

    Returns:
        The dataclass field.
    """
    return dataclasses.field(default=default, metadata={"help": help, "flag": flag, "choices": choices})


class EarlierReference(ValueError):
    """The JSON describes a problem whose kernel file or tile program was changed after the JSON was written."""


DIVISORS = (16, 8, 1)  # divisors of dynamic sizes; the first two allow wider memory accesses


def divisor_of(size: int) -> int:
    """Return the largest of DIVISORS that divides a dynamic size. Each divisor has its own kernel."""
    return next(n for n in DIVISORS if size % n == 0)


@dataclass(frozen=True)
class Problem(ABC):
    """Base class of problems. A problem is a computation with its sizes and types.

    Subclasses are frozen dataclasses, whose fields are JSON scalars. Equal problems have equal results of ``key()``.
    """

    operator: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def operands(self) -> tuple[Operand, ...]:
        """Return the arrays that a caller passes: inputs, then outputs."""

    @abstractmethod
    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Compute the expected outputs in float64, without rounding to the output type. Shapes are those in memory."""

    @abstractmethod
    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the largest allowed error of each element of each output, an upper bound of its rounding errors."""

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return ``reference`` and ``tolerance``, without computing the reference twice."""
        return self.reference(inputs), self.tolerance(inputs)

    @property
    def described(self) -> str:
        """Name of the problem, shown to users; "" unless a user's kernel file has facts that the JSON lacks."""
        return ""

    @property
    def defined_at(self) -> tuple[str, int]:
        """File and line of the user's kernel.

        The line is 0 if unknown; the result is ("", 0) for operators without a file.
        """
        return "", 0

    @property
    def checks_outputs(self) -> bool:
        """True if ``check_outputs`` checks the outputs, instead of a comparison with ``reference``."""
        return False

    def reference_dtype(self, output: str) -> DType | None:
        """Return the type to which the reference of an output is rounded; None if the reference is not rounded."""
        return None

    @property
    def unordered(self) -> tuple[str, ...]:
        """Names of the output vectors whose elements may be in any order."""
        return ()

    def check_outputs(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> str | None:
        """Check stored outputs with the problem's check function, if it has one.

        Args:
            inputs: Stored inputs.
            outputs: Stored outputs.

        Returns:
            An error message, or "" if the outputs are correct. None if the problem has no check function, so that
            outputs are compared with ``reference``.
        """
        return None

    def unchanged(self, inputs: Mapping[str, Array]) -> Mapping[str, BoolArray]:
        """Return masks of the elements of ``inout`` arrays that must be unchanged, by array name."""
        return {}

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """Sizes that count independent rows, each with a large typical value; empty if there are none.

        For each such size, every array either has an axis with one entry per row, or is the same for all rows.
        """
        return {}

    def of_batch(self, size: int) -> Self:
        """Return the problem with another value of its first batch size. Raises ValueError if it has no batch size."""
        if not self.batch_sizes:
            raise ValueError(f"{self.operator} has no batch size: none of its sizes counts independent rows")
        return dataclasses.replace(self, **{next(iter(self.batch_sizes)): size})

    @property
    def dynamic_sizes(self) -> tuple[str, ...]:
        """Names of the size fields that a launch passes to the kernel, so that one kernel serves all their values."""
        return ()

    @property
    def scalar_fields(self) -> tuple[str, ...]:
        """Names of the scalar fields that a launch passes to the kernel. One kernel serves all their values."""
        return ()

    def at_other_sizes(self, values: Mapping[str, Any]) -> tuple[Self, ...]:
        """Return further problems that the kernel of a schedule with these ``values`` must compute correctly.

        These problems have dynamic sizes at and around the edges of the kernel's tiles, and scalars at the ends of
        their ranges.
        """
        return ()

    def _take_defaults(self, **values: str) -> None:
        """Set each of these fields to its default if it is empty."""
        for name, value in values.items():
            if getattr(self, name) == "":
                object.__setattr__(self, name, value)

    def _take_types(self, *names: str) -> None:
        """Normalise the spelling of types in these fields. Unknown names are unchanged."""
        for name in names:
            object.__setattr__(self, name, canonical(getattr(self, name)))

    def _take_dtype(self, name: str, dtype: str) -> None:
        """Set the field ``name`` to ``dtype`` if ``dtype`` is given.

        Raises:
            ValueError: The field already has another value.
        """
        value, default = canonical(getattr(self, name)), type(self).__dataclass_fields__[name].default
        if dtype and value not in (default, canonical(dtype)):
            raise ValueError(f"{name} is {value!r}, but dtype is {canonical(dtype)!r}: give only one of them")
        object.__setattr__(self, name, canonical(dtype) if dtype else value)

    def _take_sizes(self, *names: str, least: int = 1) -> None:
        """Convert these fields to ints. Raises ValueError if a value is not an integer or is too small."""
        for name in names:
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))

    def _take_extents(self, *names: str) -> None:
        """Convert sizes of matrices to ints. Raises ValueError from 2^30 on, because kernels use 32-bit indices."""
        self._take_sizes(*names)
        for name in names:
            if getattr(self, name) >= 2**30:
                raise ValueError(f"{name} must be under 2^30, not {getattr(self, name)}")

    def further_parts(self, name: str, positions: Indices) -> Iterator[ProblemPart]:
        """Return smaller problems for elements of another output, ``name``, as ``parts`` does for the first output."""
        return iter(())

    @property
    def signed_zeros(self) -> bool:
        """True if a result of -0 is wrong where the reference is +0."""
        return False

    @property
    @abstractmethod
    def flops(self) -> float:
        """Number of floating-point operations."""

    @cached_property
    def min_bytes(self) -> int:
        """Minimum number of bytes that a kernel moves between DRAM and the chip: each operand once."""
        return sum(o.bytes for o in self.operands())

    def metrics(self, config: Mapping[str, int | str], seconds: float) -> Mapping[str, float]:
        """Return additional metrics of a launch, by name and unit ("GB/s").

        FLOP/s or bytes per second are not included, because they are always reported.

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
        """True if the reduced problem for the emulator is inferred instead of declared."""
        return False

    def remedy_of_unset(self, name: str) -> str:
        """Return advice for a user's kernel that reads array ``name`` before writing it; "" for autosched's kernels."""
        return ""

    def under(self, values: Mapping[str, int | str]) -> Problem:
        """Return the problem that a schedule with the given values solves.

        The result differs from this problem if the schedule chooses types of arrays, which are part of a problem's key.
        """
        return self

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal inputs, stored in the operands' types."""
        rng = np.random.default_rng(seed)
        return {o.name: standard_normal(rng, o.shape, o.dtype) for o in self.operands() if o.role == "input"}

    def input_cases(self) -> tuple[InputCase, ...]:
        """Return the edge cases that a kernel must support. Cases that most often reveal faults are first."""
        return ()

    def stress_inputs(self, seed: int) -> Iterator[StressInputs]:
        """Yield inputs that together cover all ``input_cases``. Most inputs combine several cases."""
        return iter(())

    def drawn_inputs(self, seed: int) -> Iterator[StressInputs]:
        """Yield random inputs for a seed, then ``stress_inputs``."""
        yield StressInputs((RANDOM,), self.random_inputs(seed))
        yield from self.stress_inputs(seed)

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Return smaller problems that together compute the elements of the first output at ``positions``.

        ``positions`` are ascending indices in memory order. The result is empty if an element depends on too many
        inputs.
        """
        return iter(())

    def to_json(self) -> dict[str, Any]:
        """Return the operator's name and the fields, which ``from_json`` reads."""
        return {"operator": self.operator, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a problem from a result of ``to_json``.

        Raises ValueError if a field is missing, unknown or invalid.
        """
        fields_given = {k: v for k, v in data.items() if k != "operator"}
        fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
        needed = [n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING]
        missing = [name for name in needed if name not in fields_given]
        for complaint, names in (("needs", missing), ("has no", [name for name in fields_given if name not in fields])):
            if names:
                raise ValueError(f"invalid JSON of a {cls.operator} problem: it {complaint} {', '.join(names)}")
        try:
            return cls(**fields_given)
        except TypeError as error:
            raise ValueError(f"invalid JSON of a {cls.operator} problem: {error}") from error

    @staticmethod
    def check(value: object) -> Problem:
        """Return ``value`` unchanged. Raises ValueError if it is not a problem."""
        if not isinstance(value, Problem):
            raise ValueError(f"expected a problem, such as Matmul(m=64, n=64, k=64), not {value!r}")
        return value

    def key(self) -> str:
        """Return the canonical text of the problem, which identifies it in databases."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))


class ProblemPart(NamedTuple):
    """A smaller problem that computes some outputs of a large problem, and its operands' positions in the large arrays.

    ``problem`` computes ``outputs`` of the large problem from ``inputs`` of the large problem. The mappings
    ``inputs`` and ``outputs`` contain an array for each operand of ``problem``. The array has the operand's shape, and
    gives the index of each element in the large problem's array. Indices are in memory order.
    """

    problem: Problem
    inputs: Mapping[str, Indices]
    outputs: Mapping[str, Indices]


def sum_growth(count: int) -> float:
    """Return the error of a sum of ``count`` terms, as a multiple of the rounding error 2^-24.

    There is at most one rounding error per addition. Because their signs are random, the total rarely exceeds 6
    sqrt(count) (Higham and Mary 2019). A further 16 errors are added for the last steps of the reduction tree.
    """
    return min(count, 6.0 * math.sqrt(count)) + 16.0
