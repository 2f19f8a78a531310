// cudaDeviceProp, whose field offsets differ between major releases (driver_types.h of CUDA 11.8, 12.8 and 13.0).
#pragma once
#include <algorithm>
#include <cstring>

#include "core.hpp"

namespace autosched::program {

enum class DeviceProperties { cuda11, cuda12, cuda13 };

// Writes one field after another, each aligned to its size as C does.
class FieldWriter {
 public:
  explicit FieldWriter(void* to) : to_(static_cast<char*>(to)) {}
  FieldWriter& number(std::uint64_t value) { return put(static_cast<int>(value)); }
  FieldWriter& numbers(std::initializer_list<int> values) {
    for (const int v : values) put(v);
    return *this;
  }
  FieldWriter& size(std::uint64_t value) { return put(static_cast<std::size_t>(value)); }
  void zeros_up_to(std::size_t end) { std::memset(to_ + at_, 0, end - at_); }
  FieldWriter& bytes(const char* from, std::size_t count, std::size_t room) {
    std::memset(to_ + at_, 0, room);
    std::memcpy(to_ + at_, from, std::min(count, room));
    at_ += room;
    return *this;
  }

 private:
  template <class T>
  FieldWriter& put(T value) {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    std::memcpy(to_ + at_, &value, sizeof value);
    at_ += sizeof value;
    return *this;
  }
  char* to_;
  std::size_t at_ = 0;
};

// From sm_80 on, at most three quarters of L2 can be set aside for persisting accesses (CUDA C++ Programming Guide, "L2
// Set-Aside Cache for Persisting Accesses"). The maximum size of an access policy window is the value of an A100.
inline int persisting_l2_bytes() { return fact("major") < 8 ? 0 : static_cast<int>(fact("l2_bytes") / 4 * 3); }
inline int policy_window_bytes() { return fact("major") < 8 ? 0 : 134213632; }

inline void fill_properties(void* to, DeviceProperties layout) {
  const bool old = layout != DeviceProperties::cuda13;  // clocks and modes, which CUDA 13 removed
  const int clock = static_cast<int>(fact("clock_khz"));
  FieldWriter w(to);
  w.bytes(device_name().c_str(), device_name().size(), 256).bytes("", 0, 16).bytes("", 0, 8).number(0);
  w.size(fact("memory_bytes")).size(48 * 1024).number(65536).number(32).size(0x7fffffff).number(1024);
  w.numbers({1024, 1024, 64, 0x7fffffff, 65535, 65535});
  if (old) w.number(static_cast<std::uint64_t>(clock));
  w.size(64 * 1024).number(fact("major")).number(fact("minor")).size(512).size(32);
  if (old) w.number(1);  // deviceOverlap
  w.number(fact("sm_count"));
  if (old) w.number(0);  // kernelExecTimeoutEnabled
  w.numbers({0, 1});     // integrated, canMapHostMemory
  if (old) w.number(0);  // computeMode
  w.numbers({131072, 32768, 131072, 65536, 32768, 32768, 131072, 65000, 2097120, 32768, 32768, 16384, 16384, 16384, 8192, 8192, 32768});
  w.numbers({32768, 32768, 2048, 32768, 32768, 2048, 32768, 2046, 32768, 131072, 65536, 16384, 16384, 16384, 32768, 2048});
  w.numbers({32768, 32768, 2048, 32768, 32768, 2046});
  w.size(512).numbers({1, 0, 0, 0, 0, 0, 3, 1});  // surfaceAlignment, concurrentKernels to unifiedAddressing
  if (old) w.number(static_cast<std::uint64_t>(clock));  // memoryClockRate
  w.number(5120).number(fact("l2_bytes")).numbers({persisting_l2_bytes()}).number(fact("max_threads_per_sm")).numbers({1, 1, 1});
  w.size(fact("shared_per_sm")).number(65536).numbers({1, 0, 0, 0});  // registers, managedMemory, the board
  if (old) w.number(2);  // singleToDoublePrecisionPerfRatio
  w.numbers({0, 1, 1, 1, 1});  // pageableMemoryAccess to cooperativeLaunch
  if (old) w.number(0);  // cooperativeMultiDeviceLaunch
  w.size(fact("shared_per_block")).numbers({0, 0}).number(fact("max_blocks_per_sm")).numbers({policy_window_bytes()});
  w.size(fact("reserved_shared_per_block"));
  if (layout == DeviceProperties::cuda11) return;
  w.numbers({1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}).number(fact("major") >= 9).number(0);
  w.zeros_up_to(layout == DeviceProperties::cuda13 ? 1008 : 1032);  // the size of the structure
}

}  // namespace autosched::program
