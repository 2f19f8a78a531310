"""An operator's command-line options are derived from the fields of its problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import pytest
from small_problems import small_sizes

from search_spaces.arrays import Array, FloatArray
from search_spaces.catalogue import operators
from search_spaces.launches.operand import Operand
from search_spaces.operators.operator import Operator, Option
from search_spaces.operators.problem import Problem, option


class Nothing(Problem):
    """Base class of test problems. It defines the methods that the tests do not need."""

    operator: ClassVar[str] = "scan"
    summary: ClassVar[str] = "running sums"

    def operands(self) -> tuple[Operand, ...]:
        return ()

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        return {}

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        return {}

    @property
    def flops(self) -> float:
        return 1.0


@dataclass(frozen=True)
class Scan(Nothing):
    length: int = option("elements", flag="-n")
    block_size: int = option("elements of a block; 0: all", 0)
    decay: float = option("what a sum is multiplied by", 1.0)
    dtype: str = option("type of x", "f16", flag="--type", choices=("f16", "f32"))
    out: str = ""


def test_options_are_the_fields_with_a_description() -> None:
    scan = Operator.of(Scan)
    assert (scan.name, scan.summary) == ("scan", "running sums")
    assert scan.options == (
        Option("length", ("-n",), int, "elements"),
        Option("block_size", ("--block-size",), int, "elements of a block; 0: all", 0),
        Option("decay", ("--decay",), float, "what a sum is multiplied by", 1.0),
        Option("dtype", ("--type",), str, "type of x", "f16", ("f16", "f32")),
    )
    assert [o.name for o in scan.options] == ["n", "block_size", "decay", "type"]
    assert scan.make(length=8, dtype="f32") == Scan(8, dtype="f32")
    assert scan.from_json(Scan(8).to_json()) == Scan(8)


def test_annotations_may_be_types_or_their_names() -> None:
    # annotations are types in a module without "from __future__ import annotations"
    typed = dataclass(frozen=True)(type("Typed", (Nothing,), {"__annotations__": {"n": int}, "n": option("elements")}))
    assert Operator.of(typed).options == (Option("n", ("--n",), int, "elements"),)


def test_an_option_of_another_type_is_rejected() -> None:
    annotations: dict[str, Any] = {"sizes": tuple[int, ...]}
    odd = dataclass(frozen=True)(type("Odd", (Nothing,), {"__annotations__": annotations, "sizes": option("sizes")}))
    with pytest.raises(ValueError, match="the option sizes of scan must be an int, a float or a str"):
        Operator.of(odd)


@pytest.mark.parametrize("operator", operators(), ids=lambda o: o.name)
def test_every_operator_has_options_of_its_own_problem(operator: Operator) -> None:
    sizes = small_sizes(operator)
    problem = operator.make(**sizes)
    assert problem.operator == operator.name and operator.summary
    assert sizes and {o.field for o in operator.options} <= {f.name for f in fields(problem)}
    assert len({o.name for o in operator.options}) == len({f for o in operator.options for f in o.flags})
    for o in operator.options:
        assert o.help and all(flag.startswith("-") for flag in o.flags)
        assert type(getattr(problem, o.field)) is o.type
        assert not o.choices or o.type is str
        for choice in o.choices:
            assert choice, "the empty string is not a choice"
    defaults = {o.field: o.default for o in operator.options if o.default is not None}
    assert operator.make(**sizes, **defaults) == problem, "the defaults of the options are those of the problem"
    assert operator.from_json(problem.to_json()) == problem
