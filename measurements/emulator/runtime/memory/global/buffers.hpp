// The buffers of a launch: allocation, initial contents, and final contents.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autosched::emulator {

struct Machine;

struct BufferSpec {
  // variables and the heap belong to the program rather than to the launch
  enum class Role { input, output, workspace, variable, heap } role;
  std::string name;
  std::size_t bytes;
  unsigned element_bytes;
  bool zeroed;
  // How the content of an input is generated. Sparse launches (measurements/emulator/sparse.py) use f16 to e5m2 and
  // `bits`. f16 to e5m2: elements of this type that are small integers. `bits`: random bits, but no element is all
  // ones. `file`: the content begins at byte `seed` of the job's file of inputs.
  enum class Content { none, f16, bf16, f32, e4m3, e5m2, bits, file } content = Content::none;
  std::uint64_t seed = 0;
  void* address = nullptr;  // address of a buffer in the mapped memory of a program; nullptr for other buffers
  bool unset = false;       // a variable of the program that nothing has set yet
  // For each byte, whether it is defined when the launch begins. nullptr: all bytes are defined if `zeroed`, otherwise
  // no byte is defined.
  unsigned char* defined = nullptr;
  struct Stretch {
    std::size_t first, end;
  };
  // ranges of a program's memory that are undefined when the launch begins, in ascending order
  std::vector<Stretch> unknown;
};
// Allocates the buffers between guard zones. Returns their addresses.
std::vector<void*> reserve_buffers(Machine& machine, const std::vector<BufferSpec>& specs);
// Sets the flags of each byte of a buffer. Bit 0: the byte is defined now. Bit 1: the launch has written it. Bits 2 and
// higher: how the launch has accessed it.
void flag_used_bytes(Machine& machine, std::size_t buffer, unsigned char* flags);
// fill_unwritten poisons undefined bytes of arrays. After the launch, clear_unwritten sets bytes that are still
// undefined to 0xFF.
void fill_unwritten(Machine& machine);
void clear_unwritten(Machine& machine);
// Digest of the values that the launch has written to the kernel's variables.
std::uint64_t digest_of_variables(Machine& machine);
// Writes the launch's changes from its copy of the program's memory back to the program's memory.
void keep_writes(Machine& machine);
// Writes these changes as a list to a file: addresses, lengths (8 bytes each) and bytes.
void list_writes(Machine& machine, int file);
// Reports the ranges of the program's memory that were undefined before the launch and were not written.
void report_still_unknown(Machine& machine);
// Reports the launch's accesses to a program's memory.
void report_uses(Machine& machine);
// Checks that all outputs were written, and that the workspaces that must be zero after a call are zero again.
void check_after_call(Machine& machine);
// Prepares the next call: resets outputs, and clears the records of writes to outputs and workspaces.
void begin_call(Machine& machine);
// For a sparse launch: writes the pages of each output that the launch has written. Format:
// - the index of the buffer, and the number of ranges of elements (8 bytes each)
// - the first element of each range (8 bytes each), then the number of elements of each range (8 bytes each)
// - all elements of the ranges
// - for each element, the block that wrote it last (4 bytes; all bits are set if no block wrote it)
void write_touched_outputs(Machine& machine, int file);
// Describes an address in or near a buffer, such as "byte 64 of a, which has 32 bytes". Empty for other addresses.
std::string locate_global(Machine& machine, const void* address);

}  // namespace autosched::emulator
