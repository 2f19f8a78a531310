"""A user's own kernel: a ``.cu`` file and a TOML file that says what may vary, how it is launched, what it computes."""
