"""Commands about this machine.

Start at ``doctor.py``, which reports what is installed, what is missing and how to get it. ``list_devices.py`` lists
the GPUs that autosched knows. This package must not import ``autosched.tuning``, ``autosched.verify`` or other
commands.
"""
