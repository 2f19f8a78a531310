"""Which schedules can a search try: problems, devices, layouts, intrinsics, parameters and rules?

Start at ``catalogue.py``, which lists operators and kernel templates. The rooms are a tower: ``templates`` builds on
``operators``, these on ``launches`` and ``hardware``, and those on ``layouts`` and ``spaces``. The package needs
Python and numpy only, and must not import another package of ours.
"""
