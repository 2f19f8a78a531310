"""What a learned model sees of a schedule: named columns, computed the same way when training and when predicting.

Five groups, told apart by the start of the name:

- ``problem.``: its sizes (log2), and one column per value of its text fields, such as ``problem.epilogue=bias``;
- ``device.``, ``work.``, ``model.``: the lists ``DEVICE``, ``WORK`` and ``MODEL`` below, each feature with its meaning;
- ``schedule.``: every parameter as the parameter itself encodes it (``Parameter.encode``): ordinal integers as
  log2(1 + value), categorical ones as a column per value;
- ``attribute.``: the derived columns of the family's space, as sign(x) * log2(1 + abs(x)).

A name that holds ``=`` is a column of zeros and ones, "is this value": where a problem's domain lacks the value, the
column is all zeros, so tables of different problems of one family can be joined (``align``). Change FEATURE_VERSION
with every change to names or meanings: a model of another version is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cost_models.analytic import LAUNCH_SECONDS, Analysis, analyse
from search_spaces.arrays import FloatArray
from search_spaces.catalogue import family
from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.hardware.units import UNITS, unit
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

Matrix = npt.NDArray[np.float32]

FEATURE_VERSION = 1


class FeatureMismatch(ValueError):
    """Tables, or a table and a model, whose features are not of one family. One line says which differ."""


@dataclass(frozen=True)
class FeatureTable:
    """``values``, float32 [n, d], finite, with a name for each of d columns. Raises ValueError otherwise."""

    names: tuple[str, ...]
    values: Matrix

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.names):
            raise ValueError(f"{len(self.names)} names do not fit features of shape {self.values.shape}")
        if len(set(self.names)) != len(self.names):
            raise ValueError("two features have the same name")
        if not np.isfinite(self.values).all():
            column = int(np.flatnonzero(~np.isfinite(self.values).all(axis=0))[0])
            raise ValueError(f"feature {self.names[column]} is NaN or infinite")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, name: str) -> npt.NDArray[np.float32]:
        """One column, [n]. Raises KeyError."""
        if name not in self.names:
            raise KeyError(name)
        return self.values[:, self.names.index(name)]


@dataclass(frozen=True)
class Batch:
    """n schedules of one problem on one device, with what features are computed from."""

    problem: Problem
    device: Device
    works: tuple[CostCounts, ...]

    @cached_property
    def analysis(self) -> Analysis:
        return analyse(self.works, self.device)

    def column(self, field: str) -> FloatArray:
        """One field of every work, [n]."""
        return np.array([getattr(w, field) for w in self.works], dtype=np.float64)

    @cached_property
    def roofline(self) -> FloatArray:
        """Seconds below which no kernel of this problem can be, with each row's unit: arithmetic or DRAM, [n]."""
        device, rates = self.device, {(w.unit, w.operand_dtype): 0.0 for w in self.works}
        for name, operand in rates:
            row = unit(name)
            rates[name, operand] = row.flops_per_cycle(device, operand) * row.clock_hz(device) * device.sm_count
        math = np.array([self.problem.flops / rates[w.unit, w.operand_dtype] for w in self.works], dtype=np.float64)
        return np.maximum(math, self.problem.min_bytes / device.dram_bandwidth)


@dataclass(frozen=True)
class Feature:
    """One column: ``of`` gives [n], or one number where it is the same for the whole batch."""

    name: str
    doc: str
    of: Callable[[Batch], FloatArray | float]


def _log(values: FloatArray | float) -> FloatArray:
    logarithm: FloatArray = np.log2(1.0 + np.asarray(values, dtype=np.float64))
    return logarithm


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """log2 of a ratio of two costs, 0 where both are 0."""
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
    Feature("device.warps_per_sm", "warps that an SM holds at most", lambda b: float(b.device.max_warps_per_sm)),
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
    *(Feature(f"work.unit_{u.name}", f"1 where {u.doc} the arithmetic", _is_unit(u.name)) for u in UNITS.values()),
    Feature("work.flops", "log2 of the flops of a block, waste included", _log_field("flops")),
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
        "log2 of the flops of the launch over the useful ones: partial tiles",
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
    Feature("model.occupancy", "blocks that live on an SM together", lambda b: b.analysis.occupancy.astype(np.float64)),
    Feature(
        "model.warps", "warps that live on an SM together", lambda b: b.analysis.occupancy * b.column("threads") / 32
    ),
    Feature("model.waves", "log2 of the blocks over those that run at a time", lambda b: _log(b.analysis.waves)),
    Feature(
        "model.wave_efficiency",
        "waves over waves rounded up: 1 where the last wave is full",
        lambda b: b.analysis.waves / np.ceil(b.analysis.waves),
    ),
    Feature(
        "model.issue_per_math",
        "log2 of issue cycles over arithmetic cycles of a block",
        lambda b: _ratio(b.analysis.issue, b.analysis.math),
    ),
    Feature(
        "model.shared_per_math",
        "log2 of shared-memory cycles over arithmetic cycles of a block",
        lambda b: _ratio(b.analysis.shared, b.analysis.math),
    ),
    Feature(
        "model.load_per_math",
        "log2 of L2 cycles over arithmetic cycles of a block",
        lambda b: _ratio(b.analysis.load, b.analysis.math),
    ),
    Feature("model.step", "log2 of the cycles of one step of a full SM", lambda b: _log(b.analysis.step)),
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
        "log2 of that time over the roofline of the problem",
        lambda b: np.log2(b.analysis.seconds / (b.roofline + LAUNCH_SECONDS)),
    ),
)

FEATURES = PROBLEM + DEVICE + WORK + MODEL


def features(problem: Problem, schedules: Sequence[Schedule], device: Device) -> FeatureTable:
    """Features of n schedules of a problem on a device; n may be 0.

    Raises ValueError for a schedule of another family, with other parameters or with a value outside the domain of
    the problem's space, or for one that does not fit on the device.
    """
    row = family(problem.family)
    space = row.space(problem, device)
    derived = space.prepare(schedules)  # each work asks for the attributes of its schedule
    names, parts = _schedule_columns(space, schedules, derived)
    works = tuple(row.counts(problem, schedule, device) for schedule in schedules)
    batch = Batch(problem, device, works)
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


def _problem_columns(problem: Problem) -> tuple[list[str], Matrix]:
    """The fields of a problem: integers as log2(1 + value), texts and truths as a column named after the value."""
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


def _schedule_columns(
    space: Space, schedules: Sequence[Schedule], derived: Mapping[str, npt.NDArray[np.int64]]
) -> tuple[list[str], list[Matrix]]:
    """The parameters as they encode themselves, then the space's attributes, which ``derived`` holds."""
    names = [f"schedule.{name}" for name in space.encoded_names] + [f"attribute.{name}" for name in derived]
    attributes = [np.sign(array) * _log(np.abs(array).astype(np.float64)) for array in derived.values()]
    return names, [space.encode(schedules), *(column.astype(np.float32)[:, None] for column in attributes)]


def common_names(tables: Sequence[FeatureTable]) -> tuple[str, ...]:
    """The names of all tables, those of the first first. Raises FeatureMismatch if one lacks a column that is no
    "is this value" column, ValueError without tables."""
    if not tables:
        raise ValueError("there are no features to join")
    names = tuple(dict.fromkeys(name for table in tables for name in table.names))
    for table in tables:
        here = set(table.names)
        _require(name for name in names if name not in here)
    return names


def align(table: FeatureTable, names: Sequence[str]) -> Matrix:
    """The columns ``names`` of a table, float32 [n, len(names)], in that order.

    A missing "is this value" column is zeros, and one that is not asked for is dropped: it is a value that no row of
    the other side has. Any other column must be on both sides: raises FeatureMismatch.
    """
    wanted, here = set(names), {name: i for i, name in enumerate(table.names)}
    _require(name for name in (*names, *table.names) if name not in wanted or name not in here)
    values = np.zeros((len(table), len(names)), dtype=np.float32)
    for column, name in enumerate(names):
        if name in here:
            values[:, column] = table.values[:, here[name]]
    return values


def _require(differing: Iterable[str]) -> None:
    strange = sorted({name for name in differing if "=" not in name})
    if strange:
        shown = ", ".join(strange[:3]) + (f" and {len(strange) - 3} more" if len(strange) > 3 else "")
        raise FeatureMismatch(f"features differ ({shown}): a model serves problems of the family it was trained on")
