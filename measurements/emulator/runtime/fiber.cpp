#include "fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if !defined(AUTOSCHED_FIBER_UCONTEXT) && defined(__x86_64__)
// System V ABI: rbx, rbp and r12 to r15 belong to the caller.
asm(R"(
  .text
  .globl autosched_switch_stack
  .type autosched_switch_stack, @function
autosched_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size autosched_switch_stack, . - autosched_switch_stack
)");
extern "C" void autosched_switch_stack(void** save, void* load);
#elif !defined(AUTOSCHED_FIBER_UCONTEXT) && defined(__aarch64__)
// AAPCS64: x19 to x29, the link register and the low halves of v8 to v15 belong to the caller.
asm(R"(
  .text
  .globl autosched_switch_stack
  .type autosched_switch_stack, %function
autosched_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size autosched_switch_stack, . - autosched_switch_stack
)");
extern "C" void autosched_switch_stack(void** save, void* load);
#endif

namespace autosched::emulator {

Stacks::Stacks(unsigned count) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
  total_ = (bytes + page_) * count;
  void* memory = mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("emulator: cannot reserve thread stacks");
    std::exit(1);
  }
  memory_ = static_cast<char*>(memory);
  for (unsigned i = 0; i < count; ++i) {
    if (mprotect(at(i), bytes, PROT_READ | PROT_WRITE) != 0) {
      std::perror("emulator: cannot allot thread stacks");
      std::exit(1);
    }
  }
}

void* Stacks::at(unsigned i) const { return memory_ + (bytes + page_) * i + page_; }

bool Stacks::is_guard(const void* address) const {
  const char* p = static_cast<const char*>(address);
  return p >= memory_ && p < memory_ + total_ && static_cast<std::size_t>(p - memory_) % (bytes + page_) < page_;
}

#ifdef AUTOSCHED_FIBER_UCONTEXT

void prepare(Fiber& fiber, void* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
}
void switch_fiber(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }

#else

void prepare(Fiber& fiber, void* stack, std::size_t bytes, void (*entry)()) {
  auto top = (reinterpret_cast<std::uintptr_t>(stack) + bytes) & ~std::uintptr_t{15};
  auto* sp = reinterpret_cast<void**>(top);
#if defined(__x86_64__)
  *--sp = nullptr;  // where a caller's return address would be: keeps the entry's stack aligned as the ABI asks
  *--sp = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--sp = nullptr;
#else
  sp -= 20;
  for (int i = 0; i < 20; ++i) sp[i] = nullptr;
  sp[11] = reinterpret_cast<void*>(entry);  // x30
#endif
  fiber.stack_pointer = sp;
}
void switch_fiber(Fiber& from, Fiber& to) { autosched_switch_stack(&from.stack_pointer, to.stack_pointer); }

#endif

}  // namespace autosched::emulator
