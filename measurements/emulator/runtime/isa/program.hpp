// The bytecode of a launch: its code, its variables, and the initial values of registers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isa/ptx.hpp"
#include "memory/global/buffers.hpp"

namespace autosched::emulator::ptx {

// Start of the generic addresses of each state space. Buffers in global memory have their host addresses. For shared
// and local memory, the low word of the start is large, so that a generic address truncated to 32 bits is out of
// bounds.
constexpr std::uint64_t shared_base = std::uint64_t{1} << 60 | low_word_of_windows,
                        local_base = std::uint64_t{2} << 60 | low_word_of_windows, param_base = std::uint64_t{3} << 60,
                        function_base = std::uint64_t{4} << 60, window_mask = std::uint64_t{15} << 60;
// is_generic_of tests whether an address is a generic address of the state space that starts at `base`. offset_in
// returns the address's offset in this space.
constexpr bool is_generic_of(std::uint64_t base, std::uint64_t address) { return ((address ^ base) & window_mask) == 0; }
constexpr std::uint64_t offset_in(std::uint64_t base, std::uint64_t address) { return address - base; }

struct Program {
  std::vector<Instruction> code;
  std::vector<Function> functions;  // function 0 is the kernel
  std::uint32_t register_bytes = 0;
  std::uint32_t effects = 0, readings = 0, followed = 0;
  unsigned target = 0;  // target architecture, such as 90 for sm_90a
  std::uint32_t static_shared_bytes = 0;
  std::vector<unsigned char> parameters;  // kernel parameters, as ld.param reads them
  std::vector<Span> parameter_spans;
  bool perturb = false;  // results of approximate functions get the largest error that the PTX ISA allows
  bool uses_wgmma = false;
  bool uses_tcgen05 = false;
  bool uses_heap = false;
  bool truncates_tf32 = false;  // the kernel's compiler relies on the tensor core to drop the low bits of tf32 operands
  bool rounds_tf32 = false;     // some operands are rounded to tf32, so a missing rounding is a fault
  bool uses_grid_workspace = false;  // the kernel needs the workspace of this_grid().sync()
  std::uint64_t grid_workspace = 0;  // address of this workspace
  unsigned blocks_of_sm = 1;  // .minnctapersm: number of blocks that must fit on an SM and so share its registers
  Index3 cluster{0, 0, 0};  // __cluster_dims__; 0: unspecified
};

// Reads bytecode written by measurements/emulator/ptx/bytecode.py. Returns false, with a line on stderr, if the program
// needs something that the runtime does not support.
bool load_program(Machine& machine, const char* path);
// Sets the kernel's arguments, which are given as bytes. Returns false, with a line on stderr, if they do not fit the
// kernel's parameters.
bool set_arguments(Machine& machine, const std::vector<std::string>& bytes);
// Module-scope variables. They are allocated after the launch's buffers. A bound variable is not allocated, because it
// is itself a buffer of the launch.
void bind_variable(Machine& machine, const std::string& name);
void place_bound_variable(Machine& machine, const std::string& name, void* address);
std::vector<BufferSpec> variable_specs(Machine& machine);
void place_variables(Machine& machine, const std::vector<void*>& addresses);
// whether the address is in a __constant__ variable
bool is_in_constant_memory(Machine& machine, std::uint64_t address);
// expect_filled announces a later call of fill_variable, and must be called before variable_specs. fill_variable copies
// bytes from the host to the __constant__ variable `name`. It returns false, with a line on stderr, if the variable is
// too small. Variables that the kernel does not read are not in the bytecode; filling them has no effect.
void expect_filled(Machine& machine, const std::string& name);
bool fill_variable(Machine& machine, const std::string& name, const void* from, std::size_t bytes);
void fill_constants(Warp& warp);
void fill_special(Warp& warp);
bool is_constant(Machine& machine, std::uint32_t slot);  // whether the register at `slot` holds a constant number
std::optional<std::uint64_t> constant_number(Machine& machine, std::uint32_t slot);

}  // namespace autosched::emulator::ptx
