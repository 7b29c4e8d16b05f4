"""Writing PNG files."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB = 2


def encode(image: NDArray[np.uint8]) -> bytes:
    """An image of shape (height, width, 3) as the bytes of a PNG file."""
    height, width, channels = image.shape
    if channels != 3 or image.dtype != np.uint8:
        raise ValueError(
            f"A picture is uint8 of shape (height, width, 3). "
            f"Received: {image.dtype} of shape {image.shape}"
        )
    header = struct.pack(">IIBBBBB", width, height, 8, RGB, 0, 0, 0)
    # Each line begins with its filter type, 0: as it is.
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 1:] = image.reshape(height, -1)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")]
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
