// An order of tiles along a Hilbert curve, for rectangles of any size.
#pragma once

namespace autosched {

// Returns the row-major index of the tile at position `id` of the curve. Rectangles are divided as in Cerveny's
// generalised curve ("gilbert"). A long rectangle is split into two rectangles, which are traversed one after the
// other. Any other rectangle is split into a half and two quarters: the curve traverses one quarter, then the half,
// then the other quarter. Rectangles with a side of at most 4 tiles are not divided, but traversed line by line: a wave
// of blocks covers many such rectangles, and each further iteration would take about 100 cycles. There are about
// log2(rows * columns) - 5.5 iterations.
__device__ __forceinline__ int hilbert(int id, int rows, int columns) {
  // The part that contains the tile: its start, the steps along and across it, and the lengths of its sides.
  const bool wide = columns >= rows;
  int at = 0, along = wide ? 1 : columns, across = wide ? columns : 1;
  int length = wide ? columns : rows, height = wide ? rows : columns;
#pragma unroll 1
  while (length > 4 && height > 4) {
    const int half = length / 2, old_along = along;
    if (2 * length > 3 * height) {
      const bool second = id >= half * height;
      id -= second ? half * height : 0;
      at += second ? half * along : 0;
      length = second ? length - half : half;
    } else {
      const int out = height / 2, middle = out * half, back = middle + length * (height - out);
      if (id < middle) {
        along = across;
        across = old_along;
        length = out;
        height = half;
      } else if (id < back) {
        id -= middle;
        at += out * across;
        height -= out;
      } else {
        id -= back;
        at += (length - 1) * along + (out - 1) * across;
        along = -across;
        across = -old_along;
        height = length - half;
        length = out;
      }
    }
  }
  const bool turned = height > 4;
  const int lines = turned ? length : height;  // number of lines of this part: 1 to 4
  const int distance = lines == 3 ? id / 3 : id >> lines / 2;
  return at + distance * (turned ? across : along) + (id - distance * lines) * (turned ? along : across);
}

}  // namespace autosched
