// Functions called by programs that nvcc compiles with --default-stream per-thread: the null stream then belongs to the thread.
#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

#define PER_THREAD(SUFFIX, NAME, PARAMETERS, ARGUMENTS) \
  API int NAME PARAMETERS;                              \
  API int NAME##SUFFIX PARAMETERS {                     \
    const PerThreadDefault here;                        \
    return NAME ARGUMENTS;                              \
  }
using Bytes = std::size_t;

PER_THREAD(_ptds, cudaMemcpy, (void* to, const void* from, Bytes n, int kind), (to, from, n, kind))
PER_THREAD(_ptds, cudaMemcpy2D, (void* to, Bytes tp, const void* from, Bytes fp, Bytes w, Bytes h, int kind), (to, tp, from, fp, w, h, kind))
PER_THREAD(_ptds, cudaMemcpy2DToArray, (void* to, Bytes x, Bytes y, const void* from, Bytes p, Bytes w, Bytes h, int kind), (to, x, y, from, p, w, h, kind))
PER_THREAD(_ptds, cudaMemcpy2DFromArray, (void* to, Bytes p, const void* from, Bytes x, Bytes y, Bytes w, Bytes h, int kind), (to, p, from, x, y, w, h, kind))
PER_THREAD(_ptds, cudaMemcpy3D, (const Copy3D* p), (p))
PER_THREAD(_ptds, cudaMemcpyToSymbol, (const void* s, const void* from, Bytes n, Bytes at, int kind), (s, from, n, at, kind))
PER_THREAD(_ptds, cudaMemcpyFromSymbol, (void* to, const void* s, Bytes n, Bytes at, int kind), (to, s, n, at, kind))
PER_THREAD(_ptds, cudaMemset, (void* to, int value, Bytes n), (to, value, n))
PER_THREAD(_ptds, cudaMemset2D, (void* to, Bytes pitch, int value, Bytes w, Bytes h), (to, pitch, value, w, h))
PER_THREAD(_ptds, cudaMemset3D, (Pitched to, int value, Extent e), (to, value, e))
PER_THREAD(_ptsz, cudaMemcpyAsync, (void* to, const void* from, Bytes n, int kind, void* s), (to, from, n, kind, s))
PER_THREAD(_ptsz, cudaMemcpy2DAsync, (void* to, Bytes tp, const void* from, Bytes fp, Bytes w, Bytes h, int kind, void* s), (to, tp, from, fp, w, h, kind, s))
PER_THREAD(_ptsz, cudaMemcpy2DToArrayAsync, (void* to, Bytes x, Bytes y, const void* from, Bytes p, Bytes w, Bytes h, int kind, void* s), (to, x, y, from, p, w, h, kind, s))
PER_THREAD(_ptsz, cudaMemcpy2DFromArrayAsync, (void* to, Bytes p, const void* from, Bytes x, Bytes y, Bytes w, Bytes h, int kind, void* s), (to, p, from, x, y, w, h, kind, s))
PER_THREAD(_ptsz, cudaMemcpy3DAsync, (const Copy3D* p, void* s), (p, s))
PER_THREAD(_ptsz, cudaMemcpyToSymbolAsync, (const void* v, const void* from, Bytes n, Bytes at, int kind, void* s), (v, from, n, at, kind, s))
PER_THREAD(_ptsz, cudaMemcpyFromSymbolAsync, (void* to, const void* v, Bytes n, Bytes at, int kind, void* s), (to, v, n, at, kind, s))
PER_THREAD(_ptsz, cudaMemsetAsync, (void* to, int value, Bytes n, void* s), (to, value, n, s))
PER_THREAD(_ptsz, cudaMemset2DAsync, (void* to, Bytes pitch, int value, Bytes w, Bytes h, void* s), (to, pitch, value, w, h, s))
PER_THREAD(_ptsz, cudaMemset3DAsync, (Pitched to, int value, Extent e, void* s), (to, value, e, s))
PER_THREAD(_ptsz, cudaMallocAsync, (void** to, Bytes n, void* s), (to, n, s))
PER_THREAD(_ptsz, cudaMallocFromPoolAsync, (void** to, Bytes n, void* pool, void* s), (to, n, pool, s))
PER_THREAD(_ptsz, cudaFreeAsync, (void* p, void* s), (p, s))
PER_THREAD(_ptsz, cudaMemPrefetchAsync, (const void* p, Bytes n, std::uint64_t location, unsigned long flags, void* s), (p, n, location, flags, s))
PER_THREAD(_ptsz, cudaLaunchKernel, (const void* f, Dim3 grid, Dim3 block, void** arguments, Bytes shared, void* s), (f, grid, block, arguments, shared, s))
PER_THREAD(_ptsz, cudaLaunchCooperativeKernel, (const void* f, Dim3 grid, Dim3 block, void** arguments, Bytes shared, void* s), (f, grid, block, arguments, shared, s))
PER_THREAD(_ptsz, cudaLaunchKernelExC, (const void* config, const void* f, void** arguments), (config, f, arguments))
PER_THREAD(_ptsz, __cudaLaunchKernel, (void* f, Dim3 grid, Dim3 block, void** arguments, Bytes shared, void* s), (f, grid, block, arguments, shared, s))
PER_THREAD(_ptsz, cudaLaunchHostFunc, (void* s, void (*call)(void*), void* data), (s, call, data))
PER_THREAD(_ptsz, cudaStreamAddCallback, (void* s, void (*call)(void*, int, void*), void* data, unsigned flags), (s, call, data, flags))
PER_THREAD(_ptsz, cudaStreamSynchronize, (void* s), (s))
PER_THREAD(_ptsz, cudaStreamQuery, (void* s), (s))
PER_THREAD(_ptsz, cudaStreamWaitEvent, (void* s, void* event, unsigned flags), (s, event, flags))
PER_THREAD(_ptsz, cudaStreamGetPriority, (void* s, int* priority), (s, priority))
PER_THREAD(_ptsz, cudaStreamGetFlags, (void* s, unsigned* flags), (s, flags))
PER_THREAD(_ptsz, cudaStreamGetDevice, (void* s, int* device), (s, device))
PER_THREAD(_ptsz, cudaStreamIsCapturing, (void* s, int* status), (s, status))
PER_THREAD(_ptsz, cudaStreamBeginCapture, (void* s, int mode), (s, mode))
PER_THREAD(_ptsz, cudaStreamEndCapture, (void* s, void** graph), (s, graph))
PER_THREAD(_ptsz, cudaStreamAttachMemAsync, (void* s, void* p, Bytes n, unsigned flags), (s, p, n, flags))
PER_THREAD(_ptsz, cudaStreamSetAttribute, (void* s, int attribute, const void* value), (s, attribute, value))
PER_THREAD(_ptsz, cudaEventRecord, (void* event, void* s), (event, s))
PER_THREAD(_ptsz, cudaEventRecordWithFlags, (void* event, void* s, unsigned flags), (event, s, flags))
PER_THREAD(_ptsz, cudaGraphUpload, (void* executable, void* s), (executable, s))
PER_THREAD(_ptsz, cudaGraphLaunch, (void* executable, void* s), (executable, s))
