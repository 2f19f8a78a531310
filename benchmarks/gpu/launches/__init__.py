"""Compare a GPU with the emulator.

Launches without faults in the emulator's tests are recorded, run on the GPU, and compared.
"""
