"""What a call must return, and the rule that judges what it did return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reference.numbers import FORMATS, FloatFormat, spacing

Array = NDArray[Any]
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Expected:
    """What a call must return: one entry per output.

    values are in the output's type where exact, else float64; bounds are E in float64 (zeros where
    exact, None for indices); rules say how to compare: "bits", "equal" (+-0 are equal and so are
    NaNs of any payload), "bound", or "absent": value and output are None. others holds values of
    the first output that are as good as `values` because an activation jumps within its argument's
    error, each with its bound.
    """

    op: str
    dtypes: list[np.dtype[Any]]
    values: list[Array | None]
    bounds: list[F64 | None]
    rules: list[str]
    others: list[tuple[F64, F64]]

    @property
    def exact(self) -> list[bool]:
        """Whether each output is compared without a tolerance."""
        return [rule != "bound" for rule in self.rules]


@dataclass(frozen=True)
class Comparison:
    """The verdict on one result.

    largest_error is the largest |result - reference|, largest_bound_share the largest fraction of
    an element's tolerance that was used (0 for exact outputs), message the worst mismatch.
    """

    ok: bool
    largest_error: float
    largest_bound_share: float
    message: str


def compare(result: Any, expected: Expected) -> Comparison:
    """Judge a result: one array, or a sequence of arrays where the call has several outputs.

    Parameters
    ----------
    result : array, or a sequence of arrays
        What the call returned, as NumPy takes it.
    expected : Expected
        What `expected` says of the same call.

    Returns
    -------
    Comparison
        The verdict on all outputs together.

    Raises
    ------
    Nothing; a wrong number of outputs, shape or type is a verdict, too.

    Examples
    --------
    >>> import cudml, numpy as np
    >>> from cudml import bounds
    >>> x = np.array([1, 2, 4], np.float32)
    >>> want = bounds.expected("mean_variance_normalization", x, axes=0)
    >>> bounds.compare(cudml.mean_variance_normalization(x, axes=0), want).ok
    True
    >>> bounds.compare(x, want).ok
    False
    """
    listed = result if isinstance(result, (tuple, list)) else [result]
    outputs = [None if r is None else np.asarray(r) for r in listed]
    if len(outputs) != len(expected.values):
        return _failed(f"{len(outputs)} outputs, expected {len(expected.values)}")
    verdicts = [_compare_one(out, expected, i) for i, out in enumerate(outputs)]
    failures = [v.message for v in verdicts if not v.ok]
    return Comparison(
        not failures,
        max(v.largest_error for v in verdicts),
        max(v.largest_bound_share for v in verdicts),
        "; ".join(failures),
    )


def _failed(message: str) -> Comparison:
    return Comparison(False, math.inf, math.inf, message)


def _compare_one(out: Array | None, expected: Expected, i: int) -> Comparison:
    value, dtype = expected.values[i], expected.dtypes[i]
    name = f"output {i}"
    if out is None or value is None:
        is_right = out is value
        text = f"{name} is {'None' if out is None else 'an array'}, expected the other"
        return Comparison(True, 0.0, 0.0, "") if is_right else _failed(text)
    if out.dtype != dtype:
        return _failed(f"{name}: dtype is {out.dtype}, expected {dtype}")
    if out.shape != value.shape:
        return _failed(f"{name}: shape is {out.shape}, expected {value.shape}")
    if out.size == 0:
        return Comparison(True, 0.0, 0.0, "")
    with np.errstate(all="ignore"):
        if expected.rules[i] == "bound":
            return _compare_bounded(out, expected, i)
        return _compare_exact(out, value, expected.rules[i], name)


def _compare_exact(out: Array, value: Array, rule: str, name: str) -> Comparison:
    wrong = _bits(out) != _bits(value)
    if rule == "equal":
        wrong &= ~((out == value) | ((out != out) & (value != value)))
    if not wrong.any():
        return Comparison(True, 0.0, 0.0, "")
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    where = ", ".join(map(str, at))
    message = (
        f"{name}[{where}] is {out[at]!r} (bits {_bits(out)[at]:#x}), expected {value[at]!r} "
        f"(bits {_bits(value)[at]:#x}) exactly; {int(wrong.sum())} of {wrong.size} differ"
    )
    gap = np.abs(out.astype(np.float64) - value.astype(np.float64))
    error = float(np.max(np.where(np.isfinite(gap), gap, 0.0), initial=0.0))
    return Comparison(False, error, math.inf, message)


def _bits(x: Array) -> NDArray[Any]:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)


def _compare_bounded(out: Array, expected: Expected, i: int) -> Comparison:
    form = FORMATS[expected.dtypes[i].name]
    got, ref, bound = out.astype(np.float64), expected.values[i], expected.bounds[i]
    assert bound is not None and ref is not None
    passed, error, share = judge(got, ref, bound, form)
    for other, other_bound in expected.others if i == 0 else []:
        accepted, _, used = judge(got, other, other_bound, form)
        share = np.where(passed | ~accepted, share, used)
        passed |= accepted
    largest = float(np.max(np.where(np.isfinite(error), error, 0.0)))
    worst_share = float(np.max(np.where(passed, share, 0.0)))
    if passed.all():
        return Comparison(True, largest, worst_share, "")
    at = np.unravel_index(int(np.argmax(np.where(passed, -1.0, share))), ref.shape)
    where = ", ".join(map(str, at))
    message = (
        f"output {i}[{where}] is {float(got[at])!r}, expected {float(ref[at])!r} with E = "
        f"{float(bound[at]):.3g}, that is {float(share[at]):.3g} of what is allowed; "
        f"{int((~passed).sum())} of {passed.size} differ"
    )
    return Comparison(False, largest, math.inf, message)


def judge(got: F64, ref: F64, bound: F64, form: FloatFormat) -> tuple[NDArray[np.bool_], F64, F64]:
    """Which elements pass |got - ref| <= E + ulp(|ref| + E)/2, the errors, the tolerance's share.

    NaN matches NaN and an infinity itself; where the tolerance reaches beyond the largest finite
    value, the infinity of that sign passes too. An infinite E makes no claim.

    Parameters
    ----------
    got, ref, bound : ndarray of float64, of one shape
        Results, references, and E, how far arithmetic in the compute type may lead away.
    form : FloatFormat
        The format of the results: what `ulp` is of.

    Returns
    -------
    tuple of three ndarrays of that shape
        Whether each passes, its error, and the fraction of its tolerance that is used.

    Raises
    ------
    Nothing.
    """
    allowed = bound + spacing(np.abs(ref) + bound, form) / 2
    error = np.where(got == ref, 0.0, np.abs(got - ref))
    error = np.where(np.isnan(ref) & np.isnan(got), 0.0, error)
    share = np.where(error == 0, 0.0, error / allowed)
    share = np.where(np.isnan(share), np.inf, share)
    up = np.isposinf(got) & (ref + allowed > form.largest)
    down = np.isneginf(got) & (ref - allowed < -form.largest)
    free = np.isposinf(bound)
    share = np.where((up | down) & (share > 0), np.minimum(share, 1.0), share)
    share = np.where(free, 0.0, share)
    return share <= 1, np.where(free, 0.0, error), share
