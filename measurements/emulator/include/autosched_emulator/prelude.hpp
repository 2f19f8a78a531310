// Included in front of every emulated kernel: CUDA's language extensions and built-in functions for a host compiler.
// No standard header but <source_location>, to keep a kernel's compile under a second.
#pragma once
#include <autosched_emulator/math_functions.hpp>
#include <autosched_emulator/memory_functions.hpp>
#include <autosched_emulator/runtime.hpp>
#include <autosched_emulator/vector_types.hpp>
#include <autosched_emulator/warp_functions.hpp>

#define __CUDACC__
#define __CUDA_ARCH__ 800
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
// Blocks run one after another and all threads are fibers of one OS thread, so that one copy serves all of them.
// Thread-local, because that alone puts every variable of the library, those in templates too, into one segment of
// their own, which the runner fills with 0xFF before each block.
#define __shared__ thread_local
// CUDA lets alignas follow __shared__; C++ lets only a GNU attribute stand there.
#define alignas(...) __attribute__((aligned(::autosched::emulator::alignment<__VA_ARGS__>())))

namespace autosched::emulator {

template <class T>
consteval unsigned long alignment() {
  return alignof(T);
}
template <unsigned long Bytes>
consteval unsigned long alignment() {
  return Bytes;
}

// What `extern __shared__ T name[];` becomes: T* const name = DynamicShared{}.
struct DynamicShared {
  template <class T>
  operator T*() const {
    return static_cast<T*>(dynamic_shared());
  }
};

}  // namespace autosched::emulator

#define threadIdx (::autosched::emulator::current->thread)
#define blockIdx (::autosched::emulator::current->block)
#define blockDim (::autosched::emulator::block_size)
#define gridDim (::autosched::emulator::grid_size)
constexpr int warpSize = 32;

inline size_t __cvta_generic_to_shared(const void* p,
                                       autosched::emulator::Site site = autosched::emulator::Site::current()) {
  return autosched::emulator::shared_address_of(p, site);
}


// The launch: calls the entry function with the arguments of the job. Appended behind every kernel source.
namespace autosched::emulator {

template <class... Parameters>
constexpr int count_parameters(void (*)(Parameters...)) {
  return sizeof...(Parameters);
}
// A parameter: a pointer to a buffer, or a value, whose bytes the argument points to.
template <class T>
struct Parameter {
  static constexpr bool is_pointer = false;
  static T of(void* argument) {
    T value;
    __builtin_memcpy(&value, argument, sizeof value);
    return value;
  }
};
template <class T>
struct Parameter<T*> {
  static constexpr bool is_pointer = true;
  static T* of(void* argument) { return static_cast<T*>(argument); }
};
// `bytes` has a number for each argument: the bytes of a value, 0 for a pointer.
template <class... Parameters>
constexpr bool parameters_fit(void (*)(Parameters...), const int* bytes) {
  return ((Parameter<Parameters>::is_pointer ? *bytes++ == 0 : *bytes++ == static_cast<int>(sizeof(Parameters))) && ...);
}
template <class... Parameters>
void call_with(void (*kernel)(Parameters...), void** argument) {
  // Braces evaluate from left to right, so that argument++ pairs each parameter with its pointer.
  struct Call {
    Call(void (*f)(Parameters...), Parameters... p) { f(p...); }
  };
  Call{kernel, Parameter<Parameters>::of(*argument++)...};
}

// In the segment of the __shared__ variables, which is there for certain with this one in it.
static __thread char shared_anchor;

}  // namespace autosched::emulator

// ... are the bytes of each argument, after a first number that is ignored: see parameters_fit.
#define AUTOSCHED_EMULATOR_ENTRY(KERNEL, ...)                                                                        \
  namespace autosched::emulator {                                                                                    \
  constexpr int argument_bytes[] = {__VA_ARGS__};                                                                    \
  }                                                                                                                  \
  static_assert(autosched::emulator::count_parameters(&KERNEL) + 1 == sizeof autosched::emulator::argument_bytes / 4, \
                "the kernel must have one parameter for each of its arguments");                                     \
  static_assert(autosched::emulator::parameters_fit(&KERNEL, autosched::emulator::argument_bytes + 1),               \
                "every parameter of the kernel must be a pointer, or a value of as many bytes as its argument");     \
  extern "C" void autosched_emulator_entry(void** arguments) { autosched::emulator::call_with(&KERNEL, arguments); } \
  extern "C" const char* autosched_emulator_shared() { return &autosched::emulator::shared_anchor; }
