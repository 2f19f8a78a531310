"""The error for a kernel that this machine cannot launch."""


class LaunchRefused(RuntimeError):
    """A kernel cannot be launched with these arguments or attributes. The message is one line."""
