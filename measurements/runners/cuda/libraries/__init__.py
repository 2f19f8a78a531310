"""How long do libraries take on the same arrays?

Start at ``baselines.py``. It knows cuBLAS, cuBLASLt, torch and Triton, one file each where they need code. How times
are taken is decided in the room above.
"""
