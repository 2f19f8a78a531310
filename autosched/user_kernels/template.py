"""Kernel template of a kernel file: its space, its generated kernels, and the cost counts that the file states."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache, lru_cache

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.expressions import Expression, ExpressionError, Result, parse
from autosched.user_kernels.kernel_file import BLOCK, CLUSTER, GRID, SHARED, FileRule, KernelFile, PipelineStep
from autosched.user_kernels.lowering import lower
from autosched.user_kernels.problem import KernelProblem, problem_type
from autosched.user_kernels.reduced import reduced, shrinks
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.operator import Operator
from search_spaces.spaces.config import Config
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.launch_rules import MOST_BLOCKS
from search_spaces.templates.template import KernelTemplate

# Limits of a launch: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
MOST_BLOCKS_YZ = 65535
MOST_THREADS_Z = 64
MOST_CLUSTER = 8  # number of blocks in the largest cluster that every GPU with clusters supports
UNSEEN_REGISTERS = 32  # assumed registers per thread, until the compiler has reported the number


def operator(file: KernelFile) -> Operator:
    """Return the operator that a kernel file defines. The operator's options are the kernel's sizes."""
    return Operator.of(problem_type(file))


def template(file: KernelFile) -> KernelTemplate:
    """Return the kernel template of a kernel file; the same object for equal files at the same location.

    If the file states no cost, the template has none. Its schedules cannot then be ranked before measurement.
    """
    return _template(file, file.external_files)


@cache
def _template(file: KernelFile, keys: tuple[str, ...]) -> KernelTemplate:

    @lru_cache(maxsize=64)
    def space(problem: KernelProblem, device: Device) -> Space:
        return _space(file, problem, device)

    def supports(problem: KernelProblem, device: Device) -> str | None:
        return _why_not(file, problem, device)

    def lowered(problem: KernelProblem, config: Config, device: Device) -> GeneratedKernel:
        return lower(file, problem.sizes, config, device.arch)

    def counts(problem: KernelProblem, config: Config, device: Device) -> CostCounts:
        return _counts(file, problem, config)

    def proxy(problem: KernelProblem, schedule: Schedule) -> KernelProblem:
        if not file.proxy:
            return reduced(problem, schedule.values)
        values = file.values(problem.sizes, schedule.values)
        return problem.of({**problem.sizes, **{p.name: int(p.expression.value(values)) for p in file.proxy}})

    return KernelTemplate(
        name=file.name,
        summary=file.summary,
        operators=(file.name,),
        source=None,
        space=space,
        lower=lowered,
        supports=supports,
        counts=None if file.bytes is None and file.flops is None else counts,
        counts_are_bounds=True,
        proxy=proxy if file.proxy or shrinks(file) else None,
        content=file.content,
        compile_options=file.options,
    )


def launch_rules(file: KernelFile, device: Device) -> list[FileRule]:
    """Return the rules that every launch on ``device`` must satisfy, as expressions like the file's own rules."""
    rules: dict[str, tuple[str, str]] = {}
    for step in file.steps:
        of_step = _rules_of_step(file, step, device)
        rules |= {step.named((name,))[0]: rule for name, rule in of_step.items()}
    return [FileRule(parse(text, file.types), reason, name=name) for name, (text, reason) in rules.items()]


def _rules_of_step(file: KernelFile, step: PipelineStep, device: Device) -> dict[str, tuple[str, str]]:
    gx, gy, gz = step.named(GRID)
    bx, by, bz = step.named(BLOCK)
    (bytes_of,) = step.named((SHARED,))
    threads, shared = device.max_threads_per_block, device.shared_per_block
    rules = {
        "launch.block": (
            f"1 <= {bx} <= {threads} and 1 <= {by} <= {threads} and 1 <= {bz} <= {MOST_THREADS_Z} "
            f"and {bx} * {by} * {bz} <= {threads}",
            f"a block has 1 to {threads} threads, at most {MOST_THREADS_Z} along z",
        ),
        "launch.grid": (
            f"1 <= {gx} <= {MOST_BLOCKS} and 1 <= {gy} <= {MOST_BLOCKS_YZ} and 1 <= {gz} <= {MOST_BLOCKS_YZ}",
            f"a grid has at least one block, and at most {MOST_BLOCKS} along x and {MOST_BLOCKS_YZ} along y and z",
        ),
        "launch.shared_bytes": (
            f"0 <= {bytes_of} <= {shared}",
            f"a block on {device.name} has at most {shared} bytes of shared memory",
        ),
    }
    if "cooperative" in step.flags:
        shared_of_block = f"max(1, {bytes_of} + {device.reserved_shared_per_block})"
        of_sm = f"min({device.max_threads_per_sm} // ({bx} * {by} * {bz}), {device.shared_per_sm} // {shared_of_block})"
        rules["launch.cooperative"] = (
            f"{gx} * {gy} * {gz} <= {device.sm_count} * min({device.max_blocks_per_sm}, {of_sm})",
            f"all blocks of a cooperative launch run at the same time on {device.name}",
        )
    cluster = step.named(CLUSTER)
    if any(a.name in cluster and a.expression.text != "1" for a in file.launch):
        sides = " and ".join(f"{c} >= 1 and {g} % {c} == 0" for c, g in zip(cluster, (gx, gy, gz), strict=True))
        reason = f"a cluster has at most {MOST_CLUSTER} blocks and divides the grid"
        rules["launch.cluster"] = (f"{' * '.join(cluster)} <= {MOST_CLUSTER} and {sides}", reason)
    return rules


def _clustered(file: KernelFile) -> bool:
    names = {name for step in file.steps for name in step.named(CLUSTER)}
    return any(a.name in names and a.expression.text != "1" for a in file.launch)


def _why_not(file: KernelFile, problem: KernelProblem, device: Device) -> str | None:
    """Return the reason of the first rule that no configuration meets at these sizes; None if there is no such rule."""
    if not device.has("clusters") and _clustered(file):
        return f"the kernel launches clusters, which {device.name} does not support"
    if not device.has("programmatic_launch") and any("dependent" in step.flags for step in file.steps):
        return f"the kernel uses a dependent launch, which {device.name} does not support"
    try:
        known = file.constants(problem.sizes)
        for rule in (*file.rules, *launch_rules(file, device)):
            if known.keys() >= set(rule.expression.names) and not rule.expression.value(known):
                return _reason(rule, known)
    except ValueError as error:
        return str(error)
    return None


def _reason(rule: FileRule, values: Mapping[str, Result]) -> str:
    assignments = ", ".join(f"{name} = {values[name]}" for name in rule.expression.names)
    return f"{rule.reason or f'{rule.expression.text} does not hold'} ({assignments})"


def _space(file: KernelFile, problem: KernelProblem, device: Device) -> Space:
    """Return the search space of a problem. Attributes that depend only on sizes are constants in it."""
    known = file.constants(problem.sizes)
    attributes = [_attribute(a.name, a.expression, known) for a in file.derived if a.name not in known]
    constraints = [
        _defined(a.name, a.expression, known) for a in file.derived if a.name not in known and a.expression.partial
    ]
    pruning: list[Rule] = []
    for rule in (*file.rules, *launch_rules(file, device)):
        if not known.keys() >= set(rule.expression.names):
            (pruning if rule.pruning else constraints).append(_rule(rule, known))
    for name, value in file.pinned:
        chosen = parse(f"{name} == {value if name in file.floats else repr(value)}", file.types)
        set_rule = FileRule(chosen, "another value was requested", name=f"--set {name}={value}")
        pruning.append(dataclasses.replace(_rule(set_rule, known), requested=True))
    return Space(file.name, file.parameters, attributes, constraints, pruning)


def _names(expression: Expression, known: Mapping[str, Result]) -> dict[str, str]:
    """Return the names of the parameters and attributes that an expression uses."""
    return {name: name for name in expression.names if name not in known}


def _attribute(name: str, expression: Expression, known: Mapping[str, Result]) -> Attribute:
    return Attribute(
        name, lambda **c: expression.columns(c, known)[0], expression.text, names=_names(expression, known)
    )


def _defined(name: str, expression: Expression, known: Mapping[str, Result]) -> Rule:
    return Rule(
        f"{name} is defined",
        lambda **c: expression.columns(c, known)[1],
        lambda **v: f"{name} = {expression.text} has no value for {', '.join(f'{n} = {x}' for n, x in v.items())}",
        names=_names(expression, known),
    )


def _rule(rule: FileRule, known: Mapping[str, Result]) -> Rule:
    return Rule(
        rule.name or rule.expression.text,
        lambda **c: rule.expression.holds(c, known),
        lambda **v: _reason(rule, {**known, **v}),
        rule.reason,
        names=_names(rule.expression, known),
    )


def _counts(file: KernelFile, problem: KernelProblem, config: Config) -> CostCounts:
    """Return the counts that the file states, divided evenly among the blocks.

    The counts assume no bank conflicts and no overlap of loads. The number of registers is taken from the compiler.
    Raises KernelFileError for an undefined or negative cost.
    """
    values = file.values(problem.sizes, config)
    blocks, threads = 1, 1
    for g, b in zip(GRID, BLOCK, strict=True):
        blocks, threads = blocks * int(values[g]), threads * int(values[b])
    moved = _cost(file, "bytes", file.bytes, values, problem.min_bytes)
    stored = float(min(moved, sum(o.bytes for o in problem.operands() if o.role != "input")))
    flops = _cost(file, "flops", file.flops, values, 0)
    return CostCounts(
        blocks=blocks,
        threads=threads,
        shared_bytes=int(values[SHARED]),
        registers=UNSEEN_REGISTERS,
        unit="fma",
        operand_dtype="f32",
        flops=flops / blocks,
        # counts in warp instructions; one computes 32 FMAs, or moves 32 words of 4 bytes
        instructions=(flops / 64 + moved / 128) / blocks,
        shared_wavefronts=0.0,
        load_bytes=(moved - stored) / blocks,
        store_bytes=stored / blocks,
        dram_bytes=moved,
        iterations=1,
        stages=1,
        barriers_per_iteration=0,
    )


def _cost(
    file: KernelFile, key: str, expression: Expression | None, values: Mapping[str, Result], otherwise: float
) -> float:
    if expression is None:
        return float(otherwise)
    try:
        cost = float(expression.value(values))
    except ExpressionError as error:
        raise KernelFileError(f"{file.name}: cost.{key}: {error}") from None
    if cost < 0:
        assignments = ", ".join(f"{name} = {values[name]}" for name in expression.names)
        raise KernelFileError(
            f'{file.name}: cost.{key}: "{expression.text}" is {cost:g} for {assignments}: it must be 0 or more'
        )
    return cost
