// The second file of the program two_files.cu. Both files define `own` and `offset`.
__device__ int counter = 7;
static __device__ int own = 100;

static __device__ __noinline__ int offset(int x) { return x + own; }

__device__ __noinline__ int twice(int x) { return offset(2 * x); }
