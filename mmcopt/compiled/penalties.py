"""Penalties of the rows of a lifted program that X breaks, and what they add to its matrix."""

from __future__ import annotations

from mmcopt.compiled.loops import compiled
from mmcopt.types import Floats, Ints

# Sums in any order, so that they are done several terms at a time.
sums = compiled(error_model="numpy", fastmath={"reassoc", "contract"})


@sums
def price_floor(X: Floats, N: Floats, floor: float, weight: float, out: Floats,
                G: Floats) -> tuple[float, float]:
    """Write ``max(0, N + weight (floor - X))`` off the diagonal to ``out`` and add it to G.

    Returns the sums of its squares and of its products with X.
    """
    m = X.shape[0]
    squares, products = 0.0, 0.0
    for i in range(m):
        row, other, here, there = X[i], N[i], out[i], G[i]
        square, product = 0.0 * floor, 0.0 * floor  # of the type of X
        for j in range(m):
            price = max(other[j] + weight * (floor - row[j]), 0.0 * floor)
            here[j] = price
            there[j] += price
            square += price * price
            product += price * row[j]
        own = here[i]
        squares += square - own * own
        products += product - own * row[i]
        there[i] -= own
        here[i] = 0.0
    return squares, products


@sums
def price_entries(X: Floats, start: Ints, places: Ints, mirrors: Ints, coef: Floats, right: Floats,
                  free: int, prices: Floats, weights: Floats, out: Floats, G: Floats) -> float:
    """The new prices of rows ``sum of coef X[place] <= right`` into ``out``; G loses their sum.

    X and G are matrices row by row; ``mirrors`` are the places across the diagonal. Row c has
    the entries from start[c] to start[c + 1]; the first ``free`` are equations. Returns the sum of
    the products of prices and left sides.
    """
    products = 0.0
    for c in range(len(right)):
        left = 0.0 * right[c]
        for p in range(start[c], start[c + 1]):
            left += coef[p] * X[places[p]]
        price = prices[c] + weights[c] * (left - right[c])
        if c >= free and price <= 0.0:
            out[c] = 0.0
            continue
        out[c] = price
        products += price * left
        half = price / 2
        for p in range(start[c], start[c + 1]):
            change = coef[p] * half
            G[places[p]] -= change
            G[mirrors[p]] -= change
    return products
