"""Code that converts packed weights has as many instructions as the time model counts. Planted faults are reported."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compiling import shared_pool
from tile_operator_checks import outcome

from measurements.compiler.disassembly import DisassemblerMissing, disassemble, main_loop, nvdisasm
from measurements.compiler.pool import Compiled
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.spaces.schedule import Schedule
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul
from search_spaces.tile_operators.tile_template import tile_template

H100 = device("h100")
FEW = QuantizedMatmul(m=8, n=128, k=512, layout="fragments")
VALUES = {
    "bn": 64, "parts": 2, "bk": 128, "bm": 8, "subgroups_m": 2, "subgroups_n": 1,
    "layout_w": "identity", "copy_w": "cp.async", "vector_w": 4, "copy_columns_w": 16,
    "layout_x": "transpose+swizzle(3,3,4)", "copy_x": "cp.async", "vector_x": 8, "copy_columns_x": 8,
    "stages": 2, "unroll": 1, "filled_by": "threads", "split_launches": 2, "store_1": "direct", "exchange": "pad(4,1)",
    "min_blocks": 1, "raster": "row",
}  # fmt: skip
FORMATS = {
    "int4, f16": FEW,
    "int4, bf16": replace(FEW, dtype="bf16"),
    "nvf4, f16": replace(FEW, weights="nvf4", group=16),
    "nvf4, bf16": replace(FEW, weights="nvf4", group=16, dtype="bf16"),
}
OF_SCALES = {"layout_scale": "transpose", "copy_scale": "cp.async", "vector_scale": 8, "copy_columns_scale": 8}


def schedule(problem: QuantizedMatmul) -> Schedule:
    """Return a schedule that is fast on an H100."""
    values = VALUES | {"intrinsic": f"mma_m16n8k16_{problem.dtype}"}
    return Schedule.from_json("quantized_matmul", values | OF_SCALES if problem.weights == "nvf4" else values)


def kernel_of(problem: QuantizedMatmul) -> GeneratedKernel:
    return tile_template(QuantizedMatmul).kernel(problem, schedule(problem), H100)


def with_header(kernel: GeneratedKernel, name: str, old: str, new: str) -> GeneratedKernel:
    """Return a kernel with ``new`` instead of ``old`` in a header."""
    texts = dict(kernel.headers.files)
    assert old in texts[name]
    return replace(kernel, headers=Headers.of({**texts, name: texts[name].replace(old, new)}))


def excess(problem: QuantizedMatmul, kernel: GeneratedKernel) -> float:
    """Return by what fraction a warp's instructions per iteration exceed the time model's count."""
    template = tile_template(QuantizedMatmul)
    assert template.counts is not None
    work = template.counts(problem, template.config(problem, schedule(problem), H100), H100)
    compiled = shared_pool().compile(kernel, H100.arch)
    assert isinstance(compiled, Compiled)
    modelled = work.instructions / work.iterations / (work.threads // 32)
    return len(main_loop(disassemble(compiled.cubin, compiled.entry))) / modelled - 1


@pytest.mark.parametrize("name", FORMATS)
def test_the_time_model_counts_the_instructions_of_an_iteration(name: str) -> None:
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    problem = replace(FORMATS[name], n=6144, k=4096)
    kernel = kernel_of(problem)
    assert abs(excess(problem, kernel)) < 0.1


def test_constants_known_to_ptxas_take_more_instructions() -> None:
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    problem = replace(FORMATS["int4, f16"], n=6144, k=4096)
    known = with_header(kernel_of(problem), "autosched/ptx/thread.cuh", "(thread >> 10) + Constant", "Constant")
    assert excess(problem, known) > 0.2


def test_rings_of_narrow_weights_may_have_more_stages() -> None:
    template = tile_template(QuantizedMatmul)
    narrow = template.space(replace(FEW, k=4096), H100).sample(200, 1)
    assert {s.integer("stages") for s in narrow} > {5, 8}
    wide = tile_template(GroupedMatmul).space(GroupedMatmul(m=512, n=256, k=4096, groups=2), H100).sample(200, 1)
    assert max(s.integer("stages") for s in wide) == 5
    large = replace(FEW, m=512, k=4096)
    for drawn in template.space(large, H100).sample(200, 1):  # rings stay so small that two blocks fit on an SM
        ring = template.config(large, drawn, H100).integer("ring_bytes")
        assert drawn.integer("stages") < 8 or 2 * ring <= H100.shared_per_sm
    problem = replace(FEW, k=2048)
    deep = schedule(problem).replace(stages=8)
    assert outcome(problem, template.kernel(problem, deep, H100)) == "ok"


FAULTS = {
    "another byte of the exponent": ("tile/values.cuh", "prmt<0x5250>", "prmt<0x5240>", "int4, f16"),
    "the numbers of a lower byte": ("tile/values.cuh", "prmt<0x5351>", "prmt<0x5250>", "int4, f16"),
    "codes of another pair": ("tile/values.cuh", "unsigned(word) >> 8;", "unsigned(word) >> 4;", "nvf4, bf16"),
    "a sign at another bit": ("tile/values.cuh", "* 0x1040u", "* 0x0840u", "nvf4, bf16"),
    "the scale of the row above": ("tile/values.cuh", "ptx::low_twice(scales)", "ptx::high_twice(scales)", "nvf4, f16"),
    "scales of another power of two": ("tile/values.cuh", "0x77807780u", "0x77007700u", "nvf4, bf16"),
    "a constant that depends on the warp": ("ptx/thread.cuh", "thread >> 10", "thread >> 5", "int4, bf16"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    header, old, new, name = FAULTS[fault]
    kernel = kernel_of(FORMATS[name])
    assert outcome(FORMATS[name], kernel) == "ok"
    assert outcome(FORMATS[name], with_header(kernel, f"autosched/{header}", old, new)) == "wrong"
