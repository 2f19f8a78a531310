"""Times of libraries on the same arrays.

Start at ``baselines.py``. It knows cuBLAS, cuBLASLt, torch and Triton, one file each where they need code. The parent
package does the timing.
"""
