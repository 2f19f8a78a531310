"""Reference results of the benchmark hub's kernels, computed with numpy."""

import numpy as np


def same_filter(filter):
    return filter


def convolution(input, filter, height, width):
    return sum(filter[i, j] * input[i : i + height, j : j + width] for i in range(5) for j in range(5))


def delays(channels):
    inverse = 1.0 / (1425.0 + np.arange(channels) * (300.0 / channels)) ** 2
    return 0.9 * (inverse - inverse[-1]) / (inverse[0] - inverse[-1])


def dedispersion(input, shifts, samples, dms):
    out = np.zeros((dms, samples))
    for dm in range(dms):
        starts = (np.float32(dm) * shifts.astype(np.float32)).astype(int)
        for channel, start in enumerate(starts):
            out[dm] += input[channel, start : start + samples]
    return out


def gemm(A, B, C):
    return 1.5 * (B.T @ A) + 0.5 * C


def hotspot(power, temp_src, steps):
    field = temp_src
    for _ in range(steps):
        wide = np.pad(field, 1, mode="edge")
        around = wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1]
        field = field + 0.1 * (around - 4 * field + power)
    return field
