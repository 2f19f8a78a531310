// Includes and helpers of the test kernels. A test prepends `#define BROKEN 0` or `1` to a kernel; 1 enables the fault.
// The fault must be found at the line that ends in `// found here`.
#pragma once
#include <autosched/ptx/arithmetic.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/convert.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/mma/ldmatrix.cuh>
#include <autosched/ptx/mma/mma.cuh>
#include <autosched/ptx/shared_memory.cuh>
#include <autosched/ptx/warp/shuffle.cuh>
#include <autosched/ptx/mma/wmma.cuh>

using namespace autosched;
using namespace autosched::ptx;


inline __device__ float load(const float* p) { return float_of(ld_global_nc<4>(p).word[0]); }
inline __device__ AlignedVector<4> packet(float x) { return {{bits_of(x)}}; }
