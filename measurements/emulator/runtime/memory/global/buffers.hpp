// The buffers of a launch, and their contents after its calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autosched::emulator {

struct Machine;

struct BufferSpec {
  enum class Role { input, output, workspace, variable, heap } role;  // the last two belong to the program, not to the launch
  std::string name;
  std::size_t bytes;
  unsigned element_bytes;
  bool zeroed;
  // For a sparse input: the floats are small integers, `bits` any bits except all ones
  // (measurements/emulator/sparse.py). `file`: the contents of the job's file of inputs from byte `seed` on.
  enum class Content { none, f16, bf16, f32, e4m3, e5m2, bits, file } content = Content::none;
  std::uint64_t seed = 0;
  void* address = nullptr;  // existing address in mapped memory of a program
  bool unset = false;       // a variable of the program that is undefined until it is written
  // For each byte, whether it is defined when the launch begins; nullptr: all are (`zeroed`), or none.
  unsigned char* defined = nullptr;
  struct Stretch {
    std::size_t first, end;
  };
  std::vector<Stretch> unknown;  // ranges of a program's memory that are undefined when the launch begins, ascending
};
// Allocates the buffers with guard zones; returns their addresses.
std::vector<void*> reserve_buffers(Machine& machine, const std::vector<BufferSpec>& specs);
// For each byte of a buffer with flags: bit 0 if it is defined now, bit 1 if the launch has written it, and from bit 2
// on how the launch has used it.
void flag_used_bytes(Machine& machine, std::size_t buffer, unsigned char* flags);
// Poisons undefined bytes of arrays; afterwards restores 0xFF in bytes that are still undefined.
void fill_unwritten(Machine& machine);
void clear_unwritten(Machine& machine);
// Digest of the values that the launch has written to variables other than the caller's arrays.
std::uint64_t digest_of_variables(Machine& machine);
// Copies the launch's writes from its copy of a program's memory back to it.
void keep_writes(Machine& machine);
// Writes the same as a list: addresses, lengths (8 bytes each) and bytes.
void list_writes(Machine& machine, int file);
// Reports the ranges of it that were undefined before and were not written.
void report_still_unknown(Machine& machine);
// Reports the launch's accesses to a program's memory.
void report_uses(Machine& machine);
// Checks that are only possible after a call: outputs that were not written, workspaces that must be zero again.
void check_after_call(Machine& machine);
// Resets outputs for the next call, and clears the records of writes to them and to workspaces. Everything else is
// unchanged.
void begin_call(Machine& machine);
// For a sparse launch: the pages of each output that were written. The format is the number of the buffer and of the
// ranges of elements (8 bytes each), the first element of each range (8), its number of elements (8), all elements, and
// for each the block that wrote it last (4; all ones: none).
void write_touched_outputs(Machine& machine, int file);
// "64 bytes after the end of `a`", for an address near a buffer; empty elsewhere.
std::string locate_global(Machine& machine, const void* address);

}  // namespace autosched::emulator
