// What a block keeps while others run in its place.
#pragma once
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace autosched::emulator {

class ParkedBase;

// All variables of a machine of which each block has its own.
struct Parking {
  std::vector<ParkedBase*> all;
};

// What the blocks that run together have for themselves, and leave to others who run in their place (residents.cpp).
class ParkedBase {
 public:
  explicit ParkedBase(Parking& parking) { parking.all.push_back(this); }
  ParkedBase(const ParkedBase&) = delete;
  virtual void swap_with(unsigned slot) = 0;

 protected:
  ~ParkedBase() = default;
};

// A part of the machine in which each block has values of its own.
struct Unit {
  explicit Unit(Parking& all) : parking(all) {}
  Parking& parking;
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
  explicit PerBlock(Parking& parking) : ParkedBase(parking) {}
  using T::operator=;
  void swap_with(unsigned slot) override { parked_.swap_with(slot, *this); }

 private:
  ParkedValues<T> parked_;
};

// Makes a number or a pointer one of which each block has its own.
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
