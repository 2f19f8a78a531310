"""Tile programs as text: the listings of the XeTile RFC, VectorExt and the reduction issue, and a canonical form."""
