"""README's steps on a fresh machine, each with its time."""
