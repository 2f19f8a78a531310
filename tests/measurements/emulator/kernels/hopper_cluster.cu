// C = A @ B^T of bf16 as in hopper_matmul.cu, by clusters of two blocks that share rows of A: each block loads half of
// these rows for both. A producer warpgroup releases registers to the consumers. C is stored from shared memory by TMA.
typedef unsigned int u32;
typedef unsigned long long u64;
constexpr int STAGES = 2, COLUMNS = 64, K_TILE = 64, BLOCKS = 2;
constexpr u32 A_BYTES = 64 * K_TILE * 2, B_BYTES = COLUMNS * K_TILE * 2;

struct alignas(64) Map {
  u64 opaque[16];
};

__device__ __forceinline__ void init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ u32 in_block(u32 address, u32 rank) {
  u32 remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}
__device__ __forceinline__ void arrive_in(u32 barrier, u32 rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(in_block(barrier, rank)) : "memory");
}
__device__ __forceinline__ void expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1, 1000;\n@p bra done;\n"
      "bra again;\ndone:\n}" ::"r"(barrier), "r"(parity)
      : "memory");
}
__device__ __forceinline__ void load(u32 to, const Map& map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], "
      "[%4], %5;" ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "l"(0x14F0000000000000ull)
      : "memory");
}
__device__ __forceinline__ void load_for_all(u32 to, const Map& map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], "
      "[%4], %5;" ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"((unsigned short)3)
      : "memory");
}
__device__ __forceinline__ u64 descriptor(u32 address) {
  return u64{1} << 62 | u64{1024 >> 4} << 32 | u64{1} << 16 | (address & 0x3ffff) >> 4;
}
__device__ __forceinline__ void multiply(float (&d)[32], u64 a, u64 b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(accumulate));
}
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256)
    hopper_matmul(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, const __grid_constant__ Map map_c,
                  int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ u64 barriers[2 * STAGES];
  const u32 a = (u32)__cvta_generic_to_shared(shared), b = a + STAGES * A_BYTES, c = b + STAGES * B_BYTES;
  const u32 full = (u32)__cvta_generic_to_shared(barriers), empty = full + 8 * STAGES;
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      init(full + 8 * s, 1);
      init(empty + 8 * s, BLOCKS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  sync_cluster();
  const int row = blockIdx.y * 64, column = blockIdx.x * COLUMNS, tiles = (k + K_TILE - 1) / K_TILE;
  if (threadIdx.x >= 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 128) {
      for (int t = 0; t < tiles; ++t) {
        const int s = t % STAGES, turn = t / STAGES;
        wait(empty + 8 * s, (turn & 1) ^ 1);
        expect(full + 8 * s, A_BYTES + B_BYTES);
        load_for_all(a + s * A_BYTES + rank * (A_BYTES / 2), map_a, t * K_TILE, row + 32 * rank, full + 8 * s);
        load(b + s * B_BYTES, map_b, t * K_TILE, column, full + 8 * s);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[32];
    for (int t = 0; t < tiles; ++t) {
      const int s = t % STAGES, turn = t / STAGES;
      wait(full + 8 * s, turn & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int step = 0; step < K_TILE / 16; ++step) {
        multiply(d, descriptor(a + s * A_BYTES + 32 * step), descriptor(b + s * B_BYTES + 32 * step), t != 0 || step != 0);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      for (float& x : d) asm volatile("" : "+f"(x));
      if (threadIdx.x < BLOCKS) arrive_in(empty + 8 * s, threadIdx.x);
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int v = 0; v < 32; ++v) {
      const int r = 16 * warp + lane / 4 + 8 * (v / 2 % 2), col = v / 4 * 8 + lane % 4 * 2 + v % 2;
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(c + (r * COLUMNS + col) * 4), "f"(d[v]) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync 1, 128;" ::: "memory");
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map_c), "r"(column),
                   "r"(row), "r"(c)
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
  }
  sync_cluster();
}
