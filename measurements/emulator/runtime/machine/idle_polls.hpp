// Counts polls without progress, to detect deadlocks.
#pragma once
#include <cstdint>

namespace autosched::emulator {

// Two counts of unsuccessful polls since the last progress. `vain_` counts the polls of all blocks. `count_` only
// counts polls since the running blocks were scheduled.
class IdlePolls {
 public:
  void operator++() { ++count_, ++vain_; }
  void operator=(int) {
    count_ = vain_ = 0, ++progress_;
    met_ = false;
  }
  // Called when warps have met at a barrier. This is not progress by itself, because a waiting loop may contain
  // barriers.
  void meet() { met_ = true; }
  bool met() const { return met_; }
  // Called if registers, or bytes of local, shared or global memory, have changed while threads poll. Resets both
  // counts, but does not count as progress.
  void move() { count_ = vain_ = 0; }
  operator std::uint64_t() const { return count_; }
  std::uint64_t vain() const { return vain_; }
  std::uint64_t progress() const { return progress_; }
  void begin_turn() { count_ = laps_ = 0; }
  // Called after many iterations of a loop that does not poll.
  void add_lap() { ++laps_; }
  std::uint64_t laps() const { return laps_; }

 private:
  std::uint64_t count_ = 0, vain_ = 0, progress_ = 0, laps_ = 0;
  bool met_ = false;
};

}  // namespace autosched::emulator
