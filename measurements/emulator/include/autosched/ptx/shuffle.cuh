// Host twin of shfl.sync (runtime/matrix.cpp).
#pragma once

namespace autosched::ptx {

inline unsigned shfl_bfly(unsigned value, int lane_mask, Site site = Site::current()) {
  return emulator::shuffle(emulator::Shuffle::butterfly, value, lane_mask, site);
}
inline unsigned shfl_down(unsigned value, int delta, Site site = Site::current()) {
  return emulator::shuffle(emulator::Shuffle::down, value, delta, site);
}
inline unsigned shfl_idx(unsigned value, int lane, Site site = Site::current()) {
  return emulator::shuffle(emulator::Shuffle::index, value, lane, site);
}

}  // namespace autosched::ptx
