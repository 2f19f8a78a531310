"""The schedules that a search can try, defined by problems, devices, layouts, intrinsics, parameters and rules.

Start at ``catalogue.py``, which lists operators and kernel templates. The packages of ``search_spaces`` form layers,
from top to bottom: ``templates``, ``operators``, ``launches`` and ``hardware``, ``layouts`` and ``spaces``. Each layer
imports only lower ones. The package needs only Python and numpy, and must not import ``autosched``, ``measurements`` or
``cost_models``.
"""
