// The session with `autosched run`: the connection, and the state of memory, modules and launches. Only files of this
// folder use this header; the replacements of libcudart and libcuda use core.hpp.
#pragma once
#include <deque>
#include <set>

#include "core.hpp"
#include "intervals.hpp"

namespace autosched::program {

class Session {
 public:
  Session();
  // Sends a message and returns the reply. Both are a length, followed by that many bytes.
  std::string ask(const std::string& text, const void* bytes = nullptr, std::size_t count = 0);

  std::recursive_mutex mutex;
  std::uint64_t begin = 0, next = 0, heap = 0, end = 0;
  std::size_t heap_limit = std::size_t{8} << 20;
  unsigned heap_resets = 0;
  bool heap_used = false;
  std::string name;
  std::map<std::string, std::uint64_t> numbers;
  std::map<std::uint64_t, Allocation> allocations;  // allocations by start address
  std::map<std::string, unsigned> counts;  // number of allocations by each function, for names such as "cudaMalloc#3"
  std::deque<Allocation> freed;  // the most recently freed allocations
  std::size_t used = 0;
  std::vector<Module*> modules;
  Intervals unwritten;  // bytes of device memory that were never written
  Intervals unknown;    // bytes that a launch computed from unwritten bytes
  // allocations from which the host has copied unwritten bytes; true: all bytes of the allocation were unwritten
  std::set<std::pair<std::uint64_t, bool>> copied_unwritten;
  std::map<std::uint64_t, std::string> textures;  // descriptions of textures, by handle
  std::uint64_t next_texture = 0x7e5700000001;
  int sticky = success;
  std::set<void*> overlappable;  // streams whose last operation is a kernel

 private:
  void put(const void* from, std::size_t count);
  void get(void* to, std::size_t count);
  int socket_ = -1;
};
Session& session();
using Lock = std::lock_guard<std::recursive_mutex>;

inline std::uint64_t number_of(const void* p) { return reinterpret_cast<std::uint64_t>(p); }
void make_known(std::uint64_t from, std::uint64_t to);  // records that memory has been written

}  // namespace autosched::program
