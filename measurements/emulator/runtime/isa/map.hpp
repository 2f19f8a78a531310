// Templates that apply a function of scalars to the operands of each lane.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

template <auto F, class R, class A>
void map1(Warp& w, const Instruction& i, Lanes active) {
  R* d = w.values<R>(i.destination(0));
  const A* a = w.values<A>(i.source(0));
  if (active == all_lanes) {
    R result[warp_size];
    for (unsigned k = 0; k < warp_size; ++k) result[k] = F(a[k]);
    std::memcpy(d, result, sizeof result);
    return;
  }
  for_lanes(active, [&](unsigned k) { d[k] = F(a[k]); });
}
template <auto F, class R, class A, class B = A>
void map2(Warp& w, const Instruction& i, Lanes active) {
  R* d = w.values<R>(i.destination(0));
  const A* a = w.values<A>(i.source(0));
  const B* b = w.values<B>(i.source(1));
  if (active == all_lanes) {
    R result[warp_size];
    for (unsigned k = 0; k < warp_size; ++k) result[k] = F(a[k], b[k]);
    std::memcpy(d, result, sizeof result);
    return;
  }
  for_lanes(active, [&](unsigned k) { d[k] = F(a[k], b[k]); });
}
template <auto F, class R, class A, class B = A, class C = A>
void map3(Warp& w, const Instruction& i, Lanes active) {
  R* d = w.values<R>(i.destination(0));
  const A* a = w.values<A>(i.source(0));
  const B* b = w.values<B>(i.source(1));
  const C* c = w.values<C>(i.source(2));
  if (active == all_lanes) {
    R result[warp_size];
    for (unsigned k = 0; k < warp_size; ++k) result[k] = F(a[k], b[k], c[k]);
    std::memcpy(d, result, sizeof result);
    return;
  }
  for_lanes(active, [&](unsigned k) { d[k] = F(a[k], b[k], c[k]); });
}

}  // namespace autosched::emulator::ptx
