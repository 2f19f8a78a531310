"""A minimal kernel file, which tests modify to make it invalid."""

FILE = """\
[kernel]
source = "k.cu"
entry = "k"
[sizes]
n = 64
[parameters]
b = [32, 64]
[launch]
block = "b"
grid = "n // b"
[[argument]]
name = "y"
kind = "output"
dtype = "f32"
shape = "n"
[[argument]]
name = "x"
kind = "input"
dtype = "f32"
shape = "n"
"""
SOURCE = """\
__global__ void k(float* y, const float* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}
"""
