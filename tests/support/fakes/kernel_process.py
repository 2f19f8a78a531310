"""Use a database from inside an installed package. Report the launch of its kernel, and the imported modules.

Arguments: PACKAGE HOLDER, the package's name and the folder that contains it. Prints one JSON document. There is no
GPU: cupy is replaced by the fake.
"""

import importlib.resources
import json
import sys

import numpy as np
from fake_cupy import FakeCupy

SLOW = ("sqlalchemy", "optuna", "xgboost", "search_spaces.catalogue", "cost_models", "cuda.bindings")


def main() -> None:
    package, holder = sys.argv[1:]
    sys.path.insert(0, holder)
    sys.modules["cupy"] = cupy = FakeCupy()
    before = set(sys.modules)

    import autosched

    with importlib.resources.as_file(importlib.resources.files(package) / "best.db") as path:
        kernel = autosched.Database(path).kernel(autosched.Softmax(rows=4, columns=64))
    kernel(cupy.zeros((4, 64), np.float16))
    (launch,) = cupy.launches
    imported = [name for name in SLOW if name in set(sys.modules) - before]
    print(
        json.dumps(
            {
                "provenance": kernel.provenance.to_json(),
                "grid": launch.grid,
                "block": launch.block,
                "entry": launch.entry,
                "cubin": len(launch.cubin),
                "imported": imported,
            }
        )
    )


if __name__ == "__main__":
    main()
