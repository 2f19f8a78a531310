// C = A @ B^T of bf16 by TMA, mbarriers and wgmma: one producer warp, one consumer warpgroup, a ring of STAGES buffers.
// A is (M, K), B is (N, K), C is (M, N) of f32. Tiles are 64 x COLUMNS x 64, both operands with 128-byte swizzles.
typedef unsigned int u32;
typedef unsigned long long u64;
constexpr int STAGES = 2, COLUMNS = 64, K_TILE = 64;
constexpr u32 A_BYTES = 64 * K_TILE * 2, B_BYTES = COLUMNS * K_TILE * 2;

struct alignas(64) Map {
  u64 opaque[16];
};

__device__ __forceinline__ void init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ bool ended(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
      : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  return done != 0;
}
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  while (!ended(barrier, parity)) {}
}
__device__ __forceinline__ void load(u32 to, const Map& map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
// Descriptor of rows of 128 bytes with a 128-byte swizzle. Groups of eight rows are 1,024 bytes apart.
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

extern "C" __global__ void __launch_bounds__(160) hopper_matmul(const __grid_constant__ Map map_a,
                                                                const __grid_constant__ Map map_b, float* c, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ u64 barriers[2 * STAGES];
  const u32 a = (u32)__cvta_generic_to_shared(shared), b = a + STAGES * A_BYTES;
  const u32 full = (u32)__cvta_generic_to_shared(barriers), empty = full + 8 * STAGES;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      init(full + 8 * s, 1);
      init(empty + 8 * s, 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int row = blockIdx.y * 64, column = blockIdx.x * COLUMNS, tiles = (k + K_TILE - 1) / K_TILE;
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      for (int t = 0; t < tiles; ++t) {
        const int s = t % STAGES, turn = t / STAGES;
        wait(empty + 8 * s, (turn & 1) ^ 1);
        expect(full + 8 * s, A_BYTES + B_BYTES);
        load(a + s * A_BYTES, map_a, t * K_TILE, row, full + 8 * s);
        load(b + s * B_BYTES, map_b, t * K_TILE, column, full + 8 * s);
      }
    }
    return;
  }
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
    if (threadIdx.x == 0) arrive(empty + 8 * s);
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int v = 0; v < 32; ++v) {
    const int r = row + 16 * warp + lane / 4 + 8 * (v / 2 % 2), col = column + v / 4 * 8 + lane % 4 * 2 + v % 2;
    if (r < m && col < n) c[r * n + col] = d[v];
  }
}
