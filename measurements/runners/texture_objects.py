"""Create texture objects that read existing arrays on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from search_spaces.launches.texture import MODES, LinearTexture

# Numbers of cudaResourceType, cudaChannelFormatKind, cudaTextureReadMode and cudaTextureFilterMode.
_LINEAR, _PITCH_2D = 2, 3
_KINDS = {"i": 0, "u": 1, "f": 2}
_NORMALIZED_FLOAT, _FILTER_LINEAR = 1, 1
_PITCH_BYTES, _START_BYTES = 32, 512  # texturePitchAlignment and textureAlignment of every GPU (CUDA Programming Guide)


def texture_object(cp: Any, texture: LinearTexture, address: int) -> Any:
    """Return a cupy texture object for the array at ``address``. The texture is valid while the object exists.

    Raises ValueError if textures do not support the array's address or row size.
    """
    rows = len(texture.extent) == 2
    if rows and texture.row_bytes % _PITCH_BYTES:
        raise ValueError(
            f"{texture.name} has rows of {texture.row_bytes} bytes: rows of a texture must be a multiple "
            f"of {_PITCH_BYTES} bytes"
        )
    if address % _START_BYTES:
        raise ValueError(f"the address of {texture.name} must be a multiple of {_START_BYTES} bytes for its texture")
    operand, textures = texture.operand, cp.cuda.texture
    memory = cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(address, operand.bytes, None), 0)
    array = cp.ndarray(operand.shape, np.dtype(operand.dtype.storage), memory)
    bits = 8 * operand.dtype.bytes
    widths = [bits if channel < texture.channels else 0 for channel in range(4)]
    channels = textures.ChannelFormatDescriptor(*widths, _KINDS[texture.kind])
    if rows:
        height, width = texture.extent
        resource = textures.ResourceDescriptor(
            _PITCH_2D, arr=array, chDesc=channels, width=width, height=height, pitchInBytes=texture.row_bytes
        )
    else:
        resource = textures.ResourceDescriptor(_LINEAR, arr=array, chDesc=channels, sizeInBytes=operand.bytes)
    mode = MODES.index(texture.mode)
    description = textures.TextureDescriptor(
        addressModes=(mode,) * len(texture.extent),
        filterMode=_FILTER_LINEAR if texture.filter == "linear" else 0,
        readMode=_NORMALIZED_FLOAT if texture.normalized_read else 0,
        normalizedCoords=int(texture.normalized),
    )
    return textures.TextureObject(resource, description)
