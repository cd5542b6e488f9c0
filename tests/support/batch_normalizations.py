"""Random calls of normalization's gradients and of its two phases, for tests of slices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batch_support import (
    ACTIVATIONS,
    MOST_ELEMENTS,
    Draw,
    Groups,
    array_of,
    groups_of,
    placed,
    values_of,
)


def gradients_of(rng: np.random.Generator, most: int) -> Groups:
    """With x and its gradient."""
    groups = groups_of(rng, most)
    groups.arrays["grad"] = array_of(rng, groups.sizes, groups.dtype, groups.other_layout(rng))
    return groups


def _give_statistics(
    rng: np.random.Generator, groups: Groups, sizes: tuple[int, ...], names: tuple[str, ...]
) -> None:
    """Statistics that are data."""
    wide = np.dtype(rng.choice([np.float32, np.float64]))
    for name in names:
        values = values_of(rng, sizes, wide)
        groups.arrays[name] = np.abs(values) if name == "variance" else values


def normalization_gradient(rng: np.random.Generator, most: int = MOST_ELEMENTS) -> Draw:
    """The gradient of x, beside those of scale and bias, which all groups share, or without. Where
    neither mean nor variance is used, each element is a group."""
    groups = gradients_of(rng, most)
    uses = {"use_mean": bool(rng.random() < 0.8), "use_variance": bool(rng.random() < 0.85)}
    if rng.random() < 0.4:
        given = tuple(name for name in ("mean", "variance") if uses[f"use_{name}"])
        _give_statistics(rng, groups, groups.summed, given)
    keywords = {
        **uses,
        "axes": tuple(groups.reduced),
        "activation": ACTIVATIONS[rng.integers(0, len(ACTIVATIONS))],
        "outputs": ("x", "scale", "bias")[: int(rng.integers(1, 4))],
    }
    out = placed(groups.sizes, groups.dtype, *groups.other_layout(rng), 0)
    kept = groups.kept if any(uses.values()) else tuple(range(len(groups.sizes)))
    op = "mean_variance_normalization_grad"
    return Draw(op, groups.arrays, out, kept, keywords, (0, 3))


def gradient_sums(rng: np.random.Generator, most: int = MOST_ELEMENTS) -> Draw:
    """One of a group's two sums. Statistics are mostly those of the groups; else some are absent,
    or others have several of them, or several groups share them."""
    groups = gradients_of(rng, most)
    sizes = groups.summed
    if rng.random() < 0.4:
        sizes = tuple(n if rng.random() < 0.5 else 1 for n in groups.sizes)
    names = {name for name in ("mean", "variance") if rng.random() < 0.9}
    _give_statistics(rng, groups, sizes, tuple(sorted(names)))
    keywords = {
        **{name: None for name in ("mean", "variance") if name not in names},
        "axes": tuple(groups.reduced),
        "activation": ACTIVATIONS[rng.integers(0, len(ACTIVATIONS))],
    }
    dtype = str(rng.choice(["float32", "float64"]))
    out = placed(groups.summed, np.dtype(dtype), *groups.other_layout(rng), 0)
    keywords["dtype"] = dtype
    number = int(rng.integers(0, 2))
    return Draw("normalize_grad_sums", groups.arrays, out, groups.kept, keywords, (number, 2))


def gradient_of_part(rng: np.random.Generator, most: int = MOST_ELEMENTS) -> Draw:
    """The gradient of x by given statistics and sums; where there are no statistics, each element
    is a group."""
    groups = gradients_of(rng, most)
    names = {name for name in ("mean", "variance") if rng.random() < 0.6}
    _give_statistics(rng, groups, groups.summed, tuple(sorted(names)))
    if rng.random() < 0.6:
        _give_statistics(rng, groups, groups.summed, ("sum_w", "sum_wz"))
        groups.arrays["count"] = np.full(groups.summed, 40.0)
    keywords = {
        **{name: None for name in ("mean", "variance") if name not in names},
        "activation": ACTIVATIONS[rng.integers(0, len(ACTIVATIONS))],
        "outputs": ("x", "scale", "bias")[: int(rng.integers(1, 4))],
    }
    out = placed(groups.sizes, groups.dtype, *groups.other_layout(rng), 0)
    kept = groups.kept if names else tuple(range(len(groups.sizes)))
    return Draw("normalize_grad", groups.arrays, out, kept, keywords, (0, 3))


def statistics(rng: np.random.Generator, most: int = MOST_ELEMENTS) -> Draw:
    """A group's mean, or its squares."""
    groups = groups_of(rng, most)
    for name in ("scale", "bias"):
        groups.arrays.pop(name, None)
    dtype = "float64" if groups.dtype == np.float64 else str(rng.choice(["float32", "float64"]))
    keywords = {
        "axes": tuple(groups.reduced),
        "use_mean": bool(rng.random() < 0.85),
        "dtype": dtype,
    }
    out = placed(groups.summed, np.dtype(dtype), *groups.other_layout(rng), 0)
    place = int(rng.integers(1, 3)), 3
    return Draw("normalization_statistics", groups.arrays, out, groups.kept, keywords, place)


def given(rng: np.random.Generator, most: int = MOST_ELEMENTS) -> Draw:
    """What statistics that are data make of x; without them, each element is a group."""
    groups = groups_of(rng, most)
    names = {name for name in ("mean", "variance") if rng.random() < 0.7}
    _give_statistics(rng, groups, groups.summed, tuple(sorted(names)))
    keywords = {
        **{name: None for name in ("mean", "variance") if name not in names},
        "activation": ACTIVATIONS[rng.integers(0, len(ACTIVATIONS))],
    }
    out = placed(groups.sizes, groups.dtype, *groups.other_layout(rng), 0)
    kept = groups.kept if names else tuple(range(len(groups.sizes)))
    return Draw("normalize", groups.arrays, out, kept, keywords)


DRAWS: dict[str, Callable[..., Draw]] = {
    "mean_variance_normalization_grad": normalization_gradient,
    "normalize_grad_sums": gradient_sums,
    "normalize_grad": gradient_of_part,
    "normalization_statistics": statistics,
    "normalize": given,
}
