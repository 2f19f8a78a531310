#include "call_site.hpp"

#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace autosched::program {
namespace {

constexpr std::size_t most_frames = 8;

// Address range of the program's own file.
struct OwnFile {
  std::uint64_t base = 0, from = ~std::uint64_t{0}, to = 0;
};
const OwnFile& own_file() {
  static const OwnFile own = [] {
    OwnFile o;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* to) {
          auto& o = *static_cast<OwnFile*>(to);
          o.base = info->dlpi_addr;
          for (int k = 0; k < info->dlpi_phnum; ++k) {
            const auto& segment = info->dlpi_phdr[k];
            if (segment.p_type != PT_LOAD) continue;
            o.from = std::min<std::uint64_t>(o.from, o.base + segment.p_vaddr);
            o.to = std::max<std::uint64_t>(o.to, o.base + segment.p_vaddr + segment.p_memsz);
          }
          return 1;  // the first file is the program itself
        },
        &o);
    return o;
  }();
  return own;
}

}  // namespace

std::string call_site() {
  struct Trace {
    std::string text;
    std::size_t count = 0, seen = 0;
  } trace;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* to) {
        auto& trace = *static_cast<Trace*>(to);
        int exact = 0;
        const std::uint64_t at = _Unwind_GetIPInfo(context, &exact) - (exact != 0 ? 0 : 1);
        const OwnFile& own = own_file();
        if (at >= own.from && at < own.to) {
          char digits[20];
          std::snprintf(digits, sizeof digits, "%s%llx", trace.count == 0 ? "" : ",", static_cast<unsigned long long>(at - own.base));
          trace.text += digits;
          ++trace.count;
        }
        return trace.count == most_frames || ++trace.seen == 64 ? _URC_NORMAL_STOP : _URC_NO_REASON;
      },
      &trace);
  return trace.text.empty() ? "-" : trace.text;
}

}  // namespace autosched::program
