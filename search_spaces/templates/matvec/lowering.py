"""Generate the kernel of ``autosched/kernels/matvec.cuh``, and its LoweringConfig, from a config."""

from __future__ import annotations

import math

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand
from search_spaces.layouts.lowering_config import LoweringConfig
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.matvec.problem import as_matvec
from search_spaces.templates.matvec.space import lowering, row_classes

SOURCE = DeviceSource("autosched/kernels/matvec.cuh", "autosched::matvec")

_LOWERING = (
    *("tile_m", "tile_n", "vector_w", "lanes_n", "lanes_k", "subgroups_n", "subgroups_k"),
    "tile_k",
)


def lowering_config(chosen: Schedule | Config, expand: bool = True) -> LoweringConfig:
    """Return the lowering config of a matvec schedule over (m, n, k).

    Args:
        chosen: The schedule.
        expand: If True, expand the config if the schedule has ``expand_dims``.

    Raises:
        ValueError: As ``LoweringConfig`` does.
    """
    config = lowering(**{name: chosen.integer(name) for name in _LOWERING})
    return config.expand() if expand and chosen["expand_dims"] == "yes" else config


def workspaces(config: Config) -> tuple[Operand, ...]:
    """Return the workspaces: the sums of the splits, and one arrival counter for every tile of out."""
    split_k, blocks, tile_m, tile_n = config.integers("split_k", "blocks", "tile_m", "tile_n")
    if split_k == 1:
        return ()
    return (
        Operand("partials", "workspace", F32, (blocks // split_k, split_k, tile_m, tile_n)),
        Operand("counters", "workspace", U32, (blocks // split_k,), zeroed=True),
    )


def lower(problem: Matvec | Matmul, config: Config, device: Device) -> GeneratedKernel:
    """Return the kernel of a valid config, with the operands of ``problem``."""
    matvec, spaces = as_matvec(problem), workspaces(config)
    return SOURCE.kernel(
        config,
        constants={"m": matvec.m, "n": matvec.n, "k": matvec.k, "row_classes": row_classes(matvec)},
        types={"T": matvec.input_dtype.c_name, "Out": matvec.out_dtype.c_name},
        arguments=(*problem.operands(), *spaces),
        call=(
            *(operand.name for operand in problem.operands()),
            *([operand.name for operand in spaces] or ["nullptr", "nullptr"]),
        ),
        blocks=config.integer("blocks"),
        cooperating=(
            config.integer("split_k"),
            math.prod(config.integers("tiles_m", "tiles_n")) * row_classes(matvec),
        ),
    )
