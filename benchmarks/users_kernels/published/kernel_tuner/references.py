"""Reference results of Kernel Tuner's example kernels, computed with numpy."""

import numpy as np


def vector_add(a, b):
    return a + b


def matmul(A, B):
    return A @ B


def _filtered(image, weights, height, width):
    rows, columns = weights.shape
    return sum(weights[i, j] * image[i : i + height, j : j + width] for i in range(rows) for j in range(columns))


def convolution(input, d_filter, height, width):
    return _filtered(input, d_filter, height, width)


def convolution_part(input, d_filter, height, width):
    out, first, rows = np.zeros((height, width)), height // 2, height // 4
    out[first : first + rows] = _filtered(input[first:], d_filter, rows, width)
    return out


def convolution_row(input, d_filter, height, width):
    return _filtered(input, d_filter[None, :], height, width)


def sum_of(array):
    return array.sum()


def total(cross_term):
    return np.array([cross_term.sum()])


def row_starts(n, per_row):
    return np.arange(n + 1) * per_row


def column_numbers(n, per_row, seed):
    return np.random.default_rng(seed).integers(0, n, n * per_row)


def spmv(rows, columns, values, x):
    return np.add.reduceat(values * x[columns], rows[:-1])


def stencil(older, newer):
    out, inner = older.copy(), newer[1:-1, 1:-1]
    around = newer[1:-1, :-2] + newer[1:-1, 2:] + newer[:-2, 1:-1] + newer[2:, 1:-1]
    out[1:-1, 1:-1] = 2 * inner - older[1:-1, 1:-1] + 0.25 * (around - 4 * inner)
    return out


def polygon(corners):
    angle = np.linspace(0, 2 * np.pi, corners, endpoint=False) + 0.01
    radius = 1 + 0.3 * np.sin(7 * angle)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


def inside_polygon(points, d_vertices, bitmap):
    inside = np.zeros(len(points), bool)
    for corner, other in zip(d_vertices, np.roll(d_vertices, 1, axis=0), strict=True):
        between = (corner[1] > points[:, 1]) != (other[1] > points[:, 1])
        slope = (other[0] - corner[0]) / (other[1] - corner[1])
        inside ^= between & (points[:, 0] < slope * (points[:, 1] - corner[1]) + corner[0])
    wrong = int((inside != (bitmap != 0)).sum())
    return (
        True if wrong <= len(points) // 5000 else f"{wrong} points are on the wrong side"
    )  # rounding may move points near an edge to either side


def bhattacharya(A, B, scale_A, scale_B):
    squared = ((A[:, :, None] - B[:, None, :]) ** 2).sum(axis=0)
    return np.exp(-squared / (scale_A[:, None] + scale_B)).sum()


def zero_mean_columns(image):
    return image - image.mean(axis=0)


def row_dots(a, b):
    return (a * b).sum(axis=0)


def rotated(image):
    height, width = image.shape
    y, x = np.mgrid[:height, :width]
    u, v = x - width / 2, y - height / 2
    column, row = u * 0.8660254 - v * 0.5 + width / 2 - 0.5, v * 0.8660254 + u * 0.5 + height / 2 - 0.5
    left, above = np.floor(column).astype(int), np.floor(row).astype(int)
    right, below = column - left, row - above

    def texel(j, i):
        return image[np.clip(j, 0, height - 1), np.clip(i, 0, width - 1)]

    upper = texel(above, left) * (1 - right) + texel(above, left + 1) * right
    lower = texel(above + 1, left) * (1 - right) + texel(above + 1, left + 1) * right
    return upper * (1 - below) + lower * below
