#include "machine/part.hpp"
#include "memory/counting.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "machine/machine.hpp"

namespace autosched::emulator {

// Counts of memory transactions by source site.
struct Counting {
  struct Totals {
    const char* instruction = nullptr;
    int bytes = 0;
    std::uint64_t requests = 0;
    std::uint64_t cost = 0;   // wavefronts or sectors
    std::uint64_t ideal = 0;  // wavefronts if there were no bank conflicts
    // unique: sectors whose last request was not by this block; fresh: sectors that no block has requested before
    std::uint64_t unique = 0, fresh = 0;
  };
  // A hash table of requested sectors, with the last block that requested each sector.
  class Sectors {
   public:
    // Records a request. Returns 0 if this block made the previous request for the sector, 1 if another block did, and
    // 2 if there was no previous request.
    int ask(std::uint64_t sector, std::uint32_t block) {
      if (2 * (used_ + 1) > slots_.size()) grow();
      Slot& slot = find(sector);
      const int answer = slot.block == 0 ? 2 : slot.block != block ? 1 : 0;
      used_ += slot.block == 0;
      slot = {sector, block};
      return answer;
    }

   private:
    struct Slot {
      std::uint64_t sector = 0;
      std::uint32_t block = 0;  // 0: unused entry
    };
    Slot& find(std::uint64_t sector) {
      std::size_t at = sector * 0x9e3779b97f4a7c15u >> shift_;
      while (slots_[at].block != 0 && slots_[at].sector != sector) at = (at + 1) & (slots_.size() - 1);
      return slots_[at];
    }
    void grow() {
      std::vector<Slot> old(std::max<std::size_t>(2 * slots_.size(), 1 << 12));
      old.swap(slots_);
      shift_ = 64 - static_cast<unsigned>(__builtin_ctzll(slots_.size()));
      for (const Slot& s : old) {
        if (s.block != 0) find(s.sector) = s;
      }
    }
    std::vector<Slot> slots_;
    std::size_t used_ = 0;
    unsigned shift_ = 0;
  };
  class Counter {
   public:
    Totals& of(SiteIndex site, const char* instruction, int bytes) {
      if (site >= totals_.size()) totals_.resize(site + 64u);
      Totals& totals = totals_[site];
      if (totals.instruction == nullptr) {
        totals.instruction = instruction;
        totals.bytes = bytes;
      }
      return totals;
    }
    const std::vector<Totals>& totals() const { return totals_; }

   private:
    std::vector<Totals> totals_;
  };
  Sectors requested_sectors;
  std::uint32_t counted_block = 0;
  Reached reached = Reached::shared;
  Counter shared_counter, global_counter;
};

namespace {
using Totals = Counting::Totals;
using Sectors = Counting::Sectors;
using Counter = Counting::Counter;

constexpr unsigned banks = 32;
constexpr unsigned bank_bytes = 4;
constexpr unsigned sector_bytes = 32;

// One phase of a shared-memory request. Its cost is the largest number of distinct 4-byte words in any bank.
class Phase {
 public:
  void add(std::uint64_t address, unsigned bytes) {
    for (std::uint64_t word = address / bank_bytes; word <= (address + bytes - 1) / bank_bytes; ++word) {
      const unsigned bank = word % banks;
      bool known = false;
      for (unsigned i = 0; i < count_[bank]; ++i) known = known || words_[bank][i] == word;
      if (!known) words_[bank][count_[bank]++] = word;
    }
  }
  unsigned wavefronts() const { return *std::max_element(count_, count_ + banks); }

 private:
  unsigned count_[banks] = {};
  std::uint64_t words_[banks][64];  // at most 2 words of one bank for each of 32 lanes, if addresses are misaligned
};

void add_shared(Totals& totals, std::uint32_t mask, const std::uint64_t* addresses) {
  const auto bytes = static_cast<unsigned>(totals.bytes);
  const unsigned lanes = bytes == 16 ? 8 : bytes == 8 ? 16 : 32;
  ++totals.requests;
  for (unsigned first = 0; first < warp_size; first += lanes) {
    Phase phase;
    bool any = false;
    for (unsigned lane = first; lane < first + lanes; ++lane) {
      if ((mask >> lane & 1u) == 0) continue;
      phase.add(addresses[lane], bytes);
      any = true;
    }
    if (!any) continue;
    totals.cost += phase.wavefronts();
    ++totals.ideal;
  }
}

// True if all 32 lanes are active and access consecutive addresses.
bool is_one_stretch(std::uint32_t lanes, const std::uint64_t* addresses, unsigned bytes) {
  if (lanes != ~0u) return false;
  std::uint64_t different = 0;  // tested only after the loop, so that compilers vectorise it
  for (unsigned lane = 0; lane < warp_size; ++lane) different |= addresses[lane] ^ (addresses[0] + std::uint64_t{lane} * bytes);
  return different == 0;
}

void add_global(Machine& machine, Totals& totals, std::uint32_t lanes, const std::uint64_t* addresses) {
  const auto bytes = static_cast<unsigned>(totals.bytes);
  ++totals.requests;
  if (!machine.launch.count && is_one_stretch(lanes, addresses, bytes)) {
    totals.cost += (addresses[warp_size - 1] + bytes - 1) / sector_bytes - addresses[0] / sector_bytes + 1;
    return;
  }
  std::uint64_t sectors[2 * warp_size];
  unsigned count = 0;
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if ((lanes >> lane & 1u) == 0) continue;
    sectors[count++] = addresses[lane] / sector_bytes;
    sectors[count++] = (addresses[lane] + bytes - 1) / sector_bytes;
  }
  if (!std::is_sorted(sectors, sectors + count)) std::sort(sectors, sectors + count);
  const std::uint64_t* const end = std::unique(sectors, sectors + count);
  totals.cost += static_cast<std::uint64_t>(end - sectors);
  if (!machine.launch.count) return;
  machine.counting.reached = std::max(machine.counting.reached, Reached::l1);
  for (const std::uint64_t* s = sectors; s != end; ++s) {
    const int answer = machine.counting.requested_sectors.ask(*s, machine.counting.counted_block);
    totals.unique += answer != 0;
    totals.fresh += answer == 2;
    if (answer != 0) machine.counting.reached = Reached::memory;
  }
}

}  // namespace

void count_shared_request(Machine& machine, SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses) {
  add_shared(machine.counting.shared_counter.of(site, instruction, bytes), lanes, addresses);
}

void count_global_request(Machine& machine, SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses) {
  add_global(machine, machine.counting.global_counter.of(site, instruction, bytes), lanes, addresses);
}

Reached take_reached(Machine& machine) { return std::exchange(machine.counting.reached, Reached::shared); }
void begin_block_counts(Machine& machine) { ++machine.counting.counted_block; }

void count_constant_request(Machine& machine, SiteIndex site, int bytes, std::uint32_t lanes, const std::uint64_t* addresses) {
  Totals& totals = machine.counting.global_counter.of(site, "ld.const", bytes);
  ++totals.requests;
  std::uint64_t different[warp_size];
  unsigned count = 0;
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if ((lanes >> lane & 1u) == 0) continue;
    if (std::find(different, different + count, addresses[lane]) == different + count) different[count++] = addresses[lane];
  }
  totals.cost += count;
  machine.counting.reached = std::max(machine.counting.reached, Reached::constant);
}

void count_shared_rows(Machine& machine, SiteIndex site, const char* instruction, int bytes, const unsigned* rows,
                       unsigned phases) {
  Totals& totals = machine.counting.shared_counter.of(site, instruction, bytes);
  ++totals.requests;
  for (unsigned p = 0; p < phases; ++p) {
    Phase phase;
    for (unsigned row = 0; row < 8; ++row) phase.add(rows[p * 8 + row], 16);
    totals.cost += phase.wavefronts();
    ++totals.ideal;
  }
}

void report_counts(Machine& machine) {
  for (std::size_t i = 0; i < machine.counting.shared_counter.totals().size(); ++i) {
    const Totals& t = machine.counting.shared_counter.totals()[i];
    if (t.requests != 0) {
      report_shared(machine.report, static_cast<SiteIndex>(i), t.instruction, t.bytes, t.requests, t.cost, t.ideal);
    }
  }
  for (std::size_t i = 0; i < machine.counting.global_counter.totals().size(); ++i) {
    const Totals& t = machine.counting.global_counter.totals()[i];
    if (t.requests != 0) {
      report_global(machine.report, static_cast<SiteIndex>(i), t.instruction, t.bytes, t.requests, t.cost, t.unique, t.fresh);
    }
  }
}

}  // namespace autosched::emulator

AUTOSCHED_PART(Counting);
