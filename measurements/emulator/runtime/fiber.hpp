// One CUDA thread's own stack and registers. Switching saves what the C++ ABI asks a callee to keep.
#pragma once
#include <cstddef>

#if !defined(AUTOSCHED_FIBER_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define AUTOSCHED_FIBER_UCONTEXT
#endif

#ifdef AUTOSCHED_FIBER_UCONTEXT
#include <ucontext.h>
#endif

namespace autosched::emulator {

struct Fiber {
#ifdef AUTOSCHED_FIBER_UCONTEXT
  ucontext_t context;
#else
  void* stack_pointer = nullptr;
#endif
};

// Stacks of equal size, each with an inaccessible page below it.
class Stacks {
 public:
  static constexpr std::size_t bytes = 256 * 1024;

  explicit Stacks(unsigned count);
  // Lowest usable address of stack i.
  void* at(unsigned i) const;
  // Whether an address lies in the inaccessible page below some stack.
  bool is_guard(const void* address) const;

 private:
  char* memory_;
  std::size_t page_, total_;
};

// The next switch into `fiber` calls entry(), which must never return.
void prepare(Fiber& fiber, void* stack, std::size_t bytes, void (*entry)());
// Leaves `from`, continues `to`; returns when somebody switches to `from`.
void switch_fiber(Fiber& from, Fiber& to);

}  // namespace autosched::emulator
