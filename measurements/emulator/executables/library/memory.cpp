// Memory of the emulated device: allocations, copies, undefined bytes, the heap of device code, and textures.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "order.hpp"
#include "session.hpp"
#include "work.hpp"

namespace autosched::program {

void make_known(std::uint64_t from, std::uint64_t to) {
  session().unwritten.remove(from, to);
  session().unknown.remove(from, to);
}

namespace {

constexpr std::size_t gap = std::size_t{1} << 20;  // unused bytes between allocations; any access to them is a finding
constexpr std::size_t alignment = 512;
constexpr std::size_t most_freed = 256;  // number of freed allocations that are remembered for messages

// Called after a copy to the host. If some of the copied bytes were never written on the device, sets them to 0xFF in
// the copy, so that a wrong result is noticeable. Reports the first such copy of an allocation.
void take_unwritten(void* to, const void* from, const std::vector<Intervals::Stretch>& unwritten) {
  Session& s = session();
  const Allocation* a = allocation_of(from);
  if (a == nullptr || a->kind != Allocation::Kind::device || unwritten.empty()) return;
  for (const auto& [begin, end] : unwritten) std::memset(static_cast<char*>(to) + (begin - number_of(from)), 0xff, end - begin);
  const bool all = s.unwritten.has_all(a->address, a->address + a->bytes);
  if (!s.copied_unwritten.insert({a->address, all}).second) return;
  std::ostringstream text;
  text << "unwritten " << all << " " << unwritten[0].first - a->address << " " << unwritten[0].second - a->address << " " << a->bytes << " "
       << running_stream_and_site() << " " << a->name;
  s.ask(text.str());
}
// Copies bytes with their undefined state. Only device memory keeps this state. A copy of undefined bytes to the host
// is reported.
void carry_unknown(void* to, const void* from, std::size_t bytes) {
  Session& s = session();
  const std::uint64_t begin = number_of(from), target = number_of(to);
  const auto unwritten = s.unwritten.in(begin, begin + bytes), unknown = s.unknown.in(begin, begin + bytes);
  const Allocation* a = allocation_of(to);
  const bool on_device = a != nullptr && a->kind == Allocation::Kind::device;
  if (!unknown.empty() && !on_device) s.ask("used");
  make_known(target, target + bytes);
  std::memmove(to, from, bytes);
  if (!on_device) return take_unwritten(to, from, unwritten);
  for (const auto& [first, end] : unwritten) s.unwritten.add(first - begin + target, end - begin + target);
  for (const auto& [first, end] : unknown) s.unknown.add(first - begin + target, end - begin + target);
}

}  // namespace

int limit_heap(std::size_t bytes) {
  Session& s = session();
  const Lock lock(s.mutex);
  if (s.heap_used) return failed(invalid_value);
  return s.heap_limit = bytes, success;
}
void reset_heap() {
  Session& s = session();
  const Lock lock(s.mutex);
  if (s.heap_used) ++s.heap_resets;
  s.heap_used = false;
}

void set_all(const Variable& v) {
  const Lock lock(session().mutex);
  make_known(v.address, v.address + v.bytes);
}

void use_unknown(std::uint64_t address, std::size_t bytes) {
  const Lock lock(session().mutex);
  if (!session().unknown.in(address, address + bytes).empty()) session().ask("used");
}

void* allocate(std::size_t bytes, Allocation::Kind kind, const char* function, bool pooled) {
  Session& s = session();
  const Lock lock(s.mutex);
  const std::size_t body = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  const bool on_device = kind != Allocation::Kind::host && kind != Allocation::Kind::variable;
  if (body + gap > s.heap - s.next || (on_device && s.used + bytes > s.numbers["memory_bytes"])) return nullptr;
  const std::uint64_t address = s.next + gap;
  s.next = address + body;
  std::string name = function;
  if (kind != Allocation::Kind::variable) name += "#" + std::to_string(++s.counts[function]);
  s.allocations[address] = {address, bytes, name, kind, pooled};
  if (kind == Allocation::Kind::device && s.numbers["undefined_memory"] != 0) s.unwritten.add(address, address + bytes);
  note_allocation(s.allocations[address]);
  if (on_device) s.used += bytes;
  return reinterpret_cast<void*>(address);
}

int release(const void* address, const char* function, bool in_stream_order) {
  Session& s = session();
  const Lock lock(s.mutex);
  if (address == nullptr) return success;
  const auto entry = s.allocations.find(number_of(address));
  if (entry == s.allocations.end() || entry->second.kind == Allocation::Kind::variable) {
    complain_misuse(std::string(function) + " of an address that was never allocated, or that was freed before");
    return failed(invalid_value);
  }
  const Allocation freed = entry->second;
  if (in_stream_order) {
    note_use(address, freed.bytes, use_write);
  } else if (!freed.pooled) {
    host_waits_for_device();
  }
  note_free(freed, in_stream_order);
  if (freed.kind != Allocation::Kind::host) s.used -= freed.bytes;
  s.allocations.erase(entry);
  make_known(freed.address, freed.address + freed.bytes);
  s.freed.push_back(freed);
  if (s.freed.size() > most_freed) s.freed.pop_front();
  // The address is never reused, so that later accesses are detected. The memory itself is returned to the operating
  // system.
  constexpr std::uint64_t page = 4096;
  const std::uint64_t from = (freed.address + page - 1) / page * page, to = (freed.address + freed.bytes) / page * page;
  if (to > from) madvise(reinterpret_cast<void*>(from), to - from, MADV_REMOVE);
  return success;
}

const Allocation* allocation_of(const void* address) {
  Session& s = session();
  auto after = s.allocations.upper_bound(number_of(address));
  if (after == s.allocations.begin()) return nullptr;
  const Allocation& a = (--after)->second;
  return number_of(address) < a.address + std::max<std::size_t>(a.bytes, 1) ? &a : nullptr;
}

std::size_t free_bytes() { return session().numbers["memory_bytes"] - session().used; }
bool in_arena(const void* address) { return number_of(address) >= session().begin && number_of(address) < session().end; }

bool check_range(const void* address, std::size_t bytes, const char* function) {
  if (bytes == 0 || !in_arena(address)) return true;
  const Allocation* a = allocation_of(address);
  if (a != nullptr && number_of(address) + bytes <= a->address + a->bytes) return true;
  std::ostringstream text;
  text << function << " of " << bytes << " bytes ";
  if (a == nullptr) {
    text << "at an address that is not allocated, or was freed";
  } else {
    text << "from byte " << number_of(address) - a->address << " of " << a->name << ", which has " << a->bytes;
  }
  complain_misuse(text.str());
  return false;
}

void end_overlaps() {
  const Lock lock(session().mutex);
  session().overlappable.clear();
}

int copy(void* to, const void* from, std::size_t bytes, int kind, const char* function) {
  const Operation operation(function);
  const Lock lock(session().mutex);
  session().overlappable.clear();
  if (session().sticky != success) return failed(session().sticky);
  if (bytes == 0) return success;
  if (to == nullptr || from == nullptr || kind < 0 || kind > 4) return failed(invalid_value);
  const bool to_device = kind == 1 || kind == 3, from_device = kind == 2 || kind == 3;
  if ((to_device && !in_arena(to)) || (from_device && !in_arena(from))) {
    complain_misuse(std::string(function) + ": the direction requires device memory, but the " +
                    (to_device && !in_arena(to) ? "destination" : "source") + " is host memory");
    return failed(invalid_value);
  }
  if (!check_range(to, bytes, function) || !check_range(from, bytes, function)) return failed(invalid_value);
  note_use(from, bytes, use_read);
  note_use(to, bytes, use_write);
  carry_unknown(to, from, bytes);
  return success;
}

int copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
              int kind, const char* function) {
  if (width > to_pitch || width > from_pitch) return failed(12);  // cudaErrorInvalidPitchValue
  const Operation operation(function);
  for (std::size_t row = 0; row < height; ++row) {
    const int error = copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width, kind, function);
    if (error != success) return error;
  }
  return success;
}

void read_on_device(void* to, const void* from, std::size_t bytes) {
  const Lock lock(session().mutex);
  session().overlappable.clear();
  note_use(from, bytes, use_read);
  carry_unknown(to, from, bytes);
}

int fill(void* to, int value, std::size_t bytes, const char* function) {
  const Operation operation(function);
  const Lock lock(session().mutex);
  session().overlappable.clear();
  if (session().sticky != success) return failed(session().sticky);
  if (bytes == 0) return success;
  if (!in_arena(to)) {
    complain_misuse(std::string(function) + " of memory that is not device memory");
    return failed(invalid_value);
  }
  if (!check_range(to, bytes, function)) return failed(invalid_value);
  note_use(to, bytes, use_write);
  make_known(number_of(to), number_of(to) + bytes);
  std::memset(to, value, bytes);
  return success;
}

std::uint64_t add_texture(const TextureView& t) {
  Session& s = session();
  const Lock lock(s.mutex);
  if (const Allocation* a = allocation_of(reinterpret_cast<const void*>(t.address))) use_unknown(a->address, a->bytes);
  unsigned channels = 0;
  while (channels < 4 && t.bits[channels] != 0) ++channels;
  std::ostringstream line;
  line << t.address << " " << t.dimensions << " " << t.layered << " " << t.extent[0] << " " << t.extent[1] << " " << t.extent[2] << " "
       << t.pitch << " " << t.slice << " " << channels << " " << t.bits[0] / 8 << " " << (t.kind == 2 ? 'f' : t.kind == 0 ? 'i' : 'u') << " "
       << t.normalized_read << " " << t.linear << " " << t.normalized_coordinates;
  for (const int mode : t.modes) line << " " << mode;
  for (const float b : t.border) line << " " << b;
  s.textures[s.next_texture] = line.str();
  return s.next_texture++;
}
void remove_texture(std::uint64_t handle) { session().textures.erase(handle); }

}  // namespace autosched::program
