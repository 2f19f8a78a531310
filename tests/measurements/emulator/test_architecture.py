"""For emulation, CUDA source is compiled for the oldest architecture that has all instructions in the source."""

from __future__ import annotations

import pytest

from measurements.emulator.architecture import source_arch
from search_spaces.launches.headers import Headers


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        ("", "compute_80"),
        ("int wgmma_like, my_mbarrier;", "compute_80"),  # instruction names that are only parts of identifiers
        ('asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")', "compute_80"),
        ('asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32")', "compute_89"),
        ('asm("mbarrier.init.shared.b64")', "compute_90a"),
        ('asm("elect.sync _|p, 0xffffffff;")', "compute_90a"),
        ('asm("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32")', "compute_80"),
        ('asm("xmma.sync.aligned.e4m3")', "compute_80"),
        ("int elect_sync;", "compute_80"),  # the underscore must not match the dot of elect.sync
        ('asm("cp.async.bulk.tensor.2d")', "compute_90a"),
        ('asm("cp.async.cg.shared.global")', "compute_80"),
        ('asm("tcgen05.alloc")', "compute_100a"),
        ('asm("mbarrier.init; tcgen05.alloc")', "compute_100a"),
        ("cg::this_cluster().sync();", "compute_90a"),
        ("cudaGridDependencySynchronize();", "compute_90a"),
        ("#include <own.cuh>", "compute_90a"),
        ("// #include <own.cuh>", "compute_80"),
    ],
)
def test_the_architecture_is_the_oldest_with_the_instructions(text: str, arch: str) -> None:
    headers = Headers.of({"own.cuh": "#include <deeper.cuh>", "deeper.cuh": 'asm("setmaxnreg.inc")'})
    assert source_arch(text, headers) == arch
