// Report of a launch as JSON lines, each written immediately, so that a later crash or timeout loses nothing.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace autosched::emulator {

// Index of a source site; 0 stands for no site.
using SiteIndex = std::uint16_t;

struct SourceSite {
  const char* file;
  const char* function;
  unsigned line;
};

// Findings so far, and the output to which they are written.
struct Report {
  int output = STDOUT_FILENO;
  std::vector<std::uint64_t> counts;  // number of findings by kind, site and grade; findings without a site come first
  std::vector<SourceSite> sites = {{"", "", 0}};
};

// Adds a source site. The report keeps pointers to its strings.
SiteIndex add_site(Report& report, const SourceSite& site);
const SourceSite& source_site(Report& report, SiteIndex index);
unsigned site_count(Report& report);
// "file:line", for messages.
std::string describe_site(Report& report, SiteIndex index);

// The names must equal the values of FindingKind in measurements/emulator/findings.py.
enum class Kind {
  out_of_bounds_global,
  out_of_bounds_shared,
  misaligned_access,
  uninitialized_shared_read,
  uninitialized_global_read,
  shared_race,
  global_race,
  async_read_before_wait,
  barrier_not_reached,
  missing_lanes,
  write_to_input,
  read_only_load_of_written,
  lost_write,
  unwritten_output,
  workspace_not_zero,
  invalid_argument,
  undefined_register,
  wrong_state_space,
  out_of_bounds_local,
  trap,
  unrounded_tf32,
  wgmma_in_flight,
  bulk_copy_in_flight,
  missing_wgmma_fence,
  missing_proxy_fence,
  mbarrier_misuse,
  missing_mbarrier_fence,
  block_exited,
  heap_misuse,
  unset_symbol,
  deadlock,
  launch_limit,
  tcgen05_in_flight,
  missing_tcgen05_fence,
  missing_tcgen05_wait,
  tensor_memory_misuse,
  uninitialized_tensor_memory,
};
constexpr Kind last_kind = Kind::uninitialized_tensor_memory;
const char* kind_name(Kind kind);

// A fault makes a kernel wrong. A note is a violation of the PTX ISA that is harmless in practice.
enum class Grade { fault, note };

// Counts a finding and returns whether it is the first of its kind and grade at its site.
bool count_finding(Report& report, Kind kind, SiteIndex site, Grade grade = Grade::fault);
bool was_found(Report& report, Kind kind, SiteIndex site);  // ignores notes
bool was_found(Report& report, Kind kind);
std::uint64_t times_found(Report& report, Kind kind, SiteIndex site);  // ignores notes
void write_finding(Report& report, Kind kind, SiteIndex site, const char* format, ...) __attribute__((format(printf, 4, 5)));
// ``other``: site of the second access involved (0: none).
void write_graded(Report& report, Kind kind, Grade grade, SiteIndex site, SiteIndex other, const char* format, ...)
    __attribute__((format(printf, 6, 7)));
// Downgrades a reported fault to a note.
void lower_to_note(Report& report, Kind kind, SiteIndex site, const char* why);
// Reports a finding with a printf-style message. It is a macro, because a fault may happen a million times, and only
// the first message is formatted.
#define FINDING(REPORT, KIND, SITE, ...)                                                       \
  do {                                                                                 \
    if (count_finding(REPORT, Kind::KIND, SITE)) write_finding(REPORT, Kind::KIND, SITE, __VA_ARGS__); \
  } while (false)
// Reports a finding with a grade and the site of a second access (0: none).
#define FINDING_OF_TWO(REPORT, KIND, GRADE, SITE, OTHER, ...)                                                     \
  do {                                                                                                    \
    if (count_finding(REPORT, Kind::KIND, SITE, GRADE)) write_graded(REPORT, Kind::KIND, GRADE, SITE, OTHER, __VA_ARGS__); \
  } while (false)

void report_shared(Report& report, SiteIndex site, const char* instruction, int bytes, std::uint64_t requests,
                   std::uint64_t wavefronts, std::uint64_t ideal);
void report_global(Report& report, SiteIndex site, const char* instruction, int bytes, std::uint64_t requests,
                   std::uint64_t sectors, std::uint64_t unique, std::uint64_t fresh);
// report_executed: how often warps have executed the instructions of a site. report_chains: how long the warps' chains
// of dependent instructions are.
void report_executed(Report& report, SiteIndex site, std::uint64_t times, const char* shape);
void report_chains(Report& report, std::uint64_t warps, std::uint64_t cycles);
// Writes the last line, with the status ("done", "stopped" after a deadlock, "crashed" or "timeout") and the number of
// findings by kind and site. Allocates no memory, because signal handlers call this function.
void report_end(Report& report, const char* status, SiteIndex site, const char* message);

// Reports bytes of a program's memory that were undefined before the launch and still are.
void report_unknown(Report& report, std::uint64_t address, std::uint64_t bytes);
// Reports the launch's accesses to a range of a program's memory.
void report_use(Report& report, std::uint64_t address, std::uint64_t bytes, unsigned use);

// Reports that the launch has waited for all earlier launches with which it might overlap (griddepcontrol.wait).
void report_waited(Report& report);

// Reports a digest of the final contents of the variables of a launch.
void report_variables(Report& report, std::uint64_t digest);

// Reports output of the kernel's printf calls, in the order of the calls.
void report_print(Report& report, const char* text);

// Sets the file to which lines are written.
void report_to(Report& report, int file_descriptor);

}  // namespace autosched::emulator
