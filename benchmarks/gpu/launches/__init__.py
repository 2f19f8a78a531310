"""Compare a GPU with the emulator.

Fault-free launches of the emulator's tests are recorded and run on the GPU, and the results are compared.
"""
