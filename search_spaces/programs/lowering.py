"""From a config to the kernel of a tile program: CUDA C++ over ``autosched/tile/*.cuh``.

The source names the lines of the user's file (``#line``), so that what the emulator reports is reported there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from search_spaces.hardware.data_movement import CopyPlan, Method, Region, copy_plan
from search_spaces.hardware.devices import Device
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.hardware.requirements import Access, Refusal
from search_spaces.layouts.shared_layout import SharedLayout, parse_layout
from search_spaces.programs.analysis import Analysis, Operand, analyse
from search_spaces.programs.end import end_of
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.config import Config
from search_spaces.templates.device_source import include_dir
from search_spaces.templates.headers import Headers
from search_spaces.templates.kernel import Kernel

Answer = TypeVar("Answer")

INCLUDES = (
    "autosched/common/raster.cuh",
    "autosched/intrinsics/mma_sync.cuh",
    "autosched/ptx/shared_memory.cuh",
    "autosched/tile/direct.cuh",
    "autosched/tile/operands.cuh",
    "autosched/tile/ring.cuh",
)
_INTEGERS = (
    *("tile_m", "tile_n", "tile_k", "tiles_m", "tiles_n", "tiles_k", "threads", "sg_rows", "sg_columns"),
    *("sg_data_m", "sg_data_n", "fragments_m", "fragments_n", "stages", "stage_bytes"),
)


def analysis(problem: ProgramProblem, config: Config) -> Analysis:
    """The program at the tile sizes of ``config``."""
    return _analysis(problem, tuple((name, config.integer(name)) for name in problem.program.domains(problem.sizes)))


@lru_cache(maxsize=256)
def _analysis(problem: ProgramProblem, chosen: tuple[tuple[str, int], ...]) -> Analysis:
    return analyse(problem.program.trace(problem.sizes, dict(chosen)))


def layout(config: Config, operand: Operand) -> SharedLayout:
    return _accepted(parse_layout(config.text(f"layout_{operand.name}"), *tile_shape(config, operand)))


def tile_shape(config: Config, operand: Operand) -> tuple[int, int]:
    m, n, k = config.integers("tile_m", "tile_n", "tile_k")
    return (m, k) if operand.side == "a" else (k, n)


def access(config: Config, operand: Operand) -> Access:
    """How ldmatrix reads the operand's tile."""
    row = intrinsic(config.text("intrinsic"))
    return _accepted(row.requirement(operand.side, layout(config, operand), operand.array.dtype.bytes))


def copy(config: Config, operand: Operand) -> CopyPlan:
    """How the operand's tile goes to shared memory."""
    threads, vector, columns = config.integers("threads", f"vector_{operand.name}", f"copy_columns_{operand.name}")
    method: Method = "cp.async" if config[f"copy_{operand.name}"] == "cp.async" else "ld.global"
    region = Region(
        tile_shape(config, operand),
        "cols" if operand.row_major else "rows",
        alignment=operand.array.shape[1],
        element_bytes=operand.array.dtype.bytes,
    )
    return _accepted(copy_plan(region, layout(config, operand), threads, vector, columns, method))


def _accepted(answer: Answer | Refusal | str) -> Answer:
    """``answer``, which the rules of the space have checked. Raises ValueError where it is a refusal."""
    if isinstance(answer, Refusal | str):
        raise ValueError(answer.reason if isinstance(answer, Refusal) else answer)
    return answer


def lower(problem: ProgramProblem, config: Config, device: Device) -> Kernel:
    """The kernel of a valid config."""
    found = analysis(problem, config)
    arguments = problem.operands()
    entry = f"autosched_{problem.program.name}"
    parameters = ", ".join(
        f"{'const ' if o.role == 'input' else ''}{o.dtype.c_name}* __restrict__ {o.name}_array" for o in arguments
    )
    threads, min_blocks, blocks, shared_bytes = config.integers("threads", "min_blocks", "blocks", "shared_bytes")
    body = "\n".join(f"  {line}" if not line.startswith("#line") else line for line in _body(found))
    source = (
        "".join(f"#include <{header}>\n" for header in INCLUDES)
        + f"\nusing namespace autosched;\n\n{_config(found, config)}\n"
        + "".join(_operand(config, o) for o in found.operands)
        + f'extern "C" __global__ void __launch_bounds__({threads}, {min_blocks})\n'
        + f"{entry}({parameters}) {{\n{body}\n}}\n"
    )
    return Kernel(
        entry=entry,
        source=source,
        headers=Headers.from_folder(include_dir()),
        arguments=arguments,
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        dynamic_shared_bytes=shared_bytes,
    )


def _config(found: Analysis, config: Config) -> str:
    element = found.operands[0].array.dtype.c_name
    lines = [f"static constexpr int {name} = {config.integer(name)};" for name in _INTEGERS]
    lines.append(f'static constexpr Choice raster = "{config.text("raster")}";')
    lines.append(f"using Intrinsic = {intrinsic(config.text('intrinsic')).c_name(element, element)};")
    return "struct Config {\n" + "".join(f"  {line}\n" for line in lines) + "};\n"


def _operand(config: Config, operand: Operand) -> str:
    plan, read = copy(config, operand), access(config, operand)
    values = {
        "bool left": operand.side == "a",
        "bool row_major": operand.row_major,
        "int array_major": operand.array.shape[0],
        "int array_minor": operand.array.shape[1],
        "bool copy_async": plan.method == "cp.async",
        "int copy_columns": config.integer(f"copy_columns_{operand.name}"),
        "int vector": plan.vector,
        "int copy_store": plan.store,
        "bool transposed": read.mode == "trans",
        "int stage_bytes": config.integer(f"stage_bytes_{operand.name}"),
    }
    lines = [f"using T = {operand.array.dtype.c_name};", f"using Layout = {plan.layout.c_name};"]
    lines += [f"static constexpr {name} = {str(value).lower()};" for name, value in values.items()]
    members = "".join(f"  {line}\n" for line in lines)
    return (
        f"struct Load_{operand.name} {{\n{members}}};\n"
        f"using Operand_{operand.name} = tile::Operand<Config, Load_{operand.name}>;\n\n"
    )


def _body(found: Analysis) -> list[str]:
    lines = [
        "using C = Config;",
        "const unsigned shared = ptx::shared_memory();",
        "const TileIndex block = raster<raster_order(C::raster), raster_group(C::raster), C::tiles_m, C::tiles_n>"
        "(int(blockIdx.x));",
        "const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;",
        "const int warp_m = warp / C::sg_columns, warp_n = warp % C::sg_columns;",
    ]
    types, made = "", "{}"
    for o in reversed(found.operands):
        origin = "block.m * C::tile_m" if o.side == "a" else "block.n * C::tile_n"
        along_k_is_minor = (o.side == "a") == o.row_major
        places = f"{origin}, 0" if along_k_is_minor else f"0, {origin}"
        made = f"{{Operand_{o.name}::Copy({o.array.name}_array, {places}, thread), {made}}}"
        types = f"Operand_{o.name}{', ' if types else ''}{types}"
    lines.append(f"tile::Loads<{types}> loads{made};")
    lines += [f"tile::Accumulators<C> state_{p.state};" for p in found.products]
    lines += [
        "tile::pipeline<C>(loads, shared, C::tiles_k, [&](unsigned stage) {",
        "#pragma unroll",
        "  for (int step = 0; step < C::tile_k / C::Intrinsic::k; ++step) {",
    ]
    offset = "stage"
    for o in found.operands:
        kind, warp = ("Left", "warp_m") if o.side == "a" else ("Right", "warp_n")
        lines += [
            f"    tile::{kind}Fragments<C, Operand_{o.name}> fragments_{o.name};",
            f"    fragments_{o.name}.load({offset}, step, {warp}, lane);",
        ]
        offset += f" + Operand_{o.name}::stage_bytes"
    for p in found.products:
        a, b = found.operands[p.a].name, found.operands[p.b].name
        lines += [
            f'#line {p.source.line} "{p.source.file}"',
            f"    tile::multiply(state_{p.state}, fragments_{a}, fragments_{b});",
        ]
    return [*lines, "  }", "});", *end_of(found)]
