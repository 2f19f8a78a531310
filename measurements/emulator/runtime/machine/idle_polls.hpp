// Whether anything happens while threads wait.
#pragma once
#include <cstdint>

namespace autosched::emulator {

// Turns that found a thread still waiting, since anything has happened at all: in this turn of the running blocks, and
// in all turns of all blocks.
class IdlePolls {
 public:
  void operator++() { ++count_, ++vain_; }
  void operator=(int) {
    count_ = vain_ = 0, ++progress_;
    met_ = false;
  }
  // Warps have met at a barrier, as those of a block also do in a loop that waits.
  void meet() { met_ = true; }
  bool met() const { return met_; }
  // Something has changed, if nothing that anybody has asked for.
  void move() { count_ = vain_ = 0; }
  operator std::uint64_t() const { return count_; }
  std::uint64_t vain() const { return vain_; }
  std::uint64_t progress() const { return progress_; }
  void begin_turn() { count_ = laps_ = 0; }
  // Of loops that ask nobody, but are long.
  void add_lap() { ++laps_; }
  std::uint64_t laps() const { return laps_; }

 private:
  std::uint64_t count_ = 0, vain_ = 0, progress_ = 0, laps_ = 0;
  bool met_ = false;
};

}  // namespace autosched::emulator
