// Registration of a part of the machine by the file that defines it. The header of the machine only declares its type.
#pragma once
#include <type_traits>

#include "machine/machine.hpp"

namespace autosched::emulator {

template <class T>
T& make_part(Parking& parking) {
  if constexpr (std::is_constructible_v<T, Parking&>) {
    return *new T(parking);
  } else {
    return *new T();
  }
}

}  // namespace autosched::emulator

// At the end of the file, outside of all namespaces.
#define AUTOSCHED_PART(TYPE) \
  template autosched::emulator::TYPE& autosched::emulator::make_part<autosched::emulator::TYPE>(autosched::emulator::Parking&)
