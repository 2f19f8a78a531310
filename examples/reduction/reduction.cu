// The sum of n floats, in one launch.
//
// Each thread adds up elements in a grid-stride loop, and each block adds the sums of its threads by shuffles. The last
// block either adds the partial sums of all blocks in order, so that every launch gives the same result, or reads the
// total that the blocks added by atomics. In both cases, the counter and the total are zero again after the launch.

#ifndef block_size_x
#define block_size_x 256
#endif
#ifndef vector_width
#define vector_width 4
#endif
// Number of vectors that a thread loads at a time. The thread adds each of these vectors to a separate sum.
#ifndef vectors_per_thread
#define vectors_per_thread 2
#endif
// How blocks combine their sums. 0: partial sums in an array; 1: floating-point atomics
#ifndef use_atomics
#define use_atomics 0
#endif
// How a block adds its threads' sums. 0: __shfl_down_sync; 1: __shfl_xor_sync; 2: a tree in shared memory until one
// warp remains, then __shfl_down_sync
#ifndef sum_method
#define sum_method 0
#endif

#define WARPS (block_size_x / 32)
#define ALL 0xffffffffu

#if vector_width == 1
typedef float vector;
#elif vector_width == 2
typedef float2 vector;
#else
typedef float4 vector;
#endif

__device__ __forceinline__ float sum_of(float v) { return v; }
__device__ __forceinline__ float sum_of(float2 v) { return v.x + v.y; }
__device__ __forceinline__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
#if sum_method == 1
    v += __shfl_xor_sync(ALL, v, d);
#else
    v += __shfl_down_sync(ALL, v, d);
#endif
  }
  return v;
}

// Returns the sum of the block's values in thread 0.
__device__ float block_sum(float v) {
#if sum_method == 2
  __shared__ float values[block_size_x];
  values[threadIdx.x] = v;
  // Each step adds the upper half to the lower half. If the number of elements is odd, the middle element is unchanged.
  for (int left = block_size_x; left > 32;) {
    const int half = (left + 1) / 2;
    __syncthreads();
    if (threadIdx.x + half < left) values[threadIdx.x] += values[threadIdx.x + half];
    left = half;
  }
  __syncthreads();
  v = 0.0f;
  if (threadIdx.x < 32) {
    // If block_size_x is not a power of two times 32, fewer than 32 values remain.
    int left = block_size_x;
    while (left > 32) left = (left + 1) / 2;
    v = warp_sum(threadIdx.x < left ? values[threadIdx.x] : 0.0f);
  }
  __syncthreads();
  return v;
#else
  __shared__ float warps[WARPS];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) v = warp_sum(threadIdx.x < WARPS ? warps[threadIdx.x] : 0.0f);
  __syncthreads();
  return v;
#endif
}

extern "C" __global__ void __launch_bounds__(block_size_x)
    reduction(float* __restrict__ out, const float* __restrict__ a, float* partial, float* total,
              unsigned* arrived, int n) {
  const size_t thread = (size_t)blockIdx.x * block_size_x + threadIdx.x;
  const size_t threads = (size_t)gridDim.x * block_size_x;
  const size_t vectors = n / vector_width;

  float sums[vectors_per_thread] = {};
  for (size_t first = thread; first < vectors; first += threads * vectors_per_thread) {
#pragma unroll
    for (int u = 0; u < vectors_per_thread; ++u) {
      const size_t i = first + u * threads;
      if (i < vectors) sums[u] += sum_of(__ldg(reinterpret_cast<const vector*>(a) + i));
    }
  }
  // The last n % vector_width elements.
  const size_t tail = vectors * vector_width + thread;
  if (tail < n) sums[0] += a[tail];
#pragma unroll
  for (int u = 1; u < vectors_per_thread; ++u) sums[0] += sums[u];

  float sum = block_sum(sums[0]);

  __shared__ bool last;
  if (threadIdx.x == 0) {
#if use_atomics
    atomicAdd(total, sum);
#else
    partial[blockIdx.x] = sum;
#endif
    __threadfence();
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;  // wraps around: the counter is zero again
  }
  __syncthreads();
  if (!last) return;

#if use_atomics
  if (threadIdx.x == 0) *out = atomicExch(total, 0.0f);
#else
  __threadfence();
  sum = 0.0f;
  for (int i = threadIdx.x; i < gridDim.x; i += block_size_x) sum += __ldcg(partial + i);
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out = sum;
#endif
}
