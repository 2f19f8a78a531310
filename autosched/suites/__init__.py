"""Many problems, tuned one after another. Start at ``suite``."""
