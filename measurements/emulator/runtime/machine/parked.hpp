// Per-block state, which is saved while other blocks run.
#pragma once
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace autosched::emulator {

class ParkedBase;

// The list of all per-block variables of a machine.
struct Parking {
  std::vector<ParkedBase*> all;
};

// A per-block variable. It contains the state of the running blocks, which is swapped with the state in a slot when
// other blocks run (residents.cpp).
class ParkedBase {
 public:
  explicit ParkedBase(Parking& parking) { parking.all.push_back(this); }
  ParkedBase(const ParkedBase&) = delete;
  virtual void swap_with(unsigned slot) = 0;

 protected:
  ~ParkedBase() = default;
};

// Base class of components of the machine that have per-block variables.
struct Unit {
  explicit Unit(Parking& all) : parking(all) {}
  Parking& parking;
};

// Saved values of one variable, by slot. The value of the running blocks is in the variable itself.
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

// A variable with a separate value for each block.
template <class T>
class PerBlock final : public T, ParkedBase {
 public:
  explicit PerBlock(Parking& parking) : ParkedBase(parking) {}
  using T::operator=;
  void swap_with(unsigned slot) override { parked_.swap_with(slot, *this); }

 private:
  ParkedValues<T> parked_;
};

// Gives each block its own value of an existing variable. Used for numbers and pointers, because PerBlock cannot derive
// from these types.
template <class T>
class Parked final : ParkedBase {
 public:
  Parked(Parking& parking, T& current) : ParkedBase(parking), current_(current) {}
  void swap_with(unsigned slot) override { parked_.swap_with(slot, current_); }

 private:
  T& current_;
  ParkedValues<T> parked_;
};

// Creates a component of the machine (machine/part.hpp).
template <class T>
T& make_part(Parking& parking);

}  // namespace autosched::emulator
