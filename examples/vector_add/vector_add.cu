// c = a + b. Each thread adds vectors of vector_width floats in a grid-stride loop, vectors_per_thread vectors per
// iteration.

#ifndef block_size_x
#define block_size_x 256
#endif
#ifndef vector_width
#define vector_width 4
#endif
#ifndef vectors_per_thread
#define vectors_per_thread 2
#endif
// Load instruction. 0: ld.global; 1: ld.global.nc, through the read-only cache; 2: ld.global.cs, evicted first
#ifndef load_kind
#define load_kind 0
#endif
// Store instruction. 0: st.global; 1: st.global.cs, evicted first
#ifndef streaming_store
#define streaming_store 0
#endif

#if vector_width == 1
typedef float vector;
#elif vector_width == 2
typedef float2 vector;
#else
typedef float4 vector;
#endif

template <typename T>
__device__ __forceinline__ T load(const T* address) {
#if load_kind == 1
  return __ldg(address);
#elif load_kind == 2
  return __ldcs(address);
#else
  return *address;
#endif
}

template <typename T>
__device__ __forceinline__ void store(T* address, T value) {
#if streaming_store
  __stcs(address, value);
#else
  *address = value;
#endif
}

__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ float2 add(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float4 add(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

extern "C" __global__ void __launch_bounds__(block_size_x)
    vector_add(float* __restrict__ c, const float* __restrict__ a, const float* __restrict__ b, int n) {
  const size_t thread = (size_t)blockIdx.x * block_size_x + threadIdx.x;
  const size_t threads = (size_t)gridDim.x * block_size_x;
  const size_t vectors = n / vector_width;

  for (size_t first = thread; first < vectors; first += threads * vectors_per_thread) {
    vector x[vectors_per_thread], y[vectors_per_thread];
#pragma unroll
    for (int u = 0; u < vectors_per_thread; ++u) {
      const size_t i = first + u * threads;
      if (i < vectors) {
        x[u] = load(reinterpret_cast<const vector*>(a) + i);
        y[u] = load(reinterpret_cast<const vector*>(b) + i);
      }
    }
#pragma unroll
    for (int u = 0; u < vectors_per_thread; ++u) {
      const size_t i = first + u * threads;
      if (i < vectors) store(reinterpret_cast<vector*>(c) + i, add(x[u], y[u]));
    }
  }

  // The last n % vector_width elements.
  const size_t i = vectors * vector_width + thread;
  if (i < n) store(c + i, load(a + i) + load(b + i));
}
