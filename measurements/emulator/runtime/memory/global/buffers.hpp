// The buffers of a launch, and what its calls leave in them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autosched::emulator {

struct Machine;

struct BufferSpec {
  enum class Role { input, output, workspace, variable, heap } role;  // the last two: of the program, not of the launch
  std::string name;
  std::size_t bytes;
  unsigned element_bytes;
  bool zeroed;
  // Of a sparse input: the floats are small integers, `bits` any bits but all ones (measurements/emulator/sparse.py).
  // `file`: what the job's file of inputs holds from byte `seed` on.
  enum class Content { none, f16, bf16, f32, e4m3, e5m2, bits, file } content = Content::none;
  std::uint64_t seed = 0;
  void* address = nullptr;  // where it lies already, in memory that others have mapped
  bool unset = false;       // a variable of the program that has no value of its own, until something writes it
  // Of each byte, whether it holds a value when the launch begins; nullptr: all do (`zeroed`), or none.
  unsigned char* defined = nullptr;
  struct Stretch {
    std::size_t first, end;
  };
  std::vector<Stretch> unknown;  // of a program's memory: bytes that hold no value when the launch begins, ascending
};
// Reserves the buffers with guard zones; returns their addresses.
std::vector<void*> reserve_buffers(Machine& machine, const std::vector<BufferSpec>& specs);
// Of each byte of a buffer with such flags: bit 0 where it holds a value now, bit 1 where the launch has written it, and from
// bit 2 on how the launch has used it.
void flag_used_bytes(Machine& machine, std::size_t buffer, unsigned char* flags);
// Garbage where arrays hold no value yet; and the bytes of 0xFF again where they still hold none.
void fill_unwritten(Machine& machine);
void clear_unwritten(Machine& machine);
// A number of what the launch has written to variables that are no arrays of the caller: equal where it left the same there.
std::uint64_t digest_of_variables(Machine& machine);
// What the launch has written in a copy of a program's memory goes there.
void keep_writes(Machine& machine);
// The same as a list: addresses, lengths (8 bytes each) and bytes.
void list_writes(Machine& machine, int file);
// The bytes there that held no value before, and that nobody has written.
void report_still_unknown(Machine& machine);
// How the launch has used a program's memory.
void report_uses(Machine& machine);
// What can only be seen after a call: outputs that nobody wrote, workspaces that must be zero again.
void check_after_call(Machine& machine);
// The next call finds outputs as the first one did, and nothing that anybody has written in them and in workspaces; all
// else is as it was left.
void begin_call(Machine& machine);
// Of a sparse launch: the pages of each output that were written. They are the number of the buffer and that of the stretches
// of elements (8 bytes each), the first element of each stretch (8), how many it has (8), the elements of all, and for each
// the block that wrote it last (4; all ones: none).
void write_touched_outputs(Machine& machine, int file);
// "64 bytes after the end of `a`", for an address near a buffer; empty elsewhere.
std::string locate_global(Machine& machine, const void* address);

}  // namespace autosched::emulator
