// printf of device code: vprintf(format, arguments). Arguments are stored one after another, each aligned to its size,
// after C++'s default promotions (CUDA C++ Programming Guide, formatted output).
#include <algorithm>
#include <cstdio>
#include <string>

#include "interpreter/interpreter.hpp"
#include "isa/access/memory.hpp"
#include "isa/values/undefined.hpp"
#include "memory/global/memory.hpp"
#include "memory/shared/memory.hpp"

namespace autosched::emulator::ptx {
namespace {

constexpr std::size_t longest = 4000;             // characters of output per line of the report
constexpr std::size_t most = std::size_t{1} << 20;  // bytes of output per launch: the size of CUDA's printf buffer

// Reads memory of one lane through a generic address. `read` returns false, with a finding, if the address is invalid.
class Reader {
 public:
  Reader(Warp& w, const Instruction& i, unsigned lane) : w_(w), i_(i), lane_(lane) {}
  bool read(Machine& machine, std::uint64_t address, void* to, unsigned bytes) {
    const Location location = resolve(machine, Space::generic, address, "printf");
    if (!location.good) return false;
    if (location.space == Space::global) {
      read_global(machine, to, reinterpret_cast<const void*>(location.offset), static_cast<int>(bytes), "printf", false,
                  false);
      return true;
    }
    if (location.space == Space::shared) {
      return read_shared(machine, to, static_cast<unsigned>(location.offset), static_cast<int>(bytes), "printf"), true;
    }
    const Local& local = w_.local[lane_];
    if (location.space != Space::local || location.offset + bytes > local.bytes.size()) return false;
    std::memcpy(to, local.bytes.data() + location.offset, bytes);
    for (unsigned b = 0; b < bytes; ++b) {
      if (local.known[location.offset + b] == 0xff) continue;
      const auto from = local.origins.find(location.offset + b);
      report_undefined(w_, i_, from == local.origins.end() ? i_.site : from->second, lane_);
      break;
    }
    return true;
  }
  std::string string(Machine& machine, std::uint64_t address) {
    std::string text;
    for (char c; text.size() < longest && read(machine, address + text.size(), &c, 1) && c != 0;) text += c;
    return text;
  }

 private:
  Warp& w_;
  const Instruction& i_;
  unsigned lane_;
};

// The arguments of one call, in order.
class Arguments {
 public:
  Arguments(Reader& reader, std::uint64_t at) : reader_(reader), at_(at) {}
  template <class T>
  T next(Machine& machine) {
    T value{};
    if (at_ == 0) return value;
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    reader_.read(machine, at_, &value, sizeof value);
    at_ += sizeof(T);
    return value;
  }

 private:
  Reader& reader_;
  std::uint64_t at_;
};

template <class T>
void append(std::string& text, const std::string& form, T value) {
  char buffer[512];
  const int size = std::snprintf(buffer, sizeof buffer, form.c_str(), value);
  if (size > 0) text.append(buffer, std::min<std::size_t>(static_cast<std::size_t>(size), sizeof buffer - 1));
}

// Formats one conversion specification, which begins at format[at] == '%'. Returns the position after the
// specification.
std::size_t convert(Machine& machine, const std::string& format, std::size_t at, Reader& reader, Arguments& arguments,
                    std::string& text) {
  std::string form = "%";
  unsigned longs = 0;
  for (++at; at < format.size(); ++at) {
    const char c = format[at];
    if (c == '*') {
      form += std::to_string(arguments.next<int>(machine));
    } else if (c == 'l' || c == 'z' || c == 't' || c == 'j') {
      ++longs;
    } else if (c == 'h') {
      form += c;
    } else if (std::strchr("-+ #.0123456789", c) != nullptr) {
      form += c;
    } else {
      break;
    }
  }
  if (at == format.size()) return at;
  const char kind = format[at];
  if (kind == '%') {
    text += '%';
  } else if (std::strchr("diouxXc", kind) != nullptr) {
    if (longs != 0) {
      append(text, form + "ll" + kind, arguments.next<long long>(machine));
    } else {
      append(text, form + kind, arguments.next<int>(machine));
    }
  } else if (std::strchr("fFeEgGaA", kind) != nullptr) {
    append(text, form + kind, arguments.next<double>(machine));
  } else if (kind == 'p') {
    append(text, form + 'p', reinterpret_cast<void*>(arguments.next<std::uint64_t>(machine)));
  } else if (kind == 's') {
    const std::string value = reader.string(machine, arguments.next<std::uint64_t>(machine));
    append(text, form + 's', value.c_str());
  } else {
    text += form + kind;
  }
  return at + 1;
}

}  // namespace

// Immediates: as for print, but they describe the arguments of __assertfail. The first argument is the text of the
// condition.
std::string describe_assertion(Warp& w, const Instruction& i) {
  Machine& machine = *w.machine;
  Reader reader(w, i, machine.self->lane);
  return "the assertion '" +
         reader.string(machine, w.values<std::uint64_t>(static_cast<std::uint32_t>(i.immediate[0]))[machine.self->lane]) +
         "' fails";
}

namespace {

// Immediates: pairs of an offset in the register file and a size in bytes. The pairs describe the format, the arguments
// and, if there is one, the result.
void print(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    Reader reader(w, i, k);
    const auto operand = [&](unsigned n) { return w.values<std::uint64_t>(static_cast<std::uint32_t>(i.immediate[2 * n]))[k]; };
    const std::string format = reader.string(machine, operand(0));
    Arguments arguments(reader, operand(1));
    std::string text;
    int count = 0;
    for (std::size_t at = 0; at < format.size();) {
      if (format[at] == '%') {
        at = convert(machine, format, at, reader, arguments, text);
        ++count;
      } else {
        text += format[at++];
      }
    }
    if (i.immediates > 4) {
      const auto result = static_cast<std::uint32_t>(i.immediate[4]);
      std::memcpy(w.values<unsigned char>(result) + std::size_t{k} * static_cast<std::size_t>(i.immediate[5]), &count,
                  sizeof count);
      w.head(result).bits &= ~(1u << k);
    }
    if (machine.printed_bytes > most) return;
    machine.printed_bytes += text.size();
    report_print(machine.report, machine.printed_bytes > most
                                     ? "\n[CUDA's print buffer of 1 MiB is full: the rest is left out]\n"
                                     : text.substr(0, longest).c_str());
  });
}

constexpr Row print_table[] = {{"print", print, 0, ":", Flow::plain, false, true}};

}  // namespace

const Rows print_rows{std::begin(print_table), std::end(print_table)};

}  // namespace autosched::emulator::ptx
