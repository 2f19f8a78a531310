"""From CUDA C++ to PTX and cubins. Start at ``pool``."""
