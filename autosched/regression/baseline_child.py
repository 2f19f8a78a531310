"""Script that generates and compiles the kernels of stored schedules in a baseline environment.

Stdin is a JSON object with ``kernels`` (paths of kernel files), ``programs`` (FILE[:NAME] of tile programs) and
``entries`` (each with problem, template, schedule and device). Stdout is a JSON object with ``entries`` in the same
order, each with a kernel and its compiled module, or with an ``error``. The script uses only interfaces that exist
since autosched 0.1, because it runs with the autosched of the baseline environment.
"""

import base64
import dataclasses
import json
import sys
from typing import Any


def main() -> int:
    """Compile the requested kernels, and write the results to stdout."""
    # remove the script's folder from the path, because its files would hide other modules of the same names
    sys.path.pop(0)
    request = json.load(sys.stdin)
    from autosched.version import VERSION
    from measurements.compiler.pool import CompilePool

    if request["kernels"]:
        from autosched.user_kernels.user_kernel import KernelSpec

        for path in request["kernels"]:
            KernelSpec.from_file(path).register()
    if request["programs"]:
        from autosched.programs.loading import register_at

        for source in request["programs"]:
            register_at(source)
    with CompilePool(workers=1) as pool:
        answers = [_answer(entry, pool) for entry in request["entries"]]
    json.dump({"entries": [{"version": VERSION, **answer} for answer in answers]}, sys.stdout)
    return 0


def _answer(entry: dict[str, Any], pool: Any) -> dict[str, Any]:
    from search_spaces.catalogue import problem_from_json, template
    from search_spaces.hardware.devices import device
    from search_spaces.spaces.schedule import Schedule

    try:
        where = device(entry["device"])
        schedule = Schedule.from_json(entry["template"], entry["schedule"])
        kernel = template(schedule.template).kernel(problem_from_json(entry["problem"]), schedule, where)
    except ValueError as error:
        return {"error": str(error)}
    program = pool.compile(kernel, where.arch)
    if not hasattr(program, "cubin"):
        return {"error": program.reason}
    return {
        "digest": kernel.digest,
        "source": kernel.source,
        "compile_options": list(kernel.compile_options),
        "launch": kernel.launch_json(),
        "entry": program.entry,
        "steps": [[step.entry, dataclasses.asdict(step.resources)] for step in program.steps],
        "resources": dataclasses.asdict(program.resources),
        "toolchain": program.toolchain,
        "cubin": base64.b64encode(program.cubin).decode("ascii"),
    }


if __name__ == "__main__":
    sys.exit(main())
