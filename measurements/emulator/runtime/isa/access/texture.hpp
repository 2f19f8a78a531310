// Texture and surface objects: 64-bit handles of row-major arrays of texels in global memory.
#pragma once
#include <cstdint>
#include <istream>
#include <vector>

namespace autosched::emulator {
struct Machine;
}

namespace autosched::emulator::ptx {

struct Texture {
  enum class Format { unsigned_integer, signed_integer, floating } format;
  enum class Mode { wrap, clamp, mirror, border };  // the order of cudaTextureAddressMode
  std::uint64_t handle;
  std::size_t buffer;     // index of its buffer in the job
  std::uint64_t address;  // address of the first texel; after parsing, its offset in the buffer in bytes
  unsigned dimensions;
  bool layered;
  unsigned extent[3];     // in texels; the last extent of a layered texture is the number of layers
  std::uint64_t pitch, slice;  // bytes between rows, and between planes
  unsigned channels, channel_bytes;
  bool normalized_read, linear, normalized_coordinates;
  Mode mode[3];
  float border[4];
  unsigned texel_bytes() const { return channels * channel_bytes; }
};
// Parses a line of the job file that describes a texture.
Texture read_texture(std::istream& in);
void place_texture(Machine& machine, Texture texture, std::uint64_t buffer_address);

}  // namespace autosched::emulator::ptx
