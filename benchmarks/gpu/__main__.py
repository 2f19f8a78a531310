"""``python -m benchmarks.gpu``."""

import sys

from benchmarks.gpu.run import main

sys.exit(main())
