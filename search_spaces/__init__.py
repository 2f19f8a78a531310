"""Problems, devices, layouts, intrinsics, parameters and rules: the schedules that a search can try.

Start at ``catalogue.py``, which lists operators and kernel templates. Imports point down: from ``templates`` to
``operators``, then ``launches`` and ``hardware``, then ``layouts`` and ``spaces``. The package only needs Python and
numpy, and must not import ``autosched``, ``measurements`` or ``cost_models``.
"""
