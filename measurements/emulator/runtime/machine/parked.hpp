// State that a block saves while other blocks run in its slot.
#pragma once
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace autosched::emulator {

class ParkedBase;

// All per-block variables of a machine.
struct Parking {
  std::vector<ParkedBase*> all;
};

// Per-block state of the running blocks, which is swapped when other blocks run in their slot (residents.cpp).
class ParkedBase {
 public:
  explicit ParkedBase(Parking& parking) { parking.all.push_back(this); }
  ParkedBase(const ParkedBase&) = delete;
  virtual void swap_with(unsigned slot) = 0;

 protected:
  ~ParkedBase() = default;
};

// A part of the machine with separate values for each block.
struct Unit {
  explicit Unit(Parking& all) : parking(all) {}
  Parking& parking;
};

// Values of one variable by slot. The running blocks' values are in the variable itself.
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

// Makes a number or a pointer a per-block variable.
template <class T>
class Parked final : ParkedBase {
 public:
  Parked(Parking& parking, T& current) : ParkedBase(parking), current_(current) {}
  void swap_with(unsigned slot) override { parked_.swap_with(slot, current_); }

 private:
  T& current_;
  ParkedValues<T> parked_;
};

// Makes a part of the machine (machine/part.hpp).
template <class T>
T& make_part(Parking& parking);

}  // namespace autosched::emulator
