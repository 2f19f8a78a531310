"""Run as a script: asks nvMatmulHeuristics for the configurations of one matmul.

A JSON object on stdin (``gpu``, ``precision`` and ``layout`` by the library's names, ``m``, ``n``, ``k``, ``batch``,
``count``) becomes a list of objects on stdout, each one configuration and the seconds that the library predicts. It
needs nothing of autosched. The library crashes where an interpreter clears its objects (version 0.1.0.27), and may
crash before: so it has a process of its own, which ends without clearing anything.
"""

import importlib
import json
import os
import sys

FIELDS = (
    *("cta_tile_m", "cta_tile_n", "cta_tile_k", "warp_tile_m", "warp_tile_n", "warp_tile_k", "instr_tile_m"),
    *("stages", "split_k", "cluster_m", "cluster_n", "swizzle_factor", "cta_order"),
)


def main() -> None:
    # the folder of a script comes first in the path, where its neighbours would hide modules of the same names
    sys.path.pop(0)
    request = json.load(sys.stdin)
    library = importlib.import_module("nvMatmulHeuristics")
    made = library.NvMatmulHeuristicsInterface(
        backend=library.NvMatmulHeuristicsTarget.CUTLASS3,
        precision=request["precision"],
        flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
    )
    chip = made.createHardwareDescriptor()
    made.setHardwarePredefinedGpu(chip, library.NvMatmulHeuristicsNvidiaGpu[request["gpu"]])
    layout = library.NvMatmulHeuristicsMatmulLayout[request["layout"]]
    made.loadInternalDiscoverySet(layout, chip)
    problem = made.makeNvMatmulHeuristicsProblem(request["m"], request["n"], request["k"], layout, request["batch"])
    rows = made.get(problem, request["count"], chip)
    found = [{"seconds": row["runtime"], **{name: getattr(row["kernel"], name) for name in FIELDS}} for row in rows]
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
