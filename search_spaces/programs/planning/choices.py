"""All combinations of values of ``p.choose``, and the inference of the program for each combination."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

from search_spaces.hardware.block_scaling import BlockFormat
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import DType
from search_spaces.programs.inference.infer import infer
from search_spaces.programs.inference.inference import Inference, Staged
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import ZERO
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.planning.instructions import (
    boxed_names,
    in_tensor_memory,
    is_boxed,
    rows_of_intrinsics,
    scaled_rows,
)
from search_spaces.programs.planning.splits import combining_loop, shared_loop
from search_spaces.programs.planning.tensor_memory import why_not_in_tensor_memory
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.parameters import Value

MOST_CHOICES = 1024  # limit of combinations of p.choose, as each combination is traced
Combination = tuple[int, ...]
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Choices:
    """The values of each ``p.choose``, and the results of inference for every combination of values."""

    domains: Mapping[str, tuple[int, ...]]
    inferences: Mapping[Combination, Inference]

    @property
    def first(self) -> Inference:
        """The inference of the first combination."""
        return next(iter(self.inferences.values()))

    @property
    def element(self) -> DType | None:
        """Element type of the operands of products; None if there are no products."""
        types = {o.a.dtype for o, _ in self.first.trace.walk() if isinstance(o, ir.Mma)}
        return types.pop() if types else None

    @property
    def tf32(self) -> bool:
        """True if all products may round their operands to tf32."""
        return all(o.tf32 for o, _ in self.first.trace.walk() if isinstance(o, ir.Mma))

    @property
    def blocks(self) -> BlockFormat | None:
        """Block-scaled format of the operands of products; None without scales."""
        return next((o.blocks for o, _ in self.first.trace.walk() if isinstance(o, ir.Mma)), None)

    def instructions(self, device: Device) -> tuple[str, ...]:
        """Return the names of the instructions that can compute the products on ``device``."""
        if self.element is None:
            return ()
        if self.blocks is not None:
            return scaled_rows(self.blocks, device)
        rows = rows_of_intrinsics(self.element, self.tf32, device)
        boxed = self.boxed_instructions(device)
        return tuple(name for name in rows if not is_boxed(name) or name in boxed)

    def boxed_instructions(self, device: Device) -> tuple[str, ...]:
        """Return the instructions on ``device`` that read boxes, without tcgen05 if the program cannot use it."""
        names = boxed_names(self.element, self.tf32, device)
        tensor = any(map(in_tensor_memory, names))
        return () if tensor and any(map(why_not_in_tensor_memory, self.inferences.values())) else names

    @cached_property
    def shaping(self) -> tuple[str, ...]:
        """Names of the chosen sizes that tiles depend on, except sizes that only set how many blocks share a loop."""
        if shared_loop(self.first) is None:
            return tuple(self.domains)
        traces = {values: _without_parts(inference) for values, inference in self.inferences.items()}
        return _deciding(tuple(self.domains), traces)[0]

    def inference(self, values: Mapping[str, Value]) -> Inference:
        """Return the inference for the sizes in ``values``. Sizes that are not in ``shaping`` may be missing."""
        chosen = (
            values[name] if name in self.shaping else values.get(name, of[0]) for name, of in self.domains.items()
        )
        return self.inferences[tuple(map(int, chosen))]

    def deciding(self, size: Callable[[Inference], int]) -> tuple[tuple[str, ...], dict[Combination, int]]:
        """Return the names of sizes that determine ``size(inference)``, and the results by values of these sizes."""
        table = {values: size(inference) for values, inference in self.inferences.items()}
        return _deciding(tuple(self.domains), table)


def _deciding(names: tuple[str, ...], table: Mapping[Combination, _T]) -> tuple[tuple[str, ...], dict[Combination, _T]]:
    """Return the names that a table's results depend on, and the table reduced to the values of these names."""
    deciding_names = []
    for at, name in enumerate(names):
        seen: dict[Combination, _T] = {}
        if any(seen.setdefault(v[:at] + v[at + 1 :], n) != n for v, n in table.items()):
            deciding_names.append(name)
    positions = [names.index(name) for name in deciding_names]
    return tuple(deciding_names), {tuple(v[i] for i in positions): n for v, n in table.items()}


def _without_parts(inference: Inference) -> tuple[object, ...]:
    """Return the parts of a trace that determine tiles, without the number of blocks that share a loop."""

    def without(operation: ir.Operation) -> ir.Operation:
        if isinstance(operation, ir.Loop) and operation.parts:
            return dataclasses.replace(operation, parts=1)
        if isinstance(operation, ir.Loop) and operation.number == combining_loop(inference):
            return dataclasses.replace(operation, stop=ZERO)
        return operation

    trace = inference.trace
    return trace.extent, trace.tile, tuple(map(without, trace.operations))


@lru_cache(maxsize=64)
def choices_of(problem: ProgramProblem) -> Choices:
    """Trace a program with every combination of values of ``p.choose``, and infer distributions.

    Raises:
        ProgramError: If the program is invalid, or if the chosen sizes affect anything other than shapes, for example
            the number of products.
    """
    program, sizes = problem.program, problem.values
    domains = program.domains(sizes)
    if math.prod(map(len, domains.values())) > MOST_CHOICES:
        raise ProgramError(f"{program.location}: p.choose has more than {MOST_CHOICES} combinations: use fewer")
    traces = {
        values: program.trace(sizes, dict(zip(domains, values, strict=True)))
        for values in itertools.product(*domains.values())
    }
    # Two products belong to one class if their shapes are equal in every combination.
    shapes = [[(o.result.shape, o.result.map) for o, _ in t.walk() if isinstance(o, ir.Mma)] for t in traces.values()]
    if len({len(s) for s in shapes}) != 1:
        raise ProgramError(
            f"{program.location}: the number of products depends on p.choose: use the same products for all chosen "
            "sizes"
        )
    of_products = list(zip(*shapes, strict=True))
    classes = tuple(of_products.index(s) for s in of_products)
    inferences = {values: infer(trace, classes) for values, trace in traces.items()}
    choices = Choices(domains, inferences)
    types = {o.a.dtype for o, _ in choices.first.trace.walk() if isinstance(o, ir.Mma)}
    if len(types) > 1:
        raise ProgramError(
            f"{program.location}: mma: products differ in the type of their operands: use one type in a program"
        )
    if len({o.blocks for o, _ in choices.first.trace.walk() if isinstance(o, ir.Mma)}) > 1:
        raise ProgramError(
            f"{program.location}: mma: products differ in the format of their scales: use one format for all, or no "
            "scales"
        )
    if any(_signature(i) != _signature(choices.first) for i in inferences.values()):
        raise ProgramError(
            f"{program.location}: the operations depend on p.choose: use the same operations for all chosen sizes"
        )
    return choices


def _signature(inference: Inference) -> object:
    return (
        [(s.name, s.side, s.product, s.row_major, s.loop is None) for s in unique_operands(inference)],
        len(inference.stores),
        [a.name for a in inference.trace.shared],
        len(inference.sums),
        len(inference.loops),
        len(inference.trace.blocks),
    )


def unique_operands(inference: Inference) -> list[Staged]:
    """Return the staged operands without duplicates."""
    return list({s.name: s for s in inference.staged.values()}.values())
