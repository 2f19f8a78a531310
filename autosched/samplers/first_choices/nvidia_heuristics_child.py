"""Script that queries nvMatmulHeuristics for the configurations of one matmul.

The script reads a JSON object from stdin. Its fields are ``gpu``, ``precision`` and ``layout`` (the library's names),
``m``, ``n``, ``k``, ``batch`` and ``count``. The script prints a JSON list of configurations, each with its predicted
seconds. It does not import autosched. The library (version 0.1.0.27) crashes at interpreter shutdown and may crash
earlier. The script therefore exits without cleanup.
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
    """Read a problem from stdin, and print the library's configurations for it."""
    # remove the script's folder from the path, because its files would hide other modules of the same names
    sys.path.pop(0)
    request = json.load(sys.stdin)
    library = importlib.import_module("nvMatmulHeuristics")
    interface = library.NvMatmulHeuristicsInterface(
        backend=library.NvMatmulHeuristicsTarget.CUTLASS3,
        precision=request["precision"],
        flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
    )
    chip = interface.createHardwareDescriptor()
    interface.setHardwarePredefinedGpu(chip, library.NvMatmulHeuristicsNvidiaGpu[request["gpu"]])
    layout = library.NvMatmulHeuristicsMatmulLayout[request["layout"]]
    interface.loadInternalDiscoverySet(layout, chip)
    problem = interface.makeNvMatmulHeuristicsProblem(
        request["m"], request["n"], request["k"], layout, request["batch"]
    )
    rows = interface.get(problem, request["count"], chip)
    configurations = [
        {"seconds": row["runtime"], **{name: getattr(row["kernel"], name) for name in FIELDS}} for row in rows
    ]
    sys.stdout.write(json.dumps(configurations))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
