// cp.async.bulk.tensor: PTX ISA 9.7.9.27 and 5.5 (tensors, boxes, swizzles). A box is a sequence of rows along its
// first dimension. Swizzling permutes the 16-byte pieces within each 128, 64 or 32 bytes, by exclusive-or with higher
// address bits.
#include <algorithm>
#include <array>
#include <optional>

#include "isa/numbers/round.hpp"
#include "isa/async/bulk.hpp"
#include "isa/access/reduction.hpp"
#include "memory/counting.hpp"
#include "memory/global/memory.hpp"
#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"

namespace autosched::emulator::ptx {

namespace {
namespace tensor_instructions {

std::uint32_t swizzled(std::uint32_t address, unsigned swizzle_bytes) {
  const std::uint32_t pieces = swizzle_bytes / 16;
  return pieces == 0 ? address : address ^ ((address >> 7 & (pieces - 1)) << 4);
}

constexpr unsigned gathered_rows = 4;  // number of rows of tile::gather4 and tile::scatter4

// A box at its position in the tensor. Its rows have `row_bytes` bytes and are `pitch` bytes apart in shared memory.
struct Box {
  unsigned counts[5] = {1, 1, 1, 1, 1};  // elements in each dimension
  unsigned row_bytes, pitch, rows;
  std::int64_t first[5] = {};           // first coordinates of a box in tiled mode
  bool gathered = false;  // tile::gather4 or tile::scatter4: first[1] to first[4] are the coordinates of the four rows
  std::vector<std::array<std::int64_t, 5>> pixels;  // positions of the pixels in im2col mode

  // A box in im2col mode: its pixels start at the coordinates and proceed through the rows of the bounding box, then to
  // the next image. `offsets`, one per dimension of pixels, are added to the position of each pixel.
  Box(const EncodedTensorMap& map, const std::int32_t* coordinates, const std::uint16_t* offsets) {
    counts[0] = map.slice_bytes != 0 ? 1 : map.box[0];
    rows = map.box[1];
    set_rows(map);
    const unsigned image = map.pixel_dimensions();
    std::array<std::int64_t, 5> at{};
    std::copy(coordinates, coordinates + map.rank, at.begin());
    for (unsigned row = 0; row < rows; ++row) {
      pixels.push_back(at);
      for (unsigned k = 0; k < image; ++k) pixels.back()[map.pixel_dimension(k)] += offsets[k];
      for (unsigned k = 0; k <= image; ++k) {
        const unsigned d = k == image ? map.rank - 1u : map.pixel_dimension(k);
        at[d] += map.element_strides[d];
        if (k == image || at[d] <= map.last_pixel(k)) break;
        at[d] = map.first_pixel(k);
      }
    }
  }
  Box(const EncodedTensorMap& map, const std::int32_t* coordinates, bool gathers) : gathered(gathers) {
    rows = 1;
    for (unsigned d = 0; d < map.rank; ++d) {
      const bool one_slice = map.slice_bytes != 0 && d == map.channels();
      counts[d] = one_slice ? 1 : (map.box[d] + map.element_strides[d] - 1) / map.element_strides[d];
      first[d] = coordinates[d];
      if (d != 0) rows *= counts[d];
    }
    if (gathers) {
      rows = gathered_rows;
      for (unsigned row = 1; row < gathered_rows; ++row) first[1 + row] = coordinates[1 + row];
    }
    set_rows(map);
  }
  void set_rows(const EncodedTensorMap& map) {
    row_bytes = counts[0] * map.unit_bytes();
    pitch = map.slice_bytes != 0 ? row_bytes : std::max<unsigned>(row_bytes, map.swizzle_bytes);
  }
  // Size of the box in shared memory, rounded up to a multiple of the swizzle width.
  int reach(const EncodedTensorMap& map) const {
    const unsigned bytes = rows * pitch, span = std::max<unsigned>(map.swizzle_bytes, 1);
    return static_cast<int>((bytes + span - 1) / span * span);
  }

  // Coordinate of a row's first element in dimension `d`. Called for each `d`, in ascending order. `rest` is initially
  // the row's number; each call for d > 0 divides it by counts[d].
  std::int64_t coordinate(const EncodedTensorMap& map, unsigned row, unsigned d, unsigned& rest) const {
    if (!pixels.empty()) return pixels[row][d];
    if (d == 0) return first[0];
    const std::int64_t at = gathered ? first[d + row] : first[d] + std::int64_t{rest % counts[d]} * map.element_strides[d];
    rest /= counts[d];
    return at;
  }
};

// Distance in the first dimension between elements that are copied. In im2col mode, element strides do not apply to
// this dimension.
unsigned step_of_first(const EncodedTensorMap& map) { return map.im2col != 0 ? 1 : map.element_strides[0]; }

// Calls body(row, address, begin, end) for each row: the address of the row's first element, and the range of its
// elements that are inside the tensor. The range is empty for rows outside. For interleaved layouts, an element is a
// slice of channels.
template <class Body>
void for_rows(const EncodedTensorMap& map, const Box& box, Body body) {
  for (unsigned row = 0; row < box.rows; ++row) {
    unsigned rest = row;
    bool inside = true;
    const std::int64_t first = box.coordinate(map, row, 0, rest);
    std::uint64_t address = map.base + static_cast<std::uint64_t>(first * map.unit_bytes());
    for (unsigned d = 1; d < map.rank; ++d) {
      const std::int64_t at = box.coordinate(map, row, d, rest);
      inside = inside && at >= 0 && at <= map.last[d];
      address += static_cast<std::uint64_t>(at) * map.strides[d - 1];
    }
    const std::int64_t size = std::int64_t{map.last[0]} + 1, step = step_of_first(map);
    const std::int64_t before = first < 0 ? (-first + step - 1) / step : 0;
    const std::int64_t end = size > first ? (size - first + step - 1) / step : 0;
    const auto last = std::clamp<std::int64_t>(end, 0, box.counts[0]);
    const auto begin = inside ? std::clamp<std::int64_t>(before, 0, last) : last;
    body(row, address, static_cast<unsigned>(begin), static_cast<unsigned>(last));
  }
}

void count_row(Machine& machine, SiteIndex site, const char* instruction, std::uint64_t address, unsigned bytes) {
  for (unsigned done = 0; done < bytes;) {
    std::uint64_t addresses[warp_size] = {};
    Lanes lanes = 0;
    for (unsigned k = 0; k < warp_size && done < bytes; ++k, done += 16) {
      addresses[k] = (address + done) / 16 * 16;
      lanes |= 1u << k;
    }
    count_global_request(machine, site, instruction, 16, lanes, addresses);
  }
}

// Reads a box into `data`, without gaps between rows.
void read_box(Machine& machine, const EncodedTensorMap& map, const Box& box, unsigned char* data, const char* instruction) {
  const unsigned element = map.unit_bytes();
  for_rows(map, box, [&](unsigned row, std::uint64_t address, unsigned begin, unsigned end) {
    unsigned char* to = data + std::size_t{row} * box.row_bytes;
    std::memset(to, 0, box.row_bytes);
    for (unsigned at = 0; map.fills_nan && at < box.row_bytes; at += 2) std::memcpy(to + at, &nan_outside_tensor, 2);
    if (begin >= end) return;
    const unsigned step = element * step_of_first(map);
    const std::uint64_t from = address + std::uint64_t{begin} * step;
    if (step == element) {
      count_row(machine, machine.self->site, instruction, from, (end - begin) * element);
      read_global_bulk(machine, to + begin * element, reinterpret_cast<const void*>(from),
                       static_cast<int>((end - begin) * element), instruction);
      return;
    }
    for (unsigned e = begin; e < end; ++e) {
      read_global_bulk(machine, to + e * element, reinterpret_cast<const void*>(address + std::uint64_t{e} * step),
                       static_cast<int>(element), instruction);
    }
  });
}

// Converts f32 elements that are loaded through a map of type tf32, or of a type with .ftz. Rounding to tf32 is to
// nearest, ties to even, as measured on sm_120 (https://github.com/triton-lang/triton/pull/11751). Infinities and NaN
// are unchanged.
void convert_loaded(const EncodedTensorMap& map, std::vector<unsigned char>& data) {
  for (std::size_t at = 0; map.loaded_as != as_stored && at < data.size(); at += 4) {
    std::uint32_t bits;
    std::memcpy(&bits, data.data() + at, 4);
    const std::uint32_t exponent = bits & 0x7f800000u;
    if ((map.loaded_as & without_subnormals) != 0 && exponent == 0) bits &= 0x80000000u;
    if ((map.loaded_as & rounded_to_tf32) != 0 && exponent != 0x7f800000u) bits = (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
    std::memcpy(data.data() + at, &bits, 4);
  }
}

// Calls body(offset in the dense rows, shared address, number of bytes) for each contiguous piece of the box in shared
// memory.
template <class Body>
void for_pieces(const EncodedTensorMap& map, const Box& box, std::uint32_t shared, Body body) {
  const unsigned piece = map.swizzle_bytes == 0 ? box.row_bytes : 16;
  for (unsigned row = 0; row < box.rows; ++row) {
    for (unsigned done = 0; done < box.row_bytes; done += piece) {
      body(row * box.row_bytes + done, swizzled(shared + row * box.pitch + done, map.swizzle_bytes), piece);
    }
  }
}

unsigned coordinates_of(unsigned rank, bool gathers) { return gathers ? 1 + gathered_rows : rank; }

// True if a box may start at its coordinates. For other coordinates, an H100 ends the launch with an illegal
// instruction.
bool starts_well(Machine& machine, const EncodedTensorMap& map, const std::int32_t* coordinates, unsigned count, bool writes,
                 const char* name) {
  const std::int32_t* negative = std::find_if(coordinates, coordinates + count, [](std::int32_t c) { return c < 0; });
  if (writes && negative != coordinates + count) {
    FINDING(machine.report, invalid_argument, machine.self->site,
            "%s: %s writes a box that starts at coordinate %d: only boxes that are read may start before the tensor",
            describe_self(machine).c_str(), name, *negative);
    return false;
  }
  if (map.slice_bytes == 0 && std::int64_t{coordinates[0]} * map.element_bytes % 16 != 0) {
    FINDING(machine.report, misaligned_access, machine.self->site,
            "%s: %s starts at element %d of the first dimension, whose offset is not a multiple of 16 bytes "
            "(elements have %u)",
            describe_self(machine).c_str(), name, coordinates[0], map.element_bytes);
    return false;
  }
  for (unsigned k = 0; map.im2col != 0 && k < map.pixel_dimensions(); ++k) {
    const std::int64_t at = coordinates[map.pixel_dimension(k)];
    if (at >= map.first_pixel(k) && at <= map.last_pixel(k)) continue;
    FINDING(machine.report, invalid_argument, machine.self->site,
            "%s: %s starts at pixel %lld of dimension %u, outside of the bounding box (%lld to %lld)",
            describe_self(machine).c_str(), name, static_cast<long long>(at), map.pixel_dimension(k),
            static_cast<long long>(map.first_pixel(k)), static_cast<long long>(map.last_pixel(k)));
    return false;
  }
  return true;
}

// Decodes the tensor map and the box of a lane's instruction. Returns false, with a finding, if the instruction does
// not fit the map.
bool box_of(Warp& w, const Instruction& i, unsigned source, std::int64_t offset, unsigned rank, bool gathers, bool im2col,
            bool writes, unsigned lane, const char* name, EncodedTensorMap& map, std::int32_t* coordinates) {
  Machine& machine = *w.machine;
  if (!map_at(machine, address_of(w, i, source, offset, lane), name, map)) return false;
  if ((map.im2col != 0) != im2col) {
    FINDING(machine.report, invalid_argument, machine.self->site,
            "%s: %s.%s needs a tensor map of the same mode (tiled or im2col)",
            describe_self(machine).c_str(), name, im2col ? "im2col" : "tile");
    return false;
  }
  if (map.rank != rank) {
    FINDING(machine.report, invalid_argument, machine.self->site, "%s: %s.%ud does not match its tensor map of %u dimensions",
            describe_self(machine).c_str(), name, rank, map.rank);
    return false;
  }
  if (gathers && map.box[1] != 1) {
    FINDING(machine.report, invalid_argument, machine.self->site,
            "%s: %s.tile with four rows needs a tensor map with one row per box, not %u",
            describe_self(machine).c_str(), name,
            map.box[1]);
    return false;
  }
  for (unsigned d = 0; d < coordinates_of(rank, gathers); ++d) {
    coordinates[d] = static_cast<std::int32_t>(w.values<std::uint32_t>(i.source(source + 1 + d))[lane]);
  }
  return starts_well(machine, map, coordinates, rank, writes && !gathers, name);
}

// Tensor load. Immediates: number of dimensions; offsets of the shared address, of the map's address and of the
// mbarrier's address; whether it is multicast; blocks (2 for cta_group::2); whether four rows are gathered; whether it
// is im2col. Sources: shared address, map, coordinates, mbarrier; for multicast, a bit mask of blocks; for im2col, the
// offsets.
void load(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  constexpr const char* name = "cp.async.bulk.tensor";
  const auto rank = static_cast<unsigned>(i.immediate[0]);
  const bool pairs = i.immediate[5] == 2, gathers = i.immediate[6] != 0, im2col = i.immediate[7] != 0;
  const unsigned behind = 2 + coordinates_of(rank, gathers);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    EncodedTensorMap map{};
    std::int32_t coordinates[5] = {};
    std::uint32_t to, barrier;
    if (!shared_operand(w, i, 0, i.immediate[1], k, name, to)) return;
    if (!box_of(w, i, 1, i.immediate[2], rank, gathers, im2col, false, k, name, map, coordinates)) return;
    if (!shared_operand(w, i, behind, i.immediate[3], k, name, barrier)) return;
    std::uint16_t offsets[3] = {};
    for (unsigned d = 0; im2col && d + 2 < rank; ++d) {
      const unsigned source = behind + 1 + (i.immediate[4] != 0 ? 1 : 0) + d;
      offsets[d] = static_cast<std::uint16_t>(read_bits(w, i.source(source), i.width_of_source(source), k));
    }
    const Box box = im2col ? Box(map, coordinates, offsets) : Box(map, coordinates, gathers);
    BulkLoad load{barrier,
                  {},
                  std::vector<unsigned char>(std::size_t{box.rows} * box.row_bytes),
                  std::int64_t{box.rows} * box.row_bytes,
                  machine.self,
                  i.site,
                  name,
                  std::nullopt};
    read_box(machine, map, box, load.data.data(), name);
    convert_loaded(map, load.data);
    std::uint32_t blocks = 1u << rank_of_address(to);
    if (i.immediate[4] != 0) {
      blocks = blocks_of_multicast(w, i, behind + 1, k, name);
    } else if (pairs ? rank_of_address(to) / 2 != rank_of_address(barrier) / 2 : rank_of_address(to) != rank_of_address(barrier)) {
      FINDING(machine.report, invalid_argument, machine.self->site,
              "%s: %s copies to one block, but the mbarrier that counts it is in another block",
              describe_self(machine).c_str(), name);
      return;
    }
    for (Lanes left = blocks; left != 0; left &= left - 1) {
      const auto block = static_cast<unsigned>(__builtin_ctz(left));
      BulkLoad one = load;
      // With cta_group::2, the mbarrier may be in either block of a pair. In each pair, it is in the block whose rank
      // has the same parity as the rank in the mbarrier's address.
      const unsigned counting = pairs ? block / 2 * 2 + rank_of_address(barrier) % 2 : block;
      one.mbarrier = address_in_block(barrier, counting);
      const std::uint32_t at = address_in_block(to, block);
      if (!check_shared(machine, at, box.reach(map), 128, name)) return;
      if (mbarrier_at(machine, one.mbarrier, name, true) == nullptr) return;
      for_pieces(map, box, at, [&](unsigned, std::uint32_t address, unsigned bytes) { one.pieces.push_back({address, bytes}); });
      start_bulk_load(machine, std::move(one));
    }
  });
}

// True if a reduction supports the type of a map's elements. Reductions with and without tensor maps support the same
// types (PTX ISA, cp.reduce.async.bulk). For sums of narrow integers, an H100 ends the launch with an illegal
// instruction; other reductions have not been tried on a GPU.
bool reducible(const EncodedTensorMap& map, Reducing::Operation operation) {
  using enum Reducing::Operation;
  const bool integer = map.kind <= ElementKind::signed_integer, wide = map.element_bytes >= 4;
  switch (operation) {
    case add: return !integer || wide;
    case min:
    case max: return integer ? wide : map.element_bytes == 2;
    case inc:
    case dec: return integer && map.element_bytes == 4;
    default: return integer && wide;
  }
}

// True if a GPU can write a box; otherwise reports a finding. The element type must support the reduction. In im2col
// mode, an H100 ends the launch with an illegal instruction if the bounding box of the tensor map starts before the
// tensor.
bool can_write(Machine& machine, const EncodedTensorMap& map, const Box& box, const std::optional<Reducing>& reduction,
               const char* name) {
  for (const auto& pixel : box.pixels) {
    const auto before = std::find_if(pixel.begin(), pixel.end(), [](std::int64_t at) { return at < 0; });
    if (before == pixel.end()) continue;
    FINDING(machine.report, invalid_argument, machine.self->site,
            "%s: %s.im2col_no_offs writes pixel %lld of dimension %td, but pixels before the tensor cannot be written",
            describe_self(machine).c_str(), name, static_cast<long long>(*before), before - pixel.begin());
    return false;
  }
  if (reduction && !reducible(map, reduction->operation)) {
    FINDING(machine.report, invalid_argument, machine.self->site,
            "%s: %s does not support the element type of its tensor map (%u bytes per element)",
            describe_self(machine).c_str(), name,
            map.element_bytes);
    return false;
  }
  return true;
}

// Tensor store or reduction. Immediates: number of dimensions; offsets of the map's address and of the shared address;
// the reduction (0: store); whether four rows are scattered; whether it is im2col. Sources: map, coordinates, shared
// address.
void store(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto rank = static_cast<unsigned>(i.immediate[0]);
  const bool reduces = i.immediate[3] != 0, scatters = i.immediate[4] != 0, im2col = i.immediate[5] != 0;
  const char* name = reduces ? "cp.reduce.async.bulk.tensor" : "cp.async.bulk.tensor";
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    EncodedTensorMap map{};
    std::int32_t coordinates[5] = {};
    std::uint32_t from;
    if (!box_of(w, i, 0, i.immediate[1], rank, scatters, im2col, true, k, name, map, coordinates)) return;
    if (!shared_operand(w, i, 1 + coordinates_of(rank, scatters), i.immediate[2], k, name, from)) return;
    constexpr std::uint16_t no_offsets[3] = {};
    const Box box = im2col ? Box(map, coordinates, no_offsets) : Box(map, coordinates, scatters);
    std::optional<Reducing> reduction;
    if (reduces)
      reduction = Reducing{static_cast<Reducing::Operation>(i.immediate[3] - 1), map.kind, map.element_bytes};
    if (!can_write(machine, map, box, reduction, name)) return;
    if (!check_shared(machine, from, box.reach(map), 128, name)) return;
    const StoreReader reader = start_bulk_store(w, k, i.site);
    std::vector<unsigned char> data(std::size_t{box.rows} * box.row_bytes, 0xff);
    for_pieces(map, box, from, [&](unsigned at, std::uint32_t address, unsigned bytes) {
      const unsigned char* p = read_by_engine(machine, address, static_cast<int>(bytes), machine.self->agent,
                                              reader.actor, reader.epoch, name);
      if (p != nullptr) std::memcpy(data.data() + at, p, bytes);
    });
    for_rows(map, box, [&](unsigned row, std::uint64_t address, unsigned begin, unsigned end) {
      if (begin >= end) return;
      const unsigned element = map.unit_bytes(), step = element * step_of_first(map);
      const unsigned char* values = data.data() + std::size_t{row} * box.row_bytes;
      const unsigned each = step == element ? end - begin : 1;  // contiguous elements
      for (unsigned e = begin; e < end; e += each) {
        const std::uint64_t to = address + std::uint64_t{e} * step;
        const unsigned bytes = each * element;
        count_row(machine, machine.self->site, name, to, bytes);
        if (reduction) {
          reduce_global(machine, to, values + e * element, bytes, *reduction, name);
        } else {
          write_global_bulk(machine, reinterpret_cast<void*>(to), values + e * element, static_cast<int>(bytes), name);
        }
      }
    });
  });
}

void prefetch(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    EncodedTensorMap map{};
    map_at(machine, address_of(w, i, 0, i.immediate[0], k), "prefetch.tensormap", map);
  });
}

constexpr Row rows[] = {
    {"tensor.load", load, 0, ":****", Flow::plain, true},
    {"tensor.store", store, 0, ":***", Flow::plain, true},
    {"prefetch.tensormap", prefetch, 0, ":*", Flow::plain, true},
};

}  // namespace tensor_instructions
}  // namespace

const Rows tensor_rows{std::begin(tensor_instructions::rows), std::end(tensor_instructions::rows)};

}  // namespace autosched::emulator::ptx
