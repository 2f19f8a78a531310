// Host twin: barriers gather whole warps, then join their clocks (runtime/scheduler.cpp).
#pragma once

namespace autosched::ptx {

inline void barrier_sync(Site site = Site::current()) { emulator::barrier_sync(0, emulator::all_threads, site); }
inline void barrier_sync(int id, int threads, Site site = Site::current()) {
  emulator::barrier_sync(id, threads, site);
}
inline void barrier_arrive(int id, int threads, Site site = Site::current()) {
  emulator::barrier_arrive(id, threads, site);
}
inline void warp_sync(Site site = Site::current()) { emulator::warp_sync(site); }

}  // namespace autosched::ptx
