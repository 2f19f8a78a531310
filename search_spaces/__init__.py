"""Problems, devices, layouts, intrinsics, parameters and rules: the schedules that a search can try.

Start at ``catalogue.py``, which lists operators and kernel templates. Imports point down: from ``templates`` to
``operators``, then ``launches`` and ``hardware``, then ``layouts`` and ``spaces``. The package needs Python and numpy
only, and must not import another package of ours.
"""
