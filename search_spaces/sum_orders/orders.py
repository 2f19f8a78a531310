"""Orders in which the schedules of any template add terms, and spaces that are restricted by a rule on this order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any

from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.spaces.sum_order import OrderPart, OrderRule, SumOrder, order_of
from search_spaces.templates.template import KernelTemplate, TemplateSet

_TILED = (
    "matmul",
    "tma_matmul",
    "wgmma_matmul",
    "wgmma_matmul_transposed",
    "tcgen05_matmul",
    "tcgen05_matmul_transposed",
)


def _tiled(name: str) -> Callable[[Any, Device], tuple[OrderPart, ...]]:
    def parts(problem: Any, device: Device) -> tuple[OrderPart, ...]:
        from search_spaces.sum_orders.matmul import tiled_parts

        return tiled_parts(name, problem, device)

    return parts


def _matvec(problem: Any, device: Device) -> tuple[OrderPart, ...]:
    from search_spaces.sum_orders.matmul import matvec_parts

    return matvec_parts(problem, device)


def _rows(problem: Any, device: Device) -> tuple[OrderPart, ...]:
    from search_spaces.sum_orders.row_reduction import row_parts

    return row_parts(problem, device)


def _no_sums(problem: Any, device: Device) -> tuple[OrderPart, ...]:
    return ()


# These modules are imported on first use, because each imports the space of its template.
_BUILT_IN: Mapping[str, Callable[[Any, Device], tuple[OrderPart, ...]]] = {
    **{name: _tiled(name) for name in _TILED},
    "matvec": _matvec,
    "row_reduction": _rows,
    "transpose": _no_sums,
    "copy": _no_sums,
}


def parts_of(template: KernelTemplate, problem: Problem, device: Device) -> tuple[OrderPart, ...] | None:
    """Return the components of the order for a template; None if the order is not defined."""
    stated = template.sum_order or _BUILT_IN.get(template.name)
    return _of_program(template, problem, device) if stated is None else stated(problem, device)


def _of_program(template: KernelTemplate, problem: Problem, device: Device) -> tuple[OrderPart, ...] | None:
    """Return the components of the order for a tile program; None for other templates."""
    if template.source is None or template.source.header != "autosched/tile/ring.cuh":
        return None
    from search_spaces.programs.problem import ProgramProblem
    from search_spaces.programs.program_template import ProgramTemplate
    from search_spaces.sum_orders.programs import program_parts

    own = getattr(template.space, "__self__", None)
    tile_problem = own.problem(problem) if isinstance(own, ProgramTemplate) else problem
    return program_parts(tile_problem, device) if isinstance(tile_problem, ProgramProblem) else None


def sum_order(template: KernelTemplate, problem: Problem, schedule: Schedule, device: Device) -> SumOrder | None:
    """Return the order of one schedule; None if it is not defined for the template.

    Raises:
        ValueError: The schedule is invalid for ``problem``.
    """
    parts = parts_of(template, problem, device)
    return None if parts is None else order_of(parts, template.config(problem, schedule, device))


def restricted(templates: TemplateSet, problem: Problem, device: Device, rule: OrderRule) -> TemplateSet:
    """Return templates whose spaces for ``problem`` have only schedules that satisfy a rule on the order of sums.

    The spaces are still counted exactly. Templates without a defined order are omitted. If no schedule satisfies the
    pruning rules, they are not applied: the required order may need schedules that are otherwise not worth trying.

    Args:
        templates: The templates.
        problem: Problem of the spaces. Spaces for other problems are unchanged.
        device: Device of the spaces.
        rule: Requirement on the order.

    Raises:
        ValueError: The order is not defined for any template.
    """
    parts = {t.name: template_parts for t in templates if (template_parts := parts_of(t, problem, device)) is not None}
    if not parts:
        names = ", ".join(t.name for t in templates)
        raise ValueError(
            f"the order in which {names} add terms is unknown: check schedules with autosched verify --batch-invariant"
        )
    known = [t for t in templates if t.name in parts]
    pruned, whole = (
        TemplateSet([_with_rule(t, problem, rule, parts[t.name], valid=valid) for t in known])
        for valid in (False, True)
    )
    return next((usable for usable in (pruned, whole) if usable.space(problem, device).count()), pruned)


def _with_rule(
    template: KernelTemplate, problem: Problem, rule: OrderRule, parts: tuple[OrderPart, ...], *, valid: bool
) -> KernelTemplate:
    @lru_cache(maxsize=1)
    def of_problem(device: Device) -> Space:
        space = template.space(problem, device)
        return rule.restricted(space.valid if valid else space, parts)

    @wraps(template.space)  # keep the name of the function's module, on which the template version depends
    def space(wanted_problem: Problem, device: Device) -> Space:
        return of_problem(device) if wanted_problem == problem else template.space(wanted_problem, device)

    return replace(template, space=space)
