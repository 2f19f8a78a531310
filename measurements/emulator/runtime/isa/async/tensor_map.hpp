// Tensor maps: how the emulator encodes a map of search_spaces/launches/tensor_map.py in 128 bytes, which are opaque to
// kernels.
#pragma once
#include <cstdint>
#include <string>

#include "isa/access/reduction.hpp"

namespace autosched::emulator {
struct Machine;
}

namespace autosched::emulator::ptx {

struct TensorMapSpec {
  std::size_t buffer, offset;  // position of the first element
  unsigned element_bytes, rank;
  std::uint64_t sizes[5];           // elements, the contiguous dimension first
  std::uint64_t strides[4];         // bytes, for all dimensions except the first
  unsigned box[5];                  // elements
  unsigned element_strides[5];
  unsigned swizzle_bytes;           // 0, 32, 64 or 128
  bool fills_nan;                   // elements outside of the tensor read as NaN rather than zero
  unsigned kind;                    // ElementKind of the elements, for reductions
  bool im2col;                      // im2col mode: `box` then has another meaning (see EncodedTensorMap::box)
  unsigned slice_bytes;             // 16 or 32 for an interleaved layout, else 0
  unsigned loaded_as;               // EncodedTensorMap::loaded_as
};

// Conversions that loads apply to f32 elements: maps of type tf32 round them to tf32, and maps of a type with .ftz
// flush subnormals to zero. _tensor_map_line in measurements/emulator/runner_files.py uses the same bits.
enum LoadedAs : std::uint8_t { as_stored = 0, rounded_to_tf32 = 1, without_subnormals = 2 };

// Fields of tensormap.replace, in the order of _FIELDS in measurements/emulator/ptx/families/asynchronous.py.
enum class MapField : std::uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode,
};

// A map of 128 zero bytes describes a one-dimensional tensor of one-byte elements; all other fields are unset. So a
// field whose encoded value is 0, such as rank 1, need not be set in a map that starts as zeros.
struct EncodedTensorMap {
  static constexpr std::uint64_t valid_mark = 0x7061'6d72'6f73'6e74u;
  std::uint64_t mark;
  // The emulator stores nothing in the second word, because CuTe's make_tma_copy changes it: for tensors under 128 KiB,
  // it clears bit 21 to repair maps made by drivers up to 13.1.
  std::uint64_t unused_word;
  std::uint64_t base;
  std::uint64_t strides[4];
  std::uint32_t last[5];  // sizes minus 1
  // In im2col mode, box[0] is the number of channels per pixel, and box[1] the number of pixels. The next entries are
  // the corners of the bounding box, one entry per dimension of pixels: the offset of the box's first pixel from the
  // tensor's first pixel, and the offset of the box's last pixel from the tensor's last pixel.
  std::uint32_t box[5], element_strides[5];
  std::uint32_t fields_set;  // which fields have been set, as bits: see bit_of
  std::uint8_t rank, element_bytes, swizzle_bytes, fills_nan;
  ElementKind kind;
  std::uint8_t im2col;
  // Bytes per slice of channels in an interleaved layout; otherwise 0. In this layout, each element of the first
  // dimension is a slice of several channels. The second-to-last dimension selects these channels, and a copy covers
  // only one index of this dimension.
  std::uint8_t slice_bytes;
  // How loads convert f32 elements: bits of LoadedAs.
  std::uint8_t loaded_as;

  static constexpr std::uint32_t corners(int lower, int upper) {
    return static_cast<std::uint16_t>(lower) | static_cast<std::uint32_t>(static_cast<std::uint16_t>(upper)) << 16;
  }
  // Bytes per element of the first dimension. In an interleaved layout, such an element is a slice of channels.
  unsigned unit_bytes() const { return slice_bytes != 0 ? slice_bytes : element_bytes; }
  unsigned channels() const { return slice_bytes != 0 ? rank - 2u : 0u; }  // the dimension of channels
  // Number of dimensions of pixels: all dimensions except channels and images.
  unsigned pixel_dimensions() const { return rank - 2u; }
  unsigned pixel_dimension(unsigned k) const { return slice_bytes != 0 ? k : 1 + k; }
  std::int64_t first_pixel(unsigned k) const { return static_cast<std::int16_t>(box[2 + k] & 0xffffu); }
  std::int64_t last_pixel(unsigned k) const {
    return std::int64_t{last[pixel_dimension(k)]} + static_cast<std::int16_t>(box[2 + k] >> 16);
  }

  // The bit of a field in `fields_set`. Some fields have one bit per dimension.
  static constexpr std::uint32_t bit_of(MapField field, unsigned dimension = 0) {
    switch (field) {
      case MapField::global_address: return 1u;
      case MapField::box_dim: return 1u << (3 + dimension);
      case MapField::global_dim: return 1u << (8 + dimension);
      case MapField::element_stride: return 1u << (13 + dimension);
      case MapField::global_stride: return 1u << (18 + dimension);
      default: return 0;  // other fields may stay zero
    }
  }
};
static_assert(sizeof(EncodedTensorMap) == 128);

std::string encoded(const TensorMapSpec& spec, void* base);
// Reads the tensor map at a generic address for an instruction of the running thread. Reports a finding and returns
// false if there is no valid map.
bool map_at(Machine& machine, std::uint64_t address, const char* instruction, EncodedTensorMap& map);

}  // namespace autosched::emulator::ptx
