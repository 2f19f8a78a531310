"""What can this machine do? ``autosched doctor`` and ``autosched devices``."""
