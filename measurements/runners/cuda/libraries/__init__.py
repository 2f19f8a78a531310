"""How long do vendors' libraries take on the same arrays?

Start at ``baselines.py``. It knows cuBLAS, cuBLASLt, torch and Triton, one file each where they need code. The parent
package does the timing; of it, this room imports the launch timer and must not import the runner.
"""
