// What the host twins of ptx/ call: the instructions of the emulated machine. One OS thread runs every CUDA thread
// as a fiber, so "the current thread" is a global. Implementation: measurements/emulator/runtime.
#pragma once
#include <source_location>

namespace autosched::emulator {

// Where an instruction stands in the kernel: the trailing default argument of every twin.
using Site = std::source_location;

struct Index3 {
  unsigned x, y, z;
};

// The built-in variables of the running CUDA thread.
struct BuiltIns {
  Index3 thread, block;
};
extern const BuiltIns* current;
extern Index3 block_size, grid_size;

// Barriers. id 0 with `all_threads` is bar.sync 0.
inline constexpr int all_threads = -1;
void barrier_sync(int id, int threads, Site site);
void barrier_arrive(int id, int threads, Site site);
void warp_sync(Site site);

// Shared memory, addressed in the 32-bit shared window.
unsigned shared_memory();
void* dynamic_shared();  // where a plain pointer finds what shared_memory() is the address of
unsigned shared_address_of(const void* static_variable, Site site);
void load_shared(void* to, unsigned address, int bytes, Site site);
void store_shared(unsigned address, const void* from, int bytes, Site site);

// cp.async: `bytes` are written, the first `source_bytes` of them from global memory, the others zero.
void copy_async(unsigned shared, const void* global, int bytes, int source_bytes, Site site);
void commit_group(Site site);
void wait_group(int pending, Site site);

// Global memory.
enum class GlobalLoad { read_only, l2 };
void load_global(void* to, const void* address, int bytes, GlobalLoad how, Site site);
void store_global(void* address, const void* from, int bytes, Site site);
unsigned atomic_add_u32(unsigned* address, unsigned value, Site site);
void fence_gpu(Site site);

// Lets the other threads go on before an instruction by which this one may wait for them, such as an atomic.
void take_turn(Site site);

// Operations of the lanes that `mask` names; exited lanes, and those that a short last warp lacks, are not waited for.
enum class LaneShuffle { up, down, butterfly, index };
unsigned long long shuffle_lanes(LaneShuffle mode, unsigned mask, unsigned long long value, int operand, int width,
                                 Site site);
unsigned vote(unsigned mask, bool predicate, Site site);
unsigned match_lanes(unsigned mask, unsigned long long value, Site site);
void sync_lanes(unsigned mask, Site site);
// The lanes that come to this place before any lane of the warp must wait for them.
unsigned active_lanes(Site site);
// Barrier 0 of the whole block: the number of threads for which `predicate` holds.
int barrier_count(bool predicate, Site site);

// Warp-wide.
enum class Shuffle { butterfly, down, index };
unsigned shuffle(Shuffle mode, unsigned value, int operand, Site site);
void ldmatrix(unsigned* registers, int matrices, bool transposed, unsigned address, Site site);

// Operand types of the tensor cores; tf32 is held as f32 bits.
enum class Multiplicand { f16, bf16, tf32 };
void mma_m16n8(Multiplicand type, float* d, const unsigned* a, const unsigned* b, Site site);
enum class WmmaOperand { a, b };
void wmma_load(Multiplicand type, WmmaOperand operand, bool row_major, unsigned* registers, unsigned address,
               unsigned stride, Site site);
void wmma_mma(Multiplicand type, bool a_row_major, bool b_row_major, float* d, const unsigned* a, const unsigned* b,
              Site site);
void wmma_store_d(unsigned address, const float* d, unsigned stride, Site site);

}  // namespace autosched::emulator

namespace autosched::ptx {
using emulator::Site;
}
