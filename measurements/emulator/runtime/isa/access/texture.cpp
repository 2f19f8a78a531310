// tex, suld, sust and txq: PTX ISA 9.7.10 and 9.7.11; fetching as in the CUDA C++ Programming Guide, texture fetching.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "machine/part.hpp"
#include "isa/numbers/encodings.hpp"
#include "isa/access/memory.hpp"
#include "memory/counting.hpp"
#include "memory/global/memory.hpp"
#include "isa/access/texture.hpp"

namespace autosched::emulator::ptx {

// The textures of the launch.
struct Textures {
  std::unordered_map<std::uint64_t, Texture> by_handle;  // textures by handle
};

namespace {

// Returns the texture of a handle. If there is no such object, reports a finding and returns nullptr.
const Texture* texture_of(Machine& machine, std::uint64_t handle, const char* instruction) {
  const auto entry = machine.textures.by_handle.find(handle);
  if (entry != machine.textures.by_handle.end()) return &entry->second;
  FINDING(machine.report, invalid_argument, machine.self->site, "%s: %s of %#llx, which is not a texture or surface object",
          describe_self(machine).c_str(), instruction, static_cast<unsigned long long>(handle));
  return nullptr;
}

struct Texel {
  float f[4] = {};
  std::uint32_t i[4] = {};
};

const unsigned char* texel_address(const Texture& t, const std::int64_t at[3]) {
  return reinterpret_cast<const unsigned char*>(t.address) + static_cast<std::uint64_t>(at[2]) * t.slice +
         static_cast<std::uint64_t>(at[1]) * t.pitch + static_cast<std::uint64_t>(at[0]) * t.texel_bytes();
}

// Reads one texel, whose coordinates must be inside the texture.
Texel fetch(Machine& machine, const Texture& t, const std::int64_t at[3]) {
  unsigned char bytes[16] = {};
  read_global(machine, bytes, texel_address(t, at), static_cast<int>(t.texel_bytes()), "tex", true, false);
  Texel texel;
  texel.f[3] = 1.0f;  // missing channels are 0, and alpha is 1
  texel.i[3] = 1;
  for (unsigned c = 0; c < t.channels; ++c) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes + c * t.channel_bytes, t.channel_bytes);
    if (t.format == Texture::Format::floating) {
      if (t.channel_bytes == 2) {
        texel.f[c] = f32_of_f16(static_cast<std::uint16_t>(bits));
      } else {
        std::memcpy(&texel.f[c], &bits, sizeof bits);
      }
      std::memcpy(&texel.i[c], &texel.f[c], sizeof bits);
      continue;
    }
    const unsigned shift = 32 - 8 * t.channel_bytes;
    const auto value = static_cast<std::int32_t>(bits << shift) >> shift;
    const bool is_signed = t.format == Texture::Format::signed_integer;
    texel.i[c] = is_signed ? static_cast<std::uint32_t>(value) : bits;
    if (t.normalized_read) {
      const float largest = static_cast<float>((1u << (8 * t.channel_bytes - is_signed)) - 1);
      texel.f[c] = is_signed ? std::max(-1.0f, static_cast<float>(value) / largest) : static_cast<float>(bits) / largest;
    } else {
      std::memcpy(&texel.f[c], &texel.i[c], sizeof bits);
    }
  }
  return texel;
}

// Maps a coordinate according to the address mode; returns false if the texel has the border color.
bool inside(Texture::Mode mode, std::int64_t extent, std::int64_t& at) {
  if (at >= 0 && at < extent) return true;
  switch (mode) {
    case Texture::Mode::clamp: at = std::clamp<std::int64_t>(at, 0, extent - 1); return true;
    case Texture::Mode::wrap: at = ((at % extent) + extent) % extent; return true;
    case Texture::Mode::mirror: {
      const std::int64_t m = ((at % (2 * extent)) + 2 * extent) % (2 * extent);
      at = m < extent ? m : 2 * extent - 1 - m;
      return true;
    }
    default: return false;
  }
}

Texel border_of(const Texture& t) {
  Texel texel;
  for (unsigned c = 0; c < 4; ++c) {
    texel.f[c] = t.border[c];
    texel.i[c] = static_cast<std::uint32_t>(static_cast<std::int64_t>(t.border[c]));
  }
  return texel;
}

Texel texel_at(Machine& machine, const Texture& t, const std::int64_t at[3], unsigned dimensions) {
  std::int64_t texel[3] = {at[0], at[1], at[2]};
  for (unsigned d = 0; d < dimensions; ++d) {
    if (!inside(t.mode[d], t.extent[d], texel[d])) return border_of(t);
  }
  return fetch(machine, t, texel);
}

Texel sample(Machine& machine, const Texture& t, const float x[3], std::int64_t layer) {
  const unsigned dimensions = t.dimensions;
  std::int64_t low[3] = {0, 0, t.layered ? std::clamp<std::int64_t>(layer, 0, std::int64_t{t.extent[2]} - 1) : 0};
  float weight[3] = {};
  for (unsigned d = 0; d < dimensions; ++d) {
    const float at = t.normalized_coordinates ? x[d] * static_cast<float>(t.extent[d]) : x[d];
    if (!t.linear) {
      low[d] = static_cast<std::int64_t>(std::floor(at));
      continue;
    }
    const float shifted = at - 0.5f, floor = std::floor(shifted);
    low[d] = static_cast<std::int64_t>(floor);
    weight[d] = std::round((shifted - floor) * 256.0f) / 256.0f;  // weights have 8 fractional bits
  }
  if (!t.linear) return texel_at(machine, t, low, dimensions);
  Texel sum;
  for (unsigned corner = 0; corner < 1u << dimensions; ++corner) {
    std::int64_t at[3] = {low[0], low[1], low[2]};
    float share = 1.0f;
    for (unsigned d = 0; d < dimensions; ++d) {
      const bool upper = (corner >> d & 1u) != 0;
      at[d] += upper;
      share *= upper ? weight[d] : 1.0f - weight[d];
    }
    if (share == 0.0f) continue;
    const Texel texel = texel_at(machine, t, at, dimensions);
    for (unsigned c = 0; c < 4; ++c) sum.f[c] += share * texel.f[c];
  }
  for (unsigned c = 0; c < 4; ++c) std::memcpy(&sum.i[c], &sum.f[c], sizeof sum.i[c]);
  return sum;
}

// Sources: handle, coordinates (for a layered texture the layer first). Immediates: dimensions, whether there are
// layers, type of the coordinates (0: s32, 1: f32), type of the result (0: f32, 1: s32, 2: u32).
void fetch_texels(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto dimensions = static_cast<unsigned>(i.immediate[0]);
  const bool layered = i.immediate[1] != 0, floats = i.immediate[2] != 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    Texel texel;
    const Texture* t = texture_of(machine, w.values<std::uint64_t>(i.source(0))[k], "tex");
    if (t != nullptr && (t->dimensions != dimensions || t->layered != layered)) {
      FINDING(machine.report, invalid_argument, machine.self->site,
              "%s: the fetch does not match its texture: the texture has %u dimensions%s, the instruction %u%s",
              describe_self(machine).c_str(), t->dimensions,
              t->layered ? " and layers" : "", dimensions, layered ? " and a layer" : "");
      t = nullptr;
    }
    if (t != nullptr) {
      const std::int64_t layer = layered ? w.values<std::int32_t>(i.source(1))[k] : 0;
      float x[3] = {};
      std::int64_t at[3] = {0, 0, layer};
      for (unsigned d = 0; d < dimensions; ++d) {
        const std::uint32_t source = i.source(1 + layered + d);
        if (floats) {
          x[d] = w.values<float>(source)[k];
        } else {
          at[d] = w.values<std::int32_t>(source)[k];
        }
      }
      if (floats) {
        texel = sample(machine, *t, x, layer);
      } else {
        bool all = true;  // a fetch outside of linear memory returns 0
        for (unsigned d = 0; d < dimensions; ++d) all = all && at[d] >= 0 && at[d] < t->extent[d];
        if (all) texel = fetch(machine, *t, at);
      }
    }
    for (unsigned c = 0; c < i.destinations; ++c) {
      const bool reads_floats = i.immediate[3] == 0;
      std::uint32_t bits = texel.i[c];
      if (reads_floats) std::memcpy(&bits, &texel.f[c], sizeof bits);
      w.values<std::uint32_t>(i.destination(c))[k] = bits;
    }
  });
  for (unsigned d = 0; d < i.destinations; ++d) w.head(i.destination(d)).defined |= active;
}

// Returns the address of a surface access of `bytes` bytes, or nullptr if it is outside of the surface. With .trap, an
// access outside is also a finding.
unsigned char* surface_place(Warp& w, const Instruction& i, unsigned k, unsigned bytes, const char* name) {
  Machine& machine = *w.machine;
  const auto dimensions = static_cast<unsigned>(i.immediate[0]);
  const bool layered = i.immediate[1] != 0;
  const Texture* t = texture_of(machine, w.values<std::uint64_t>(i.source(0))[k], name);
  if (t == nullptr) return nullptr;
  std::int64_t at[3] = {0, 0, layered ? w.values<std::int32_t>(i.source(1))[k] : 0};
  for (unsigned d = 0; d < dimensions; ++d) at[d] = w.values<std::int32_t>(i.source(1 + layered + d))[k];
  const std::int64_t limits[3] = {std::int64_t{t->extent[0]} * t->texel_bytes() - bytes, std::int64_t{t->extent[1]} - 1,
                                  std::int64_t{t->extent[2]} - 1};
  for (unsigned d = 0; d < 3; ++d) {
    if (at[d] >= 0 && at[d] <= limits[d]) continue;
    if (i.immediate[3] == 1) {
      at[d] = std::clamp<std::int64_t>(at[d], 0, limits[d]);
      continue;
    }
    if (i.immediate[3] == 0) {
      FINDING(machine.report, out_of_bounds_global, machine.self->site,
              "%s: %s at (%lld bytes, %lld, %lld) of a surface of %u x %u x %u elements of %u bytes",
              describe_self(machine).c_str(), name, static_cast<long long>(at[0]), static_cast<long long>(at[1]),
              static_cast<long long>(at[2]), t->extent[0], t->extent[1], t->extent[2], t->texel_bytes());
    }
    return nullptr;
  }
  return reinterpret_cast<unsigned char*>(t->address) + static_cast<std::uint64_t>(at[2]) * t->slice +
         static_cast<std::uint64_t>(at[1]) * t->pitch + static_cast<std::uint64_t>(at[0]);
}

// Immediates: dimensions, whether there are layers, bytes per value, behaviour outside (0: trap, 1: clamp, 2: zero),
// number of coordinates.
void load_surface(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto each = static_cast<unsigned>(i.immediate[2]), bytes = each * i.destinations;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    alignas(16) unsigned char value[32] = {};
    const unsigned char* from = surface_place(w, i, k, bytes, "suld");
    if (from != nullptr) read_global(machine, value, from, static_cast<int>(bytes), "suld", false, false);
    for (unsigned d = 0; d < i.destinations; ++d) put(w, i, d, k, value + d * each, Datum{each});
  });
  for (unsigned d = 0; d < i.destinations; ++d) w.head(i.destination(d)).defined |= active;
}
void store_surface(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const unsigned first = 1 + static_cast<unsigned>(i.immediate[4]), values = i.sources - first;
  const auto each = static_cast<unsigned>(i.immediate[2]), bytes = each * values;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    alignas(16) unsigned char value[32] = {};
    for (unsigned s = 0; s < values; ++s) {
      std::memcpy(value + s * each, value_bytes(w, i.source(first + s), i.width_of_source(first + s), k), each);
    }
    unsigned char* to = surface_place(w, i, k, bytes, "sust");
    if (to != nullptr) write_global(machine, to, value, static_cast<int>(bytes), "sust", false);
  });
}

void query(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    const Texture* t = texture_of(machine, w.values<std::uint64_t>(i.source(0))[k], "txq");
    w.values<std::uint32_t>(i.destination(0))[k] = t == nullptr ? 0 : t->extent[i.immediate[0]];
  });
}

constexpr Row texture_table[] = {
    {"tex", fetch_texels, 0, "4444:8*", Flow::plain, true, true},
    {"suld", load_surface, 0, "*:8*", Flow::plain, true, true},
    {"sust", store_surface, 0, ":8*", Flow::plain, true},
    {"txq", query, 0, "4:8", Flow::plain, true},
};

}  // namespace

const Rows texture_rows{std::begin(texture_table), std::end(texture_table)};

Texture read_texture(std::istream& in) {
  Texture t{};
  char format = 0;
  unsigned mode[3] = {};
  in >> t.handle >> t.buffer >> t.address >> t.dimensions >> t.layered >> t.extent[0] >> t.extent[1] >> t.extent[2] >> t.pitch >>
      t.slice >> t.channels >> t.channel_bytes >> format >> t.normalized_read >> t.linear >> t.normalized_coordinates;
  for (unsigned& m : mode) in >> m;
  for (float& b : t.border) in >> b;
  for (unsigned d = 0; d < 3; ++d) t.mode[d] = static_cast<Texture::Mode>(mode[d] & 3u);
  t.format = format == 'f'   ? Texture::Format::floating
             : format == 'i' ? Texture::Format::signed_integer
                             : Texture::Format::unsigned_integer;
  return t;
}

void place_texture(Machine& machine, Texture texture, std::uint64_t buffer_address) {
  texture.address += buffer_address;
  machine.textures.by_handle[texture.handle] = texture;
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::Textures);
