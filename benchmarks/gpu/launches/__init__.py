"""Does a GPU do what the emulator says? Launches that its tests ended without a fault, kept, run and compared."""
