// ldmatrix, stmatrix and movmatrix: PTX ISA 9.7.14. The function that implements an instruction runs when all
// lanes of the warp have arrived.
#include <algorithm>

#include "isa/values/dropped.hpp"
#include "isa/access/memory.hpp"
#include "isa/program.hpp"
#include "isa/values/undefined.hpp"
#include "memory/counting.hpp"
#include "memory/shared/memory.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace ldmatrix_instructions {

const char* matrix_name(bool store, unsigned matrices, bool trans) {
  constexpr const char* names[2][2][3] = {
      {{"ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4"}, {"ldmatrix.x1.trans", "ldmatrix.x2.trans", "ldmatrix.x4.trans"}},
      {{"stmatrix.x1", "stmatrix.x2", "stmatrix.x4"}, {"stmatrix.x1.trans", "stmatrix.x2.trans", "stmatrix.x4.trans"}}};
  return names[store][trans][matrices / 2];
}

// Reads the addresses of the rows: each of the first lanes provides the address of one row. Sets good[k] if row k is in
// shared memory.
void find_rows(Warp& w, const Instruction& i, unsigned count, const char* name, unsigned* addresses, bool* good) {
  Machine& machine = *w.machine;
  for (unsigned k = 0; k < count; ++k) {
    run_as(w, k);
    machine.self->site = i.site;
    if ((w.head(i.source(0)).defined >> k & 1u) == 0) report_undefined(w, i, origin_of(w, i.source(0), i), k);
    const std::uint64_t address = address_of(w, i, 0, i.immediate[1], k);
    // An instruction without .shared takes generic addresses.
    const Location location = is_generic_of(shared_base, address)
                                  ? Location{Space::shared, offset_in(shared_base, address)}
                                  : resolve(machine, Space::shared, address, name);
    addresses[k] = static_cast<unsigned>(location.offset);
    good[k] = location.good;
  }
}

// Immediates: 1 (whole warp), offset, number of matrices, whether they are transposed.
template <bool Store>
void matrix(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  const auto matrices = static_cast<unsigned>(i.immediate[2]);
  const bool trans = i.immediate[3] != 0;
  const char* name = matrix_name(Store, matrices, trans);
  unsigned addresses[warp_size];
  bool good[warp_size];
  find_rows(w, i, matrices * 8, name, addresses, good);
  count_shared_rows(machine, i.site, name, 16, addresses, matrices);
  if constexpr (!Store) {
    if (watches_reads(machine)) [[unlikely]] settle_overwritten(w, i, all_lanes);
    machine.loading = i.reading != 0 ? &i : nullptr;
  }
  for (unsigned which = 0; which < matrices; ++which) {
    std::uint16_t element[8][8];
    std::uint16_t bits[8][8];  // known bits of the elements
    SiteIndex origin = 0;      // source of the unknown bits; 0: all bits are known
    const std::uint32_t at = Store ? i.source(1 + which) : i.destination(which);
    if constexpr (Store) {
      for (unsigned lane = 0; lane < warp_size; ++lane) {
        const unsigned row = lane / 4, col = lane % 4 * 2;
        for (unsigned h = 0; h < 2; ++h) {
          const std::uint16_t x = w.values<std::uint16_t>(at)[2 * lane + h];
          (trans ? element[col + h][row] : element[row][col + h]) = x;
        }
      }
    }
    for (unsigned row = 0; row < 8; ++row) {
      const unsigned k = which * 8 + row;
      run_as(w, k);
      machine.self->site = i.site;
      unsigned char* p = nullptr;
      bool whole = true;
      if (good[k]) {
        p = collective_shared_access(machine, Store ? Access::write : Access::read, addresses[k], 16, 16, name,
                                     Store ? element[row] : nullptr, &whole);
      }
      if (!Store) {
        std::memset(bits[row], 0xff, 16);
        if (!whole) origin = known_shared(machine, addresses[k], 16, reinterpret_cast<unsigned char*>(bits[row]));
      }
      if (p == nullptr) {
        if (!Store) std::memset(element[row], 0xff, 16);
      } else if (Store) {
        std::memcpy(p, element[row], 16);
      } else {
        std::memcpy(element[row], p, 16);
      }
    }
    if constexpr (!Store) {
      for (unsigned lane = 0; lane < warp_size; ++lane) {
        const unsigned row = lane / 4, col = lane % 4 * 2;
        for (unsigned h = 0; h < 2; ++h) {
          w.values<std::uint16_t>(at)[2 * lane + h] = trans ? element[col + h][row] : element[row][col + h];
        }
        if (origin != 0) {
          const std::uint32_t low = trans ? bits[col][row] : bits[row][col], high = trans ? bits[col + 1][row] : bits[row][col + 1];
          set_known(w, at, 4, lane, low | high << 16, origin);
        }
      }
      if (origin == 0) w.head(at).defined = all_lanes;
    }
  }
  if constexpr (!Store) {
    machine.loading = nullptr;
    note_last_read(w, i, all_lanes >> (warp_size - 8 * matrices), addresses, 16);
  }
}

// Rows of 16 bytes. Each of the first lanes provides the address of one row.
struct ByteRows {
  unsigned addresses[warp_size];
  unsigned char bytes[warp_size][16], bits[warp_size][16];  // values, and their known bits
  SiteIndex origin = 0;                                     // source of the unknown bits; 0: all bits are known
};

// Unpacks a row of 16 values of 4 or 6 bits into one byte per value. The upper bits of each byte come from `above`.
void unpack(unsigned char* row, unsigned bits, unsigned char above) {
  unsigned char packed[16];
  std::memcpy(packed, row, 16);
  const unsigned mask = (1u << bits) - 1;
  for (unsigned e = 0; e < 16; ++e) {
    const unsigned at = e * bits, two = packed[at / 8] | static_cast<unsigned>(packed[at / 8 + 1]) << 8;
    row[e] = static_cast<unsigned char>((two >> at % 8 & mask) | (above & ~mask));
  }
}

// Row and column of byte `b` of a lane's registers in a transposed matrix with `rows` rows. A register has two rows of
// column lane / 4, and the same two rows of column lane / 4 + 8. ldmatrix reads 16 rows: a lane's second register has
// the next two rows of the same columns. stmatrix writes 8 rows.
constexpr unsigned row_of(unsigned rows, unsigned b, unsigned lane) {
  return rows == 8 ? lane % 4 * 2 + b % 2 : lane % 4 * 4 + b % 2 + 2 * (b / 4);
}
constexpr unsigned column_of(unsigned b, unsigned lane) { return lane / 4 + 8 * (b % 4 / 2); }

// ldmatrix and stmatrix of matrices of bytes (sm_100 and later). Immediates: 1 (whole warp), offset, number of
// matrices, rows per matrix, whether they are transposed, bits per packed value (0: not packed).
template <bool Store>
void byte_matrix(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  const auto matrices = static_cast<unsigned>(i.immediate[2]), rows = static_cast<unsigned>(i.immediate[3]);
  const bool trans = i.immediate[4] != 0;
  const auto packed = static_cast<unsigned>(i.immediate[5]);
  const char* const name = i.row->name;
  const unsigned registers = Store ? i.sources - 1 : i.destinations, of_matrix = registers / matrices;
  const auto register_of = [&](unsigned r) { return Store ? i.source(1 + r) : i.destination(r); };
  ByteRows m;
  bool good[warp_size];
  find_rows(w, i, matrices * rows, name, m.addresses, good);
  count_shared_rows(machine, i.site, name, 16, m.addresses, matrices * rows / 8);
  const auto each_byte = [&](auto body) {
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned b = 0; b < 4 * registers; ++b) {
        const unsigned matrix = b / (4 * of_matrix), within = b % (4 * of_matrix);
        const unsigned row = matrix * rows + (trans ? row_of(rows, within, lane) : lane / 4);
        body(lane, b, row, trans ? column_of(within, lane) : lane % 4 * 4 + within);
      }
    }
  };
  if constexpr (Store) {
    each_byte([&](unsigned lane, unsigned b, unsigned row, unsigned column) {
      m.bytes[row][column] = w.values<unsigned char>(register_of(b / 4))[4 * lane + b % 4];
    });
  } else {
    if (watches_reads(machine)) [[unlikely]] settle_overwritten(w, i, all_lanes);
    machine.loading = i.reading != 0 ? &i : nullptr;
  }
  for (unsigned k = 0; k < matrices * rows; ++k) {
    run_as(w, k);
    machine.self->site = i.site;
    unsigned char* p = nullptr;
    bool whole = true;
    if (good[k]) {
      p = collective_shared_access(machine, Store ? Access::write : Access::read, m.addresses[k], 16, 16, name,
                                   Store ? m.bytes[k] : nullptr, &whole);
    }
    if (Store) {
      if (p != nullptr) std::memcpy(p, m.bytes[k], 16);
      continue;
    }
    std::memset(m.bits[k], 0xff, 16);
    if (!whole) m.origin = known_shared(machine, m.addresses[k], 16, m.bits[k]);
    p == nullptr ? static_cast<void>(std::memset(m.bytes[k], 0xff, 16)) : static_cast<void>(std::memcpy(m.bytes[k], p, 16));
    if (packed != 0) unpack(m.bytes[k], packed, 0), unpack(m.bits[k], packed, 0xff);
  }
  if constexpr (!Store) {
    std::uint32_t known[4][warp_size] = {};
    each_byte([&](unsigned lane, unsigned b, unsigned row, unsigned column) {
      w.values<unsigned char>(register_of(b / 4))[4 * lane + b % 4] = m.bytes[row][column];
      known[b / 4][lane] |= std::uint32_t{m.bits[row][column]} << 8 * (b % 4);
    });
    for (unsigned r = 0; r < registers; ++r) {
      if (m.origin == 0) {
        w.head(register_of(r)).defined = all_lanes;
      } else {
        for (unsigned lane = 0; lane < warp_size; ++lane) set_known(w, register_of(r), 4, lane, known[r][lane], m.origin);
      }
    }
    machine.loading = nullptr;
    note_last_read(w, i, all_lanes >> (warp_size - matrices * rows), m.addresses, 16);
  }
}

// movmatrix: transposes a matrix in the warp's registers. Each lane has two elements of a row. Immediate: 1 (whole
// warp).
void transpose(Warp& w, const Instruction& i, Lanes) {
  std::uint16_t element[8][8], bits[8][8];  // values, and their known bits
  bool knows_all = true;
  const SiteIndex origin = origin_of(w, i.source(0), i);
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    const std::uint64_t known = known_bits(w, i.source(0), 4, lane);
    knows_all &= known == ones_of(4);
    for (unsigned h = 0; h < 2; ++h) {
      element[lane / 4][lane % 4 * 2 + h] = w.values<std::uint16_t>(i.source(0))[2 * lane + h];
      bits[lane / 4][lane % 4 * 2 + h] = static_cast<std::uint16_t>(known >> 16 * h);
    }
  }
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    const unsigned row = lane / 4, col = lane % 4 * 2;
    for (unsigned h = 0; h < 2; ++h) w.values<std::uint16_t>(i.destination(0))[2 * lane + h] = element[col + h][row];
    const std::uint32_t low = bits[col][row], high = bits[col + 1][row];
    if (!knows_all) set_known(w, i.destination(0), 4, lane, low | high << 16, origin);
  }
  if (knows_all) w.head(i.destination(0)).defined = all_lanes;
}

constexpr Row rows[] = {
    {"ldmatrix", matrix<false>, 0, "*:*", Flow::collective, false, true},
    {"stmatrix", matrix<true>, 0, ":**", Flow::collective, true},
    {"ldmatrix.bytes", byte_matrix<false>, 0, "*:*", Flow::collective, false, true},
    {"stmatrix.bytes", byte_matrix<true>, 0, ":**", Flow::collective, true},
    {"movmatrix", transpose, 0, "4:4", Flow::collective, false, true},
};

}  // namespace ldmatrix_instructions
}  // namespace

const Rows ldmatrix_rows{std::begin(ldmatrix_instructions::rows), std::end(ldmatrix_instructions::rows)};

}  // namespace autosched::emulator::ptx
