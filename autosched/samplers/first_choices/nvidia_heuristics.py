"""Schedules that correspond to the proposals of NVIDIA's nvMatmulHeuristics for a matmul.

These schedules are among the first trials of ``tune`` if nvMatmulHeuristics is installed (``pip install
'autosched[heuristics]'``, NVIDIA's licence). The library proposes CUTLASS configurations: block and warp tiles, stages,
clusters, split k, and the order of tiles. Each configuration is mapped to the nearest schedule of a template. To find
this schedule, the configuration's decisions are applied in the order of importance, as far as the rules of the template
allow. The time model chooses among the schedules that agree with these decisions.
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
    # The library's names of devices. B200 and similar GPUs are omitted, because the library's proposals for them use
    # tcgen05. H20 is omitted, because the library predicts rates above its peak.
}

# The library's codes (nvMatmulHeuristics.h) for the types of a and b, of accumulators and of out. The library has no
# 16-bit out for i8, and uses the same code for both 8-bit float types. f16_f16 has f16 accumulators.
_PRECISIONS = {
    "f16": "HSH",
    "f16_f16": "HHH",
    "bf16": "TST",
    "f32": "SFS",
    "e4m3": "QQTST",
    "e5m2": "QQTST",
    "i8": "BII",
}
_PROPOSED = 3  # maximum number of schedules from the library among the first trials
_REQUESTED = 12  # number of configurations to request; more than needed, because several may map to the same schedule
_SECONDS = 20.0  # time limit of the child process in seconds; it normally takes a fifth of a second
_SAMPLES = 64  # number of schedules to sample among the schedules that match a configuration


class HeuristicsFailed(ValueError):
    """nvMatmulHeuristics is installed but returned no result. The message is one line."""


@dataclass(frozen=True)
class Configuration:
    """Configuration of a CUTLASS kernel that nvMatmulHeuristics proposes.

    Attributes:
        tile: Tile of a block along m, n and k.
        warp_tile: Tile of a warp along m, n and k.
        instruction_m: Rows of one mma instruction (64 for wgmma).
        stages: Number of pipeline stages.
        split_k: Number of blocks that share the k range of a tile.
        cluster: Number of blocks of a cluster along m and along n.
        swizzle: Number of tiles in a band of the tile order.
        by_columns: True if consecutive blocks compute tiles of the same column.
        seconds: Time that nvMatmulHeuristics predicts.
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
        """Number of warps of a block that multiply."""
        return math.prod(self.warps_along)

    @property
    def warps_along(self) -> tuple[int, int]:
        """Number of warps along m and along n."""
        return self.tile[0] // self.warp_tile[0], self.tile[1] // self.warp_tile[1]


@dataclass(frozen=True)
class Advice:
    """Schedules to try early, best first. ``line`` describes them or a failure; "" if the library was not used."""

    schedules: tuple[Schedule, ...] = ()
    line: str = ""


def installed() -> bool:
    """Return True if the package is installed, without loading it."""
    return importlib.util.find_spec(NAME) is not None


def advice(task: SearchTask, estimates: Estimates) -> Advice:
    """Return the schedules that are nearest to the proposals of nvMatmulHeuristics.

    Args:
        task: Search task. The library supports only matmuls of certain types on certain GPUs.
        estimates: Estimates that decide the parameters that a proposal does not determine, such as layouts.

    Returns:
        A few schedules, in the library's order, and a line of text. Schedules and line are empty if the library is not
        installed or does not support the problem or device. If the library fails, the line has the reason.
    """
    problem, device = task.problem, task.device
    if device.name not in GPUS or not installed() or not isinstance(problem, Matmul):
        return Advice()
    if not knows(problem.a, problem.precision):
        return Advice()
    try:
        proposed = configurations(problem, GPUS[device.name], _REQUESTED)
    except HeuristicsFailed as error:
        return Advice(line=f"{NAME} is not used: {error}; reinstall or uninstall nvidia-matmul-heuristics")
    near: dict[Schedule, None] = {}
    for configuration in proposed:
        schedule = nearest(configuration, task.templates, problem, device, estimates)
        if schedule is not None:
            near[schedule] = None
        if len(near) == _PROPOSED:
            break
    if not near:
        return Advice()
    return Advice(tuple(near), f"{len(near)} of the first trials are the schedules nearest to proposals of {NAME}")


def knows(operand: str, precision: str) -> bool:
    """Return True if the library supports matmuls with this operand type and precision."""
    return operand in _PRECISIONS and precision != "ieee"


def configurations(problem: Matmul, gpu: str, count: int) -> list[Configuration]:
    """Return the library's configurations for a problem, best first.

    Args:
        problem: The matmul.
        gpu: The library's name of the GPU.
        count: Maximum number of configurations.

    Raises:
        HeuristicsFailed: The library did not return a valid result.
    """
    letters = "".join("N" if order == "row" else "T" for order in (problem.order_a, problem.order_b))
    request = {
        "gpu": gpu,
        "precision": _PRECISIONS["f16_f16" if problem.acc == "f16" else problem.a],
        # codes of the library's layouts: N is row-major, T is transposed while loading
        "layout": f"{letters}_ROW_MAJOR",
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
        raise HeuristicsFailed(f"its process failed ({error})") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise HeuristicsFailed(f"it failed ({last:.120})")
    try:
        return [_configuration(row) for row in json.loads(done.stdout)]
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise HeuristicsFailed(f"unexpected format of the result ({type(error).__name__} {error})"[:160]) from error


def _configuration(row: Mapping[str, float]) -> Configuration:
    integers = {name: int(row[name]) for name in nvidia_heuristics_child.FIELDS}
    if min(value for name, value in integers.items() if name != "cta_order") < 1:
        raise ValueError(f"the heuristics propose an invalid tile of {integers['cta_tile_m']}x{integers['cta_tile_n']}")
    return Configuration(
        tile=(integers["cta_tile_m"], integers["cta_tile_n"], integers["cta_tile_k"]),
        warp_tile=(integers["warp_tile_m"], integers["warp_tile_n"], integers["warp_tile_k"]),
        instruction_m=integers["instr_tile_m"],
        stages=integers["stages"],
        split_k=integers["split_k"],
        cluster=(integers["cluster_m"], integers["cluster_n"]),
        swizzle=integers["swizzle_factor"],
        by_columns=integers["cta_order"] == 1,
        seconds=float(row["seconds"]),
    )


def nearest(
    configuration: Configuration, templates: TemplateSet, problem: Matmul, device: Device, estimates: Estimates
) -> Schedule | None:
    """Return the schedule nearest to ``configuration``.

    Args:
        configuration: Proposal of the library.
        templates: Available templates. ``wgmma_matmul`` is used for wgmma if present, else ``matmul`` with mma.sync.
        problem: Problem to compute.
        device: The GPU.
        estimates: Estimates that decide the parameters that the configuration does not determine.

    Returns:
        The schedule; None if neither template is available, or if no schedule is expected to work.
    """
    rows = {template.name: template for template in templates}
    if configuration.instruction_m == ROWS and "wgmma_matmul" in rows:
        row, decisions = rows["wgmma_matmul"], _wgmma(configuration)
    elif "matmul" in rows and (intrinsic := _mma_sync(problem, device)) is not None:
        row, decisions = rows["matmul"], _mma(configuration, intrinsic)
    else:
        return None
    near = _narrowed(row.space(problem, device), decisions)
    optima = descended(near, estimates, near.sample(_SAMPLES, 0)) if estimates.has_times else []
    return optima[0] if optima else None


def _wgmma(c: Configuration) -> dict[str, Value]:
    """Return the values of parameters of ``wgmma_matmul`` that a configuration determines, most important first."""
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
    """Restrict ``space`` to schedules with the values nearest to ``decisions``.

    A decision is skipped if no legal schedule satisfies it together with the previous decisions.
    """
    known = {parameter.name: parameter for parameter in space.parameters}
    nearest_values = {name: _nearest(known[name], value) for name, value in decisions.items()}
    narrowed = _with(space, nearest_values)
    if narrowed.count():
        return narrowed
    satisfied: dict[str, Value] = {}
    for name, value in nearest_values.items():
        if _with(space, {**satisfied, name: value}).count():
            satisfied[name] = value
    return _with(space, satisfied)


def _with(space: Space, fixed: Mapping[str, Value]) -> Space:
    parameters: Sequence[Parameter] = [
        replace(p, values=(fixed[p.name],), chosen_default=None, before=None) if p.name in fixed else p
        for p in space.parameters
    ]
    return Space(space.name, parameters, space.attributes, space.rules, constants=space.constants)


def _nearest(parameter: Parameter, value: Value) -> Value:
    """Return ``value`` if it is a value of ``parameter``; otherwise the parameter's nearest number."""
    return value if value in parameter.values else min(parameter.values, key=lambda v: abs(int(v) - int(value)))
