// The other file of two_files.cu. `own` and `offset` are names of both.
__device__ int counter = 7;
static __device__ int own = 100;

static __device__ __noinline__ int offset(int x) { return x + own; }

__device__ __noinline__ int twice(int x) { return offset(2 * x); }
