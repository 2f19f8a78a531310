// Guards of memory that the host can access. Pages that pending work uses are protected until the host has waited for
// it, so that unordered accesses of the host are detected. All functions need the mutex of the session.
#pragma once
#include <cstdint>

namespace autosched::program {

enum Use : unsigned { use_read = 1, use_write = 2 };

void guard(std::uint64_t from, std::uint64_t to, unsigned use);
void lift_guards(std::uint64_t from, std::uint64_t to);
void renew_guards();  // removes guards of work that the host has waited for
// Opens pages for an access by the library itself or by the host, until they are closed again.
void open_pages(std::uint64_t from, std::uint64_t to);
void close_opened();

}  // namespace autosched::program
