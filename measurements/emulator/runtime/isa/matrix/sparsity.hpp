// Positions of the elements of a sparse matrix A (PTX ISA 9.7.14.6 and 9.7.15.6, "Sparse matrix storage").
#pragma once
#include "isa/matrix/matrix.hpp"

namespace autosched::emulator::ptx::matrix {

// Number of 2-bit metadata fields per row of A: one per pair of stored 4-bit elements, two per stored tf32 element, and
// one per stored element of other types.
inline unsigned fields_of_row(std::int64_t type, unsigned k) {
  return type == tf32 ? k : bits_of(type) == 4 ? k / 4 : k / 2;
}

// Decodes the column of each of the k / 2 stored elements in row `row` (0 to 15) of a warp's A. mma.sp and wgmma.sp use
// the same encoding.
class Metadata {
 public:
  // The lanes whose registers contain the metadata.
  static Lanes lanes(std::int64_t type, unsigned k, unsigned selector) {
    const unsigned fields = fields_of_row(type, k), of_four = std::min(4u, fields / 8);
    Lanes all = 0;
    for (unsigned lane = 0; lane < warp_size; ++lane) all |= static_cast<Lanes>(lane % 4 / of_four == selector) << lane;
    return all;
  }
  Metadata(Warp& w, const Instruction& i, std::uint32_t at, std::int64_t type, unsigned k, unsigned selector, bool ordered)
      : words_(w.values<std::uint32_t>(at)), i_(i), type_(type), ordered_(ordered), fields_(fields_of_row(type, k)),
        first_(selector * fields_ / 8) {}

  void read(Machine& machine, unsigned row, unsigned* column) const {
    // Of every two tf32 elements, one is stored. Each 16-bit half of the stored element has a 2-bit field: the index of
    // this half among the four halves of the two elements.
    if (type_ == tf32) {
      for (unsigned p = 0; p < fields_ / 2; ++p) {
        const unsigned halves = field(row, 2 * p) | field(row, 2 * p + 1) << 2;
        if (halves != 0b0100u && halves != 0b1110u) report(machine, row, halves, "for tf32 are 0b0100 and 0b1110");
        column[p] = 2 * p + halves / 8;
      }
      return;
    }
    const unsigned unit = bits_of(type_) == 4 ? 2 : 1;  // elements per metadata field
    for (unsigned f = 0; f < fields_; f += 2) {
      const unsigned low = field(row, f), high = field(row, f + 1);
      if (low == high || (ordered_ && low > high)) {
        report(machine, row, low | high << 2, ordered_ ? "name two elements in ascending order" : "name two elements");
      }
      for (unsigned e = 0; e < unit; ++e) {
        column[f * unit + e] = (2 * f + low) * unit + e;
        column[(f + 1) * unit + e] = (2 * f + high) * unit + e;
      }
    }
  }

 private:
  // For types of 8 and 4 bits, a lane has 16 fields of one row. For wider types, it has 8 fields each of rows g and g +
  // 8.
  unsigned field(unsigned row, unsigned f) const {
    const unsigned group = row % 8, half = row / 8;
    const bool narrow = bits_of(type_) <= 8;
    const unsigned lane = 4 * group + first_ + (narrow ? 2 * (f / 16) + half : f / 8);
    return words_[lane] >> (narrow ? 2 * (f % 16) : 16 * half + 2 * (f % 8)) & 3u;
  }
  void report(Machine& machine, unsigned row, unsigned bits, const char* valid) const {
    FINDING(machine.report, invalid_argument, i_.site, "invalid metadata 0x%x of row %u: valid values %s", bits, row, valid);
  }

  const std::uint32_t* words_;
  const Instruction& i_;
  const std::int64_t type_;
  const bool ordered_;
  const unsigned fields_, first_;
};

}  // namespace autosched::emulator::ptx::matrix
