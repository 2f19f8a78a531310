// Propagates undefined bits through instructions, and reports decisions that depend on them. The rules are from
// valgrind's memcheck (Seward and Nethercote, "Using Valgrind to detect undefined value errors with bit-precision",
// USENIX 2005). Bitwise instructions propagate single bits. In a sum, all bits from the lowest unknown bit on are
// unknown. The result of other instructions is completely unknown.
#include "machine/part.hpp"
#include "isa/numbers/bits.hpp"
#include "isa/program.hpp"
#include "isa/values/undefined.hpp"
#include "memory/poison.hpp"
#include "memory/uninitialized.hpp"
#include "memory/watched_reads.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace autosched::emulator::ptx {

// Records reads of memory that was never written, and branches whose condition is undefined. If the paths of such a
// branch only write registers, the contents of these registers become undefined.
struct UnknownValues {
  // The registers whose contents depend on a branch. ``end``: the instruction at which both paths meet; 0 if a path does
  // more than write registers.
  struct Choice {
    std::size_t end = 0;
    std::vector<std::pair<std::uint32_t, unsigned>> chosen;  // registers that a path writes, and their widths
  };
  std::unordered_map<SiteIndex, Uninitialized> uninitialized;  // the first undefined read at each site
  std::unordered_map<const Instruction*, Choice> choices;  // decision of each branch instruction
};

namespace {
using Choice = UnknownValues::Choice;

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Computes which bits of the first destination are known in a lane.
using Known = u64 (*)(Warp&, const Instruction&, unsigned lane);

u64 known(Warp& w, const Instruction& i, unsigned source, unsigned lane) {
  return known_bits(w, i.source(source), i.width_of_source(source), lane);
}
u64 value(Warp& w, const Instruction& i, unsigned source, unsigned lane) {
  return read_bits(w, i.source(source), i.width_of_source(source), lane);
}
bool knows(Warp& w, const Instruction& i, unsigned source, unsigned lane, u64 bits = ~u64{0}) {
  return (~known(w, i, source, lane) & ones_of(i.width_of_source(source)) & bits) == 0;
}

u64 known_of_not(Warp& w, const Instruction& i, unsigned k) { return known(w, i, 0, k); }
u64 known_of_and(Warp& w, const Instruction& i, unsigned k) {
  const u64 a = known(w, i, 0, k), b = known(w, i, 1, k);
  return (a & b) | (a & ~value(w, i, 0, k)) | (b & ~value(w, i, 1, k));
}
u64 known_of_or(Warp& w, const Instruction& i, unsigned k) {
  const u64 a = known(w, i, 0, k), b = known(w, i, 1, k);
  return (a & b) | (a & value(w, i, 0, k)) | (b & value(w, i, 1, k));
}
u64 known_of_xor(Warp& w, const Instruction& i, unsigned k) { return known(w, i, 0, k) & known(w, i, 1, k); }

// A result bit is known if all entries of the truth table that match the known source bits are equal.
u64 known_of_lop3(Warp& w, const Instruction& i, unsigned k) {
  u64 zero = 0, one = 0;
  for (unsigned row = 0; row < 8; ++row) {
    u64 possible = ~u64{0};
    for (unsigned s = 0; s < 3; ++s) {
      const u64 v = value(w, i, s, k), unknown = ~known(w, i, s, k);
      possible &= unknown | (row >> (2 - s) & 1u ? v : ~v);
    }
    (i.immediate[0] >> row & 1 ? one : zero) |= possible;
  }
  return ~(zero & one);
}

u64 known_of_shl(Warp& w, const Instruction& i, unsigned k) {
  const u64 a = known(w, i, 0, k), n = value(w, i, 1, k);
  if (!knows(w, i, 1, k)) return 0;
  return n >= 8 * i.width_of_source(0) ? ~u64{0} : a << n | ((u64{1} << n) - 1);
}
u64 known_of_shr(Warp& w, const Instruction& i, unsigned k) {
  const unsigned bits = 8 * i.width_of_source(0);
  const u64 a = known(w, i, 0, k), n = value(w, i, 1, k);
  if (!knows(w, i, 1, k)) return 0;
  const bool fills = !std::string_view(i.row->name).starts_with("shr.s") || (a >> (bits - 1) & 1u) != 0;
  if (n >= bits) return fills ? ~u64{0} : 0;
  return a >> n | (fills ? ~(ones_of(i.width_of_source(0)) >> n) : 0);
}
u64 known_of_shf(Warp& w, const Instruction& i, unsigned k) {
  if (!knows(w, i, 2, k)) return 0;
  const auto a = static_cast<u32>(known(w, i, 0, k)), b = static_cast<u32>(known(w, i, 1, k)),
             n = static_cast<u32>(value(w, i, 2, k));
  const std::string_view name = i.row->name;
  const bool left = name.starts_with("shf.l"), clamp = name.find("clamp") != name.npos;
  if (left) return clamp ? funnel<true, true>(a, b, n) : funnel<true, false>(a, b, n);
  return clamp ? funnel<false, true>(a, b, n) : funnel<false, false>(a, b, n);
}
u64 known_of_prmt(Warp& w, const Instruction& i, unsigned k) {
  if (!knows(w, i, 2, k, i.immediate[0] == 0 ? 0xffffu : 3u)) return 0;
  return permute(static_cast<u32>(known(w, i, 0, k)), static_cast<u32>(known(w, i, 1, k)),
                 static_cast<u32>(value(w, i, 2, k)), i.immediate[0]);
}
u64 known_of_bfe(Warp& w, const Instruction& i, unsigned k) {
  const bool wide = i.width_of_source(0) == 8;
  const u32 looked_at = wide ? ~0u : 0xffu;
  if (!knows(w, i, 1, k, looked_at) || !knows(w, i, 2, k, looked_at)) return 0;
  const u64 a = known(w, i, 0, k);
  const auto position = static_cast<u32>(value(w, i, 1, k)), length = static_cast<u32>(value(w, i, 2, k));
  if ((length & looked_at) == 0) return ~u64{0};
  // the bits above are copies of the sign, and known if the sign is known
  if (std::string_view(i.row->name).starts_with("bfe.s")) {
    return wide ? static_cast<u64>(extract<std::int64_t>(static_cast<std::int64_t>(a), position, length))
                : static_cast<u32>(extract<std::int32_t>(static_cast<std::int32_t>(a), position, length));
  }
  if (wide) return extract<u64>(a, position, length) | ~extract<u64>(~u64{0}, position, length);
  return extract<u32>(static_cast<u32>(a), position, length) | ~extract<u32>(~u32{0}, position, length);
}
u64 known_of_bfi(Warp& w, const Instruction& i, unsigned k) {
  const u32 looked_at = i.width_of_source(0) == 8 ? ~0u : 0xffu;
  if (!knows(w, i, 2, k, looked_at) || !knows(w, i, 3, k, looked_at)) return 0;
  const u64 a = known(w, i, 0, k), b = known(w, i, 1, k);
  const auto position = static_cast<u32>(value(w, i, 2, k)), length = static_cast<u32>(value(w, i, 3, k));
  return i.width_of_source(0) == 8 ? insert<u64>(a, b, position, length)
                                   : insert<u32>(static_cast<u32>(a), static_cast<u32>(b), position, length);
}

// For sums, differences and products: an unknown bit does not affect lower bits.
u64 known_below(Warp& w, const Instruction& i, unsigned k) {
  u64 unknown = 0;
  for (unsigned s = 0; s < i.sources; ++s) unknown |= ~known(w, i, s, k) & ones_of(i.width_of_source(s));
  return (i.flags & sat) != 0 ? 0 : (unknown & -unknown) - 1;
}
// For packed pairs of 32-bit or 16-bit values. Each value of a pair is known or unknown independently of the other.
u64 known_words(Warp& w, const Instruction& i, unsigned k) {
  u64 result = ~u64{0};
  for (unsigned s = 0; s < i.sources; ++s) {
    if (!knows(w, i, s, k, 0xffffffffu)) result &= ~u64{0xffffffff};
    if (!knows(w, i, s, k, ~u64{0xffffffff})) result &= 0xffffffff;
  }
  return result;
}
u64 known_halves(Warp& w, const Instruction& i, unsigned k) {
  u64 result = ones_of(4);
  for (unsigned s = 0; s < i.sources; ++s) {
    const bool pair = i.width_of_source(s) == 4;
    if (!knows(w, i, s, k, pair ? 0xffffu : ~u64{0})) result &= ~u64{0xffff};
    if (!knows(w, i, s, k, pair ? 0xffff0000u : ~u64{0})) result &= 0xffff;
  }
  return result;
}

struct Rule {
  std::string_view begins;
  Known known;
};
constexpr Rule rules[] = {
    {"not.b", known_of_not}, {"and.b", known_of_and}, {"or.b", known_of_or}, {"xor.b", known_of_xor},
    {"lop3.b32", known_of_lop3}, {"shl.b", known_of_shl}, {"shr.", known_of_shr}, {"shf.", known_of_shf},
    {"prmt.b32", known_of_prmt}, {"bfe.", known_of_bfe}, {"bfi.", known_of_bfi},
};
constexpr std::string_view sums[] = {"add.", "sub.", "neg.", "mul.lo.", "mul.wide.", "mad.lo.", "mad.wide."};
constexpr std::string_view integers[] = {".u16", ".s16", ".u32", ".s32", ".u64", ".s64"};

Known find_rule(std::string_view name) {
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  if (begins("cvt.pack")) return nullptr;
  if (begins("cvt")) return known_of_conversion;
  for (const Rule& rule : rules) {
    if (begins(rule.begins)) return rule.known;
  }
  if (name.ends_with("f32x2")) return known_words;
  if (name.ends_with("x2")) return known_halves;
  const bool is_integer = std::any_of(std::begin(integers), std::end(integers), [&](auto t) { return name.ends_with(t); });
  if (is_integer && name.find(".cc.") == name.npos && std::any_of(std::begin(sums), std::end(sums), begins)) {
    return known_below;
  }
  return nullptr;
}
Known rule_of(const Row* row) {
  static std::unordered_map<const Row*, Known> rules_of_rows;
  const auto [at, is_new] = rules_of_rows.try_emplace(row, nullptr);
  if (is_new) at->second = find_rule(row->name);
  return at->second;
}

// For mov, which concatenates the bytes of all sources and splits them into the destinations.
constexpr unsigned most_moved = 64;
void known_of_move(Warp& w, const Instruction& i, unsigned lane, u64* to) {
  unsigned char bytes[most_moved] = {};
  unsigned end = 0;
  for (unsigned s = 0; s < i.sources; ++s) {
    const unsigned width = i.width_of_source(s), piece = piece_of_source(i, s);
    const u64 bits = known(w, i, s, lane);
    if (width <= 8) {
      std::memcpy(bytes + end, &bits, piece);
    } else {
      std::memset(bytes + end, bits == ones_of(width) ? 0xff : 0, width);
    }
    end += piece;
  }
  unsigned at = 0;
  for (unsigned d = 0; d < i.destinations; ++d) {
    const unsigned width = i.width_of_destination(d), piece = piece_of_destination(i, d);
    to[d] = piece < width ? ~u64{0} << 8 * piece : 0;
    if (width <= 8) {
      std::memcpy(&to[d], bytes + at, piece);
    } else if (std::all_of(bytes + at, bytes + at + width, [](unsigned char byte) { return byte == 0xff; })) {
      to[d] = ones_of(width);
    }
    at += piece;
  }
}

std::string also_at(Machine& machine, const Instruction& i, SiteIndex origin) {
  return origin == i.site ? "" : " at " + describe_site(machine.report, i.site);
}

}  // namespace

void set_known(Warp& w, std::uint32_t at, unsigned width, unsigned lane, std::uint64_t bits, SiteIndex origin) {
  Register& r = w.head(at);
  const Lanes own = 1u << lane;
  bits &= ones_of(width);
  if (bits == ones_of(width)) {
    r.defined |= own;
    return;
  }
  r.defined &= ~own;
  r.origin = origin;
  if (width > 8 || (bits == 0 && !w.knows_parts)) return;
  w.knows_parts = true;
  std::memcpy(w.known_at(at) + std::size_t{lane} * width, &bits, width);
}

void leave_poison(Warp& w, const Span& r, Lanes lanes) {
  Machine& machine = *w.machine;
  if (r.bytes == 0) {
    Lanes& bits = w.head(r.offset).bits;
    bits = (bits & ~lanes) | (poison_answers(machine) & lanes);
  } else {
    for_lanes(lanes, [&](unsigned k) { fill_poison(machine, value_bytes(w, r.offset, r.bytes, k), r.bytes); });
  }
}

void undefine(Warp& w, std::uint32_t at, unsigned width, Lanes lanes, SiteIndex origin) {
  if (w.machine->poison != 0 && lanes != 0) leave_poison(w, {at, width}, lanes);
  for_lanes(lanes, [&](unsigned k) { set_known(w, at, width, k, 0, origin); });
}

SiteIndex origin_of(Warp& w, std::uint32_t at, const Instruction& i) {
  const SiteIndex origin = w.head(at).origin;
  return origin != 0 ? origin : i.site;
}

void report_undefined(Warp& w, const Instruction& i, SiteIndex origin, unsigned lane) {
  Machine& machine = *w.machine;
  run_as(w, lane);
  machine.self->site = i.site;
  if (report_uninitialized(machine, origin)) return;
  FINDING(machine.report, undefined_register, origin,
          "%s reads a register or a local variable that was never written on the executed path, for %s%s",
          describe_self(machine).c_str(), i.row->name, also_at(machine, i, origin).c_str());
}

namespace {
SiteIndex origin_of_sources(Warp& w, const Instruction& i, Lanes undefined) {
  for (unsigned s = 0; s < i.sources; ++s) {
    if ((undefined & ~w.head(i.source(s)).defined) != 0) return origin_of(w, i.source(s), i);
  }
  return i.site;
}
}  // namespace

void report_undefined_sources(Warp& w, const Instruction& i, Lanes undefined) {
  const std::string_view name = i.row->name;
  // Runs with a few poison values cannot decide whether undefined operands of these instructions have an effect. For
  // example, several exchanges may happen in any order, so the final value is unknown.
  if (name.starts_with("atom.cas") || name.starts_with("atom.exch") || name.starts_with("match")) leave_undecided(*w.machine);
  report_undefined(w, i, origin_of_sources(w, i, undefined), static_cast<unsigned>(__builtin_ctz(undefined)));
}

namespace {

bool add_to(Choice& choice, const Instruction& i) {
  const std::string_view name = i.row->name;
  if (i.flow != Flow::plain || i.effect != 0 || name.starts_with("ld") || name.starts_with("st")) return false;
  for (unsigned d = 0; d < i.destinations; ++d) choice.chosen.emplace_back(i.destination(d), i.width_of_destination(d));
  return true;
}

const Choice& choice_at(Machine& machine, const Instruction& branch) {
  const auto [at, is_new] = machine.unknown_values.choices.try_emplace(&branch);
  Choice& choice = at->second;
  if (!is_new) return choice;
  const auto pc = static_cast<std::size_t>(&branch - machine.program.code.data());
  if (branch.flow == Flow::plain) {
    if (add_to(choice, branch)) choice.end = pc + 1;
    return choice;
  }
  if (branch.flow != Flow::branch) return choice;
  auto end = static_cast<std::size_t>(branch.immediate[0]);
  for (std::size_t k = pc + 1; k < end; ++k) {
    const Instruction& i = machine.program.code[k];
    const bool is_last = k + 1 == static_cast<std::size_t>(branch.immediate[0]);
    if (i.flow == Flow::branch && i.guard == 0 && is_last && static_cast<std::size_t>(i.immediate[0]) > k) {
      end = static_cast<std::size_t>(i.immediate[0]);  // the end of the first path jumps over the second path
    } else if (!add_to(choice, i)) {
      return choice;
    }
  }
  if (end > pc) choice.end = end;
  return choice;
}

}  // namespace

bool choose_unknown(Warp& w, const Instruction& i, Lanes undefined, std::size_t& end) {
  Machine& machine = *w.machine;
  const Choice& choice = choice_at(machine, i);
  if (choice.end == 0) return false;
  run_as(w, static_cast<unsigned>(__builtin_ctz(undefined)));
  machine.self->site = i.site;
  const SiteIndex origin = origin_of(w, i.guard, i);
  note_uninitialized(machine, Kind::undefined_register, origin, [&] {
    return describe_self(machine) + " takes a decision" + also_at(machine, i, origin) +
           " on a predicate that was never written on the executed path"; });
  for (const auto& [at, width] : choice.chosen) undefine(w, at, width, undefined, origin);
  end = choice.end;
  return true;
}

void report_undefined_guard(Warp& w, const Instruction& i, Lanes undefined) {
  Machine& machine = *w.machine;
  run_as(w, static_cast<unsigned>(__builtin_ctz(undefined)));
  machine.self->site = i.site;
  const SiteIndex origin = origin_of(w, i.guard, i);
  if (report_uninitialized(machine, origin)) return;
  FINDING(machine.report, undefined_register, origin,
          "%s takes a decision%s on a predicate that was never written on the executed path", describe_self(machine).c_str(),
          also_at(machine, i, origin).c_str());
}

namespace {
// True if an instruction, such as a comparison, has only a few possible results. Most operands then give the same
// result.
bool answers(const Instruction& i) {
  constexpr std::string_view counts[] = {"clz.", "popc.", "bfind.", "fns."};
  const std::string_view name = i.row->name;
  return i.destinations != 0 && (i.width_of_destination(0) == 0 || std::any_of(std::begin(counts), std::end(counts),
                                                                               [&](auto c) { return name.starts_with(c); }));
}
}  // namespace

void execute_undefined(Warp& w, const Instruction& i, Lanes active, Lanes undefined) {
  if (i.strict) {
    report_undefined_sources(w, i, undefined);
    undefined = 0;
  }
  const SiteIndex origin = undefined != 0 ? origin_of_sources(w, i, undefined) : SiteIndex{0};
  if (std::string_view(i.row->name) == "mma") return multiply_unknown(w, i, origin);
  // The known bits are computed before the results are written, because a destination may also be a source.
  constexpr unsigned most = 8;
  u64 bits[warp_size][most] = {};
  const bool moves = std::string_view(i.row->name).starts_with("mov") && i.destinations <= most &&
                     i.width_of_destination(0) != 0;
  const Known rule = moves ? nullptr : rule_of(i.row);
  for (Lanes left = undefined; left != 0 && (moves || rule != nullptr); left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    if (moves) {
      known_of_move(w, i, k, bits[k]);
    } else {
      bits[k][0] = rule(w, i, k);
    }
  }
  i.execute(w, i, active);
  if (w.machine->poison != 0 && answers(i)) leave_poison(w, {i.destination(0), i.width_of_destination(0)}, undefined);
  for (unsigned d = 0; d < i.destinations; ++d) {
    w.head(i.destination(d)).defined |= active & ~undefined;
    for (Lanes left = undefined; left != 0; left &= left - 1) {
      const auto k = static_cast<unsigned>(__builtin_ctz(left));
      set_known(w, i.destination(d), i.width_of_destination(d), k, moves || d == 0 ? (d < most ? bits[k][d] : 0) : 0, origin);
    }
  }
}

}  // namespace autosched::emulator::ptx

namespace autosched::emulator {

const Uninitialized* uninitialized_at(Machine& machine, SiteIndex site) {
  const auto entry = machine.unknown_values.uninitialized.find(site);
  return entry == machine.unknown_values.uninitialized.end() ? nullptr : &entry->second;
}

void note_uninitialized(Machine& machine, Kind kind, SiteIndex site, const std::function<std::string()>& text, SiteIndex other) {
  if (uninitialized_at(machine, site) == nullptr)
    machine.unknown_values.uninitialized.emplace(site, Uninitialized{kind, text(), other});
}

bool report_uninitialized(Machine& machine, SiteIndex origin) {
  const Uninitialized* const read = uninitialized_at(machine, origin);
  if (read == nullptr) return false;
  if (count_finding(machine.report, read->kind, origin))
    write_graded(machine.report, read->kind, Grade::fault, origin, read->other, "%s", read->text.c_str());
  if (read->kind == Kind::shared_race) confirm_race(machine, read->kind, origin);
  return true;
}

void report_unused_values(Machine& machine) {
  for (const auto& [site, read] : machine.unknown_values.uninitialized) {
    if (read.kind == Kind::uninitialized_shared_read || was_found(machine.report, read.kind, site)) continue;
    if (count_finding(machine.report, read.kind, site, Grade::note)) {
      write_graded(machine.report, read.kind, Grade::note, site, read.other,
              "%s; the value has no effect", read.text.c_str());
    }
  }
}

}  // namespace autosched::emulator

AUTOSCHED_PART(ptx::UnknownValues);
