// What a block keeps while others run in its place.
#pragma once
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace autosched::emulator {

// What the blocks that run together have for themselves, and leave to others who run in their place (residents.cpp):
// each variable of this kind has one of these beside it, which keeps its values by slot.
class ParkedBase {
 public:
  ParkedBase() { all().push_back(this); }
  ParkedBase(const ParkedBase&) = delete;
  virtual void swap_with(unsigned slot) const = 0;
  static std::vector<const ParkedBase*>& all() {
    static std::vector<const ParkedBase*> list;
    return list;
  }

 protected:
  ~ParkedBase() = default;
};
template <class T>
class Parked final : ParkedBase {
 public:
  explicit Parked(T& current) : current_(current) {}
  void swap_with(unsigned slot) const override {
    if (slot >= values_.size()) values_.resize(slot + std::size_t{1});
    using std::swap;
    swap(current_, values_[slot]);
  }

 private:
  T& current_;
  mutable std::deque<T> values_;
};

}  // namespace autosched::emulator
