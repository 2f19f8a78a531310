// Guards of memory that the host can touch: its pages are protected while work that nobody has waited for uses them, so that
// what the host does there is seen. All under the mutex of the session.
#pragma once
#include <cstdint>

namespace autosched::program {

enum Use : unsigned { use_read = 1, use_write = 2 };

void guard(std::uint64_t from, std::uint64_t to, unsigned use);
void lift_guards(std::uint64_t from, std::uint64_t to);
void renew_guards();  // what the host has waited for is no longer guarded
// Pages that the library itself, or the host, is about to touch, until they are closed again.
void open_pages(std::uint64_t from, std::uint64_t to);
void close_opened();

}  // namespace autosched::program
