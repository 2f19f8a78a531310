// Tensor maps: the emulator's own encoding of what search_spaces/templates/tensor_map.py describes, in the 128 bytes
// that a kernel passes on and cannot look into.
#pragma once
#include <cstdint>
#include <string>

namespace autosched::emulator::ptx {

struct TensorMapSpec {
  std::size_t buffer;
  unsigned element_bytes, rank;
  std::uint64_t sizes[5];           // elements, the contiguous dimension first
  std::uint64_t strides[4];         // bytes, of all dimensions but the first
  unsigned box[5];                  // elements
  unsigned element_strides[5];
  unsigned swizzle_bytes;           // 0, 32, 64 or 128
  bool fills_nan;                   // what lies outside reads as NaN, not as zero
  unsigned kind;                    // of elements, for reductions: ElementKind
};

// The order is that of _KINDS in measurements/emulator/emulator.py.
enum class ElementKind : std::uint8_t { unsigned_integer, signed_integer, f16, bf16, f32, f64 };

struct EncodedTensorMap {
  static constexpr std::uint64_t mark = 0x7061'6d72'6f73'6e74u;
  std::uint64_t what, base;
  std::uint64_t strides[4];
  std::uint32_t last[5];  // sizes minus 1
  std::uint16_t box[5];
  std::uint8_t element_strides[5];
  std::uint8_t rank, element_bytes, swizzle_bytes, fills_nan;
  ElementKind kind;
  unsigned char unused[128 - 88];
};
static_assert(sizeof(EncodedTensorMap) == 128);

std::string encoded(const TensorMapSpec& spec, void* base);

}  // namespace autosched::emulator::ptx
