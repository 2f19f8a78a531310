"""The schedules that a search can try, defined by problems, devices, layouts, intrinsics, parameters and rules.

Start at ``catalogue.py``, which lists operators and kernel templates. Its packages are layers, from top to bottom:
``templates``, ``operators``, ``launches`` and ``hardware``, ``layouts`` and ``spaces``. Each imports only lower layers.
The package needs only Python and numpy, and must not import ``autosched``, ``measurements`` or ``cost_models``.
"""
