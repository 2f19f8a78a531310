"""Features of schedules for learned models, as named columns. Training and prediction share this code.

The prefix of a column's name is its group:

- ``problem.``: the problem's sizes (log2), and one column per value of its text fields, such as
``problem.epilogue=bias``;
- ``device.``, ``work.``, ``model.``: features of the device, the work and the analytic model, with their meaning in the
lists ``DEVICE``, ``WORK`` and ``MODEL``;
- ``schedule.TEMPLATE.``: every parameter, encoded by ``Parameter.encode``: ordinal integers as log2(1 + value),
categorical parameters as one column per value;
- ``attribute.TEMPLATE.``: the numeric attributes of that template's space, as sign(x) * log2(1 + abs(x)).

Columns ``schedule.`` and ``attribute.`` are NaN (missing) in rows of other templates. A column with ``=`` in its name
is an indicator: 1 for this value, else 0. Tables of different problems of an operator can be joined (``align``),
because a missing indicator column is equivalent to a column of zeros. Change FEATURE_VERSION with every change to names
or meanings, so that models of other versions are rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cost_models.analytic import LAUNCH_SECONDS, Analysis, analyse
from search_spaces.arrays import FloatArray
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.hardware.units import UNITS, unit
from search_spaces.operators.problem import Problem
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.template import TemplateSet

Matrix = npt.NDArray[np.float32]

FEATURE_VERSION = 3


class FeatureMismatch(ValueError):
    """Two tables, or a table and a model, have features of different operators. The message lists the differences."""


@dataclass(frozen=True)
class FeatureTable:
    """Features ``values``, float32 [n, d], with a name for each of the d columns.

    Raises:
        ValueError: Names do not match the columns, or a column that does not belong to a template has NaN or infinite
            values.
    """

    names: tuple[str, ...]
    values: Matrix

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.names):
            raise ValueError(f"{len(self.names)} names do not match features of shape {self.values.shape}")
        if len(set(self.names)) != len(self.names):
            raise ValueError("two features have the same name")
        missing = np.isnan(self.values) & np.array(
            [_template_of(name) is not None for name in self.names], dtype=np.bool_
        )
        strange = ~np.isfinite(self.values) & ~missing
        if strange.any():
            column = int(np.flatnonzero(strange.any(axis=0))[0])
            raise ValueError(f"feature {self.names[column]} is NaN or infinite")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, name: str) -> npt.NDArray[np.float32]:
        """Return one column, [n].

        Raises:
            KeyError: There is no such column.
        """
        if name not in self.names:
            raise KeyError(name)
        return self.values[:, self.names.index(name)]


def _template_of(name: str) -> str | None:
    """Return the name of the template to which a column belongs; None for columns that all templates have."""
    group, _, rest = name.partition(".")
    return rest.partition(".")[0] if group in ("schedule", "attribute") else None


@dataclass(frozen=True)
class Batch:
    """n schedules of one problem on one device, with the data from which features are computed."""

    problem: Problem
    device: Device
    works: tuple[CostCounts, ...]

    @cached_property
    def analysis(self) -> Analysis:
        """The analytic model's results for the batch."""
        return analyse(self.works, self.device)

    def column(self, field: str) -> FloatArray:
        """Return one field of the cost counts of every schedule, [n]."""
        return np.array([getattr(w, field) for w in self.works], dtype=np.float64)

    @cached_property
    def roofline(self) -> FloatArray:
        """Roofline time of the problem on the arithmetic unit that each schedule uses, in seconds, [n]."""
        device, rates = self.device, {(w.unit, w.operand_dtype): 0.0 for w in self.works}
        for name, operand in rates:
            row = unit(name)
            rates[name, operand] = row.flops_per_cycle(device, operand) * row.clock_hz(device) * device.sm_count
        math = np.array([self.problem.flops / rates[w.unit, w.operand_dtype] for w in self.works], dtype=np.float64)
        return np.maximum(math, self.problem.min_bytes / device.dram_bandwidth)


@dataclass(frozen=True)
class Feature:
    """Definition of one column. ``of`` computes the column's values [n], or one number if all are equal."""

    name: str
    doc: str
    of: Callable[[Batch], FloatArray | float]


def _log(values: FloatArray | float) -> FloatArray:
    logarithm: FloatArray = np.log2(1.0 + np.asarray(values, dtype=np.float64))
    return logarithm


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return log2 of the ratio of two costs; 0 if both costs are 0."""
    return _log(numerator) - _log(denominator)


PROBLEM = (
    Feature("problem.flops", "log2 of the useful flops of the problem", lambda b: _log(b.problem.flops)),
    Feature("problem.min_bytes", "log2 of the bytes of all operands", lambda b: _log(float(b.problem.min_bytes))),
    Feature(
        "problem.intensity",
        "log2 of flops per byte of the operands",
        lambda b: _log(b.problem.flops / max(b.problem.min_bytes, 1)),
    ),
)

DEVICE = (
    Feature("device.sm", "compute capability, 90 for sm_90", lambda b: float(b.device.sm)),
    Feature("device.sm_count", "log2 of the number of SMs", lambda b: _log(float(b.device.sm_count))),
    Feature("device.l2_bytes", "log2 of the bytes of L2", lambda b: _log(float(b.device.l2_bytes))),
    Feature("device.dram_bandwidth", "log2 of DRAM bytes per second", lambda b: _log(b.device.dram_bandwidth)),
    Feature("device.l2_bandwidth", "log2 of L2 bytes per second", lambda b: _log(b.device.l2_bandwidth)),
    Feature("device.clock", "log2 of the SM clock in hertz", lambda b: _log(b.device.clock_hz)),
    Feature("device.fma_peak", "log2 of the f32 flop/s of the CUDA cores", lambda b: _log(b.device.fma_peak)),
    Feature(
        "device.tensor_peak",
        "log2 of the f16 flop/s of mma.sync",
        lambda b: _log(b.device.tensor_peak("f16") * b.device.mma_sync_fraction),
    ),
    Feature("device.shared_per_sm", "log2 of the shared bytes of an SM", lambda b: _log(float(b.device.shared_per_sm))),
    Feature("device.warps_per_sm", "maximum resident warps per SM", lambda b: float(b.device.max_warps_per_sm)),
)


def _is_unit(name: str) -> Callable[[Batch], FloatArray]:
    return lambda b: np.array([w.unit == name for w in b.works], dtype=np.float64)


def _log_field(field: str) -> Callable[[Batch], FloatArray]:
    return lambda b: _log(b.column(field))


WORK = (
    Feature("work.blocks", "log2 of the blocks of the launch", _log_field("blocks")),
    Feature("work.threads", "log2 of the threads of a block", _log_field("threads")),
    Feature("work.shared_bytes", "log2 of the dynamic shared bytes of a block", _log_field("shared_bytes")),
    Feature("work.registers", "estimated registers of a thread", lambda b: b.column("registers")),
    *(Feature(f"work.unit_{u.name}", f"1 if {u.doc} the arithmetic", _is_unit(u.name)) for u in UNITS.values()),
    Feature("work.flops", "log2 of the flops of a block, including waste", _log_field("flops")),
    Feature("work.instructions", "log2 of the warp instructions of a block", _log_field("instructions")),
    Feature("work.shared_wavefronts", "log2 of the shared-memory cycles of a block", _log_field("shared_wavefronts")),
    Feature("work.load_bytes", "log2 of the bytes that a block loads from L2", _log_field("load_bytes")),
    Feature("work.store_bytes", "log2 of the bytes that a block stores", _log_field("store_bytes")),
    Feature("work.dram_bytes", "log2 of the DRAM bytes of the launch", _log_field("dram_bytes")),
    Feature("work.iterations", "log2 of the steps of the main loop", _log_field("iterations")),
    Feature("work.stages", "stages of the pipeline", lambda b: b.column("stages")),
    Feature("work.barriers", "barriers of a step", lambda b: b.column("barriers_per_iteration")),
    Feature(
        "work.waste",
        "log2 of the ratio of executed to useful flops; above 0 if tiles are partial",
        lambda b: np.log2(np.maximum(b.column("flops") * b.column("blocks"), 1.0) / max(b.problem.flops, 1.0)),
    ),
    Feature(
        "work.flops_per_load",
        "log2 of flops per byte loaded from L2",
        lambda b: _ratio(b.column("flops"), b.column("load_bytes")),
    ),
    Feature(
        "work.dram_excess",
        "log2 of the DRAM bytes of the launch over the bytes of the operands",
        lambda b: _ratio(b.column("dram_bytes"), np.full(len(b.works), float(b.problem.min_bytes))),
    ),
)

MODEL = (
    Feature("model.occupancy", "resident blocks per SM", lambda b: b.analysis.occupancy.astype(np.float64)),
    Feature("model.warps", "resident warps per SM", lambda b: b.analysis.occupancy * b.column("threads") / 32),
    Feature("model.waves", "log2 of blocks over resident blocks", lambda b: _log(b.analysis.waves)),
    Feature(
        "model.wave_efficiency",
        "number of waves, divided by the same number rounded up; 1 if the last wave is full",
        lambda b: b.analysis.waves / np.ceil(b.analysis.waves),
    ),
    Feature(
        "model.issue_per_math",
        "log2 of a block's issue cycles over its arithmetic cycles",
        lambda b: _ratio(b.analysis.issue, b.analysis.math),
    ),
    Feature(
        "model.shared_per_math",
        "log2 of a block's shared-memory cycles over its arithmetic cycles",
        lambda b: _ratio(b.analysis.shared, b.analysis.math),
    ),
    Feature(
        "model.load_per_math",
        "log2 of L2 cycles over arithmetic cycles of a block",
        lambda b: _ratio(b.analysis.load, b.analysis.math),
    ),
    Feature(
        "model.step",
        "log2 of the cycles of one main-loop iteration of all resident blocks of an SM",
        lambda b: _log(b.analysis.step),
    ),
    Feature(
        "model.dram_share",
        "log2 of the DRAM time over the SM time",
        lambda b: np.log2((b.analysis.dram_seconds + LAUNCH_SECONDS) / (b.analysis.sm_seconds + LAUNCH_SECONDS)),
    ),
    Feature(
        "model.seconds", "log2 of the time that the analytic model predicts", lambda b: np.log2(b.analysis.seconds)
    ),
    Feature(
        "model.over_roofline",
        "log2 of the predicted time over the roofline of the problem",
        lambda b: np.log2(b.analysis.seconds / (b.roofline + LAUNCH_SECONDS)),
    ),
)

FEATURES = PROBLEM + DEVICE + WORK + MODEL


_MEANINGS = {
    "problem": "log2(1 + value) of a field of the problem",
    "schedule": "log2(1 + value) of an ordinal parameter",
    "attribute": "sign(x) * log2(1 + |x|) of an attribute x of the template's space",
}


def meaning(name: str) -> str:
    """Describe the content of a column in words.

    Raises:
        KeyError: No column can have this name.
    """
    for feature in FEATURES:
        if feature.name == name:
            return feature.doc
    group = name.partition(".")[0]
    if "=" in name and group in ("problem", "schedule"):
        return f"1 if this {'field of the problem' if group == 'problem' else 'parameter'} has this value, else 0"
    return _MEANINGS[group]


def features(templates: TemplateSet, problem: Problem, schedules: Sequence[Schedule], device: Device) -> FeatureTable:
    """Compute the features of n schedules, as one row per schedule.

    Args:
        templates: Templates of the schedules, each with cost counts.
        problem: Problem to compute.
        schedules: n schedules; n may be 0.
        device: The GPU.

    Returns:
        A table with one row for each schedule.

    Raises:
        ValueError: A schedule does not fit on the device, or its parameters are not those of the problem's space. Also
            raised if its template is not in ``templates`` or has no cost counts.
    """
    names: list[str] = []
    parts: list[Matrix] = []
    batch, configs = _batch(templates, problem, schedules, device)
    for template in templates:
        if template.counts is None:
            continue
        here = configs[template.name]
        own, values = _schedule_columns(template.name, template.space(problem, device), list(here.values()))
        part = np.full((len(schedules), len(own)), np.nan, dtype=np.float32)
        part[list(here)] = values
        names += own
        parts.append(part)
    fixed = np.empty((len(schedules), len(FEATURES)), dtype=np.float32)
    for i, feature in enumerate(FEATURES):
        fixed[:, i] = feature.of(batch) if schedules else 0.0
    problem_names, problem_values = _problem_columns(problem)
    values = np.concatenate(
        [fixed, np.broadcast_to(problem_values, (len(schedules), len(problem_values))), *parts],
        axis=1,
        dtype=np.float32,
    )
    return FeatureTable((*(f.name for f in FEATURES), *problem_names, *names), values)


def model_log_seconds(
    templates: TemplateSet, problem: Problem, schedules: Sequence[Schedule], device: Device
) -> FloatArray:
    """Return only the feature ``model.seconds``, as a natural logarithm, [n]. Handles some 10,000 schedules per second.

    Raises:
        ValueError: For the same reasons as ``features``.
    """
    if not schedules:
        return np.zeros(0)
    batch, _ = _batch(templates, problem, schedules, device)
    return np.log2(batch.analysis.seconds).astype(np.float32).astype(np.float64) * math.log(2.0)


def _batch(
    templates: TemplateSet, problem: Problem, schedules: Sequence[Schedule], device: Device
) -> tuple[Batch, dict[str, dict[int, Config]]]:
    """Return the counts of all schedules, and for each template the positions and configs of its schedules."""
    rows: dict[str, list[int]] = {template.name: [] for template in templates}
    for i, schedule in enumerate(schedules):
        rows[templates.of(schedule).name].append(i)
    counted: list[CostCounts | None] = [None] * len(schedules)
    configs: dict[str, dict[int, Config]] = {}
    for template in templates:
        here, counts = rows[template.name], template.counts
        if counts is None:
            if here:
                raise ValueError(
                    f"the kernel template {template.name} has no cost counts, so times cannot be estimated: measure it"
                )
            continue
        own = template.space(problem, device).configs([schedules[i] for i in here]) if here else ()
        configs[template.name] = dict(zip(here, own, strict=True))
        for i, config in configs[template.name].items():
            counted[i] = counts(problem, config, device)
    return Batch(problem, device, tuple(c for c in counted if c is not None)), configs


def _problem_columns(problem: Problem) -> tuple[list[str], Matrix]:
    """Return the fields of a problem as columns.

    Integers become log2(1 + value). Strings and booleans become an indicator column named after the value.
    """
    names: list[str] = []
    values: list[float] = []
    for field, value in problem.to_json().items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            names.append(f"problem.{field}")
            values.append(float(np.log2(1.0 + value)))
        else:
            names.append(f"problem.{field}={value}")
            values.append(1.0)
    return names, np.array(values, dtype=np.float32)


def _schedule_columns(template: str, space: Space, configs: Sequence[Config]) -> tuple[list[str], Matrix]:
    """Return columns for the encoded parameters and for the attributes of each template's space."""
    following = (*(a.name for a in space.attributes), *space.constants)
    names = [f"schedule.{template}.{name}" for name in space.encoded_names]
    names += [f"attribute.{template}.{name}" for name in following]
    derived = np.array([config.integers(*following) for config in configs], dtype=np.float64)
    derived = derived.reshape(len(configs), len(following))
    encoded = space.encode([config.schedule for config in configs])
    return names, np.concatenate([encoded, np.sign(derived) * _log(np.abs(derived))], axis=1, dtype=np.float32)


def common_names(tables: Sequence[FeatureTable]) -> tuple[str, ...]:
    """Return the column names that occur in any table, starting with the columns of the first table.

    Raises:
        FeatureMismatch: A table lacks a required column (see ``align``).
        ValueError: There are no tables.
    """
    if not tables:
        raise ValueError("no feature tables to join: pass at least one")
    names = tuple(dict.fromkeys(name for table in tables for name in table.names))
    for table in tables:
        _require(names, table.names)
    return names


def align(table: FeatureTable, names: Sequence[str]) -> Matrix:
    """Return a table's columns with these names, float32 [n, len(names)], in the order of ``names``.

    A missing indicator column becomes zeros, since no row of the table has that value. A missing column of a template
    becomes NaN. Superfluous indicator columns and columns of templates are dropped.

    Raises:
        FeatureMismatch: Apart from these columns, the table has a column that is not in ``names``, or lacks one of
            ``names``.
    """
    here = {name: i for i, name in enumerate(table.names)}
    _require(names, table.names)
    known = {_template_of(name) for name in table.names}
    values = np.zeros((len(table), len(names)), dtype=np.float32)
    for column, name in enumerate(names):
        if name in here:
            values[:, column] = table.values[:, here[name]]
        elif _template_of(name) not in known:
            values[:, column] = np.nan
    return values


def _require(one: Sequence[str], other: Sequence[str]) -> None:
    """Raise FeatureMismatch if a required column is in only one of two tables."""
    strange: set[str] = set()
    for these, those in ((set(one), set(other)), (set(other), set(one))):
        templates = {_template_of(name) for name in those} | {None}
        strange |= {name for name in these - those if "=" not in name and _template_of(name) in templates}
    if strange:
        shown = ", ".join(sorted(strange)[:3]) + (f" and {len(strange) - 3} more" if len(strange) > 3 else "")
        raise FeatureMismatch(
            f"features differ ({shown}): use a model only for problems of the operator that it was trained on"
        )
