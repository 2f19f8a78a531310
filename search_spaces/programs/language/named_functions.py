"""Element-wise functions that a program calls by name: ``p.exp(x)``."""

from __future__ import annotations

from abc import ABC, abstractmethod

from search_spaces.programs.language import index
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.values import Operand, State, Tile, fail


def index_operand(operation: str, value: object) -> Index:
    """Convert a whole number to an index, and return an index as it is. Raises ProgramError for other values."""
    if isinstance(value, Tile | State):
        fail(
            operation,
            "a tile as a position: use a value that is the same for all threads of a block, for example the result "
            "of p.load_scalar",
        )
    if isinstance(value, Index):
        return value
    if type(value) is not int:
        fail(operation, f"invalid position {value!r}: use a whole number, or compute it from p.blocks and p.steps")
    return index.as_index(value)


class NamedFunctions(ABC):
    """Builder functions for tile operations that have no Python operator, such as ``p.exp``."""

    @abstractmethod
    def map(self, function: str, *operands: object) -> Tile:
        """Apply an element-wise function to tiles and numbers; extents of 1 are broadcast."""

    def maximum(self, a: Operand | Index | int, b: Operand | Index | int) -> Tile | Index:
        """Return the element-wise maximum of tiles, or the larger of two indices or sizes."""
        if isinstance(a, Index) or isinstance(b, Index):
            return index.maximum(index_operand("maximum", a), index_operand("maximum", b))
        return self.map("maximum", a, b)

    def minimum(self, a: Operand | Index | int, b: Operand | Index | int) -> Tile | Index:
        """Return the element-wise minimum of tiles, or the smaller of two indices or sizes."""
        if isinstance(a, Index) or isinstance(b, Index):
            return index.minimum(index_operand("minimum", a), index_operand("minimum", b))
        return self.map("minimum", a, b)

    def where(self, condition: Tile, yes: Operand, no: Operand) -> Tile:
        """Return, for each element, ``yes`` where the condition is true and ``no`` elsewhere."""
        return self.map("where", condition, yes, no)

    def exp(self, x: Tile | State) -> Tile:
        """Return e to the power of each element."""
        return self.map("exp", x)

    def exp2(self, x: Tile | State) -> Tile:
        """Return 2 to the power of each element."""
        return self.map("exp2", x)

    def log2(self, x: Tile | State) -> Tile:
        """Return the logarithm to base 2."""
        return self.map("log2", x)

    def tanh(self, x: Tile | State) -> Tile:
        """Return the hyperbolic tangent."""
        return self.map("tanh", x)

    def sigmoid(self, x: Tile | State) -> Tile:
        """Return the logistic function, 1 / (1 + exp(-x))."""
        return self.map("sigmoid", x)

    def sqrt(self, x: Tile | State) -> Tile:
        """Return the square root."""
        return self.map("sqrt", x)

    def rsqrt(self, x: Tile | State) -> Tile:
        """Return the reciprocal of the square root."""
        return self.map("rsqrt", x)

    def sine(self, x: Tile | State) -> Tile:
        """Return the sine of each element. The elements are angles in radians."""
        return self.map("sine", x)

    def cosine(self, x: Tile | State) -> Tile:
        """Return the cosine of each element. The elements are angles in radians."""
        return self.map("cosine", x)

    def absolute(self, x: Tile | State) -> Tile:
        """Return the absolute value."""
        return self.map("absolute", x)

    def log(self, x: Tile | State) -> Tile:
        """Return the natural logarithm."""
        return self.map("log", x)

    def erf(self, x: Tile | State) -> Tile:
        """Return the error function."""
        return self.map("erf", x)

    def power(self, x: Operand, exponent: Operand) -> Tile:
        """Return ``x`` to the power of ``exponent``; exponent 2 is computed as ``x * x``."""
        return (
            self.map("multiply", x, x)
            if isinstance(exponent, int | float) and exponent == 2
            else self.map("power", x, exponent)
        )

    def random_bits(self, counter: Operand | Index, seed: Operand | Index, *, word: int = 0) -> Tile:
        """Return 32 random bits for each counter, as i32: a word of Philox4x32-10.

        The same counter, seed and word give the same bits in every schedule and on every GPU.

        Args:
            counter: An i32 tile of numbers that are used only once per seed, such as the positions of elements.
            seed: An i32 tile, an index or a whole number.
            word: 0 to 3. The four words of a counter are independent, and together cost about as much as one.

        Raises:
            ProgramError: If ``word`` is not 0 to 3, or a tile is not i32.
        """
        if type(word) is not int or not 0 <= word <= 3:
            fail("random_bits", f"invalid word {word!r}: use 0, 1, 2 or 3")
        return self.map("philox", counter, seed, word)

    def random(self, counter: Operand | Index, seed: Operand | Index, *, word: int = 0) -> Tile:
        """Return a random f32 for each counter, uniformly distributed over the multiples of 2^-24 in [0, 1).

        The arguments and exceptions are the same as for ``random_bits``.
        """
        high = self.map("bit_and", self.map("shift_right", self.random_bits(counter, seed, word=word), 8), 2**24 - 1)
        return self.map("multiply", high.cast("f32"), 2.0**-24)

    def floor(self, x: Tile | State) -> Tile:
        """Round down to a whole number, as f32."""
        return self.map("floor", x)

    def ceil(self, x: Tile | State) -> Tile:
        """Round up to a whole number, as f32."""
        return self.map("ceil", x)

    def round(self, x: Tile | State) -> Tile:
        """Round to the nearest whole number, ties to even, as f32."""
        return self.map("round", x)

    def truncate(self, x: Tile | State) -> Tile:
        """Round towards zero to a whole number, as f32."""
        return self.map("truncate", x)
