"""How many faults does the emulator see, and how fast?"""
