// Reads bytecode written by measurements/emulator/ptx/bytecode.py, and initialises registers.
#include <cxxabi.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_map>

#include "machine/part.hpp"
#include "isa/program.hpp"
#include "memory/global/buffers.hpp"
#include "memory/global/heap.hpp"
#include "memory/shared/memory.hpp"
#include "memory/tensor_memory.hpp"

namespace autosched::emulator {

// Whether a kernel reads values that may differ between blocks. `tells_all_apart`: it reads a value that may differ
// between any two blocks, such as %smid, a clock or the result of an atomic. `x`, `y` and `z`: it reads this coordinate
// of the block.
struct ReadByBlocks {
  bool tells_all_apart, x, y, z;
};

}  // namespace autosched::emulator

namespace autosched::emulator::ptx {

// Contents of the bytecode other than instructions.
struct ProgramText {
  // A value that is the same in all lanes of all warps and is known at launch.
  struct Constant {
    enum class Kind { number, variable, dynamic_shared, static_shared, function, local } kind;
    std::uint32_t slot;
    unsigned width;
    std::uint64_t value;  // a number, or an addend to an address
    std::size_t index = 0;
  };
  struct Special {
    std::uint32_t slot;
    unsigned width;
    std::string name;
  };
  struct Relocation {
    std::size_t variable, offset;
    char kind;  // generic address of: v a variable, f a function, s shared memory
    std::size_t index;
    std::uint64_t addend;
  };
  struct Variable {
    std::string name;  // name in PTX
    BufferSpec spec;
    std::vector<unsigned char> bytes;
    std::uint64_t address = 0;
    bool bound = false;  // true if a buffer of the launch provides the variable's content
  };
  std::vector<Constant> constants;
  std::vector<Special> specials;
  std::vector<Variable> variables;
  std::vector<Relocation> relocations;
  std::map<std::pair<unsigned, std::string>, std::uint32_t> slots;
  std::deque<std::vector<std::uint32_t>> operands;
  std::deque<std::vector<std::uint8_t>> widths;
  std::deque<std::vector<std::int64_t>> immediates;
  std::deque<std::string> texts;
  std::optional<ReadByBlocks> read_by_blocks;  // determined on first use
};

namespace {
using Constant = ProgramText::Constant;
using Special = ProgramText::Special;
using Relocation = ProgramText::Relocation;
using Variable = ProgramText::Variable;
}  // namespace

namespace {

// Storage of the operand offsets of all instructions.

const std::unordered_multimap<std::string_view, const Row*>& rows_by_name() {
  static const auto* table = [] {
    auto* t = new std::unordered_multimap<std::string_view, const Row*>;
    for (const Rows* rows :
         {&integer_rows, &bit_rows,        &float_rows,   &half_rows,        &compare_rows,        &convert_rows,
          &address_rows, &memory_rows,     &atomic_rows,  &async_rows,       &warp_rows,           &ldmatrix_rows,
          &mma_rows,     &wmma_rows,       &call_rows,    &control_rows,     &mbarrier_rows,       &bulk_rows,
          &tensor_rows,  &tensor_map_rows, &wgmma_rows,   &cluster_rows,     &launch_control_rows, &block_scaled_rows,
          &print_rows,   &texture_rows,    &tcgen05_rows, &tcgen05_mma_rows, &sparse_mma_rows,     &stack_rows,
          &video_rows,   &quad_mma_rows,   &narrow_rows,  &fence_rows}) {
      for (const Row* row = rows->begin; row != rows->end; ++row) t->emplace(row->name, row);
    }
    return t;
  }();
  return *table;
}

// Parses the words and numbers in the lines of the bytecode. Standard streams are avoided: with them, parsing would
// take longer than many launches.
class Text {
 public:
  explicit Text(std::string_view text) : left_(text) {}
  bool at_end() const { return left_.empty(); }
  void next_line() { left_.remove_prefix(std::min(left_.find('\n'), left_.size() - 1) + 1); }
  std::string_view rest_of_line() {
    skip_blanks();
    return take(left_.find('\n'));
  }
  std::string_view word() {
    skip_blanks();
    return take(left_.find_first_of(" \n"));
  }
  template <class T>
  void read(T& value) {
    value = static_cast<T>(integer(word(), 10));
  }
  static std::uint64_t integer(std::string_view digits, unsigned base) {
    const bool negative = digits.starts_with('-');
    if (negative) digits.remove_prefix(1);
    std::uint64_t value = 0;
    for (const char c : digits) {
      const unsigned digit = c >= 'a' ? static_cast<unsigned>(c - 'a') + 10 : static_cast<unsigned>(c - '0');
      if (digit >= base) break;
      value = value * base + digit;
    }
    return negative ? ~value + 1 : value;
  }

 private:
  void skip_blanks() { left_.remove_prefix(std::min(left_.find_first_not_of(' '), left_.size())); }
  std::string_view take(std::size_t count) {
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view left_;
};

// The name of a variable in the source code. For a mangled name, it is the last component of the demangled name.
std::string demangled(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return std::string(mangled);
  int status = 0;
  char* whole = abi::__cxa_demangle(std::string(mangled).c_str(), nullptr, nullptr, &status);
  if (whole == nullptr) return std::string(mangled);
  std::string name = whole;
  std::free(whole);
  unsigned depth = 0;  // nesting depth of brackets; names within brackets are types, not components of the name
  for (std::size_t at = name.size(); at-- > 1;) {
    const char c = name[at];
    depth += c == ')' || c == '>' ? 1 : 0;
    depth -= (c == '(' || c == '<') && depth != 0 ? 1 : 0;
    if (depth == 0 && c == ':' && name[at - 1] == ':') return name.substr(at + 1);
  }
  return name;
}

struct Token {
  char kind = 'r';
  unsigned width = 0;
  std::string_view text;
};

Token parse_token(std::string_view word) {
  const auto colon = word.find(':');
  return {word[0], static_cast<unsigned>(Text::integer(word.substr(1, colon - 1), 10)), word.substr(colon + 1)};
}

std::uint32_t new_slot(Machine& machine, unsigned width) {
  const std::uint32_t at = machine.program.register_bytes;
  machine.program.register_bytes += static_cast<std::uint32_t>(sizeof(Register) + std::size_t{width} * warp_size);
  return at;
}

// Returns the register of an operand. A constant gets a register at its first use.
std::uint32_t slot_of(Machine& machine, const Token& t, unsigned width) {
  if (t.kind == 'r') return static_cast<std::uint32_t>(Text::integer(t.text, 10));
  const auto key = std::pair{width, t.kind + std::string(t.text)};
  const auto known = machine.program_text.slots.find(key);
  if (known != machine.program_text.slots.end()) return known->second;
  const std::uint32_t slot = new_slot(machine, width);
  machine.program_text.slots.emplace(key, slot);
  if (t.kind == 's') {
    if (t.text.starts_with("reserved_smem")) machine.launch.uses_reserved_shared = true;
    if (t.text == "envreg1" || t.text == "envreg2") machine.program.uses_grid_workspace = true;
    machine.program_text.specials.push_back({slot, width, std::string(t.text)});
    return slot;
  }
  Constant c{Constant::Kind::number, slot, width, 0};
  if (t.kind == 'c' || t.kind == 'e') {
    c.value = Text::integer(t.text, 16);
    if (t.kind == 'e' && width == 4) c.value = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(c.value)));
  } else {
    // the text is an index, '+', and an addend in hexadecimal
    c.index = Text::integer(t.text, 10);
    c.value = Text::integer(t.text.substr(t.text.find('+') + 1), 16);
    c.kind = t.kind == 'v'   ? Constant::Kind::variable
             : t.kind == 'f' ? Constant::Kind::function
             : t.kind == 'h' ? Constant::Kind::static_shared
                             : Constant::Kind::dynamic_shared;
  }
  machine.program_text.constants.push_back(c);
  return slot;
}

// True if operands (the destinations or the sources) have the widths that `pattern` requires. Constants without a width
// get the width of the pattern.
bool fits(std::string_view pattern, const std::vector<Token>& tokens, std::vector<unsigned>& widths) {
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    const bool rest = k >= pattern.size();
    if (rest && (pattern.empty() || pattern.back() != '*')) return false;
    const char wanted = rest ? '*' : pattern[k];
    const Token& t = tokens[k];
    const bool open = (t.kind == 'c' || t.kind == 'e') && t.width == 0;  // e: a 64-bit floating-point literal
    const unsigned width = wanted != '*' ? static_cast<unsigned>(wanted - '0') : open ? 8u : t.width;
    if (t.width != width && !open) return false;
    widths.push_back(width);
  }
  return tokens.size() >= pattern.size() || (tokens.size() + 1 == pattern.size() && pattern.back() == '*');
}

// Finds the table row of an instruction, and sets the widths of the instruction's constants.
const Row* find_row(std::string_view name, std::uint32_t flags, std::vector<Token>& to, std::vector<Token>& from) {
  static std::vector<unsigned> widths;
  const auto [begin, end] = rows_by_name().equal_range(name);
  for (auto row = begin; row != end; ++row) {
    const std::string_view pattern = row->second->operands;
    const auto colon = pattern.find(':');
    if ((flags & ~row->second->flags) != 0) continue;
    widths.clear();
    if (!fits(pattern.substr(0, colon), to, widths) || !fits(pattern.substr(colon + 1), from, widths)) continue;
    auto width = widths.begin();
    for (Token& t : to) t.width = *width++;
    for (Token& t : from) t.width = *width++;
    return row->second;
  }
  return nullptr;
}

std::vector<Token> read_tokens(Text& in) {
  std::size_t count = 0;
  in.read(count);
  std::vector<Token> tokens(count);
  for (Token& t : tokens) t = parse_token(in.word());
  return tokens;
}

std::vector<Span> read_spans(Text& in) {
  std::size_t count = 0;
  in.read(count);
  std::vector<Span> spans(count);
  for (Span& s : spans) in.read(s.offset), in.read(s.bytes), in.read(s.is_register);
  return spans;
}

std::vector<unsigned char> bytes_of(std::string_view digits) {
  std::vector<unsigned char> bytes;
  for (std::size_t k = 0; k + 1 < digits.size(); k += 2) {
    bytes.push_back(static_cast<unsigned char>(Text::integer(digits.substr(k, 2), 16)));
  }
  return bytes;
}

bool read_instruction(Machine& machine, Text& in, const std::vector<SiteIndex>& sites) {
  Instruction i;
  std::size_t site = 0;
  const std::string_view key = in.word(), reduced = in.word();
  in.read(i.flags), in.read(site), in.read(i.guard), in.read(i.negated);
  std::vector<Token> to = read_tokens(in), from = read_tokens(in);
  std::size_t count = 0;
  in.read(count);
  std::vector<std::int64_t> numbers(count);
  for (std::int64_t& n : numbers) in.read(n);
  i.site = site < sites.size() ? sites[site] : SiteIndex{0};
  i.row = find_row(key, i.flags, to, from);
  if (i.row == nullptr && reduced != "-") i.row = find_row(reduced, i.flags, to, from);
  if (i.row == nullptr) {
    std::fprintf(stderr, "unsupported: %zu\n", site);
    return false;
  }
  i.execute = i.row->execute;
  i.flow = i.row->flow;
  i.strict = i.row->strict;
  i.own = i.row->own;
  i.destinations = static_cast<std::uint32_t>(to.size());
  i.sources = static_cast<std::uint32_t>(from.size());
  i.immediates = static_cast<std::uint32_t>(count);
  std::vector<std::uint32_t>& at = machine.program_text.operands.emplace_back();
  std::vector<std::uint8_t>& width = machine.program_text.widths.emplace_back();
  for (const auto* tokens : {&to, &from}) {
    for (const Token& t : *tokens) {
      at.push_back(slot_of(machine, t, t.width));
      width.push_back(static_cast<std::uint8_t>(t.width));
    }
  }
  i.operand = at.data();
  i.width = width.data();
  const std::string_view name = i.row->name;
  if (name == "st" && numbers[3] < 2) {  // generic or global
    machine.launch.narrowest_store = std::min(machine.launch.narrowest_store, static_cast<unsigned>(numbers[1]) * (i.sources - 1));
  }
  if (machine.launch.interleaved && (name == "ld" || name == "st") && numbers[3] < 2) i.flow = Flow::yields;
  i.copies = name == "mov" || name.starts_with("mov.b");
  if (name == "wgmma.mma_async") machine.program.uses_wgmma = true;
  if (name == "tcgen05.ld") machine.program.uses_tcgen05 = true;
  if (name.starts_with("heap.")) machine.program.uses_heap = true;
  i.immediate = machine.program_text.immediates.emplace_back(std::move(numbers)).data();
  const bool updates = name.starts_with("atom") || name == "red.async" || name == "bulk.reduce";
  if (updates || (i.flags & by_l2) != 0) mark_strong(machine, i.site);
  if ((i.flags & is_volatile) != 0) mark_volatile(machine, i.site);
  machine.program.code.push_back(i);
  return true;
}

}  // namespace

bool load_program(Machine& machine, const char* path) {
  std::ifstream file(path);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  std::vector<SiteIndex> sites;
  std::vector<const char*> files;
  for (Text in(content); !in.at_end(); in.next_line()) {
    const std::string_view word = in.word();
    if (word == "i") {
      if (!read_instruction(machine, in, sites)) return false;
    } else if (word == "site") {
      std::size_t index = 0;
      unsigned number = 0;
      in.read(index), in.read(number);
      sites.push_back(add_site(machine.report,
                               {files.at(index), machine.program_text.texts.emplace_back(in.rest_of_line()).c_str(), number}));
    } else if (word == "places") {
      break;  // the remaining lines are sites in PTX, which only the reader of the report needs
    } else if (word == "file") {
      files.push_back(machine.program_text.texts.emplace_back(in.rest_of_line()).c_str());
    } else if (word == "registers") {
      in.read(machine.program.register_bytes);
    } else if (word == "cluster") {
      in.read(machine.program.cluster.x), in.read(machine.program.cluster.y), in.read(machine.program.cluster.z);
    } else if (word == "blocks_of_sm") {
      in.read(machine.program.blocks_of_sm);
    } else if (word == "target") {
      in.read(machine.program.target);
    } else if (word == "truncates_tf32") {
      machine.program.truncates_tf32 = true;
      machine.grade_of_missing_fences = Grade::note;
    } else if (word == "rounds_tf32") {
      machine.program.rounds_tf32 = true;
    } else if (word == "static_shared") {
      in.read(machine.program.static_shared_bytes);
    } else if (word == "shared") {
      unsigned begin = 0, bytes = 0;
      in.read(begin), in.read(bytes);
      name_shared(machine, demangled(in.word()), begin, bytes);
    } else if (word == "parameter") {
      Span s{};
      in.read(s.offset), in.read(s.bytes);
      machine.program.parameter_spans.push_back(s);
      machine.program.parameters.resize(std::max<std::size_t>(machine.program.parameters.size(), s.offset + s.bytes));
    } else if (word == "function") {
      Function f;
      in.read(f.number), in.read(f.entry), in.read(f.local_bytes);
      f.results = read_spans(in);
      f.parameters = read_spans(in);
      f.registers = read_spans(in);
      machine.program.functions.push_back(std::move(f));
    } else if (word == "variable") {
      Variable v;
      bool constant = false;
      v.name = in.word();
      v.spec.name = demangled(v.name);
      in.read(constant), in.read(v.spec.bytes), in.read(v.spec.element_bytes);
      const std::string_view digits = in.word();
      v.spec.role = constant ? BufferSpec::Role::input : BufferSpec::Role::variable;
      v.spec.zeroed = true;
      if (digits != "-") v.bytes = bytes_of(digits);
      v.spec.unset = v.bytes.empty() && v.spec.bytes != 0;
      machine.program_text.variables.push_back(std::move(v));
    } else if (word == "relocation") {
      Relocation r{};
      in.read(r.variable), in.read(r.offset);
      r.kind = in.word()[0];
      in.read(r.index), in.read(r.addend);
      machine.program_text.relocations.push_back(r);
      machine.program_text.variables.at(r.variable).spec.unset = false;
    }
  }
  if (machine.program.functions.empty() || machine.program.code.empty()) {
    std::fprintf(stderr, "the program holds no kernel\n");
    return false;
  }
  return true;
}

bool set_arguments(Machine& machine, const std::vector<std::string>& bytes) {
  if (bytes.size() != machine.program.parameter_spans.size()) {
    std::fprintf(stderr, "arguments: the kernel takes %zu arguments, not %zu\n", machine.program.parameter_spans.size(),
                 bytes.size());
    return false;
  }
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    const Span& s = machine.program.parameter_spans[k];
    if (bytes[k].size() != s.bytes) {
      std::fprintf(stderr, "arguments: parameter %zu of the kernel must have as many bytes as its argument: %u, not %zu\n", k,
                   s.bytes, bytes[k].size());
      return false;
    }
    std::memcpy(machine.program.parameters.data() + s.offset, bytes[k].data(), s.bytes);
  }
  return true;
}

void bind_variable(Machine& machine, const std::string& name) {
  for (Variable& v : machine.program_text.variables) v.bound = v.bound || v.name == name;
}
void place_bound_variable(Machine& machine, const std::string& name, void* address) {
  for (Variable& v : machine.program_text.variables) {
    if (v.name == name) v.address = reinterpret_cast<std::uint64_t>(address);
  }
}

std::vector<BufferSpec> variable_specs(Machine& machine) {
  std::vector<BufferSpec> specs;
  for (const Variable& v : machine.program_text.variables) {
    if (!v.bound) specs.push_back(v.spec);
  }
  if (machine.program.uses_heap || heap_is_used(machine)) specs.push_back(heap_spec(machine));
  return specs;
}

void place_variables(Machine& machine, const std::vector<void*>& addresses) {
  auto address = addresses.begin();
  for (Variable& v : machine.program_text.variables) {
    if (v.bound) continue;
    v.address = reinterpret_cast<std::uint64_t>(*address);
    std::memcpy(*address++, v.bytes.data(), std::min(v.bytes.size(), v.spec.bytes));
  }
  for (const Relocation& r : machine.program_text.relocations) {
    if (machine.program_text.variables[r.variable].bound) continue;
    const std::uint64_t base = r.kind == 'v'   ? machine.program_text.variables[r.index].address
                               : r.kind == 'f' ? function_base | r.index
                                               : shared_base + r.index;
    const std::uint64_t value = base + r.addend;
    std::memcpy(reinterpret_cast<unsigned char*>(machine.program_text.variables[r.variable].address) + r.offset, &value,
                sizeof value);
  }
}

bool is_in_constant_memory(Machine& machine, std::uint64_t address) {
  return std::any_of(machine.program_text.variables.begin(), machine.program_text.variables.end(), [address](const Variable& v) {
    return v.spec.role == BufferSpec::Role::input && address - v.address < v.spec.bytes;
  });
}

bool is_constant(Machine& machine, std::uint32_t slot) {
  return std::any_of(machine.program_text.constants.begin(), machine.program_text.constants.end(),
                     [&](const Constant& c) { return c.slot == slot; });
}

std::optional<std::uint64_t> constant_number(Machine& machine, std::uint32_t slot) {
  for (const Constant& c : machine.program_text.constants) {
    if (c.slot == slot && c.kind == Constant::Kind::number) return c.value;
  }
  return std::nullopt;
}

namespace {

// True if `v` is the __constant__ variable that the host calls `name`. The mangled name of a variable in a namespace
// contains the length and the text of the variable's name.
bool is_constant_called(const Variable& v, const std::string& name) {
  const std::string mangled = std::to_string(name.size()) + name;
  const bool inside = v.name.starts_with("_Z") && v.name.find(mangled) != std::string::npos;
  return v.spec.role == BufferSpec::Role::input && (v.name == name || inside);
}

}  // namespace

void expect_filled(Machine& machine, const std::string& name) {
  for (Variable& v : machine.program_text.variables) {
    if (is_constant_called(v, name)) v.spec.unset = false;
  }
}

bool fill_variable(Machine& machine, const std::string& name, const void* from, std::size_t bytes) {
  for (const Variable& v : machine.program_text.variables) {
    if (!is_constant_called(v, name)) continue;
    if (bytes > v.spec.bytes) {
      std::fprintf(stderr, "arguments: %s has %zu bytes in the source, but the array %zu\n", name.c_str(), v.spec.bytes, bytes);
      return false;
    }
    std::memcpy(reinterpret_cast<void*>(v.address), from, bytes);
  }
  return true;
}

void fill_constants(Warp& warp) {
  Machine& machine = *warp.machine;
  for (const Constant& c : machine.program_text.constants) {
    std::uint64_t value = c.value;
    if (c.kind == Constant::Kind::variable) value += machine.program_text.variables[c.index].address;
    if (c.kind == Constant::Kind::function) value += function_base | c.index;
    if (c.kind == Constant::Kind::dynamic_shared) value += dynamic_shared_address(machine);
    const bool shared = c.kind == Constant::Kind::dynamic_shared || c.kind == Constant::Kind::static_shared;
    if (shared && cluster_blocks(machine) > 1)
      value = address_in_block(static_cast<std::uint32_t>(value), warp.index / block_warps(machine));
    Register& head = warp.head(c.slot);
    head.defined = all_lanes;
    head.bits = value != 0 ? all_lanes : 0;
    if (c.width == 0) continue;
    for (unsigned lane = 0; lane < warp_size; ++lane) write_bits(warp, c.slot, c.width, lane, value);
  }
}

void fill_special(Warp& warp) {
  Machine& machine = *warp.machine;
  for (const Special& s : machine.program_text.specials) {
    warp.head(s.slot).defined = all_lanes;
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      const unsigned within = warp.index % block_warps(machine) * warp_size + lane;
      const Thread* t = within < machine.launch.threads ? warp.thread + lane : warp.thread;
      const Index3 c = machine.launch.cluster;
      const Index3 tid = t->index, ctaid = t->block;
      const auto part = [&](const Index3& v) { return s.name.back() == 'x' ? v.x : s.name.back() == 'y' ? v.y : v.z; };
      const auto is = [&](const char* name) { return s.name.rfind(name, 0) == 0; };
      std::uint64_t value = 0;
      if (is("tid.")) value = part(tid);
      else if (is("ntid.")) value = part(machine.block_size);
      else if (is("ctaid.")) value = part(ctaid);
      else if (is("nctaid.")) value = part(machine.grid_size);
      else if (is("clusterid.")) value = part({ctaid.x / c.x, ctaid.y / c.y, ctaid.z / c.z});
      else if (is("nclusterid.")) value = part({machine.grid_size.x / c.x, machine.grid_size.y / c.y, machine.grid_size.z / c.z});
      else if (is("cluster_ctaid.")) value = part({ctaid.x % c.x, ctaid.y % c.y, ctaid.z % c.z});
      else if (is("cluster_nctaid.")) value = part(c);
      else if (is("cluster_ctarank")) value = t->rank;
      else if (is("cluster_nctarank")) value = cluster_blocks(machine);
      else if (is("laneid")) value = lane;
      else if (is("warpid")) value = warp.index % block_warps(machine);
      else if (is("nwarpid")) value = max_block_warps;
      else if (is("nsmid")) value = 1;
      else if (is("lanemask_eq")) value = 1u << lane;
      else if (is("lanemask_lt")) value = (1u << lane) - 1;
      else if (is("lanemask_le")) value = (2u << lane) - 1;
      else if (is("lanemask_ge")) value = ~((1u << lane) - 1);
      else if (is("lanemask_gt")) value = ~((2u << lane) - 1);
      else if (is("reserved_smem_offset_end") || is("reserved_smem_offset_cap")) value = reserved_shared_bytes;
      else if (is("dynamic_smem_size")) value = machine.launch.dynamic_shared_bytes;
      else if (is("envreg1")) value = machine.program.grid_workspace >> 32;  // cooperative groups read the upper half
      else if (is("envreg2")) value = machine.program.grid_workspace & 0xffffffffu;
      else if (is("total_smem_size")) value = machine.launch.dynamic_shared_bytes + machine.program.static_shared_bytes;
      else if (is("is_explicit_cluster")) value = machine.launch.clustered;
      if (s.width == 0) {
        warp.head(s.slot).bits = value != 0 ? all_lanes : 0;
        continue;
      }
      write_bits(warp, s.slot, s.width, lane, value & (s.width == 4 ? 0xffffffffu : ~std::uint64_t{0}));
    }
  }
}

}  // namespace autosched::emulator::ptx

namespace autosched::emulator {

namespace {
ReadByBlocks find_read_by_blocks(Machine& machine) {
  using namespace ptx;
  const auto reads = [&machine](std::string_view name) {
    return std::any_of(machine.program_text.specials.begin(), machine.program_text.specials.end(),
                       [&](const Special& s) { return s.name == name; });
  };
  const bool tells_all_apart = std::any_of(machine.program.code.begin(), machine.program.code.end(), [](const Instruction& i) {
    const std::string_view name = i.row->name;
    return name.starts_with("atom") || name.starts_with("clock") || name.find("cluster") != name.npos;
  }) || std::any_of(machine.program_text.specials.begin(), machine.program_text.specials.end(), [](const Special& s) {
    return s.name.find("cluster") != s.name.npos || s.name == "smid" || s.name == "warpid";
  });
  return {tells_all_apart, reads("ctaid.x"), reads("ctaid.y"), reads("ctaid.z")};
}
}  // namespace

bool are_replicas(Machine& machine, unsigned block, unsigned other) {
  if (!machine.program_text.read_by_blocks) machine.program_text.read_by_blocks = find_read_by_blocks(machine);
  const ReadByBlocks& read = *machine.program_text.read_by_blocks;
  if (read.tells_all_apart || cluster_blocks(machine) > 1) return false;
  const unsigned row = machine.grid_size.x, plane = machine.grid_size.x * machine.grid_size.y;
  return (!read.x || block % row == other % row) && (!read.y || block % plane / row == other % plane / row) &&
         (!read.z || block / plane == other / plane);
}

}  // namespace autosched::emulator

AUTOSCHED_PART(ptx::ProgramText);
AUTOSCHED_PART(ptx::Program);
