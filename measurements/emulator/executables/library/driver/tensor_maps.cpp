// Creates tensor maps in the emulator's encoding. The enumerators have the values of cuda.h.
#include <cstring>

#include "driver/driver.hpp"
#include "isa/async/tensor_map.hpp"

using namespace autosched::program;
using namespace autosched::program::driver;

using autosched::emulator::ptx::ElementKind;
using autosched::emulator::ptx::EncodedTensorMap;
using autosched::emulator::ptx::LoadedAs;
using autosched::emulator::ptx::MapField;

// Encodes the fields that tiled and im2col maps have in common. Returns false if they are invalid.
static bool begin_map(EncodedTensorMap& m, const void* to, int element, unsigned rank, void* base, const std::uint64_t* sizes,
                      const std::uint64_t* strides, unsigned inner, const unsigned* element_strides, int interleave, int swizzle, int fill) {
  using Kind = ElementKind;
  static constexpr struct {
    unsigned bytes;
    Kind kind;
    unsigned loaded_as = LoadedAs::as_stored;
  } elements[] = {{1, Kind::unsigned_integer}, {2, Kind::unsigned_integer}, {4, Kind::unsigned_integer}, {4, Kind::signed_integer},
                  {8, Kind::unsigned_integer}, {8, Kind::signed_integer},   {2, Kind::f16},              {4, Kind::f32},
                  {8, Kind::f64},              {2, Kind::bf16},             {4, Kind::f32, LoadedAs::without_subnormals},
                  {4, Kind::f32, LoadedAs::rounded_to_tf32},
                  {4, Kind::f32, LoadedAs::rounded_to_tf32 | LoadedAs::without_subnormals}};
  if (to == nullptr || rank < 1 || rank > 5 || element < 0 || element > 12 || swizzle < 0 || inner > 256 || interleave < 0 || interleave > 2 ||
      (interleave != 0 && rank < 3)) {
    return false;
  }
  const unsigned unit = interleave == 2 ? 32 : 16;
  const std::uint64_t bytes = std::uint64_t{inner} * elements[element].bytes;
  if (bytes == 0 || bytes % 16 != 0 || reinterpret_cast<std::uint64_t>(to) % 64 != 0 || reinterpret_cast<std::uint64_t>(base) % unit != 0 ||
      (interleave == 0 && swizzle != 0 && bytes > (16u << swizzle)) || (fill != 0 && elements[element].kind <= Kind::signed_integer)) {
    return false;
  }
  m.mark = EncodedTensorMap::valid_mark;
  m.base = reinterpret_cast<std::uint64_t>(base);
  m.rank = static_cast<std::uint8_t>(rank);
  m.element_bytes = static_cast<std::uint8_t>(elements[element].bytes);
  m.kind = elements[element].kind;
  m.loaded_as = static_cast<std::uint8_t>(elements[element].loaded_as);
  m.swizzle_bytes = static_cast<std::uint8_t>(swizzle == 0 ? 0 : 16u << swizzle);
  m.fills_nan = fill != 0;
  m.slice_bytes = static_cast<std::uint8_t>(16 * interleave);
  m.fields_set |= EncodedTensorMap::bit_of(MapField::global_address);
  for (unsigned d = 0; d < rank; ++d) {
    if (sizes[d] < 1 || sizes[d] > (std::uint64_t{1} << 32) || element_strides[d] < 1 || element_strides[d] > 8 ||
        (d + 1 < rank && (strides[d] % unit != 0 || strides[d] >= (std::uint64_t{1} << 40)))) {
      return false;
    }
    m.last[d] = static_cast<std::uint32_t>(sizes[d] - 1);
    m.element_strides[d] = element_strides[d];
    for (const MapField field : {MapField::global_dim, MapField::box_dim, MapField::element_stride}) {
      m.fields_set |= EncodedTensorMap::bit_of(field, d);
    }
    if (d + 1 < rank) {
      m.strides[d] = strides[d];
      m.fields_set |= EncodedTensorMap::bit_of(MapField::global_stride, d);
    }
  }
  return true;
}

static int end_map(void* to, const EncodedTensorMap& m, bool possible, const char* function) {
  if (!possible) {
    complain_misuse(std::string(function) + ": invalid arguments: see the CUDA Driver API, Tensor Map Object Management");
    return failed(invalid_value);
  }
  std::memcpy(to, &m, sizeof m);
  return success;
}

API int cuTensorMapEncodeTiled(void* to, int element, unsigned rank, void* base, const std::uint64_t* sizes, const std::uint64_t* strides,
                               const unsigned* box, const unsigned* element_strides, int interleave, int swizzle, int, int fill) {
  if (swizzle > 3) return unsupported("cuTensorMapEncodeTiled with a swizzle of 128 bytes in other atoms");
  EncodedTensorMap m{};
  bool possible = begin_map(m, to, element, rank, base, sizes, strides, box[0], element_strides, interleave, swizzle, fill);
  for (unsigned d = 0; possible && d < rank; ++d) {
    m.box[d] = box[d];
    possible = box[d] >= 1 && box[d] <= 256;
  }
  return end_map(to, m, possible, "cuTensorMapEncodeTiled");
}

API int cuTensorMapEncodeIm2col(void* to, int element, unsigned rank, void* base, const std::uint64_t* sizes, const std::uint64_t* strides,
                                const int* lower, const int* upper, unsigned channels, unsigned pixels, const unsigned* element_strides,
                                int interleave, int swizzle, int, int fill) {
  if (swizzle > 3) return unsupported("cuTensorMapEncodeIm2col with a swizzle of 128 bytes in other atoms");
  EncodedTensorMap m{};
  bool possible = begin_map(m, to, element, rank, base, sizes, strides, channels, element_strides, interleave, swizzle, fill) && rank >= 3 &&
                  pixels >= 1 && pixels <= 1024;
  const int reach = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
  m.im2col = 1;
  m.box[0] = channels;
  m.box[1] = pixels;
  for (unsigned k = 0; possible && k + 2 < rank; ++k) {
    const int first = lower[k], last = upper[k];
    m.box[2 + k] = EncodedTensorMap::corners(first, last);
    possible = first >= -reach && first < reach && last >= -reach && last < reach && m.first_pixel(k) <= m.last_pixel(k);
  }
  return end_map(to, m, possible, "cuTensorMapEncodeIm2col");
}
