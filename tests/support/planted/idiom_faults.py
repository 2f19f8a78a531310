"""Kernels with common idioms (``idioms/*.cu``), and faults that a reviewer would plant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FOLDER = Path(__file__).parents[2] / "autosched" / "verify" / "emulate" / "idioms"
RNG = np.random.default_rng(0)
X = RNG.standard_normal(1024).astype(np.float32)
HALVES = X.astype(np.float16)
TILE = RNG.standard_normal((48, 80)).astype(np.float32)
BINNED = RNG.integers(0, 64, 3000).astype(np.int32)
A, B = (RNG.integers(-3, 4, shape).astype(np.float32) for shape in ((64, 96), (96, 64)))
WITH_NAN = np.where(np.arange(32) == 7, np.nan, -(X[:32] ** 2)).astype(np.float32)
COUNTED = np.arange(128, dtype=np.int32)


@dataclass(frozen=True)
class Idiom:
    """A kernel, its launch and its reference.

    ``outputs`` are the positions of arguments that the kernel fills. The argument at position ``result`` must equal
    what ``expected`` returns.
    """

    arguments: Callable[[], tuple[Any, ...]]
    result: int
    expected: Callable[[], Any]
    grid: Any
    block: Any
    outputs: tuple[int, ...] = ()

    def is_right(self, arrays: tuple[Array | None, ...]) -> bool:
        actual = arrays[self.result]
        return actual is not None and bool(
            np.allclose(actual.reshape(-1), np.reshape(self.expected(), -1), rtol=1e-2, atol=1e-2, equal_nan=True)
        )


def zeros(*shape: int, kind: Any = np.float32) -> Array:
    return np.zeros(shape, kind)


def reversed_rows(rows: int, wide: int) -> Array:
    return X[: rows * wide].reshape(rows, wide)[:, ::-1]


IDIOMS = {
    "reduce": Idiom(lambda: (zeros(1), X[:1000], 1000), 0, lambda: X[:1000].sum(), 2, 256),
    "transpose": Idiom(lambda: (zeros(80, 48), TILE, 48, 80), 0, lambda: TILE.T, (3, 2), (32, 8), (0,)),
    "histogram": Idiom(
        lambda: (zeros(64, kind=np.int32), BINNED, 3000), 0, lambda: np.bincount(BINNED, minlength=64), 3, 128
    ),
    "matmul": Idiom(lambda: (zeros(64, 64), A, B, 64, 64, 96), 0, lambda: A @ B, (4, 4), (16, 16), (0,)),
    "cpasync": Idiom(
        lambda: (zeros(32), X, 8), 0, lambda: (X.reshape(8, 128) + reversed_rows(8, 128))[:, :32].sum(0), 1, 32, (0,)
    ),
    "lastblock": Idiom(lambda: (zeros(16), zeros(1), X), 1, lambda: X.sum(), 16, 64, (0, 1)),
    "flags": Idiom(
        lambda: (zeros(6, kind=np.int32), zeros(192, kind=np.int32), zeros(192, kind=np.int32)),
        2, lambda: np.arange(6)[:, None] * np.arange(32), 6, 32, (1, 2),
    ),
    "lock": Idiom(lambda: (zeros(1, kind=np.int32), zeros(1, kind=np.int32)), 1, lambda: 8, 8, 32),
    "shfl_width": Idiom(
        lambda: (zeros(64), X[:64]), 0, lambda: np.cumsum(X[:64].reshape(8, 8), 1), 1, 64, (0,)
    ),
    "warp_private_smem": Idiom(lambda: (zeros(384), X[:384]), 0, lambda: reversed_rows(12, 32), 1, 128, (0,)),
    "vec4": Idiom(lambda: (zeros(1001), X[:1001], 1001), 0, lambda: 2 * X[:1001], 4, 64, (0,)),
    "nc_alias": Idiom(lambda: (zeros(255), X[:256], 256), 0, lambda: X[:255] + X[1:256], 4, 64, (0,)),
    "named_barrier_pc": Idiom(lambda: (zeros(128), X[:128]), 0, lambda: reversed_rows(4, 32), 1, 64, (0,)),
    "stencil": Idiom(
        lambda: (zeros(200), X[:200], 200), 0, lambda: np.convolve(X[:200], [1, 1, 1], "same"), 4, 64, (0,)
    ),
    "maxnan": Idiom(lambda: (zeros(1), WITH_NAN), 0, lambda: np.nan, 1, 32, (0,)),
    "cluster": Idiom(
        lambda: (zeros(128, kind=np.int32), COUNTED), 0, lambda: COUNTED.reshape(2, 2, 32)[:, ::-1], 4, 32, (0,)
    ),
    "mma": Idiom(
        lambda: (zeros(16, 8), HALVES[:256], HALVES[256:384]), 0,
        lambda: HALVES[:256].reshape(16, 16).astype(float) @ HALVES[256:384].reshape(16, 8).astype(float), 1, 32, (0,),
    ),
    "async_bar": Idiom(lambda: (zeros(256), X[:256]), 0, lambda: reversed_rows(4, 64), 1, 128, (0,)),
}  # fmt: skip

# (name, text in the source, replacement). If the name ends in "everywhere", every occurrence is replaced.
FAULTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "reduce": (
        ("no barrier after store", "  s[t]=v;\n  __syncthreads();", "  s[t]=v;\n"),
        ("barrier moved out of loop", "    __syncthreads();\n  }", "  }\n  __syncthreads();"),
        # Since Volta, barriers do not wait for exited threads, so this fault keeps the thread running.
        (
            "barrier in branch",
            "    if(t<d) s[t]+=s[t+d];\n    __syncthreads();\n  }",
            "    if(t<d) {s[t]+=s[t+d];\n    __syncthreads();}\n  }\n  if(s[t]==1234.5f) o[0]=0;",
        ),
        ("t<=d", "if(t<d)", "if(t<=d)"),
        ("off by one reading n", "i<n;", "i<=n;"),
        ("lost atomic", "atomicAdd(o,s[0])", "*o+=s[0]"),
        ("stops at 2", "d>=1", "d>1"),
        ("syncwarp instead", "    __syncthreads();\n  }", "    __syncwarp();\n  }"),
        ("shared too small", "s[256]", "s[255]"),
        ("block scope atomic", "atomicAdd(o", "atomicAdd_block(o"),
        ("uninit register", "float v=0;", "float v;"),
        ("stride wrong 2nd turn", "i+=gridDim.x*256", "i+=gridDim.x*128"),
        ("no stride tail", "i<n;i+=gridDim.x*256", "i<n && i<512;i+=gridDim.x*256"),
        ("every thread adds", "if(t==0)\n", "if(t<=1)\n"),
    ),
    "transpose": (
        ("no barrier", "  __syncthreads();", ""),
        ("wrong pitch in", "x[(r0+j)*n+c]", "x[(r0+j)*m+c]"),
        ("no tail guard store", "if(r2+j<n && c2<m) ", ""),
        ("no column guard", "if(r2+j<n && c2<m)", "if(r2+j<n)"),
        ("read past the rows", "if(r0+j<m && c<n)", "if(c<n)"),
        ("stay in alloc wrong", "s[threadIdx.x][j]", "s[threadIdx.x][j+1]"),
        ("overlap pitch", "s[32][33]", "s[32][31]"),
        ("step 4 double write", "j+=8)\n    if(r2", "j+=4)\n    if(r2"),
        ("loop 24 of 32", "j<32;j+=8)\n    if(r2", "j<24;j+=8)\n    if(r2"),
    ),
    "histogram": (
        ("no init", "    h[i]=0;", "    ;"),
        ("no barrier after init", "    h[i]=0;\n  __syncthreads();", "    h[i]=0;\n"),
        ("lost shared atomic", "atomicAdd(&h[x[i]],1)", "h[x[i]]++"),
        ("no barrier before merge", "],1);\n  __syncthreads();", "],1);\n"),
        ("plain merge", "atomicAdd(&o[i],h[i])", "o[i]+=h[i]"),
        ("merge 63", "threadIdx.x;i<64;i+=128)\n    atomicAdd(&o", "threadIdx.x;i<63;i+=128)\n    atomicAdd(&o"),
        ("bin shifted", "h[x[i]]", "h[x[i]+1]"),
        ("init partial", "i=threadIdx.x;i<64;i+=128)\n    h", "i=threadIdx.x;i<32;i+=128)\n    h"),
    ),
    "matmul": (
        ("no barrier in loop", "    __syncthreads();\n  }", "  }"),
        ("no first barrier", "  __syncthreads();\n  for", "  for"),
        ("wrong stage", "int cur=t&1", "int cur=0"),
        ("one k short", "t<kk/16;t++", "t<kk/16-1;t++"),
        ("inner short", "i<16;i++", "i<15;i++"),
        ("pitch of b", "(t+1)*16+ty)*n+q", "(t+1)*16+ty)*kk+q"),
        (
            "products too large",
            "acc+=sa[cur][ty][i]*sb[cur][i][tx];",
            "acc=(float)(int)(acc+sa[cur][ty][i]*sb[cur][i][tx]*1.01f);",
        ),
        ("c aliasing", "c[r*n+q]=acc", "c[r*n+q-1]=acc"),
        ("prefetch over current", "sa[cur^1][ty][tx]=a[r*kk+(t+1)", "sa[cur][ty][tx]=a[r*kk+(t+1)"),
        ("guard missing", "if(t+1<kk/16)", "if(true)"),
    ),
    "cpasync": (
        ("wait 2", "wait_prior(1)", "wait_prior(2)"),
        ("no commit in loop", "    __pipeline_commit();\n    acc", "    acc"),
        (
            "commit conditional",
            "    if(i+2<tiles)\n"
            "      __pipeline_memcpy_async(&s[(i+2)%3][t*4],x+(i+2)*128+t*4,16);\n"
            "    __pipeline_commit();",
            "    if(i+2<tiles){\n"
            "      __pipeline_memcpy_async(&s[(i+2)%3][t*4],x+(i+2)*128+t*4,16);\n"
            "    __pipeline_commit();}",
        ),
        ("no sync", "    __syncthreads();\n", ""),
        ("two stages everywhere", "%3", "%2"),
        ("misaligned", "x+(i+2)*128+t*4", "x+(i+2)*128+t*4+1"),
        ("past the end", "if(i+2<tiles)", "if(i+1<tiles)"),
        (
            "wait after use",
            "    __pipeline_wait_prior(1);\n    __syncthreads();",
            "    __syncthreads();\n    __pipeline_wait_prior(1);",
        ),
        ("prologue one", "p<2;p++", "p<1;p++"),
    ),
    "lastblock": (
        ("no release fence", "    __threadfence();\n    last", "    last"),
        ("no acquire fence", "x-1;\n    __threadfence();", "x-1;"),
        ("block fence", "    __threadfence();\n    last", "    __threadfence_block();\n    last"),
        (
            "fence before store",
            "    part[blockIdx.x]=s[0]+s[1];\n    __threadfence();",
            "    __threadfence();\n    part[blockIdx.x]=s[0]+s[1];",
        ),
        ("plain ticket", "atomicAdd(&done,1)", "done++"),
        ("no barrier for last", "  __syncthreads();\n  if(last)", "  if(last)"),
        ("ticket gridDim-2", "gridDim.x-1", "gridDim.x-2"),
        ("xor width 8", "int d=16;d;d>>=1) v", "int d=8;d;d>>=1) v"),
        ("mask half", "v+=__shfl_xor_sync(~0u,v,d)", "v+=__shfl_xor_sync(0xffffu,v,d)"),
        ("no barrier s", "s[t/32]=v;\n  __syncthreads();", "s[t/32]=v;\n"),
    ),
    "flags": (
        ("no release fence", "  __threadfence();\n  __syncthreads();\n  if", "  __syncthreads();\n  if"),
        ("no acquire fence", "      __threadfence(); }", "      }"),
        (
            "block fence",
            "  __threadfence();\n  __syncthreads();\n  if",
            "  __threadfence_block();\n  __syncthreads();\n  if",
        ),
        ("no wait", "while(flag[b-1]==0);", ";"),
        ("no barrier after wait", "    __syncthreads();\n    prev", "    prev"),
        ("no barrier before flag", "  __threadfence();\n  __syncthreads();", "  __threadfence();"),
        (
            "flag early",
            "  data[b*32+t]=prev+t;\n  __threadfence();\n  __syncthreads();\n  if(t==0) flag[b]=1;",
            "  if(t==0) flag[b]=1;\n  data[b*32+t]=prev+t;",
        ),
        ("nonvolatile", "volatile int*flag", "int*flag"),
    ),
    "lock": (
        ("no acquire", "!=0);\n    __threadfence();", "!=0);"),
        ("no release", "+1;\n    __threadfence();", "+1;"),
        ("no lock", "while(atomicCAS(lock,0,1)!=0);", ";"),
        ("plain release no fence", "    __threadfence();\n    atomicExch(lock,0);", "    *lock=0;"),
    ),
    "shfl_width": (
        (
            "mask in branch",
            "    float u=__shfl_up_sync(~0u,v,d,8);\n    if(t%8>=d) v+=u;",
            "    if(t%8>=d) v+=__shfl_up_sync(~0u,v,d,8);",
        ),
        ("down", "shfl_up_sync", "shfl_down_sync"),
        ("short", "d<8", "d<4"),
    ),
    "warp_private_smem": (
        ("no first syncwarp", "    __syncwarp();\n    o", "    o"),
        ("no second syncwarp", "[31-l];\n    __syncwarp();", "[31-l];"),
        ("half mask", "    __syncwarp();\n    o", "    __syncwarp(0xffff);\n    o"),
        ("other warp", "s[w][31-l]", "s[w^1][31-l]"),
    ),
    "vec4": (
        ("no guard", "if(i+3<n)", "if(i<n)"),
        ("misaligned", "*(const float4*)(x+i)", "*(const float4*)(x+i+1)"),
        ("overlap", "*64+threadIdx.x)*4", "*64+threadIdx.x)*2"),
        ("tail lost", "j<n;j++", "j<n-1;j++"),
        ("tail j from 0", "int j=i", "int j=i+1"),
        ("x not scaled", "v.w*=2;", ""),
    ),
    "nc_alias": (
        ("aliased nc", "__ldg(x+i)+", "__ldg(y+i)+"),
        ("in place neighbours", "    y[i]=v;", "    ((float*)x)[i]=v; y[i]=v;"),
        (
            "in place plain",
            "    float v=__ldg(x+i)+__ldg(x+i+1);\n    y[i]=v;",
            "    float v=x[i]+x[i+1];\n    y[i]=v; ((float*)x)[i]=v;",
        ),
    ),
    "named_barrier_pc": (
        ("no empty wait", '      if(i>=2) asm volatile("bar.sync %0,64;"::"r"(3+i%2):"memory");\n', ""),
        ("same id", '"r"(1+i%2):"memory");\n    }\n  } else', '"r"(1):"memory");\n    }\n  } else'),
        ("count 96", 'bar.arrive %0,64;"::"r"(1', 'bar.arrive %0,96;"::"r"(1'),
        ("no full wait", '      asm volatile("bar.sync %0,64;"::"r"(1+i%2):"memory");\n      o', "      o"),
        (
            "arrive before store",
            '      s[i%2][l]=x[i*32+l];\n      asm volatile("bar.arrive %0,64;"::"r"(1+i%2):"memory");',
            '      asm volatile("bar.arrive %0,64;"::"r"(1+i%2):"memory");\n      s[i%2][l]=x[i*32+l];',
        ),
    ),
    "stencil": (
        ("halo right missing", "  if(t==63) s[65]=i+1<n?x[i+1]:0;\n", ""),
        ("halo no guard", "i+1<n?x[i+1]:0", "x[i+1]"),
        ("halo left unguarded", "i>0?x[i-1]:0", "x[i-1]"),
        ("barrier missing", "  __syncthreads();\n", ""),
        ("alloc 65", "s[66]", "s[65]"),
        ("halo wrong thread", "t==63", "t==62"),
    ),
    "maxnan": (("nan lost", "(u>v||u!=u)?u:v", "fmaxf(u,v)"),),
    "cluster": (
        ("no first sync", "  c.sync();\n  int*p", "  int*p"),
        ("no last sync", "  c.sync();\n  o", "  o"),
        ("block sync", "  c.sync();\n  int*p", "  __syncthreads();\n  int*p"),
        ("own rank", "c.block_rank()^1", "c.block_rank()"),
    ),
    "mma": (
        ("row address", "&sa[t%16][t/16*8]", "&sa[t%16][t/16*8+4]"),
        ("rows swapped", "&sa[t%16][t/16*8]", "&sa[t/2][t%2*8]"),
        ("no syncwarp", "  __syncwarp();\n", ""),
        ("not trans", ".x2.trans.", ".x2."),
        ("pitch 20", "half sa[16][24]", "half sa[16][20]"),
        ("uninit acc", "d[4]={0,0,0,0}", "d[4]"),
        ("read past", "&sb[t%16][0]", "&sb[t%16+2][0]"),
    ),
    "async_bar": (
        ("count 64", "init(&full,128)", "init(&full,64)"),
        ("no init barrier", "  __syncthreads();\n", ""),
        (
            "arrive early",
            "      s[t]=x[i*64+t];\n      (void)full.arrive();",
            "      (void)full.arrive();\n      s[t]=x[i*64+t];",
        ),
        ("no full wait", "full.arrive_and_wait();\n      o", "(void)full.arrive();\n      o"),
    ),
}


def source(name: str) -> str:
    return (FOLDER / f"{name}.cu").read_text()


def planted(name: str, fault: tuple[str, str, str]) -> str:
    description, old, new = fault
    text = source(name)
    assert old in text, f"{name}: the source has no text for the fault {description!r}"
    return text.replace(old, new, -1 if description.endswith("everywhere") else 1)
