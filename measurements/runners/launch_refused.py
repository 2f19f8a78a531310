"""The error for a kernel that this machine cannot launch."""


class LaunchRefused(RuntimeError):
    """A kernel that cannot be launched as described. The message is one line."""
