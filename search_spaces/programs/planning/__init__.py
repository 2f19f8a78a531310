"""One schedule of a program in numbers: distributions, copies, shared memory, registers."""
