"""Translation of instructions whose operands do not follow the common pattern.

Start at ``mma.py``. There is one file per instruction family, which converts the family's instructions to forms for the
runtime (``forms.py``). A family imports ``forms`` and ``syntax``, and must not import another family.
"""
