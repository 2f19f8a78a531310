#include "machine/report.hpp"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

namespace autosched::emulator {
namespace {

// Builds a line of the report. Long text is truncated, so that the line is always valid JSON.
class Line {
 public:
  Line(const char* event) { raw("{\"event\": \"").raw(event).raw("\""); }
  Line& text(const char* key, const char* value) {
    raw(", \"").raw(key).raw("\": \"");
    const std::size_t limit = size_ + longest_text;
    for (const char* p = value; *p != 0 && size_ < limit; ++p) {
      const auto c = static_cast<unsigned char>(*p);
      if (c == '"' || c == '\\') {
        buffer_[size_++] = '\\';
        buffer_[size_++] = static_cast<char>(c);
      } else if (c < 0x20) {
        buffer_[size_++] = ' ';
      } else {
        buffer_[size_++] = static_cast<char>(c);
      }
    }
    return raw("\"");
  }
  // Appends a JSON string.
  Line& escaped(const char* key, const char* value) {
    raw(", \"").raw(key).raw("\": \"");
    const std::size_t limit = size_ + 2 * longest_text;
    for (const char* p = value; *p != 0 && size_ < limit; ++p) {
      const auto c = static_cast<unsigned char>(*p);
      if (c == '"' || c == '\\') {
        buffer_[size_++] = '\\';
        buffer_[size_++] = static_cast<char>(c);
      } else if (c < 0x20) {
        size_ += static_cast<std::size_t>(std::snprintf(buffer_ + size_, 8, "\\u%04x", unsigned{c}));
      } else {
        buffer_[size_++] = static_cast<char>(c);
      }
    }
    return raw("\"");
  }
  Line& number(const char* key, std::uint64_t value) {
    char digits[24];
    std::snprintf(digits, sizeof digits, "%llu", static_cast<unsigned long long>(value));
    return raw(", \"").raw(key).raw("\": ").raw(digits);
  }
  Line& site(Report& report, SiteIndex index) {
    const SourceSite& s = source_site(report, index);
    return text("file", s.file).number("line", s.line).text("function", s.function);
  }
  void write(Report& report) {
    raw("}\n");
    for (std::size_t done = 0; done < size_;) {
      const ssize_t n = ::write(report.output, buffer_ + done, size_ - done);
      if (n <= 0) _exit(3);
      done += static_cast<std::size_t>(n);
    }
  }

 private:
  Line& raw(const char* s) {
    for (; *s != 0 && size_ < sizeof buffer_; ++s) buffer_[size_++] = *s;
    return *this;
  }
  static constexpr std::size_t longest_text = 4096;
  char buffer_[4 * longest_text];
  std::size_t size_ = 0;
};

constexpr std::size_t kinds = static_cast<std::size_t>(last_kind) + 1;
std::size_t finding_id(Kind kind, SiteIndex site, Grade grade) {
  return (site * kinds + static_cast<std::size_t>(kind)) * 2 + static_cast<std::size_t>(grade);
}

}  // namespace

SiteIndex add_site(Report& report, const SourceSite& site) {
  if (report.sites.size() >= 65536) return 0;
  report.sites.push_back(site);
  return static_cast<SiteIndex>(report.sites.size() - 1);
}

const SourceSite& source_site(Report& report, SiteIndex index) { return report.sites[index]; }
unsigned site_count(Report& report) { return static_cast<unsigned>(report.sites.size()); }

std::string describe_site(Report& report, SiteIndex index) {
  if (index == 0) return "an unknown line";
  return std::string(report.sites[index].file) + ":" + std::to_string(report.sites[index].line);
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::out_of_bounds_global: return "out_of_bounds_global";
    case Kind::out_of_bounds_shared: return "out_of_bounds_shared";
    case Kind::misaligned_access: return "misaligned_access";
    case Kind::uninitialized_shared_read: return "uninitialized_shared_read";
    case Kind::uninitialized_global_read: return "uninitialized_global_read";
    case Kind::shared_race: return "shared_race";
    case Kind::global_race: return "global_race";
    case Kind::async_read_before_wait: return "async_read_before_wait";
    case Kind::barrier_not_reached: return "barrier_not_reached";
    case Kind::missing_lanes: return "missing_lanes";
    case Kind::write_to_input: return "write_to_input";
    case Kind::read_only_load_of_written: return "read_only_load_of_written";
    case Kind::lost_write: return "lost_write";
    case Kind::unwritten_output: return "unwritten_output";
    case Kind::workspace_not_zero: return "workspace_not_zero";
    case Kind::invalid_argument: return "invalid_argument";
    case Kind::undefined_register: return "undefined_register";
    case Kind::wrong_state_space: return "wrong_state_space";
    case Kind::out_of_bounds_local: return "out_of_bounds_local";
    case Kind::trap: return "trap";
    case Kind::unrounded_tf32: return "unrounded_tf32";
    case Kind::wgmma_in_flight: return "wgmma_in_flight";
    case Kind::bulk_copy_in_flight: return "bulk_copy_in_flight";
    case Kind::missing_wgmma_fence: return "missing_wgmma_fence";
    case Kind::missing_proxy_fence: return "missing_proxy_fence";
    case Kind::mbarrier_misuse: return "mbarrier_misuse";
    case Kind::missing_mbarrier_fence: return "missing_mbarrier_fence";
    case Kind::block_exited: return "block_exited";
    case Kind::heap_misuse: return "heap_misuse";
    case Kind::unset_symbol: return "unset_symbol";
    case Kind::deadlock: return "deadlock";
    case Kind::launch_limit: return "launch_limit";
    case Kind::tcgen05_in_flight: return "tcgen05_in_flight";
    case Kind::missing_tcgen05_fence: return "missing_tcgen05_fence";
    case Kind::missing_tcgen05_wait: return "missing_tcgen05_wait";
    case Kind::tensor_memory_misuse: return "tensor_memory_misuse";
    case Kind::uninitialized_tensor_memory: return "uninitialized_tensor_memory";
  }
  return "";
}

bool count_finding(Report& report, Kind kind, SiteIndex site, Grade grade) {
  const std::size_t id = finding_id(kind, site, grade);
  if (id >= report.counts.size()) report.counts.resize((site + std::size_t{16}) * kinds * 2);
  return ++report.counts[id] == 1;
}

std::uint64_t times_found(Report& report, Kind kind, SiteIndex site) {
  const std::size_t id = finding_id(kind, site, Grade::fault);
  return id < report.counts.size() ? report.counts[id] : 0;
}

bool was_found(Report& report, Kind kind, SiteIndex site) { return times_found(report, kind, site) != 0; }

bool was_found(Report& report, Kind kind) {
  for (SiteIndex site = 0; site < site_count(report); ++site) {
    if (was_found(report, kind, site)) return true;
  }
  return false;
}

namespace {
void write_message(Report& report, Kind kind, Grade grade, SiteIndex site, SiteIndex other, const char* format, va_list arguments) {
  char message[2048];
  std::vsnprintf(message, sizeof message, format, arguments);
  Line line("finding");
  line.number("id", finding_id(kind, site, grade)).text("kind", kind_name(kind)).site(report, site).text("message", message);
  line.text("grade", grade == Grade::note ? "note" : "fault");
  if (other != 0) line.text("other_file", source_site(report, other).file).number("other_line", source_site(report, other).line);
  line.write(report);
}
}  // namespace

void write_finding(Report& report, Kind kind, SiteIndex site, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_message(report, kind, Grade::fault, site, 0, format, arguments);
  va_end(arguments);
}

void write_graded(Report& report, Kind kind, Grade grade, SiteIndex site, SiteIndex other, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_message(report, kind, grade, site, other, format, arguments);
  va_end(arguments);
}

void lower_to_note(Report& report, Kind kind, SiteIndex site, const char* why) {
  Line("note").number("id", finding_id(kind, site, Grade::fault)).text("why", why).write(report);
}

void report_shared(Report& report, SiteIndex site, const char* instruction, int bytes, std::uint64_t requests,
                   std::uint64_t wavefronts, std::uint64_t ideal) {
  Line("shared")
      .site(report, site)
      .text("instruction", instruction)
      .number("bytes", static_cast<std::uint64_t>(bytes))
      .number("requests", requests)
      .number("wavefronts", wavefronts)
      .number("ideal", ideal)
      .write(report);
}

void report_global(Report& report, SiteIndex site, const char* instruction, int bytes, std::uint64_t requests,
                   std::uint64_t sectors, std::uint64_t unique, std::uint64_t fresh) {
  Line("global")
      .site(report, site)
      .text("instruction", instruction)
      .number("bytes", static_cast<std::uint64_t>(bytes))
      .number("requests", requests)
      .number("sectors", sectors)
      .number("unique", unique)
      .number("fresh", fresh)
      .write(report);
}

void report_executed(Report& report, SiteIndex site, std::uint64_t times, const char* shape) {
  Line("executed").site(report, site).number("times", times).text("shape", shape).write(report);
}

void report_chains(Report& report, std::uint64_t warps, std::uint64_t cycles) {
  Line("chains").number("warps", warps).number("cycles", cycles).write(report);
}

void report_end(Report& report, const char* status, SiteIndex site, const char* message) {
  for (std::size_t id = 0; id < report.counts.size(); ++id) {
    if (report.counts[id] > 1) Line("count").number("id", id).number("count", report.counts[id]).write(report);
  }
  Line("end").text("status", status).site(report, site).text("message", message).write(report);
}

void report_unknown(Report& report, std::uint64_t address, std::uint64_t bytes) {
  Line("unknown").number("address", address).number("bytes", bytes).write(report);
}

void report_waited(Report& report) { Line("waited").write(report); }

void report_use(Report& report, std::uint64_t address, std::uint64_t bytes, unsigned use) {
  Line("use").number("address", address).number("bytes", bytes).number("use", use).write(report);
}

void report_variables(Report& report, std::uint64_t digest) { Line("variables").number("digest", digest).write(report); }

void report_print(Report& report, const char* text) { Line("print").escaped("text", text).write(report); }

void report_to(Report& report, int file_descriptor) { report.output = file_descriptor; }

}  // namespace autosched::emulator
