#include "memory/counting.hpp"

#include <algorithm>
#include <vector>

#include "machine.hpp"

namespace autosched::emulator {
namespace {

constexpr unsigned banks = 32;
constexpr unsigned bank_bytes = 4;
constexpr unsigned sector_bytes = 32;

struct Totals {
  const char* instruction = nullptr;
  int bytes = 0;
  std::uint64_t requests = 0;
  std::uint64_t cost = 0;   // wavefronts or sectors
  std::uint64_t ideal = 0;  // wavefronts without conflicts
};

// Distinct 4-byte words per bank; the largest number of any bank is what the phase costs.
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
  std::uint64_t words_[banks][64];  // 32 lanes, each of at most 2 words of one bank when misaligned
};

struct Request {
  std::uint32_t mask = 0;
  std::uint64_t address[warp_size];
};

void add_shared(Totals& totals, const Request& request) {
  const auto bytes = static_cast<unsigned>(totals.bytes);
  const unsigned lanes = bytes == 16 ? 8 : bytes == 8 ? 16 : 32;
  ++totals.requests;
  for (unsigned first = 0; first < warp_size; first += lanes) {
    Phase phase;
    bool any = false;
    for (unsigned lane = first; lane < first + lanes; ++lane) {
      if ((request.mask >> lane & 1u) == 0) continue;
      phase.add(request.address[lane], bytes);
      any = true;
    }
    if (!any) continue;
    totals.cost += phase.wavefronts();
    ++totals.ideal;
  }
}

void add_global(Totals& totals, const Request& request) {
  std::uint64_t sectors[2 * warp_size];
  unsigned count = 0;
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if ((request.mask >> lane & 1u) == 0) continue;
    const std::uint64_t address = request.address[lane];
    sectors[count++] = address / sector_bytes;
    sectors[count++] = (address + static_cast<unsigned>(totals.bytes) - 1) / sector_bytes;
  }
  if (!std::is_sorted(sectors, sectors + count)) std::sort(sectors, sectors + count);
  ++totals.requests;
  totals.cost += static_cast<std::uint64_t>(std::unique(sectors, sectors + count) - sectors);
}

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

Counter shared_counter, global_counter;

}  // namespace

void count_shared_request(SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses) {
  Request request;
  request.mask = lanes;
  std::copy_n(addresses, warp_size, request.address);
  add_shared(shared_counter.of(site, instruction, bytes), request);
}

void count_global_request(SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses) {
  Request request;
  request.mask = lanes;
  std::copy_n(addresses, warp_size, request.address);
  add_global(global_counter.of(site, instruction, bytes), request);
}

void count_shared_rows(SiteIndex site, const char* instruction, int bytes, const unsigned* rows, unsigned phases) {
  Totals& totals = shared_counter.of(site, instruction, bytes);
  ++totals.requests;
  for (unsigned p = 0; p < phases; ++p) {
    Phase phase;
    for (unsigned row = 0; row < 8; ++row) phase.add(rows[p * 8 + row], 16);
    totals.cost += phase.wavefronts();
    ++totals.ideal;
  }
}

void report_counts() {
  for (std::size_t i = 0; i < shared_counter.totals().size(); ++i) {
    const Totals& t = shared_counter.totals()[i];
    if (t.requests != 0) {
      report_shared(static_cast<SiteIndex>(i), t.instruction, t.bytes, t.requests, t.cost, t.ideal);
    }
  }
  for (std::size_t i = 0; i < global_counter.totals().size(); ++i) {
    const Totals& t = global_counter.totals()[i];
    if (t.requests != 0) report_global(static_cast<SiteIndex>(i), t.instruction, t.bytes, t.requests, t.cost);
  }
}

}  // namespace autosched::emulator
