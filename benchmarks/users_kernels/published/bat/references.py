"""References of BAT's kernels in numpy."""

import numpy as np


def triad(A, B):
    return A + 1.75 * B


def gemm(A, B):
    return A @ B


def nbody(bodies):
    apart = bodies[None, :, :3] - bodies[:, None, :3]
    inverse = ((apart**2).sum(axis=2) + 0.1) ** -1.5
    forces = np.zeros_like(bodies)
    forces[:, :3] = (bodies[None, :, 3:] * inverse[:, :, None] * apart).sum(axis=1)
    return forces


def sines():
    return np.floor(np.abs(np.sin(np.arange(1, 65))) * 2.0**32).astype(np.uint32)


def md5(n):
    import hashlib

    keys = [int(k) | (~int(k) & 0xFFFFFFFF) << 32 for k in range(n)]
    digests = [int.from_bytes(hashlib.md5(k.to_bytes(8, "little")).digest()[:4], "little") for k in keys]
    matching = [k for k, digest in enumerate(digests) if digest & 255 == 18]
    return {"found": np.array([min(matching, default=0xFFFFFFFF)]), "digests": np.array(digests)}


def fft(**arrays):
    spectrum = np.fft.fft(arrays["in"][..., 0] + 1j * arrays["in"][..., 1])
    return np.stack([spectrum.real, spectrum.imag], axis=-1)


def lattice(atoms, seed):
    side = int(np.ceil(atoms ** (1 / 3)))
    positions = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)[:atoms] * 1.5
    return np.hstack(
        [positions + np.random.default_rng(seed).uniform(-0.2, 0.2, positions.shape), np.zeros((atoms, 1))]
    )


def neighbours(atoms, count, seed):
    partners = np.random.default_rng(seed).integers(1, atoms, (count, atoms))
    return (np.arange(atoms) + partners) % atoms


def lj_force(position, neighbours):
    apart = position[None, :, :3] - position[neighbours, :3]
    inverse = 1.0 / (apart**2).sum(axis=2)
    strength = np.where(inverse > 1 / 16, inverse**4 * (1.5 * inverse**3 - 2.0), 0.0)
    return (apart * strength[:, :, None]).sum(axis=0)


def total(**arrays):
    return np.array([arrays["in"].sum()])


def columns(n, longest, seed):
    return np.random.default_rng(seed).integers(0, n, (longest, n))


def ellpack(values, x, columns, lengths):
    filled = np.arange(len(values))[:, None] < lengths
    return (values * x[columns] * filled).sum(axis=0)


def prefix_sums(part, **arrays):
    numbers = arrays["in"]
    wide = np.pad(numbers, (0, -len(numbers) % part)).reshape(-1, part)
    return np.cumsum(wide, axis=1).reshape(-1)[: len(numbers)]


def radix_counts(keys, part, n):
    blocks, digits = np.arange(n) // part, keys.astype(np.int64) >> 4 & 15
    counts = np.zeros((16, -(-n // part)), np.int64)
    np.add.at(counts, (digits, blocks), 1)
    return counts


def scaled(**arrays):
    return 2.5 * arrays["in"]
