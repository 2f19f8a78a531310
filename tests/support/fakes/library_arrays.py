"""numpy arrays in place of the GPU arrays that libraries receive, and a check of results."""

from types import SimpleNamespace

import numpy as np


class Stream:
    ptr = 7

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class OnDevice(np.ndarray):
    """A numpy array with the attribute ``data.ptr`` of cupy's arrays."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


def operands(problem, copies=2):
    inputs = problem.random_inputs(3)
    arrays = []
    for _ in range(copies):
        of = {name: np.ascontiguousarray(array).view(OnDevice) for name, array in inputs.items()}
        for out in (o for o in problem.operands() if o.role == "output"):
            small = out.dtype.bytes == 1
            empty = np.full(out.shape, 0xFF, np.uint8) if small else np.zeros(out.shape, out.dtype.storage)
            of[out.name] = empty.view(OnDevice)
        arrays.append(of)
    return inputs, arrays


def assert_right(problem, inputs, array, tolerances=1.0):
    """Check the output in ``array`` against the problem's reference.

    Args:
        problem: Problem that was computed.
        inputs: Its inputs by name.
        array: Computed output.
        tolerances: Allowed error, as a multiple of the problem's tolerance.
    """
    (out,) = (o for o in problem.operands() if o.role == "output")
    error = np.abs(out.dtype.load(np.asarray(array)) - problem.reference(inputs)["out"])
    allowed = tolerances * problem.tolerance(inputs)["out"]
    assert (error <= allowed).all(), float((error - allowed).max())
