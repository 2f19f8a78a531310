"""What can this machine do?

``doctor.py`` reports what is installed, what is missing and how to get it. ``list_devices.py`` lists the GPUs that
autosched knows. Neither tunes, compiles or verifies anything.
"""
