"""The bits of a float, from which its histogram cell follows."""

from __future__ import annotations

from dataclasses import dataclass

from gradwatch.core import LOWEST_EXPONENT, MANTISSA_BITS


@dataclass(frozen=True)
class FloatBits:
    """The bit layout of an IEEE float, read as a signed integer.

    Without its sign bit, such an integer grows with the float's magnitude, so
    its top bits (exponent, then mantissa) number the histogram's bins.
    """

    integer: str
    magnitude: int
    """All bits but the sign."""
    infinity: int
    """From here on: infinite or NaN."""
    shift: int
    """Leaves the exponent and the top mantissa bits."""
    lowest: int
    """The shifted bits of 2^-64, the lower edge of the first bin."""

    @property
    def keys(self) -> int:
        """How many values sign, exponent and top mantissa bits together can have."""
        return 2 * (self.magnitude + 1) >> self.shift

    @classmethod
    def ieee(cls, bits: int, mantissa: int) -> FloatBits:
        bias = (1 << (bits - mantissa - 2)) - 1
        return cls(
            integer=f"int{bits}",
            magnitude=(1 << (bits - 1)) - 1,
            infinity=(2 * bias + 1) << mantissa,
            shift=mantissa - MANTISSA_BITS,
            lowest=(LOWEST_EXPONENT + bias) << MANTISSA_BITS,
        )


FLOAT32_BITS = FloatBits.ieee(32, 23)
FLOAT64_BITS = FloatBits.ieee(64, 52)
