"""Many problems, tuned one after another: from a suite file (``suite``) or from calls that were logged."""
