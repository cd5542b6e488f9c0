"""How many threads a large call uses."""

from typing import SupportsIndex

from cudml import _backend


def get_num_threads() -> int:
    """Threads that a large call uses.

    Parameters
    ----------
    None

    Returns
    -------
    int
        What `set_num_threads` last set; before, ``CUDML_NUM_THREADS``, else ``OMP_NUM_THREADS``,
        else the CPUs this process may use (affinity and control group quota).

    Raises
    ------
    ValueError
        A variable ``CUDML_…`` of the environment is out of range.

    Examples
    --------
    >>> import cudml
    >>> cudml.get_num_threads() >= 1
    True
    """
    return _backend.core.get_num_threads()


def set_num_threads(n: SupportsIndex) -> None:
    """Set how many threads a large call uses. Results do not depend on it.

    Parameters
    ----------
    n : int
        1 to 1024. Small calls use fewer.

    Returns
    -------
    None

    Raises
    ------
    TypeError
        `n` is no integer.
    ValueError
        `n` is out of range, or a variable ``CUDML_…`` of the environment.

    Examples
    --------
    >>> import cudml
    >>> before = cudml.get_num_threads()
    >>> cudml.set_num_threads(1)
    >>> cudml.get_num_threads()
    1
    >>> cudml.set_num_threads(before)
    """
    _backend.core.set_num_threads(n)
