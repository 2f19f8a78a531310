"""Attributes of an H200, named as in ``cudaDeviceAttr``, from which a device row is made."""

CAPABILITY = {"ComputeCapabilityMajor": 9, "ComputeCapabilityMinor": 0}  # cupy has these among a device's properties
OTHERS = {
    "ClockRate": 1785000,
    "GlobalMemoryBusWidth": 6144,
    "L2CacheSize": 60 * 2**20,
    "MaxBlocksPerMultiprocessor": 32,
    "MaxRegistersPerMultiprocessor": 65536,
    "MaxSharedMemoryPerBlockOptin": 232448,
    "MaxSharedMemoryPerMultiprocessor": 233472,
    "MaxThreadsPerMultiProcessor": 2048,
    "MemoryClockRate": 3201000,
    "MultiProcessorCount": 132,
}
ATTRIBUTES = CAPABILITY | OTHERS
