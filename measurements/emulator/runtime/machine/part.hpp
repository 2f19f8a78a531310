// AUTOSCHED_PART defines how a component of the machine is created. It is used by the file that defines the component's
// type, which machine.hpp only declares.
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

// Use this macro at the end of the file, outside of all namespaces.
#define AUTOSCHED_PART(TYPE) \
  template autosched::emulator::TYPE& autosched::emulator::make_part<autosched::emulator::TYPE>(autosched::emulator::Parking&)
