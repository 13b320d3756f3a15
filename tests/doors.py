"""Loops that only loops call, as tests may call them."""


def door(loop):
    """The same loop compiled once more, with the wrapper for Python that `INNER` leaves out."""
    from numba import njit

    source = getattr(loop, "py_func", None)  # there is none where numba is switched off
    return loop if source is None else njit(source)
