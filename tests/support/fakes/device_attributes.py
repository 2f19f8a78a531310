"""Attributes of an H200, named as in ``cudaDeviceAttr``. Tests derive a row of the device table from them."""

CAPABILITY = {
    "ComputeCapabilityMajor": 9,
    "ComputeCapabilityMinor": 0,
}  # cupy provides these two as properties of a device
CUPY_ATTRIBUTES = {
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
ATTRIBUTES = CAPABILITY | CUPY_ATTRIBUTES
