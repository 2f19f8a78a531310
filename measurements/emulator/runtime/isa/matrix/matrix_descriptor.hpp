// The matrix descriptor by which wgmma and tcgen05 find an operand in shared memory: start address, distances between
// 16-byte pieces, and swizzle (PTX ISA 9.7.15.5.1 and 9.7.16.4.1).
#pragma once
#include <cstdint>

namespace autosched::emulator::ptx {

struct Descriptor {
  std::uint32_t start, leading, stride;
  unsigned swizzle_bytes, base_offset;

  static Descriptor of_wgmma(std::uint64_t bits) {
    constexpr unsigned widths[] = {0, 128, 64, 32};
    return {bits, widths[bits >> 62]};
  }
  // ``known`` becomes false for an invalid swizzle, and for swizzles with atoms of 32 bytes, which are not implemented.
  static Descriptor of_tcgen05(std::uint64_t bits, bool& known) {
    constexpr unsigned widths[] = {0, 0, 128, 0, 64, 0, 32, 0};
    known = (bits >> 61) % 2 == 0;
    return {bits, widths[bits >> 61]};
  }
  std::uint32_t swizzled(std::uint32_t address) const {
    if (swizzle_bytes == 0) return address;
    return address ^ ((address >> 7 & (swizzle_bytes / 16 - 1)) << 4);
  }
  // Address of 16 bytes of an operand that is contiguous along k: piece `piece` (of 2) of row `row`.
  std::uint32_t along_k(unsigned row, unsigned piece) const {
    if (swizzle_bytes == 0) return start + row % 8 * 16 + row / 8 * stride + piece * leading;
    return swizzled(start + row % 8 * swizzle_bytes + row / 8 * stride + piece * 16);
  }
  // Address of 16 bytes of an operand that is contiguous along m or n: piece `piece` of the line with index `k`.
  std::uint32_t along_mn(unsigned k, unsigned piece) const {
    if (swizzle_bytes == 0) return start + k % 8 * 16 + k / 8 * leading + piece * stride;
    const unsigned pieces = swizzle_bytes / 16;
    return swizzled(start + k % 8 * swizzle_bytes + k / 8 * stride + piece % pieces * 16 + piece / pieces * leading);
  }

 private:
  Descriptor(std::uint64_t bits, unsigned swizzle)
      : start((bits & 0x3fff) << 4), leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4),
        swizzle_bytes(swizzle), base_offset(bits >> 49 & 7) {}
};

}  // namespace autosched::emulator::ptx
