// Guards of memory that the host can access. Pages that pending work uses are protected until the host has waited for
// this work, so that unordered accesses by the host are detected. The caller of these functions must hold the mutex of
// the session.
#pragma once
#include <cstdint>

namespace autosched::program {

enum Use : unsigned { use_read = 1, use_write = 2 };

void guard(std::uint64_t from, std::uint64_t to, unsigned use);
void lift_guards(std::uint64_t from, std::uint64_t to);
void renew_guards();  // removes the guards of work for which the host has waited
// Makes guarded pages accessible to the library or the host, until close_opened is called.
void open_pages(std::uint64_t from, std::uint64_t to);
void close_opened();

}  // namespace autosched::program
