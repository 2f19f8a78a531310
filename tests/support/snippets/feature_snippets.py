"""Code for each feature of ``search_spaces.hardware.architectures``, which compiles only for GPUs with the feature."""

PTX: dict[str, str] = {
    "mma_k16": 'asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%0,%0,%0}, {%1,%1,%1,%1}, '
    '{%1,%1}, {%0,%0,%0,%0};" : "+f"(f) : "r"(r));',
    "bf16": 'asm volatile("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));',
    "cp_async": 'asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(r), "l"(p) : "memory");',
    "l2_256b": 'asm volatile("ld.global.nc.L1::no_allocate.L2::256B.b32 %0, [%1];" : "=r"(r) : "l"(p));',
    "max_nan": 'asm volatile("max.NaN.f32 %0, %0, %0;" : "+f"(f));',
    "redux": 'asm volatile("redux.sync.add.s32 %0, %0, 0xffffffff;" : "+r"(r));',
    "fp8_convert": 'asm volatile("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(h) : "f"(f));',
    "fp8_mma": 'asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%0,%0,%0}, {%1,%1,%1,%1}, '
    '{%1,%1}, {%0,%0,%0,%0};" : "+f"(f) : "r"(r));',
    "stmatrix": 'asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%0};" :: "r"(r) : "memory");',
    "bf16_atomics": 'asm volatile("red.global.add.noftz.bf16 [%0], %1;" :: "l"(p), "h"(h) : "memory");',
    "tma": 'asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes '
    '[%0], [%1, {%0, %0}], [%0];" :: "r"(r), "l"(p) : "memory");',
    "clusters": 'asm volatile("mapa.shared::cluster.u32 %0, %0, 1;" : "+r"(r));'
    'asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");',
    "programmatic_launch": 'asm volatile("griddepcontrol.wait;" ::: "memory");',
    "setmaxnreg": 'asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");',
    "wgmma": 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
    "cluster_launch_control": 'asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta'
    '.mbarrier::complete_tx::bytes.b128 [%0], [%0];" :: "r"(r) : "memory");',
    "gather4": 'asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes '
    '[%0], [%1, {%0, %0, %0, %0, %0}], [%0];" :: "r"(r), "l"(p) : "memory");',
    "ld_256_bit": 'asm volatile("ld.global.v8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];" : "=r"(r), "=r"(s[0]), '
    '"=r"(s[1]), "=r"(s[2]), "=r"(s[3]), "=r"(s[4]), "=r"(s[5]), "=r"(s[6]) : "l"(p));',
    "fma_f32x2": 'asm volatile("fma.rn.f32x2 %0, %0, %0, %0;" : "+l"(l));',
    "fp4_convert": 'asm volatile("{ .reg .b8 b; cvt.rn.satfinite.e2m1x2.f32 b, %1, %1; mov.b16 %0, {b, b}; }" '
    ': "=h"(h) : "f"(f));',
    "ldmatrix_b8_trans": 'asm volatile("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%0, %1}, [%0];" '
    ': "+r"(r), "=r"(s[0]));',
    "tcgen05": 'asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(r) : '
    '"memory");asm volatile("{ .reg .pred q; setp.ne.u32 q, %0, 0; '
    'tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %0, q; }" :: "r"(r), "l"(l));',
    "tcgen05_i8": 'asm volatile("{ .reg .pred q; setp.ne.u32 q, %0, 0; '
    'tcgen05.mma.cta_group::1.kind::i8 [%0], %1, %1, %0, q; }" :: "r"(r), "l"(l));',
    "tcgen05_ld_red": 'asm volatile("tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%0, %1}, %2, [%3];" '
    ': "=r"(s[0]), "=r"(s[1]), "=f"(f) : "r"(r));',
    "redux_f32": 'asm volatile("redux.sync.max.f32 %0, %0, 0xffffffff;" : "+f"(f));',
    "narrow_mma": 'asm volatile("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32 {%0,%0,%0,%0}, '
    '{%1,%1,%1,%1}, {%1,%1}, {%0,%0,%0,%0};" : "+f"(f) : "r"(r));',
    "block_scale_mma": 'asm volatile("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X'
    ".f32.e4m3.e4m3.f32.ue8m0 {%0,%0,%0,%0}, {%1,%1,%1,%1}, {%1,%1}, {%0,%0,%0,%0}, "
    '%1, {0, 0}, %1, {0, 0};" : "+f"(f) : "r"(r));',
}

# Features without code: they describe how fast an instruction is, not whether it exists.
SPEED = frozenset({"native_int4_mma", "native_fp8_mma", "multicast"})

_BODY = "float f = (float)n; unsigned r = n, s[8] = {n}; unsigned short h = 0; unsigned long long l = n;"


def kernel(*features: str) -> str:
    """Return CUDA source whose kernel ``probe`` uses all of ``features``."""
    functions = "\n".join(
        f"__device__ __noinline__ float use_{name}(unsigned n, const void* p) {{ {_BODY} {PTX[name]} "
        "return f + (float)(r + s[0] + s[1] + h + l); }"
        for name in features
    )
    calls = " ".join(f"y += use_{name}(n, p);" for name in features)
    return (
        f'{functions}\nextern "C" __global__ void probe(unsigned n, const void* p, float* out) '
        f"{{ float y = 0; {calls} *out = y; }}"
    )
