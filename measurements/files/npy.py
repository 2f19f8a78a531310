"""Read untrusted .npy files. The header is checked before any data are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_BYTES = 1 << 31


def open_npy(path: str | Path) -> npt.NDArray[Any]:
    """Return the array in a file as a memory map. Python objects are never unpickled.

    Raises ValueError, with the reason but without the path, if the file is not a single array of numbers of at most
    ``MOST_BYTES``.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise ValueError("the path is not a regular file" if path.exists() else "there is no such file")
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"the file has more than {MOST_BYTES >> 30} GiB")
        with np.errstate(all="ignore"):  # the size of an impossible shape may overflow
            array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise ValueError((error.strerror or str(error)).lower()) from None
    except Exception as error:  # the type of numpy's exception depends on how the header is malformed
        sentence = " ".join(str(error).split()).partition(". ")[0]
        raise ValueError(sentence or type(error).__name__) from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"the array's elements are {array.dtype}, not numbers")
    return array
