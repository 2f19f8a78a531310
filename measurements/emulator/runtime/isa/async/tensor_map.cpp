// Tensor maps created and published by threads: tensormap.replace, tensormap.cp_fenceproxy, fence.proxy.tensormap (PTX
// ISA 9.7.9.28, 9.7.13.16 and 9.7.13.4), and checks of a map that a bulk copy uses.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>

#include "isa/warps.hpp"
#include "isa/program.hpp"
#include "memory/counting.hpp"
#include "memory/global/buffers.hpp"
#include "memory/global/memory.hpp"
#include "memory/global/tensor_maps.hpp"
#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"
#include "isa/async/tensor_map.hpp"
#include "isa/async/mbarrier.hpp"

namespace autosched::emulator::ptx {
namespace {

using Map = EncodedTensorMap;
constexpr int map_bytes = sizeof(Map);
constexpr unsigned most_dimensions = 5, most_box = 256, most_pixels = 1024, most_element_stride = 8;
constexpr std::uint64_t strides_end = std::uint64_t{1} << 40;

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string text(const char* format, ...) {
  char line[160];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

// Describes a field that a map of this rank needs and that was never set. Returns "" if all such fields were set.
std::string missing(const Map& m) {
  const auto lacks = [&](MapField field, unsigned d = 0) { return (m.fields_set & Map::bit_of(field, d)) == 0; };
  if (lacks(MapField::global_address)) return "global_address was never set";
  if (m.rank > most_dimensions) return text("the rank is %u, more than the maximum of %u", m.rank, most_dimensions);
  constexpr std::pair<MapField, const char*> of_each[] = {
      {MapField::box_dim, "box_dim"}, {MapField::global_dim, "global_dim"}, {MapField::element_stride, "element_stride"}};
  for (unsigned d = 0; d < m.rank; ++d) {
    for (const auto& [field, name] : of_each) {
      if (lacks(field, d)) return text("%s %u (of %u dimensions) was never set, or is 0", name, d, m.rank);
    }
    if (d + 1 < m.rank && lacks(MapField::global_stride, d))
      return text("global_stride %u (of %u dimensions) was never set", d, m.rank);
  }
  return "";
}

// Describes why a map is invalid (PTX ISA 5.5; CUDA Driver API, Tensor Map Object Management). Returns "" if it is
// valid.
std::string complaint(const Map& m) {
  if (std::string lacking = missing(m); !lacking.empty()) return lacking;
  const unsigned unit = std::max<unsigned>(m.slice_bytes, 16);
  if (m.base % unit != 0)
    return text("global_address %#llx is not a multiple of %u", static_cast<unsigned long long>(m.base), unit);
  if (m.slice_bytes != 0 && m.rank < 3) return text("an interleaved map cannot have %u dimensions", m.rank);
  for (unsigned d = 0; d < m.rank; ++d) {
    if (m.im2col == 0 && (m.box[d] < 1 || m.box[d] > most_box)) {
      return text("box_dim %u is %u, not 1 to %u", d, m.box[d], most_box);
    }
    if (m.element_strides[d] < 1 || m.element_strides[d] > most_element_stride) {
      return text("element_stride %u is %u, not 1 to %u", d, m.element_strides[d], most_element_stride);
    }
    if (d + 1 < m.rank && (m.strides[d] % unit != 0 || m.strides[d] >= strides_end)) {
      return text("global_stride %u is %llu bytes, not a multiple of %u below 2^40", d,
                  static_cast<unsigned long long>(m.strides[d]), unit);
    }
  }
  if (m.im2col != 0) {
    if (m.rank < 3) return text("an im2col map cannot have %u dimensions", m.rank);
    if (m.box[0] < 1 || m.box[0] > most_box) return text("the box has %u channels per pixel, not 1 to %u", m.box[0], most_box);
    if (m.box[1] < 1 || m.box[1] > most_pixels) return text("the box has columns of %u pixels, not 1 to %u", m.box[1], most_pixels);
    for (unsigned k = 0; k < m.pixel_dimensions(); ++k) {
      if (m.first_pixel(k) > m.last_pixel(k)) return text("dimension %u of the bounding box is empty", m.pixel_dimension(k));
    }
  }
  const unsigned inner = m.box[0] * m.element_bytes;
  if (inner % 16 != 0) return text("box_dim 0 is %u bytes, not a multiple of 16", inner);
  if (m.slice_bytes == 0 && m.swizzle_bytes != 0 && inner > m.swizzle_bytes) {
    return text("box_dim 0 is %u bytes, more than the %u bytes of its swizzle_mode", inner, m.swizzle_bytes);
  }
  if (m.fills_nan && m.kind <= ElementKind::signed_integer) return "fill_mode is NaN, but elemtype is an integer";
  return "";
}

// Element types by their number in tensormap.replace.elemtype (PTX ISA, table of its values): bytes, kind, and the
// conversion that loads apply.
struct Element {
  std::uint8_t bytes;
  ElementKind kind;
  unsigned loaded_as = as_stored;
};
constexpr Element elements[] = {
    {1, ElementKind::unsigned_integer}, {2, ElementKind::unsigned_integer}, {4, ElementKind::unsigned_integer},
    {4, ElementKind::signed_integer},   {8, ElementKind::unsigned_integer}, {8, ElementKind::signed_integer},
    {2, ElementKind::f16},              {4, ElementKind::f32},              {4, ElementKind::f32, without_subnormals},
    {8, ElementKind::f64},              {2, ElementKind::bf16},             {4, ElementKind::f32, rounded_to_tf32},
    {4, ElementKind::f32, rounded_to_tf32 | without_subnormals},
};

void set(Map& m, MapField field, unsigned d, std::uint64_t value) {
  const auto word = static_cast<std::uint32_t>(value);
  m.fields_set |= Map::bit_of(field, d);
  switch (field) {
    case MapField::global_address: m.base = value; break;
      // tensormap.replace encodes the rank as the number of dimensions minus 1.
    case MapField::rank: m.rank = static_cast<std::uint8_t>(std::min(word, 254u) + 1); break;
    case MapField::box_dim: m.box[d] = word; break;
    case MapField::global_dim:
      m.last[d] = word - 1;
      if (word == 0) m.fields_set &= ~Map::bit_of(field, d);
      break;
    case MapField::global_stride: m.strides[d] = value; break;
    case MapField::element_stride: m.element_strides[d] = word; break;
    case MapField::elemtype:
      m.element_bytes = elements[word].bytes;
      m.kind = elements[word].kind;
      m.loaded_as = static_cast<std::uint8_t>(elements[word].loaded_as);
      break;
    case MapField::swizzle_mode: m.swizzle_bytes = static_cast<std::uint8_t>(word == 0 ? 0 : 16u << word); break;
    case MapField::fill_mode: m.fills_nan = word != 0; break;
    case MapField::interleave_layout: m.slice_bytes = static_cast<std::uint8_t>(16 * word); break;
  }
}

// True if the memory contains a map or zeros, which tensormap.replace may change. Zeros become a map without fields.
// Otherwise reports a finding.
bool begin_map(Machine& machine, Map& m) {
  if (m.mark == Map::valid_mark) return true;
  const Map zeros{};
  if (std::memcmp(&m, &zeros, sizeof m) == 0) {
    m.mark = Map::valid_mark;
    m.rank = m.element_bytes = 1;
    return true;
  }
  FINDING(machine.report, invalid_argument, machine.self->site,
          "%s: tensormap.replace changes memory that is not a tensor map: start with a map, or with 128 bytes of zeros",
          describe_self(machine).c_str());
  return false;
}

// tensormap.replace. Immediates: offset of the address, state space of the address, MapField, dimension. Sources:
// address, value.
void replace(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  constexpr const char* name = "tensormap.replace";
  const auto space = static_cast<Space>(i.immediate[1]);
  const auto field = static_cast<MapField>(i.immediate[2]);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    const std::uint64_t value = read_bits(w, i.source(1), i.width_of_source(1), k);
    Map map{};
    std::uint32_t shared = 0;
    Location location{Space::shared, 0};
    if (space == Space::shared) {
      if (!shared_operand(w, i, 0, i.immediate[0], k, name, shared)) return;
    } else {
      location = resolve(machine, space, address_of(w, i, 0, i.immediate[0], k), name);
      if (!location.good) return;
      if (location.space == Space::shared)
        shared = cluster_address(machine, static_cast<std::uint32_t>(location.offset));
    }
    if (location.space == Space::shared) {
      if (!check_shared(machine, shared, map_bytes, map_bytes, name)) return;
      read_shared(machine, &map, shared, map_bytes, name);
      if (!begin_map(machine, map)) return;
      set(map, field, static_cast<unsigned>(i.immediate[3]), value);
      write_shared(machine, shared, &map, map_bytes, name);
    } else if (location.space == Space::global) {
      read_global(machine, &map, reinterpret_cast<const void*>(location.offset), map_bytes, name, false, false);
      if (!begin_map(machine, map)) return;
      set(map, field, static_cast<unsigned>(i.immediate[3]), value);
      write_global(machine, reinterpret_cast<void*>(location.offset), &map, map_bytes, name, false);
    } else {
      FINDING(machine.report, wrong_state_space, machine.self->site, "%s: %s takes an address of %s memory",
              describe_self(machine).c_str(), name, space_name(location.space));
    }
  });
}

// tensormap.cp_fenceproxy: the whole warp copies a map to global memory and publishes it. Immediates: 1, offsets of
// destination and source. Sources: destination, source.
void copy(Warp& w, const Instruction& i, Lanes lanes) {
  Machine& machine = *w.machine;
  constexpr const char* name = "tensormap.cp_fenceproxy";
  const auto first = static_cast<unsigned>(__builtin_ctz(lanes));
  run_as(w, first);
  machine.self->site = i.site;
  const auto differs = [&](unsigned source) {
    const std::uint64_t mine = read_bits(w, i.source(source), i.width_of_source(source), first);
    bool any = false;
    for_lanes(lanes, [&](unsigned k) { any = any || read_bits(w, i.source(source), i.width_of_source(source), k) != mine; });
    return any;
  };
  if (differs(0) || differs(1)) {
    FINDING(machine.report, invalid_argument, i.site, "lanes of warp %u give %s different addresses", w.index, name);
    return;
  }
  std::uint32_t from = 0;
  const Location to = resolve(machine, Space::global, address_of(w, i, 0, i.immediate[1], first), name);
  if (!to.good || !shared_operand(w, i, 1, i.immediate[2], first, name, from)) return;
  if (to.offset % map_bytes != 0) {
    FINDING(machine.report, misaligned_access, i.site, "%s: %s writes %#llx, which is not a multiple of 128",
            describe_self(machine).c_str(), name, static_cast<unsigned long long>(to.offset));
    return;
  }
  const unsigned char* data = collective_shared_access(machine, Access::read, from, map_bytes, map_bytes, name);
  if (data == nullptr) return;
  std::uint64_t addresses[warp_size] = {};
  for (unsigned k = 0; k < map_bytes / 16; ++k) addresses[k] = to.offset + 16 * k;
  count_global_request(machine, i.site, name, 16, (1u << map_bytes / 16) - 1, addresses);
  write_global_bulk(machine, reinterpret_cast<void*>(to.offset), data, map_bytes, name);
  release_tensor_maps(machine, lanes, true, (i.flags & block_scope) != 0);
}

void fence_release(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  run_as(w, static_cast<unsigned>(__builtin_ctz(active)));
  machine.self->site = i.site;
  release_tensor_maps(machine, active, active == live_lanes(w), (i.flags & block_scope) != 0);
}

// Immediate: offset of the address.
void fence_acquire(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for (Lanes left = active; left != 0;) {
    const auto first = static_cast<unsigned>(__builtin_ctz(left));
    run_as(w, first);
    machine.self->site = i.site;
    const std::uint64_t address = address_of(w, i, 0, i.immediate[0], first);
    Lanes same = 0;
    for_lanes(left, [&](unsigned k) { same |= static_cast<Lanes>(address_of(w, i, 0, i.immediate[0], k) == address) << k; });
    left &= ~same;
    const Location location = resolve(machine, Space::generic, address, "fence.proxy.tensormap");
    if (!location.good) continue;
    if (location.space != Space::global) {
      FINDING(machine.report, wrong_state_space, machine.self->site, "%s: fence.proxy.tensormap takes an address of %s memory",
              describe_self(machine).c_str(), space_name(location.space));
      continue;
    }
    acquire_tensor_map(machine, reinterpret_cast<const void*>(address), same, (i.flags & block_scope) != 0);
  }
}

constexpr Row tensor_map_table[] = {
    {"tensormap.replace", replace, 0, ":**", Flow::plain, true},
    {"tensormap.cp_fenceproxy", copy, block_scope, ":**", Flow::collective, true},
    {"fence.tensormap.release", fence_release, block_scope, ":"},
    {"fence.tensormap.acquire", fence_acquire, block_scope, ":*", Flow::plain, true},
};

}  // namespace

const Rows tensor_map_rows{std::begin(tensor_map_table), std::end(tensor_map_table)};

std::string encoded(const TensorMapSpec& spec, void* base) {
  Map m{};
  m.mark = Map::valid_mark;
  const auto set_field = [&](MapField field, unsigned d, std::uint64_t value) { set(m, field, d, value); };
  set_field(MapField::global_address, 0, reinterpret_cast<std::uint64_t>(base));
  set_field(MapField::rank, 0, spec.rank - 1);
  m.element_bytes = static_cast<std::uint8_t>(spec.element_bytes);
  m.kind = static_cast<ElementKind>(spec.kind);
  m.swizzle_bytes = static_cast<std::uint8_t>(spec.swizzle_bytes);
  m.fills_nan = spec.fills_nan;
  m.im2col = spec.im2col;
  m.slice_bytes = static_cast<std::uint8_t>(spec.slice_bytes);
  m.loaded_as = static_cast<std::uint8_t>(spec.loaded_as);
  for (unsigned d = 0; d < spec.rank; ++d) {
    m.fields_set |= Map::bit_of(MapField::global_dim, d);
    // set() is not used here, because a size of 2^32 does not fit its 32-bit values
    m.last[d] = static_cast<std::uint32_t>(spec.sizes[d] - 1);
    set_field(MapField::box_dim, d, spec.box[d]);
    set_field(MapField::element_stride, d, spec.element_strides[d]);
    if (d + 1 < spec.rank) set_field(MapField::global_stride, d, spec.strides[d]);
  }
  return std::string(reinterpret_cast<const char*>(&m), sizeof m);
}

bool map_at(Machine& machine, std::uint64_t address, const char* instruction, Map& map) {
  const std::uint64_t offset = address & ~window_mask;
  bool in_global = false;
  if (is_generic_of(param_base, address) && offset + sizeof map <= machine.program.parameters.size()) {
    std::memcpy(&map, machine.program.parameters.data() + offset, sizeof map);
  } else if ((address & window_mask) == 0 && address != 0 && !locate_global(machine, reinterpret_cast<void*>(address)).empty()) {
    read_global_bulk(machine, &map, reinterpret_cast<const void*>(address), map_bytes, instruction);
    in_global = true;
  }
  if (map.mark != Map::valid_mark || offset % 64 != 0) {
    FINDING(machine.report, invalid_argument, machine.self->site, "%s: %s takes %#llx, which is not the address of a tensor map%s",
            describe_self(machine).c_str(), instruction, static_cast<unsigned long long>(address),
            map.mark == Map::valid_mark ? " at a multiple of 64 bytes" : "");
    return false;
  }
  if (in_global) check_tensor_map_acquired(machine, reinterpret_cast<const void*>(address), instruction);
  const std::string wrong = complaint(map);
  if (wrong.empty()) return true;
  FINDING(machine.report, invalid_argument, machine.self->site, "%s: %s takes a tensor map that is invalid: %s",
          describe_self(machine).c_str(), instruction, wrong.c_str());
  return false;
}

}  // namespace autosched::emulator::ptx
