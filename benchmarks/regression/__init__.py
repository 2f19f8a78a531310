"""How often does the check of tuned kernels err?"""
