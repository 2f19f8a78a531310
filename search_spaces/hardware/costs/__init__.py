"""What does an access, an instruction or a launch cost the chip, in counts? Start at ``data_movement.py``.

Times are the cost models'.
"""
