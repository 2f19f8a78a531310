"""Generate the kernel of a tile program and a config, as CUDA C++ that includes ``autosched/tile/*.cuh``.

``#line`` directives attribute the code to lines of the user's file, so that findings of the emulator name these lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, I32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import package_headers
from search_spaces.launches.launch import Argument, Launch, ScalarArgument
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import ATOMICS
from search_spaces.programs.lowering.combining import CombiningEmitter
from search_spaces.programs.lowering.emit import Emitter
from search_spaces.programs.lowering.grid import grid_code, tile_loop
from search_spaces.programs.lowering.refs import argument_name
from search_spaces.programs.lowering.staged_positions import located_per_iteration
from search_spaces.programs.planning.boxes import BoxedNumbers, box_map, box_struct
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.staging import operand_struct
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.config import Config
from search_spaces.templates.device_source import with_header_of

INCLUDES = (
    "autosched/common/raster.cuh",
    "autosched/common/shared_layout.cuh",
    "autosched/ptx/barrier.cuh",
    "autosched/ptx/shared_memory.cuh",
    "autosched/tile/values.cuh",
)
OF_PRODUCTS = ("autosched/tile/operands.cuh", "autosched/tile/ring.cuh")
OF_BOXES = (
    "autosched/tile/boxes.cuh",
    "autosched/tile/box_ring.cuh",
    "autosched/ptx/warp/shuffle.cuh",
)
THREAD = "[[maybe_unused]] const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;"
THREAD_ANEW = THREAD.replace("int(threadIdx.x)", "int(ptx::thread_anew())")
OF_TENSOR_MEMORY = "autosched/tile/tensor.cuh"
PLACED_HEADER = "autosched/tile/placed.cuh"
OF_ATOMICS = "autosched/tile/atomics.cuh"
OF_SEARCHES = "autosched/tile/find_tile.cuh"
OF_SPLITS = "autosched/tile/split.cuh"
OF_UNITS = {
    "mma": "autosched/intrinsics/mma_sync.cuh",
    "wmma": "autosched/intrinsics/wmma.cuh",
    "fma": "autosched/intrinsics/fma.cuh",
}
OF_SCALES = "autosched/tile/scaled.cuh"
OF_WMMA = "autosched/tile/opaque.cuh"


def lower(problem: ProgramProblem, config: Config, device: Device) -> GeneratedKernel:
    """Return the generated kernel of a valid config."""
    inference = choices_of(problem).inference(config)
    trace = inference.trace
    emitter = Emitter(inference, config, device)
    emitter.run()
    shared_bytes = config.integer("shared_bytes")
    operands = {n.staged.name: n for n in emitter.staged.values()}
    arrays = {o.name: o for o in problem.operands()}
    maps = [
        box_map(n, arrays[n.staged.load.window.array.name])
        for n in operands.values()
        if isinstance(n, BoxedNumbers) and n.tma
    ]
    said = [size for a in trace.arrays for size in (a.dynamic, a.line, a.pitch) if size is not None]
    sizes = {size.number: size for size in said}
    scalars = [
        ScalarArgument(f"size_{problem.program.sizes[number]}", I32, size.args[0].number)
        for number, size in sorted(sizes.items())
    ]
    passed = [
        ScalarArgument(name, I32 if scalar.dtype == "i32" else F32, getattr(problem, name), scalar.limits)
        for name, scalar in problem.program.scalars
    ]
    arguments: tuple[Argument, ...] = (*problem.operands(), *maps, *emitter.workspaces, *scalars, *passed)
    entry = f"autosched_{problem.program.name}"
    parameters = ", ".join(
        [
            f"{'const ' if o.role == 'input' else ''}{o.dtype.c_name}* __restrict__ {o.name}_array"
            for o in problem.operands()
        ]
        + [f"const __grid_constant__ ptx::TensorMap {m.name}" for m in maps]
        + [f"{o.dtype.c_name}* __restrict__ {o.name}" for o in emitter.workspaces]
        + [f"const int {sizes[number].code}" for number in sorted(sizes)]
        + [f"const {o.dtype.c_name} {argument_name(o.name)}" for o in passed]
    )
    row = emitter.row
    includes = list(INCLUDES)
    if emitter.boxed:
        includes += (*OF_BOXES, OF_TENSOR_MEMORY) if emitter.columns else OF_BOXES
    elif row is not None:
        includes += OF_PRODUCTS
        includes.append(row.header or OF_UNITS[row.unit])
        if emitter.wmma:
            includes.append(OF_WMMA)
        if any(isinstance(o, ir.Mma) and o.scales for o in inference.definitions.values()):
            includes.append(OF_SCALES)
    threads, splits = config.integer("threads"), emitter.split.count if emitter.split is not None else 1
    atomics = [s for s in inference.stores if isinstance(s, ir.AtomicRmw)]
    if any(not ATOMICS[s.kind].red or s.window.array.dtype.bits == 16 for s in atomics):
        includes.append(OF_ATOMICS)
    if emitter.split is not None:
        includes.append(OF_SPLITS)
    if any(isinstance(o, ir.FindTile) for o, _ in trace.walk()):
        includes.append(OF_SEARCHES)
    if any(located_per_iteration(n.staged) for n in operands.values()):
        includes.append(PLACED_HEADER)
    structs = "".join(
        box_struct(n, emitter.distributions)
        if isinstance(n, BoxedNumbers)
        else operand_struct(n, emitter.distributions, row, emitter.alignment(n), emitter.in_bounds_until_last(n))
        for n in operands.values()
        if row is not None
    )
    positions = grid_code(inference, config, emitter.split)
    head = [
        "[[maybe_unused]] const unsigned shared = ptx::shared_memory();",
        *_within_limits(passed),
        *([] if emitter.launched else positions),
        *(emitter.head or [THREAD]),
    ]
    streamed = emitter.split.launched if emitter.split is not None else 0
    body = [*(f"  {line}" for line in head), *emitter.code.lines]
    if streamed:
        body = _over_parts(trace, emitter, head)
    elif emitter.launched:
        start = [*head, *emitter.begun, *tile_loop(inference), *(f"  {line}" for line in positions)]
        body = [*(f"  {line}" for line in start), *emitter.code.lines, *_last_position(emitter.code.lines), "  }"]
    second, then = "", tuple[Launch, ...]()
    if emitter.split is not None and emitter.split.launches > 1:
        second, then = _second_launch(emitter, config, device, entry, parameters, arguments)
    source = (
        "".join(f"#include <{header}>\n" for header in dict.fromkeys(includes))
        + "\nusing namespace autosched;\n\n"
        + "".join(f"{line}\n" for line in emitter.code.tables)
        + structs
        + emitter.structs
        + f'\nextern "C" __global__ void __launch_bounds__({threads}, {config.integer("min_blocks")})\n'
        + f"{entry}({parameters}) {{\n"
        + "\n".join([*body, *_last_position(body)])
        + "\n}\n"
        + second
    )
    kernel = GeneratedKernel(
        entry=entry,
        source=source,
        headers=package_headers(),
        arguments=arguments,
        grid=(streamed or emitter.launched or trace.block_count * splits, 1, 1),
        block=(threads, 1, 1),
        dynamic_shared_bytes=shared_bytes,
        cooperating=(splits, trace.block_count) if splits > 1 and not then else (1, 1),
        chained=streamed > 0,
        grid_may_shrink=emitter.launched > 0,
        then=then,
    )
    return kernel if row is None else with_header_of(kernel, row)


def _second_launch(
    first: Emitter, config: Config, device: Device, entry: str, parameters: str, arguments: tuple[Argument, ...]
) -> tuple[str, tuple[Launch, ...]]:
    """Return the source and the launch of the second kernel, which combines the partial results of a split loop."""
    emitter = CombiningEmitter(first, config, device)
    emitter.run()
    threads, passed = (
        first.distributions.warps * 32,
        [a for a in arguments if isinstance(a, ScalarArgument) and a.limits],
    )
    head = [
        "[[maybe_unused]] const unsigned shared = ptx::shared_memory();",
        *_within_limits(passed),
        *grid_code(first.inference, config, first.split),
        *(emitter.head or [THREAD]),
    ]
    assert first.split is not None
    position = first.split.loop.source
    own = [
        *emitter.code.tables,
        *emitter.structs.splitlines(),
        f'extern "C" __global__ void __launch_bounds__({threads}, {config.integer("min_blocks")})',
        f"{entry}_combine({parameters}) {{",
        *(f"  {line}" for line in head),
    ]
    # Without #line directives, the compiler would continue to count lines from the end of the first kernel.
    begun = [text for line in own for text in (f'#line {position.line} "{position.file}"', line)]
    body = emitter.code.lines
    source = "\n".join([*begun, *body, *_last_position(body), "}"]) + "\n"
    launch = Launch(
        entry=f"{entry}_combine",
        arguments=arguments,
        grid=(first.inference.trace.block_count, 1, 1),
        block=(threads, 1, 1),
        dynamic_shared_bytes=config.integer("shared_bytes"),
    )
    return source, (launch,)


def _within_limits(scalars: Sequence[ScalarArgument]) -> list[str]:
    """Return the statements that clamp integer arguments to their range, so that no access leaves an array."""
    lines = list[str]()
    for number, scalar in enumerate(scalars):
        if scalar.dtype == I32 and scalar.limits is not None:
            low, high = (int(end) for end in scalar.limits)
            nearest = f"tile::minimum(tile::maximum({argument_name(scalar.name)}, {low}), {high})"
            lines.append(f"[[maybe_unused]] const int argument_{number} = {nearest};")
    return lines


def _last_position(lines: Sequence[str]) -> list[str]:
    """Return the last ``#line`` directive of the code, which is repeated before the closing brace."""
    return [line for line in lines if line.startswith("#line")][-1:]


def _over_parts(trace: ir.Trace, emitter: Emitter, head: Sequence[str]) -> list[str]:
    """Return the body inside a loop over the tiles, or parts of tiles, that a block computes (stream-K).

    Each iteration reads the thread index again. Otherwise the compiler would compute addresses before the loop and keep
    them in registers.
    """
    split, (shared, *rest) = emitter.split, head
    assert split is not None
    positions = [line.replace(THREAD, THREAD_ANEW) for line in rest]
    begin = [
        f"  {shared}",
        f"  using Deal = StreamK<{trace.block_count}, {split.launched}, {split.iterations}>;",
        "  auto walk = Deal::Walk::of(int(blockIdx.x));",
    ]
    if not emitter.early:
        begin += [
            "#pragma unroll 1",
            "  for (auto part = walk.next(); part.count > 0; part = walk.next()) {",
            "  ptx::barrier_sync();  // everybody is done with the part before",
        ]
    else:
        early = emitter.early_loads
        assert early is not None
        begin += [
            "  const auto loads_of = [&](Deal::Part part, int begun) {",
            "  part.first += begun;",
            *(f"  {line}" for line in positions),
            f"    return {early.loads};",
            "  };",
            "  const auto start = [&](const Deal::Part& part) {",
            "    auto loads = loads_of(part, 0);",
            f"    tile::start_ring<{early.ring}>(loads, shared + {early.offset}u, part.count);",
            "  };",
            "  auto part = walk.next();",
            "  start(part);",
            "#pragma unroll 1",
            "  for (auto next = part; part.count > 0; part = next) {",
        ]
    lines = emitter.code.lines
    return [*begin, *(f"  {line}" for line in positions), *lines, *_last_position(lines), "  }"]
