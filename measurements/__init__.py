"""Evidence: compiling, running on GPUs, emulating on the CPU, checking numbers, and the record store."""
