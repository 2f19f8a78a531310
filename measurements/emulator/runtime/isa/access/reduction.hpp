// Operations of bulk reductions and red.async on the elements of an array.
#pragma once
#include <cstdint>

namespace autosched::emulator {
struct Machine;
}

namespace autosched::emulator::ptx {

// The order is that of _KINDS in measurements/emulator/runner_files.py.
enum class ElementKind : std::uint8_t { unsigned_integer, signed_integer, f16, bf16, f32, f64 };

struct Reducing {
  // The order must equal the order of _REDUCTIONS in measurements/emulator/ptx/families/asynchronous.py.
  enum class Operation : std::uint8_t { add, min, max, inc, dec, both, either, differ } operation;
  ElementKind kind;
  unsigned bytes;  // per element
};

// Combines the elements at `to` and `from`, and writes the result to `to`.
void reduce(unsigned char* to, const unsigned char* from, Reducing r);
// Reduces an array of `bytes` bytes into global memory. Each element is updated atomically.
void reduce_global(Machine& machine, std::uint64_t to, const unsigned char* from, std::uint32_t bytes, Reducing r,
                   const char* name);

}  // namespace autosched::emulator::ptx
