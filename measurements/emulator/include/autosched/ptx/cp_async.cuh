// Host twin: the bytes reach shared memory at the wait of the thread that copies (runtime/shared_memory.cpp).
#pragma once

namespace autosched::ptx {

template <int Bytes>
inline void cp_async_ca(unsigned shared, const void* global, int source_bytes, Site site = Site::current()) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async moves 4, 8 or 16 bytes");
  emulator::copy_async(shared, global, Bytes, source_bytes, site);
}
inline void cp_async_cg(unsigned shared, const void* global, int source_bytes, Site site = Site::current()) {
  emulator::copy_async(shared, global, 16, source_bytes, site);
}
inline void cp_async_commit_group(Site site = Site::current()) { emulator::commit_group(site); }
template <int Pending>
inline void cp_async_wait_group(Site site = Site::current()) {
  static_assert(Pending >= 0, "cp.async.wait_group takes the number of groups that may stay in flight");
  emulator::wait_group(Pending, site);
}

}  // namespace autosched::ptx
