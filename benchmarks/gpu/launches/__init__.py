"""Compare a GPU with the emulator: launches without faults in the emulator's tests are recorded, run and compared."""
