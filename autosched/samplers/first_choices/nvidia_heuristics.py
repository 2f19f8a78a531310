"""Choices of NVIDIA's nvMatmulHeuristics for a matmul, as schedules of ours.

They are among the first trials of ``tune`` if that package is installed (``pip install 'autosched[heuristics]'``,
NVIDIA's licence). The library names CUTLASS configurations: tiles of blocks and warps, stages, clusters, split k, the
order of tiles. The nearest schedule of a template has as many of these decisions as its rules allow, the more important
ones first. The time model chooses among the schedules that they leave open.
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autosched.samplers.first_choices import nvidia_heuristics_child
from autosched.samplers.first_choices.descent import descended
from cost_models.estimates import Estimates
from search_spaces.hardware import intrinsics
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.wgmma import ROWS, WARPGROUP
from search_spaces.operators.matmul import Matmul
from search_spaces.search_task import SearchTask
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.raster import RASTER_GROUPS
from search_spaces.templates.template import TemplateSet

NAME = "nvMatmulHeuristics"
GPUS: Mapping[str, str] = {
    **{"h200": "H200_SXM", "h100": "H100_SXM", "h100_pcie": "H100_PCIE", "a100": "A100_SXM_80GB", "a10": "A10_PCIE"},
    **{"rtx3090": "RTX_3090", "rtx4090": "RTX_4090", "l4": "L4", "l40s": "L40S", "l20": "L20", "l40": "L40"},
    **{"a100_pcie": "A100_PCIE_80GB", "a30": "A30_PCIE", "a40": "A40_PCIE", "a6000": "RTX_A6000"},
    **{"rtx6000ada": "RTX_6000_ADA", "h100_nvl": "H100_NVL"},
    **{"rtx5080": "RTX_5080", "rtx5090": "RTX_5090", "rtx_pro_6000": "RTX_PRO_6000"},
}  # the library's names of our rows. It proposes tcgen05 for B200 and its kin, and times beyond the peak for H20

# Types of a and b, accumulators and out, as nvMatmulHeuristics.h spells them; it knows no out of 16 bits for i8, and
# both 8-bit floats have one rate. f16_f16: added up in f16.
_PRECISIONS = {
    "f16": "HSH",
    "f16_f16": "HHH",
    "bf16": "TST",
    "f32": "SFS",
    "e4m3": "QQTST",
    "e5m2": "QQTST",
    "i8": "BII",
}
_PROPOSED = 3  # among the first trials
_ASKED = 12  # of which some are the same schedule of ours
_SECONDS = 20.0  # until a process that does not answer is given up; it takes a fifth of a second
_SAMPLES = 64  # of the schedules that a configuration leaves open


class HeuristicsFailed(ValueError):
    """The library is installed and gives no answer. The message is one line."""


@dataclass(frozen=True)
class Configuration:
    """A CUTLASS kernel.

    Attributes:
        tile: Tile of a block along m, n and k.
        warp_tile: Tile of a warp along m, n and k.
        instruction_m: Rows of one mma (64: wgmma).
        stages: Number of pipeline stages.
        split_k: Number of blocks that share the k of one tile.
        cluster: Blocks of a cluster along m and n.
        swizzle: Tiles in a band.
        by_columns: Blocks go down the rows of tiles first.
        seconds: Time that the library predicts.
    """

    tile: tuple[int, int, int]
    warp_tile: tuple[int, int, int]
    instruction_m: int
    stages: int
    split_k: int
    cluster: tuple[int, int]
    swizzle: int
    by_columns: bool
    seconds: float

    @property
    def warps(self) -> int:
        """Warps that multiply, along m and n."""
        return math.prod(self.warps_along)

    @property
    def warps_along(self) -> tuple[int, int]:
        return self.tile[0] // self.warp_tile[0], self.tile[1] // self.warp_tile[1]


@dataclass(frozen=True)
class Advice:
    """``schedules`` to try early, the best first; ``line`` says so, or what failed, "" where nobody was asked."""

    schedules: tuple[Schedule, ...] = ()
    line: str = ""


def installed() -> bool:
    """Return whether the package is installed; it is not loaded."""
    return importlib.util.find_spec(NAME) is not None


def advice(task: SearchTask, estimates: Estimates) -> Advice:
    """Return the schedules that are nearest to what nvMatmulHeuristics proposes.

    Args:
        task: What is searched. Only matmuls of types and on GPUs that the library knows get advice.
        estimates: Decide what the library does not propose, such as layouts.

    Returns:
        At most a few schedules, the library's first choice first, and a line for people. Nothing where the library is
        not installed, and for problems and devices that it does not know; where it fails, the line says so.
    """
    problem, device = task.problem, task.device
    if not isinstance(problem, Matmul) or not knows(problem, device) or not installed():
        return Advice()
    try:
        found = configurations(problem, GPUS[device.name], _ASKED)
    except HeuristicsFailed as error:
        return Advice(line=f"{NAME} is left out: {error}; reinstall or uninstall nvidia-matmul-heuristics")
    near: dict[Schedule, None] = {}
    for configuration in found:
        schedule = nearest(configuration, task.templates, problem, device, estimates)
        if schedule is not None:
            near[schedule] = None
        if len(near) == _PROPOSED:
            break
    if not near:
        return Advice()
    return Advice(tuple(near), f"{len(near)} of the first trials are the nearest schedules to what {NAME} proposes")


def knows(problem: Matmul, device: Device) -> bool:
    """Return whether the library has figures for such a problem there."""
    return device.name in GPUS and knows_types(problem)


def knows_types(problem: Matmul) -> bool:
    """Return whether the library has a name for the types of such a problem."""
    return problem.a in _PRECISIONS and problem.precision != "ieee"


def configurations(problem: Matmul, gpu: str, count: int) -> list[Configuration]:
    """At most ``count`` configurations for a GPU by the library's name, the best first. Raises HeuristicsFailed."""
    letters = "".join("N" if order == "row" else "T" for order in (problem.order_a, problem.order_b))
    request = {
        "gpu": gpu,
        "precision": _PRECISIONS["f16_f16" if problem.acc == "f16" else problem.a],
        "layout": f"{letters}_ROW_MAJOR",  # of row-major matrices, T for one that is turned while it is loaded
        **{name: getattr(problem, name) for name in ("m", "n", "k", "batch")},
        "count": count,
    }
    try:
        done = subprocess.run(
            [sys.executable, str(Path(nvidia_heuristics_child.__file__).absolute())],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HeuristicsFailed(f"its process gave no answer ({error})") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise HeuristicsFailed(f"it failed ({last:.120})")
    try:
        return [_configuration(row) for row in json.loads(done.stdout)]
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise HeuristicsFailed(f"its answer is not understood ({type(error).__name__} {error})"[:160]) from error


def _configuration(row: Mapping[str, float]) -> Configuration:
    whole = {name: int(row[name]) for name in nvidia_heuristics_child.FIELDS}
    if min(value for name, value in whole.items() if name != "cta_order") < 1:
        raise ValueError(f"it has a tile of {whole['cta_tile_m']}x{whole['cta_tile_n']}")
    return Configuration(
        tile=(whole["cta_tile_m"], whole["cta_tile_n"], whole["cta_tile_k"]),
        warp_tile=(whole["warp_tile_m"], whole["warp_tile_n"], whole["warp_tile_k"]),
        instruction_m=whole["instr_tile_m"],
        stages=whole["stages"],
        split_k=whole["split_k"],
        cluster=(whole["cluster_m"], whole["cluster_n"]),
        swizzle=whole["swizzle_factor"],
        by_columns=whole["cta_order"] == 1,
        seconds=float(row["seconds"]),
    )


def nearest(
    configuration: Configuration, templates: TemplateSet, problem: Matmul, device: Device, estimates: Estimates
) -> Schedule | None:
    """Return the schedule nearest to ``configuration``.

    Args:
        configuration: What the library proposes: tile, instruction, stages, splits, cluster.
        templates: ``wgmma_matmul`` serves those of wgmma where it is among them, else ``matmul`` by mma.sync.
        problem: What is computed.
        device: The GPU.
        estimates: Decide what the configuration leaves open.

    Returns:
        The schedule, or None where neither template is there, or nothing that is expected to work.
    """
    rows = {template.name: template for template in templates}
    if configuration.instruction_m == ROWS and "wgmma_matmul" in rows:
        row, decisions = rows["wgmma_matmul"], _wgmma(configuration)
    elif "matmul" in rows and (intrinsic := _mma_sync(problem, device)) is not None:
        row, decisions = rows["matmul"], _mma(configuration, intrinsic)
    else:
        return None
    near = _narrowed(row.space(problem, device), decisions)
    found = descended(near, estimates, near.sample(_SAMPLES, 0)) if estimates.has_times else []
    return found[0] if found else None


def _wgmma(c: Configuration) -> dict[str, Value]:
    """Decisions, the most important first."""
    return {
        **{"tile_m": c.tile[0], "tile_n": c.tile[1], "consumer_warpgroups": max(1, c.warps * WARP // WARPGROUP)},
        **{"tile_k": c.tile[2], "split_k": c.split_k, "cluster_m": c.cluster[0], "cluster_n": c.cluster[1]},
        **{"stages": c.stages, "raster": _raster(c)},
    }


def _mma_sync(problem: Matmul, device: Device) -> str | None:
    rows = intrinsics.intrinsics_for(problem.a, tf32=True, acc=problem.acc, device=device)
    return next((row.name for row in rows if row.unit == "mma" and row.why_not(device) is None), None)


def _mma(c: Configuration, intrinsic: str) -> dict[str, Value]:
    m, n = c.warps_along
    return {
        **{"intrinsic": intrinsic, "tile_m": c.tile[0], "tile_n": c.tile[1], "subgroups_m": m, "subgroups_n": n},
        **{"sg_data_m": c.warp_tile[0], "sg_data_n": c.warp_tile[1], "tile_k": c.tile[2], "split_k": c.split_k},
        **{"stages": c.stages, "raster": _raster(c)},
    }


def _raster(c: Configuration) -> str:
    if c.swizzle > 1:
        bands = {rows: name for name, rows in RASTER_GROUPS.items() if rows > 1}
        return bands[min(bands, key=lambda rows: abs(rows - c.swizzle))]
    return "column" if c.by_columns else "row"


def _narrowed(space: Space, decisions: Mapping[str, Value]) -> Space:
    """Return the part of ``space`` with the values nearest to ``decisions``.

    A decision that leaves no legal schedule together with those before it is left out.
    """
    known = {parameter.name: parameter for parameter in space.parameters}
    wanted = {name: _nearest(known[name], value) for name, value in decisions.items()}
    whole = _with(space, wanted)
    if whole.count():
        return whole
    kept: dict[str, Value] = {}
    for name, value in wanted.items():
        if _with(space, {**kept, name: value}).count():
            kept[name] = value
    return _with(space, kept)


def _with(space: Space, fixed: Mapping[str, Value]) -> Space:
    parameters: Sequence[Parameter] = [
        replace(p, values=(fixed[p.name],), chosen_default=None, before=None) if p.name in fixed else p
        for p in space.parameters
    ]
    return Space(space.name, parameters, space.attributes, space.rules, constants=space.constants)


def _nearest(parameter: Parameter, value: Value) -> Value:
    """Return the value itself; of numbers the nearest."""
    return value if value in parameter.values else min(parameter.values, key=lambda v: abs(int(v) - int(value)))
