"""Errors and warnings: each message says what came, what is allowed, and the way out."""

from __future__ import annotations


class MMCError(Exception):
    """Base of every error that mmcopt raises on purpose."""


class DataError(MMCError, ValueError):
    """The data or the labels cannot be used as they are."""


class ParameterError(MMCError, ValueError):
    """A parameter is out of its range."""


class KeywordError(ParameterError, TypeError):
    """A keyword that is not taken; the message names the one that may have been meant."""


class IncompatibleError(MMCError, TypeError):
    """This solver cannot solve this formulation; the message names those that can."""


class InfeasibleError(MMCError, ValueError):
    """The constraints contradict one another, and the message says which."""


class ResourceError(MMCError, MemoryError):
    """The computation would need more memory than there is; the message names a smaller one."""


class BackendError(MMCError, RuntimeError):
    """A numerical back end failed or is missing."""


def by_ctrl_c(error: BaseException | None) -> bool:
    """Whether an error comes of an interrupt; extensions make an ImportError of it as they load."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


class MMCWarning(UserWarning):
    """Base of every warning that mmcopt gives."""
