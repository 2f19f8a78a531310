// Tensor memory (PTX ISA 9.7.16.1): 128 lanes by 512 columns of 32 bits for each block, which only tcgen05 instructions
// reach. They are asynchronous: its shadow says who has written and read what, and reports what nothing orders.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace autosched::emulator {

constexpr unsigned tensor_lanes = 128, tensor_columns = 512, quarter_lanes = 32, tensor_quarters = 4;

// What executes asynchronously, in the order in which it was issued: the products and copies of a thread, or the loads,
// or the stores, of a warp. Operation n is done when the actor's epoch of that number is.
struct TensorActor {
  unsigned actor = 0;
  Who issuer = 0;             // a thread, or a warp
  bool commits = false;       // tcgen05.commit tells others of the end, and is a fence before it
  std::uint32_t issued = 0;   // operations
  Epoch fenced = 0;           // operations up to this one are behind a tcgen05.fence::before_thread_sync
};
enum class TensorWork { products, loads, stores };
TensorActor& tensor_actor(Machine& machine, Who issuer, TensorWork work);

struct TensorUse {
  Epoch epoch = 0;
  Who who = 0;                // the actor
  SiteIndex site = 0;
  std::uint32_t shape = 0;    // of a product: those of one shape that follow each other need no wait in between
};
// The next operation of an actor, by self at self->site.
TensorUse issue_tensor_work(Machine& machine, TensorActor& actor, std::uint32_t shape = 0);
// Of all that an actor has issued.
inline Epoch last_tensor_epoch(Machine& machine, const TensorActor& a) { return machine.clocks.first + a.issued - 1; }

struct TensorAllocation {
  unsigned column, columns;
  SiteIndex site;
};

struct TensorMemory {
  struct Cell {  // a column of 32 lanes
    std::uint32_t defined = 0;     // lanes
    TensorUse write;
    std::vector<TensorUse> reads;  // since the write, the newest of each actor
  };
  std::vector<std::uint32_t> words;  // [column][lane]
  std::vector<Cell> cells;           // [column][quarter]
  std::vector<TensorAllocation> allocations;
  unsigned least = tensor_columns;   // columns of the smallest allocation so far: no later one may be larger
  bool relinquished = false;

  std::uint32_t& word(unsigned column, unsigned lane) { return words[column * tensor_lanes + lane]; }
  Cell& cell(unsigned column, unsigned quarter) { return cells[column * tensor_quarters + quarter]; }
};
TensorMemory& tensor_memory(Machine& machine, unsigned rank);  // of a block of the cluster
void start_block_tensor_memory(Machine& machine);
void end_block_tensor_memory(Machine& machine);  // a finding where something was not freed

// Whether all columns are there and allocated; a finding at self->site where not.
bool check_tensor_columns(Machine& machine, unsigned rank, unsigned column, unsigned columns, const char* name);
// What `use` reads or writes, on behalf of `me`: a finding at self->site where nothing orders it with what others have begun.
// The lanes of a read that were never written.
std::uint32_t read_tensor_cell(Machine& machine, unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes,
                               const TensorUse& use, Who me, const char* name);
void write_tensor_cell(Machine& machine, unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes,
                       const TensorUse& use, Who me, const char* name);
void report_undefined_tensor_memory(Machine& machine, unsigned column, Who me, const char* name);
// A finding where something that was begun in these columns may be unfinished, as far as `me` knows.
void check_tensor_columns_idle(Machine& machine, unsigned rank, unsigned column, unsigned columns, Who me, const char* name);

// tcgen05.fence of some lanes of a warp.
void fence_before_thread_sync(Machine& machine, unsigned warp);
void fence_after_thread_sync(Machine& machine, unsigned warp, std::uint32_t lanes, bool whole);

}  // namespace autosched::emulator
