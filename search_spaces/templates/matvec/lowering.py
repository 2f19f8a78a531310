"""From a schedule to its LoweringConfig, the constants of ``kernels/matvec.cuh``, its arguments and its launch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.layouts.lowering_config import Basis, LoweringConfig
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Operand
from search_spaces.spaces.config import Config
from search_spaces.templates.common.cache_hints import load_hint_member
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.matvec.space import FMA, aligned_elements

SOURCE = DeviceSource("autosched/kernels/matvec.cuh", "autosched::matvec")

_CONSTANTS = (
    *("workgroup_m", "workgroup_n", "thread", "lane_basis_n", "lane_basis_k", "subgroup_basis_n", "subgroup_basis_k"),
    *("partial_reduction", "k_unroll", "split_k"),
)


def lowering_config(config: Config, expand: bool = True) -> LoweringConfig:
    """The lowering config that a matvec schedule is, over (m, n, k); with ``expand``, expanded where it says so.

    Raises ValueError where it breaks a law of ``LoweringConfig``.
    """
    made = LoweringConfig(
        workgroup=(config.integer("workgroup_m"), config.integer("workgroup_n"), 0),
        thread=(0, 0, config.integer("thread")),
        lane_basis=Basis.identity((1, config.integer("lane_basis_n"), config.integer("lane_basis_k"))),
        subgroup_basis=Basis.identity((1, config.integer("subgroup_basis_n"), config.integer("subgroup_basis_k"))),
        partial_reduction=(0, 0, config.integer("partial_reduction")),
    )
    return made.expand() if expand and config["expand_dims"] == "yes" else made


@dataclass(frozen=True)
class MatvecPlan:
    """What follows from one schedule: the config, the tiles, the launch. Everything after the space reads this.

    ``access`` is the elements of one load: the thread's vector, or as much of it as k keeps aligned. ``multiplies`` are
    the FMAs, or with ``mma`` the mma.syncs, of a thread in a step.
    """

    problem: Matvec
    config: Config
    lowering: LoweringConfig
    mma: bool
    access: int
    accumulators: int
    multiplies: int
    rows_n: int
    batches_k: int
    threads: int
    registers: int
    shared_bytes: int
    steps_of_split: int

    @property
    def tile(self) -> tuple[int, int, int]:
        """m and n of a workgroup, k of a step."""
        s = self.config
        return s.integer("workgroup_m"), s.integer("workgroup_n"), s.integer("partial_reduction")

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Tiles along m and n, steps along k."""
        p, (m, n, k) = self.problem, self.tile
        return -(-p.m // m), -(-p.n // n), -(-p.k // k)

    @property
    def split_k(self) -> int:
        return self.config.integer("split_k")

    @property
    def blocks(self) -> int:
        tiles_m, tiles_n, _ = self.tiles
        return tiles_m * tiles_n * self.split_k


@lru_cache(maxsize=4096)
def plan(problem: Matvec, config: Config) -> MatvecPlan:
    """The plan of a valid config."""
    return MatvecPlan(
        problem=problem,
        config=config,
        lowering=lowering_config(config),
        mma=config["intrinsic"] != FMA,
        accumulators=config.integer("accumulators"),
        multiplies=config.integer("multiplies"),
        access=min(config.integer("thread"), aligned_elements(problem)),
        rows_n=config.integer("rows_n"),
        batches_k=config.integer("batches_k"),
        threads=config.integer("threads"),
        registers=config.integer("registers"),
        shared_bytes=config.integer("shared_bytes"),
        steps_of_split=config.integer("steps_of_split"),
    )


def workspaces(p: MatvecPlan) -> tuple[Operand, ...]:
    """Sums of the splits, and one arrival counter for every tile of out."""
    if p.split_k == 1:
        return ()
    tiles = p.tiles[0] * p.tiles[1]
    return (
        Operand("partials", "workspace", F32, (tiles, p.split_k, *p.tile[:2])),
        Operand("counters", "workspace", U32, (tiles,), zeroed=True),
    )


def lower(problem: Matvec, config: Config, device: Device) -> Kernel:
    """The kernel of a valid config."""
    p = plan(problem, config)
    constants = {
        **{name: getattr(problem, name) for name in ("m", "n", "k")},
        **{name: config.integer(name) for name in _CONSTANTS},
        "accumulators": p.accumulators,
        "access": p.access,
        "shared_bytes": p.shared_bytes,
    }
    switches = {
        "mma": p.mma,
        "expand_dims": config["expand_dims"] == "yes",
        "x_shared": config["x_source"] == "shared",
    }
    members = (
        f"// {p.lowering}",
        f"using T = {problem.input_dtype.c_name};",
        f"using Out = {problem.out_dtype.c_name};",
        *(f"static constexpr int {name} = {value};" for name, value in constants.items()),
        *(f"static constexpr bool {name} = {str(value).lower()};" for name, value in switches.items()),
        load_hint_member("w_cache", config.text("w_cache")),
    )
    arguments = (*problem.operands(), *workspaces(p))
    names = {operand.name for operand in arguments}
    return SOURCE.kernel(
        "matvec",
        members=members,
        arguments=arguments,
        call=tuple(n if n in names else "nullptr" for n in ("x", "w", "out", "partials", "counters")),
        blocks=p.blocks,
        threads=p.threads,
        min_blocks=config.integer("min_blocks"),
        dynamic_shared_bytes=p.shared_bytes,
    )
