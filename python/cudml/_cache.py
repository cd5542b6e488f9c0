"""The plans that calls of the operators leave behind for equal calls."""

from typing import NamedTuple

from cudml import _backend


class CacheInfo(NamedTuple):
    """State of the cache of plans, in the words of `functools.lru_cache`.

    Attributes
    ----------
    hits : int
        Calls that found the plan of an equal call: one with the same arguments, and arrays of the
        same element types, sizes and strides on the same device.
    misses : int
        Calls that had to be planned.
    maxsize : int
        Plans that are kept at most; of some three kilobytes each.
    currsize : int
        Plans that are kept now.

    Examples
    --------
    >>> import cudml
    >>> 0 <= cudml.cache_info().currsize <= cudml.cache_info().maxsize
    True
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int


def cache_info() -> CacheInfo:
    """State of the cache of plans that the operators share; compiled ones hold their own.

    Parameters
    ----------
    None

    Returns
    -------
    CacheInfo
        Hits, misses, and how many plans are kept.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> cudml.clear_cache()
    >>> for _ in range(3):
    ...     y = cudml.padding(np.zeros(4), 1, 1)
    >>> info = cudml.cache_info()
    >>> info.hits, info.misses, info.currsize
    (2, 1, 1)
    """
    return CacheInfo(*_backend.core.cache_info())


def clear_cache() -> None:
    """Forget all plans, and count hits and misses from 0 again. Calls that run are not disturbed.

    Parameters
    ----------
    None

    Returns
    -------
    None

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> import cudml
    >>> cudml.clear_cache()
    >>> cudml.cache_info().currsize
    0
    """
    _backend.core.clear_cache()
