// Device functions: calls, returns and parameters. A parameter is stored like registers, with each lane's bytes
// contiguous.
#include <algorithm>

#include "interpreter/interpreter.hpp"
#include "isa/access/memory.hpp"
#include "isa/access/stack.hpp"
#include "isa/program.hpp"
#include "isa/values/undefined.hpp"
#include "memory/poison.hpp"
#include "memory/global/heap.hpp"

namespace autosched::emulator::ptx {
namespace {

constexpr std::size_t deepest = 4096;

// The bytes of a parameter in one lane, and which of their bits are known. An empty `known` means that all bits are
// known.
struct Passed {
  std::vector<unsigned char> bytes, known;
  SiteIndex origin = 0;
};
Passed take(Warp& w, std::uint32_t at, std::size_t size, unsigned lane, bool written = true) {
  const unsigned char* from = w.values<unsigned char>(at) + lane * size;
  Passed p{{from, from + size}, {}, 0};
  if (!written) {
    p.known.assign(size, 0);
  } else if (w.head(at).bits >> lane & 1u) {
    const unsigned char* known = w.known_at(at) + lane * size;
    p.known.assign(known, known + size);
    p.origin = w.head(at).origin;
  }
  return p;
}
void give(Warp& w, std::uint32_t at, std::size_t size, unsigned lane, const Passed& p) {
  const std::size_t passed = std::min(size, p.bytes.size());
  std::memcpy(w.values<unsigned char>(at) + lane * size, p.bytes.data(), passed);
  Register& r = w.head(at);
  r.defined |= 1u << lane;
  r.bits &= ~(1u << lane);
  if (p.known.empty()) return;
  unsigned char* known = w.known_at(at) + lane * size;
  std::memset(known, 0xff, size);
  std::memcpy(known, p.known.data(), passed);
  r.bits |= 1u << lane;
  r.origin = p.origin;
}

// True if the known bits of a register or a parameter must be looked up.
bool has_unknown(const Register& r, bool is_register, unsigned lane) {
  return ((is_register ? ~r.defined : r.bits) >> lane & 1u) != 0;
}

// Saves this lane's value of a register or a parameter before a recursive call. `restore` returns the position after
// the restored bytes.
void save(Warp& w, const Span& r, unsigned lane, std::vector<unsigned char>& to) {
  const Register& head = w.head(r.offset);
  const bool unknown = has_unknown(head, r.is_register, lane);
  to.push_back(static_cast<unsigned char>((head.defined >> lane & 1u) | (head.bits >> lane & 1u) << 1 | unsigned{unknown} << 2));
  const std::size_t column = std::size_t{lane} * r.bytes;
  const unsigned char* from = w.values<unsigned char>(r.offset) + column;
  to.insert(to.end(), from, from + r.bytes);
  if (unknown) to.insert(to.end(), w.known_at(r.offset) + column, w.known_at(r.offset) + column + r.bytes);
}
const unsigned char* restore(Warp& w, const Span& r, unsigned lane, const unsigned char* p) {
  const unsigned char flags = *p++;
  Register& head = w.head(r.offset);
  head.defined = (head.defined & ~(1u << lane)) | static_cast<Lanes>(flags & 1u) << lane;
  head.bits = (head.bits & ~(1u << lane)) | static_cast<Lanes>(flags >> 1 & 1u) << lane;
  const std::size_t column = std::size_t{lane} * r.bytes;
  std::memcpy(w.values<unsigned char>(r.offset) + column, p, r.bytes);
  if ((flags & 4u) == 0) return p + r.bytes;
  std::memcpy(w.known_at(r.offset) + column, p + r.bytes, r.bytes);
  return p + 2 * std::size_t{r.bytes};
}

void enter(Warp& w, std::uint32_t callee, unsigned lane, std::uint32_t call) {
  Machine& machine = *w.machine;
  const Function& f = machine.program.functions[callee];
  Activation a{call, callee, w.local_top[lane], w.local_base[lane][callee], {}};
  if (w.active_calls[lane][callee]++ != 0) {
    // In a recursive call, the function's registers are saved for this lane until the inner call returns.
    for (const Span& r : f.registers) save(w, r, lane, a.saved);
  }
  for (const Span& r : f.registers) {
    Register& head = w.head(r.offset);
    head.defined &= ~(1u << lane);
    if (machine.poison != 0) leave_poison(w, r, 1u << lane);
    if (!r.is_register) {
      head.bits &= ~(1u << lane);
      continue;
    }
    head.origin = 0;
    if (w.knows_parts) std::memset(w.known_at(r.offset) + std::size_t{lane} * r.bytes, 0, r.bytes);
  }
  const std::uint32_t base = (w.local_top[lane] + 15) / 16 * 16;
  w.local_base[lane][callee] = base;
  w.local_top[lane] = base + f.local_bytes;
  clear_local(machine, w.local[lane], base, w.local_top[lane]);
  w.calls[lane].push_back(std::move(a));
}

}  // namespace

// Immediates of a call: the function (-1: source 0 holds the function's address); the number of results; the offset and
// the size in bytes of each result; the same for the parameters.
void call(Warp& w, const Instruction& i, std::uint32_t pc, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::int64_t callee = i.immediate[0];
    if (callee < 0) {
      const std::uint64_t address = w.values<std::uint64_t>(i.source(0))[k];
      const auto known = std::find_if(machine.program.functions.begin(), machine.program.functions.end(),
                                      [address](const Function& f) { return (function_base | f.number) == address; });
      callee = known - machine.program.functions.begin();
      if (known == machine.program.functions.end()) {
        FINDING(machine.report, wrong_state_space, i.site, "%s calls %#llx, which is not the address of a function",
                describe_self(machine).c_str(), static_cast<unsigned long long>(address));
        w.pc[k] = pc + 1;
        return;
      }
    }
    const Function& f = machine.program.functions[static_cast<std::size_t>(callee)];
    if (w.calls[k].size() >= deepest) {
      stop_launch(machine, Kind::trap, i.site, "calls are nested more than 4096 deep");
    }
    // The arguments are read before the callee's frame is entered: in a recursive call, caller and callee share a
    // frame.
    const auto results = static_cast<unsigned>(i.immediate[1]);
    const std::int64_t* argument = i.immediate + 2 + 2 * results;
    const auto arguments = static_cast<unsigned>(*argument++);
    Passed passed[32];
    for (unsigned p = 0; p < arguments && p < 32; ++p) {
      passed[p] = take(w, static_cast<std::uint32_t>(argument[2 * p]), static_cast<std::size_t>(argument[2 * p + 1]), k);
    }
    enter(w, static_cast<std::uint32_t>(callee), k, pc);
    for (unsigned p = 0; p < arguments && p < f.parameters.size() && p < 32; ++p) {
      give(w, f.parameters[p].offset, f.parameters[p].bytes, k, passed[p]);
    }
    w.pc[k] = f.entry;
  });
}

void leave(Warp& w, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    Thread& t = w.thread[k];
    if (w.calls[k].empty()) {
      t.state = State::exited;
      return;
    }
    Activation a = std::move(w.calls[k].back());
    w.calls[k].pop_back();
    const Function& f = machine.program.functions[a.function];
    const Instruction& i = machine.program.code[a.call];
    const auto results = static_cast<unsigned>(i.immediate[1]);
    Passed passed[4];
    for (unsigned r = 0; r < results && r < f.results.size() && r < 4; ++r) {
      const bool written = (w.head(f.results[r].offset).defined >> k & 1u) != 0;
      passed[r] = take(w, f.results[r].offset, f.results[r].bytes, k, written);
    }
    if (--w.active_calls[k][a.function] != 0) {
      const unsigned char* p = a.saved.data();
      for (const Span& r : f.registers) p = restore(w, r, k, p);
    }
    shrink_local(w, k, a.local);
    w.local_base[k][a.function] = a.old_base;
    for (unsigned r = 0; r < results && r < 4; ++r) {
      give(w, static_cast<std::uint32_t>(i.immediate[2 + 2 * r]), static_cast<std::size_t>(i.immediate[3 + 2 * r]), k,
           passed[r]);
    }
    w.pc[k] = a.call + 1;
  });
}

namespace {

// ld.param and st.param of device functions. Immediates: the variable's offset in the register file, the variable's
// size in bytes, the access's offset in the variable, bytes per element, whether elements are signed. st.param has one
// more immediate: whether the variable is a result. A result is undefined until it is written.
std::size_t frame_offset(const Instruction& i, unsigned lane) {
  return static_cast<std::size_t>(static_cast<std::int64_t>(lane) * i.immediate[1] + i.immediate[2]);
}
void load_frame(Warp& w, const Instruction& i, Lanes active) {
  const auto at = static_cast<std::uint32_t>(i.immediate[0]);
  const Datum e{static_cast<unsigned>(i.immediate[3]), i.immediate[4] != 0};
  const Lanes unknown = active & w.head(at).bits;
  for_lanes(active, [&](unsigned k) {
    const unsigned char* from = w.values<unsigned char>(at) + frame_offset(i, k);
    for (unsigned d = 0; d < i.destinations; ++d) put(w, i, d, k, from + d * e.bytes, e);
  });
  for (unsigned d = 0; d < i.destinations; ++d) w.head(i.destination(d)).defined |= active & ~unknown;
  if (unknown == 0) return;
  for_lanes(unknown, [&](unsigned k) {
    const unsigned char* known = w.known_at(at) + frame_offset(i, k);
    for (unsigned d = 0; d < i.destinations; ++d) put_known(w, i, d, k, known + d * e.bytes, e, origin_of(w, at, i));
  });
}
void store_frame(Warp& w, const Instruction& i, Lanes active) {
  const auto at = static_cast<std::uint32_t>(i.immediate[0]);
  const auto element = static_cast<unsigned>(i.immediate[3]);
  Register& frame = w.head(at);
  if (i.immediate[5] != 0) {
    const Lanes fresh = active & ~frame.defined;
    if (fresh != 0 && i.sources * element < i.immediate[1]) {
      for_lanes(fresh, [&](unsigned k) {
        std::memset(w.known_at(at) + frame_offset(i, k) - i.immediate[2], 0, static_cast<std::size_t>(i.immediate[1]));
      });
      frame.bits |= fresh;
      w.knows_parts = true;
    }
    frame.defined |= active;
  }
  Lanes unknown = active & frame.bits;
  for (unsigned s = 0; s < i.sources; ++s) unknown |= active & ~w.head(i.source(s)).defined;
  for_lanes(active, [&](unsigned k) {
    for (unsigned s = 0; s < i.sources; ++s) {
      const unsigned width = i.width_of_source(s);
      std::memcpy(w.values<unsigned char>(at) + frame_offset(i, k) + s * element, value_bytes(w, i.source(s), width, k),
                  std::min(width, element));
    }
  });
  for (Lanes left = unknown; left != 0; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    if ((frame.bits >> k & 1u) == 0) {
      std::memset(w.known_at(at) + std::size_t{k} * static_cast<std::size_t>(i.immediate[1]), 0xff,
                  static_cast<std::size_t>(i.immediate[1]));
      frame.bits |= 1u << k;
      w.knows_parts = true;
    }
    for (unsigned s = 0; s < i.sources; ++s) {
      const unsigned width = i.width_of_source(s);
      const std::uint64_t known = known_bits(w, i.source(s), width, k);
      if (known != ones_of(width)) frame.origin = origin_of(w, i.source(s), i);
      std::memcpy(w.known_at(at) + frame_offset(i, k) + s * element, &known, std::min({width, element, 8u}));
    }
  }
}

// malloc and free. Immediates: the argument's offset in the register file and size in bytes, then the result's offset
// and size.
void allocate(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto from = static_cast<std::uint32_t>(i.immediate[0]), to = static_cast<std::uint32_t>(i.immediate[2]);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    if (w.head(from).bits >> k & 1u) report_undefined(w, i, origin_of(w, from, i), k);
    w.values<std::uint64_t>(to)[k] = heap_malloc(machine, w.values<std::uint64_t>(from)[k]);
    w.head(to).bits &= ~(1u << k);
  });
}
void release_allocation(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto from = static_cast<std::uint32_t>(i.immediate[0]);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    if (w.head(from).bits >> k & 1u) report_undefined(w, i, origin_of(w, from, i), k);
    heap_free(machine, w.values<std::uint64_t>(from)[k]);
  });
}

constexpr Row call_table[] = {
    {"heap.malloc", allocate, 0, ":", Flow::plain, false, true},
    {"heap.free", release_allocation, 0, ":", Flow::plain, false, true},
    {"ld.frame", load_frame, read_only | by_l2 | acquire | block_scope | is_volatile, "*:", Flow::plain, false, true},
    {"st.frame", store_frame, 0, ":*", Flow::plain, false, true},
};

}  // namespace

const Rows call_rows{std::begin(call_table), std::end(call_table)};

}  // namespace autosched::emulator::ptx
