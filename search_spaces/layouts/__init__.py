"""Where things lie: shared-memory layouts, distributions over threads, lowering configs, and their text."""
