// Counts polls without progress, to detect that waiting threads wait in vain.
#pragma once
#include <cstdint>

namespace autosched::emulator {

// Number of turns that found a thread still waiting since the last progress: in this turn of the running blocks, and in
// all turns of all blocks.
class IdlePolls {
 public:
  void operator++() { ++count_, ++vain_; }
  void operator=(int) {
    count_ = vain_ = 0, ++progress_;
    met_ = false;
  }
  // Warps have met at a barrier. This is no progress by itself, since warps in a waiting loop may do so too.
  void meet() { met_ = true; }
  bool met() const { return met_; }
  // Some state has changed, but none that a thread polls.
  void move() { count_ = vain_ = 0; }
  operator std::uint64_t() const { return count_; }
  std::uint64_t vain() const { return vain_; }
  std::uint64_t progress() const { return progress_; }
  void begin_turn() { count_ = laps_ = 0; }
  // For long loops that do not poll.
  void add_lap() { ++laps_; }
  std::uint64_t laps() const { return laps_; }

 private:
  std::uint64_t count_ = 0, vain_ = 0, progress_ = 0, laps_ = 0;
  bool met_ = false;
};

}  // namespace autosched::emulator
