"""Device code may allocate from the heap: correct kernels pass, and each misuse is found at its line."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch

pytestmark = [needs_nvrtc, needs_compiler]

N = 64


def run(source: str, blocks: int = 1) -> EmulatedLaunch:
    out = np.zeros(blocks * N, np.int32)
    return autosched.emulate(source, arguments=(out, 5), grid=blocks, block=N, outputs=(0,))


def test_lists_and_scratch_memory() -> None:
    """Kernels allocate list nodes by new and arrays by malloc. malloc returns null if a request is too large."""
    source = """
    struct Node { int value; Node* next; };
    extern "C" __global__ void k(int* o, int n) {
      Node* head = nullptr;
      for (int i = 0; i < n; ++i) head = new Node{i, head};
      int* p = (int*)malloc(n * sizeof(int));
      int sum = 0;
      for (int i = 0; head; ++i) {
        p[i] = head->value;
        Node* next = head->next;
        delete head;
        head = next;
      }
      for (int i = 0; i < n; ++i) sum += p[i] * (i + 1);
      free(nullptr);
      o[blockIdx.x * blockDim.x + threadIdx.x] = malloc(9 << 20) == nullptr ? sum : -1;
    }"""
    emulation = run(source, 2)
    assert emulation.ok, emulation.reason
    assert Counter(np.asarray(emulation.arrays[0]).tolist()) == {4 * 1 + 3 * 2 + 2 * 3 + 1 * 4: 2 * N}


def test_heap_memory_persists_across_launches() -> None:
    source = """
    __device__ int* kept = nullptr;
    extern "C" __global__ void k(int* o, int n) {
      if (kept == nullptr) *(kept = (int*)malloc(4)) = n;
      o[0] = *kept;
    }"""
    emulation = autosched.emulate(
        source, arguments=(np.zeros(1, np.int32), 5), grid=1, block=1, outputs=(0,), launches=3
    )
    assert emulation.ok and emulation.arrays[0] == [5], emulation.reason


BODY = """
extern "C" __global__ void k(int* o, int n) {
  int* p = (int*)malloc(n * sizeof(int));
  for (int i = 0; i < n; ++i) p[i] = i;
  %s
  o[threadIdx.x] = n;
}"""


@pytest.mark.parametrize(
    ("misuse", "kind", "says"),
    [
        ("free(p); free(p);", "heap_misuse", "were freed at"),
        ("free(p + 1);", "heap_misuse", "malloc has not returned"),
        ("free(o);", "heap_misuse", "malloc has not returned"),
        ("free(p); n += *(volatile int*)p;", "heap_misuse", "at byte 0 of 20 bytes"),
        ("free(p); *(volatile int*)(p + 1) = 3;", "heap_misuse", "at byte 4 of 20 bytes"),
        ("free(p); int* q = (int*)malloc(20); q[0] = 1; *(volatile int*)p = 2; free(q);", "heap_misuse", "20 bytes"),
        ("p[n] = 3; free(p);", "out_of_bounds_global", "at byte 20 of 20 bytes"),
        ("int* q = (int*)malloc(8); n += *(volatile int*)q; free(q);", "uninitialized_global_read", "element"),
    ],
)
def test_misuse_is_found(misuse: str, kind: str, says: str) -> None:
    assert run(BODY % "free(p);").ok
    findings = [f for f in run(BODY % misuse).findings if f.kind == kind]
    assert findings and says in findings[0].message and findings[0].line == 5, findings
