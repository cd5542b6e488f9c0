"""The gradient of padding: its signature and meaning; the work is done in `_core`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from cudml import _backend
from cudml._typing import Array, ArrayT, Geometry, ModeName, Stream


def padding_grad(
    grad: ArrayT,
    input_sizes: Sequence[SupportsIndex],
    start_padding: Geometry,
    end_padding: Geometry,
    *,
    mode: ModeName = "constant",
    out: Array | None = None,
    stream: Stream = None,
) -> ArrayT:
    """Gradient of padding: each element receives what every place that shows it received.

    The exact transpose of `padding`: an element is the sum of `grad` over the positions of the
    padded array that hold it, itself, its mirror images and repetitions. In constant mode only the
    inside counts, which the kernels of `padding` copy. Pads may exceed the size, as in `padding`.
    Sums are kept in float32 (float64 for float64) in a fixed order and rounded once; repeated runs
    give the same bits, and what shows at one position alone is copied. The gradient of
    DML_PADDING1_OPERATOR_DESC; DirectML has no descriptor for it.

    Parameters
    ----------
    grad : array of rank 1 to 8
        Gradient with respect to the forward output: float16, bfloat16, float32 or float64, of sizes
        ``start_padding[i] + input_sizes[i] + end_padding[i]``.
    input_sizes : ints
        The full shape of the forward input, batch and channels included; 0 only where both pads
        are 0.
    start_padding, end_padding : int or one int per dimension
        As in the forward call; see `padding`.
    mode : str, default "constant"
        As in the forward call, for all dimensions: ``"constant"``, ``"edge"``, ``"reflection"``,
        ``"symmetric"`` or ``"wrap"``.
    out : array
        Shape `input_sizes`, the type of `grad`; written and returned. Must not overlap `grad`.
    stream : int or object with __cuda_stream__, optional
        Where work on a GPU is enqueued: 0 or 1 is the legacy default stream, 2 the per-thread one,
        another int a handle. None is the current stream of the arrays' library. Arrays on the
        CPU take None.

    Returns
    -------
    array
        Shape `input_sizes`, type and memory order of `grad`.

    Raises
    ------
    TypeError
        An argument is of the wrong kind, or an array of an element type that is not taken: integers
        have no gradient.
    ValueError
        A value out of range: the message names the field, its index, the value and the range.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> grad = np.arange(1.0, 9.0)
    >>> cudml.padding_grad(grad, (3,), 5, 0, mode="reflection").tolist()
    [8.0, 16.0, 12.0]
    >>> cudml.padding_grad(grad, (3,), 5, 0).tolist()
    [6.0, 7.0, 8.0]
    """
    return _backend.core.padding_grad(
        grad, input_sizes, start_padding, end_padding, mode, out, stream
    )
