"""What is raised for a kernel that this machine cannot launch."""


class LaunchRefused(RuntimeError):
    """A kernel that cannot be launched as it is described. The message is one line."""
