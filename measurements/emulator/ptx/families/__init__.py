"""Translation of instructions whose operands do not follow the common pattern.

Start at ``mma.py``. Each file converts the PTX instructions of one family to instructions of the emulator's runtime
(``forms.Form``). A family imports ``forms`` and ``syntax``, and must not import another family.
"""
