"""``python -m benchmarks.gpu.launches``."""

import sys

from benchmarks.gpu.launches.run import main

sys.exit(main())
