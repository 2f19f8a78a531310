// tensormap.replace (PTX ISA 9.7.9.28, sm_90a): writes fields of a tensor map in global memory. A single thread calls
// these functions. To other threads and the host, these are ordinary writes. Bulk copies read maps through another
// proxy: they need a fence.proxy.tensormap, or a copy of the map as a parameter of a later kernel.
#pragma once

#include "autosched/ptx/tensor_map/tensor_map.cuh"

namespace autosched::ptx {

// Arguments of cuTensorMapEncodeTiled. L2 promotion, which is always none, and interleaved layouts are omitted.
// Dimension 0 is the contiguous one.
struct TensorMapFields {
  unsigned long long address;     // address of the tensor on the GPU
  unsigned long long strides[4];  // strides in bytes of every dimension except the first
  unsigned sizes[5], box[5], element_strides[5];
  unsigned rank;
  unsigned element;  // 0 u8, u16, u32, s32, u64, s64, 6 f16, f32, f32.ftz, f64, 10 bf16, tf32, tf32.ftz
  unsigned swizzle;  // 0 none, 1 to 3: 32, 64, 128 bytes
  unsigned fill;     // value of elements outside the tensor: 0 zeros, 1 NaN
};

__device__ __forceinline__ void set_address(TensorMap* map, unsigned long long address) {
  asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(address) : "memory");
}

// The instruction's operand is the number of dimensions minus 1.
__device__ __forceinline__ void set_rank(TensorMap* map, unsigned rank) {
  asm volatile("tensormap.replace.tile.rank.global.b1024.b32 [%0], %1;" ::"l"(map), "r"(rank - 1) : "memory");
}

template <int Dimension>
__device__ __forceinline__ void set_size(TensorMap* map, unsigned elements) {
  asm volatile("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], %1, %2;" ::"l"(map), "n"(Dimension),
               "r"(elements)
               : "memory");
}

// Index 0 is the stride of the second dimension.
template <int Stride>
__device__ __forceinline__ void set_stride(TensorMap* map, unsigned long long bytes) {
  asm volatile("tensormap.replace.tile.global_stride.global.b1024.b64 [%0], %1, %2;" ::"l"(map), "n"(Stride),
               "l"(bytes)
               : "memory");
}

template <int Dimension>
__device__ __forceinline__ void set_box(TensorMap* map, unsigned elements) {
  asm volatile("tensormap.replace.tile.box_dim.global.b1024.b32 [%0], %1, %2;" ::"l"(map), "n"(Dimension),
               "r"(elements)
               : "memory");
}

template <int Dimension>
__device__ __forceinline__ void set_element_stride(TensorMap* map, unsigned elements) {
  asm volatile("tensormap.replace.tile.element_stride.global.b1024.b32 [%0], %1, %2;" ::"l"(map), "n"(Dimension),
               "r"(elements)
               : "memory");
}

template <int Type>
__device__ __forceinline__ void set_element(TensorMap* map) {
  asm volatile("tensormap.replace.tile.elemtype.global.b1024.b32 [%0], %1;" ::"l"(map), "n"(Type) : "memory");
}

template <int Mode>
__device__ __forceinline__ void set_swizzle(TensorMap* map) {
  asm volatile("tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%0], %1;" ::"l"(map), "n"(Mode) : "memory");
}

template <int Mode>
__device__ __forceinline__ void set_fill(TensorMap* map) {
  asm volatile("tensormap.replace.tile.fill_mode.global.b1024.b32 [%0], %1;" ::"l"(map), "n"(Mode) : "memory");
}

// Enum values must be immediates, so a recursion over the values up to Last selects the instruction.
template <int Last>
__device__ void choose_element(TensorMap* map, unsigned element) {
  if (element == Last) return set_element<Last>(map);
  if constexpr (Last > 0) choose_element<Last - 1>(map, element);
}

template <int Dimension>
__device__ void set_dimensions(TensorMap* map, const TensorMapFields& fields) {
  if (Dimension >= fields.rank) return;
  set_size<Dimension>(map, fields.sizes[Dimension]);
  set_box<Dimension>(map, fields.box[Dimension]);
  set_element_stride<Dimension>(map, fields.element_strides[Dimension]);
  if constexpr (Dimension > 0) set_stride<Dimension - 1>(map, fields.strides[Dimension - 1]);
  if constexpr (Dimension + 1 < 5) set_dimensions<Dimension + 1>(map, fields);
}

// Writes a complete map to global memory, at an address that is a multiple of 128.
__device__ inline void fill_tensor_map(TensorMap* map, const TensorMapFields& fields) {
  *map = TensorMap{};
  set_address(map, fields.address);
  set_rank(map, fields.rank);
  set_dimensions<0>(map, fields);
  choose_element<12>(map, fields.element);
  if (fields.swizzle == 1) set_swizzle<1>(map);
  if (fields.swizzle == 2) set_swizzle<2>(map);
  if (fields.swizzle == 3) set_swizzle<3>(map);
  if (fields.fill == 1) set_fill<1>(map);
}

}  // namespace autosched::ptx
