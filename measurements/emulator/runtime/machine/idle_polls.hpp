// Counts polls without progress, to detect deadlocks.
#pragma once
#include <cstdint>

namespace autosched::emulator {

// Turns in which a thread was still waiting, since the last progress: in this turn of the running blocks, and in all
// turns of all blocks.
class IdlePolls {
 public:
  void operator++() { ++count_, ++vain_; }
  void operator=(int) {
    count_ = vain_ = 0, ++progress_;
    met_ = false;
  }
  // Called when warps have met at a barrier, which is not progress by itself, since warps in a waiting loop may do so,
  // too.
  void meet() { met_ = true; }
  bool met() const { return met_; }
  // Called when some state has changed that no thread polls.
  void move() { count_ = vain_ = 0; }
  operator std::uint64_t() const { return count_; }
  std::uint64_t vain() const { return vain_; }
  std::uint64_t progress() const { return progress_; }
  void begin_turn() { count_ = laps_ = 0; }
  // Called in long loops that do not poll.
  void add_lap() { ++laps_; }
  std::uint64_t laps() const { return laps_; }

 private:
  std::uint64_t count_ = 0, vain_ = 0, progress_ = 0, laps_ = 0;
  bool met_ = false;
};

}  // namespace autosched::emulator
