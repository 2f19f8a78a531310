"""``python -m benchmarks.gpu``: with ``--plan`` the prepared plan, else the benchmark that searches."""

import sys

if "--plan" in sys.argv[1:]:
    from benchmarks.gpu.plan.run import main
else:
    from benchmarks.gpu.run import main

sys.exit(main())
