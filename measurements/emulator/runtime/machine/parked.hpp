// What a block keeps while others run in its place.
#pragma once
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace autosched::emulator {

// What the blocks that run together have for themselves, and leave to others who run in their place (residents.cpp).
class ParkedBase {
 public:
  ParkedBase() { all().push_back(this); }
  ParkedBase(const ParkedBase&) = delete;
  virtual void swap_with(unsigned slot) = 0;
  static std::vector<ParkedBase*>& all() {
    static std::vector<ParkedBase*> list;
    return list;
  }

 protected:
  ~ParkedBase() = default;
};

// The values of one variable, by slot, but for the blocks that run, which have theirs in the variable.
template <class T>
class ParkedValues {
 public:
  void swap_with(unsigned slot, T& current) {
    if (slot >= values_.size()) values_.resize(slot + std::size_t{1});
    using std::swap;
    swap(current, values_[slot]);
  }

 private:
  std::deque<T> values_;
};

// A variable of which each block has its own.
template <class T>
class PerBlock final : public T, ParkedBase {
 public:
  using T::operator=;
  void swap_with(unsigned slot) override { parked_.swap_with(slot, *this); }

 private:
  ParkedValues<T> parked_;
};

// Makes a number or a pointer one of which each block has its own.
template <class T>
class Parked final : ParkedBase {
 public:
  explicit Parked(T& current) : current_(current) {}
  void swap_with(unsigned slot) override { parked_.swap_with(slot, current_); }

 private:
  T& current_;
  ParkedValues<T> parked_;
};

}  // namespace autosched::emulator
