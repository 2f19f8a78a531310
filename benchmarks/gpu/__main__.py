"""``python -m benchmarks.gpu``: runs a prepared plan with ``--plan``, else the checks of ``run.py``."""

import sys

if "--plan" in sys.argv[1:]:
    from benchmarks.gpu.plan.run import main
else:
    from benchmarks.gpu.run import main

sys.exit(main())
