"""Formatting of times, rates, schedules and tables as readable text."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from autosched.reporting.roofline import Costed, bound_by, known, roofline
from measurements.trials.facts import ProblemFacts
from measurements.trials.vendor_library import is_library
from search_spaces.hardware.dtypes import MULTIPLIED_DTYPES
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.compiler_controls import NAMES, shown_value

if TYPE_CHECKING:  # imported only for annotations, because verifications do not need trials
    from measurements.trials.measurement import Resources
    from measurements.trials.trial import Trial

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_TYPES = frozenset((*MULTIPLIED_DTYPES, "i32"))  # fields that contain types; these are always shown
GAP = 2  # number of spaces between columns
_RATE_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))

PROVENANCE_NOTE = {
    "measured": "measured on a GPU",
    "replayed": "replayed from a recording made on a GPU",
    "estimated": "estimated by a model, not measured",
}


def time(seconds: float) -> str:
    """Format the time of a kernel with four digits: ``213.4 us``."""
    for scale, unit in _TIME_UNITS:
        if seconds >= scale:
            return f"{_four_digits(seconds / scale)} {unit}"
    return f"{seconds:.2e} s"


def rate(problem: Costed, seconds: float, device: str | None = None) -> str:
    """Format the rate of a problem that takes ``seconds``: ``4.103 TB/s`` or ``644.1 TFLOP/s``.

    The rate is in bytes per second if the problem is memory-bound on ``device``, or has no arithmetic.
    """
    chip = None if device is None else known(device)
    if not problem.flops or (chip is not None and roofline(problem, chip).memory_bound):
        return f"{_scaled(problem.min_bytes / seconds)}B/s"
    return f"{_scaled(problem.flops / seconds)}FLOP/s"


def share_of_roof(problem: Costed, seconds: float, device: str) -> str | None:
    """Format the achieved fraction of the peak or, if the problem is memory-bound, of DRAM bandwidth.

    Returns a text such as ``41% of the peak``; None for an unknown device.
    """
    chip = known(device)
    if chip is None:
        return None
    roof = roofline(problem, chip)
    return f"{roof.share(seconds):.0%} of the {'bandwidth of DRAM' if roof.memory_bound else 'peak'}"


def _scaled(value: float) -> str:
    scale, prefix = next(((s, p) for s, p in _RATE_UNITS if value >= s), _RATE_UNITS[-1])
    return f"{_four_digits(value / scale)} {prefix}"


def _four_digits(value: float) -> str:
    digits = 3 if value < 10 else 2 if value < 100 else 1
    return f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """Format a duration: ``0.4 s``, ``14 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    if whole_seconds < 3600:
        return f"{whole_seconds // 60} min {whole_seconds % 60} s"
    return f"{whole_seconds // 3600} h {whole_seconds % 3600 // 60} min"


def pace(rate: float, seconds_left: float) -> str:
    """Format a rate, in steps per second, and the remaining time: ``2.1/s, 14 s left``."""
    shown = f"{rate:.1f}/s" if rate >= 0.1 else f"{duration(1 / rate)} each"
    return f"{shown}, {duration(seconds_left)} left" if seconds_left > 0 else shown


def count(number: int) -> str:
    """Format an integer with separators, or as a power of ten if it is too long to read."""
    # computed from the text, because the number may be too large for a float
    return f"{number:,}" if number < 10**15 else f"{Decimal(number):.2e}"


def plural(number: int, noun: str) -> str:
    """Format a number with a noun in singular or plural: ``1 schedule``, ``2 schedules``."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def size(number_of_bytes: int) -> str:
    """Format bytes in binary units: ``48 KiB``."""
    value = float(number_of_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "bytes" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError  # unreachable, because the loop always returns at GiB


def one_line(problem: Problem) -> str:
    """Format a problem in one line: ``matmul m=4096 n=4096 k=4096 a=f16 b=f16 acc=f32 out=f16``.

    The line has required fields, types, and fields that differ from their default. If there are no such fields, as for
    a user's kernel with default sizes, the line has all fields.
    """
    shown = problem.to_json()
    names = telling_fields([problem]) or [f.name for f in dataclasses.fields(problem)]
    return " ".join((problem.operator, *(f"{name}={shown[name]}" for name in names)))


def telling_fields(problems: Sequence[Problem]) -> list[str]:
    """Return the fields to show for ``problems`` of one operator.

    These are the types, the fields that have no default, and the fields that differ from their default in at least one
    problem.
    """
    return [f.name for f in dataclasses.fields(problems[0]) if _tells(f, problems)]


def differing_fields(problems: Sequence[Problem]) -> list[str]:
    """Return the fields of ``telling_fields`` that have no default or differ among ``problems``."""
    fields = dataclasses.fields(problems[0])
    return [
        f.name for f in fields if f.default is dataclasses.MISSING or len({getattr(p, f.name) for p in problems}) > 1
    ]


def _tells(field: dataclasses.Field[Any], problems: Sequence[Problem]) -> bool:
    values = {getattr(p, field.name) for p in problems}
    if not values.isdisjoint(_TYPES):
        return True
    if field.default == "":  # an empty field is derived from the other fields
        return any(p != dataclasses.replace(p, **{field.name: ""}) for p in problems)
    return values != {field.default}


def reasons(counts: Mapping[str, int]) -> str:
    """Format counts by reason, most frequent first: ``wrong_result 2, timeout 1``."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {number}" for name, number in ordered)


def front(names: Sequence[str], parameters: Collection[str], rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a Pareto front as a table. Columns are the objectives, then the parameters that differ."""
    varying = [n for n in rows[0] if n in parameters and len({row[n] for row in rows}) > 1]
    result = table(*names, *varying, right=[*names, *varying])
    for row in rows:
        result.add_row(*(f"{row[name]:.6g}" for name in names), *(str(row[name]) for name in varying))
    return result


def table(*columns: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> Table:
    """Return a borderless table with a line under its head.

    Args:
        *columns: Headings of the columns.
        right: Headings of right-aligned columns.
        fold: Headings of columns whose text may wrap.
    """
    result = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=(0, GAP - 1, 0, 0)
    )
    for name in columns:
        result.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in fold,
            overflow="fold" if name in fold else "ellipsis",
        )
    return result


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Return a table with a row for each name and its value."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, value)
    return grid


def decisions(schedule: Schedule, width: int) -> Table:
    """Return a table of a schedule's parameters and values, side by side as far as ``width`` characters allow."""
    pairs = [(name, shown_value(name, value)) for name, value in schedule.items]
    for columns in (4, 3, 2, 1):
        height = -(-len(pairs) // columns)
        stacks = [pairs[i : i + height] for i in range(0, len(pairs), height)]
        needed = sum(max(len(n) for n, _ in s) + max(len(v) for _, v in s) + 2 * GAP for s in stacks)
        if needed <= width:
            break
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for _ in stacks:
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold")
    for row in range(height):
        grid.add_row(*(text for s in stacks for text in (s[row] if row < len(s) else ("", ""))))
    return grid


def cut(text: str, most: int) -> str:
    """Shorten ``text`` to at most ``most`` characters, at the end of a word."""
    if len(text) <= most:
        return text
    start = text[: most - 3].rpartition(" ")[0] or text[: most - 3]
    return f"{start.rstrip(' ,;:')}..."


def name_without_file(problem_key: str, facts: ProblemFacts | None) -> str:
    """Return the name of a problem whose operator is not registered: the name in its trial, else its fields."""
    from measurements.trials.problem_key import fields_of

    if facts is not None:
        return facts.name
    fields = {k: v for k, v in fields_of(problem_key).items() if k not in ("operator", "computes", "types")}
    operator = fields_of(problem_key).get("operator", "")
    return " ".join((str(operator), *(f"{name}={value}" for name, value in sorted(fields.items()))))


def trial_facts(problem: Costed, trial: Trial) -> list[tuple[str, str]]:
    """Return facts about a trial with a time: the time with its provenance, the error and the resources.

    Args:
        problem: Problem of the trial; if the operator is not registered, the stored costs of the problem.
        trial: Trial with a time.
    """
    from measurements.trials.policy import DEFAULT, NONE, described

    timing, resources = trial.measurement.timing, trial.measurement.resources
    if timing is None:
        raise ValueError(f"trial {trial.id} has no time: its status is {trial.status}")
    note = PROVENANCE_NOTE[trial.provenance]
    rows = [("template", trial.schedule.template)]
    share = share_of_roof(problem, timing.median, trial.device)
    reached = rate(problem, timing.median, trial.device) + (f" ({share})" if share else "")
    rows += [("time", f"{time(timing.median)}, {reached}, {note}")]
    if trial.policy not in (NONE, DEFAULT):
        rows.append(("timed", described(trial.runner_info.policy)))
    if trial.runner_info.derived:
        rows.append(("device data", trial.runner_info.derived))
    metrics = (
        problem.metrics if isinstance(problem, ProblemFacts) else problem.metrics(trial.schedule.values, timing.median)
    )
    if metrics:
        rows.append(("metrics", ", ".join(f"{value:.4g} {name}" for name, value in metrics.items())))
    if timing.count > 1:
        rows.append(("quartiles", f"{time(timing.p25)} to {time(timing.p75)} over {count(timing.count)} repeats"))
    error = trial.measurement.error
    if is_library(trial.schedule):
        rows[0] = ("winner", "the vendor's library: no tried schedule was as fast")
    rows.append(("accuracy", "not checked" if error is None else f"ok (max error {error:.2g}x tolerance)"))
    if resources is not None:
        rows.append(("resources", _resources(resources)))
    bound = None if isinstance(problem, ProblemFacts) else bound_by(problem, trial)
    if bound is not None:
        rows.append(("bound by", bound))
    if not isinstance(problem, ProblemFacts) and (order := order_of_sums(problem, trial)):
        rows.append(("summation order", order))
    tools = ", ".join(name for name in (trial.toolchain, trial.driver and f"driver {trial.driver}") if name)
    rows.append(("compiled by" if not is_library(trial.schedule) else "version", tools or "unknown"))
    controls = [f"{name} {shown_value(name, value)}" for name, value in trial.schedule.items if name in NAMES]
    if controls:
        rows.append(("compiler controls", ", ".join(controls)))
    when = trial.created.strftime("%Y-%m-%d %H:%M UTC")
    # imported here, because it imports the samplers
    from autosched.samplers.first_choices.nvidia_heuristics import NAME

    proposer = f"proposed by {trial.sampler}" if trial.sampler == NAME else f"{trial.sampler} sampler"
    rows.append(("found", f"{when}, trial {trial.id}, {proposer}, seed {trial.seed}"))
    return rows


def order_of_sums(problem: Problem, trial: Trial) -> str:
    """Describe a trial's order of sums, and whether batch invariance was verified; "" if the order is unknown."""
    from autosched.verify import stored
    from search_spaces.catalogue import template_names

    device = known(trial.device)
    if device is None or trial.schedule.template not in template_names():
        return ""
    from search_spaces.catalogue import template
    from search_spaces.sum_orders.orders import sum_order

    try:
        order = sum_order(template(trial.schedule.template), problem, trial.schedule, device)
    except ValueError:  # the order is unknown, because the trial is from an earlier version of the code
        return ""
    if order is None:
        return ""
    verified = ", verified to be batch-invariant" if stored.is_batch_invariant(trial.verification) else ""
    depends = ", depends on the batch" if order.batch_dependent else ""
    return f"{order}{verified}{depends}"


def trial_json(problem: Problem, trial: Trial) -> dict[str, Any]:
    """Return a timed trial as JSON values.

    The result also has the arithmetic rate, the share of the roofline, and the limiting resource (null if unknown).
    """
    if trial.seconds is None:
        raise ValueError(f"trial {trial.id} has no time: its status is {trial.status}")
    metrics = dict(problem.metrics(trial.schedule.values, trial.seconds))
    chip = known(trial.device)
    return {
        **trial.to_json(),
        "policy": trial.policy,
        "flops_per_second": problem.flops / trial.seconds,
        "share_of_roof": None if chip is None else roofline(problem, chip).share(trial.seconds),
        "bound_by": bound_by(problem, trial),
        "order_of_sums": order_of_sums(problem, trial),
        "metrics": metrics,
    }


def _resources(used: Resources) -> str:
    spills = used.spill_store_bytes + used.spill_load_bytes
    shared = used.static_shared_bytes + used.dynamic_shared_bytes
    spilled = f"{count(spills)} bytes of spills" if spills else "no spills"
    return f"{used.registers} registers, {spilled}, {size(shared)} shared memory"


def percent(part: int, whole: int) -> str:
    """Format a fraction as ``12.3 %``; a positive fraction below 0.1% as ``< 0.1 %``."""
    share = 100.0 * (part / whole)
    return "< 0.1 %" if 0 < share < 0.1 else f"{share:.1f} %"
