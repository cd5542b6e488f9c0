"""The calls that the demo shows: every operator family on one photograph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import cudml

from .call import Call

Array = npt.NDArray[Any]
Pads = tuple[int, int, int]


@dataclass(frozen=True)
class Exhibit:
    """A call, what to look for in its picture, and how the picture is made of the result."""

    call: Call
    remark: str
    tone: str = "plain"  # a key of picture.TONES
    step: int = 1  # photograph pixels per result pixel
    pads: tuple[Pads, Pads] | None = None  # start and end, where the photograph is to be outlined
    winners: bool = False  # the second result is where the first one stands in the photograph

    def pixels(self, result: Array) -> Array:
        """A result {H,W,C}, or {1,C,H,W} of the operators that pool images alone, as {H,W,C}."""
        return np.moveaxis(result[0], 0, 2) if result.ndim == 4 else result


def _image(pixels: Array) -> Array:
    """{H,W,C} seen as {1,C,H,W}."""
    return np.expand_dims(pixels.transpose(2, 0, 1), 0)


def exhibits(photo: npt.NDArray[np.uint8]) -> Iterator[Exhibit]:
    """The demo's calls; windows and pads grow with the photograph {H,W,3}."""
    light = photo.astype(np.float32) / np.float32(255)
    short = min(photo.shape[:2])
    yield from _pooling(photo, light, unit=max(min(2, short), round(short / 64)))
    yield from _gradients(light, unit=max(1, round(short / 24)))
    yield _unpooling(photo, unit=max(min(2, short), round(short / 128)))
    yield from _contrast(light, reach=max(1, round(short / 256)))
    yield _padding_grad(photo)
    yield from _padding(photo)
    yield from _normalization(light)
    yield from _two_phases(light)


def _pooling(photo: Array, light: Array, unit: int) -> Iterator[Exhibit]:
    winners = Call(
        "max_pooling",
        {"photo": photo},
        (unit,),
        {"strides": unit, "return_indices": True, "axes": (0, 1)},
    )
    yield Exhibit(
        winners,
        "the brightest of every window, and on the right where it stands",
        step=unit,
        winners=True,
    )
    half = unit // 2
    window: dict[str, Any] = {"start_padding": half, "end_padding": half, "axes": (0, 1)}
    soft = Call(
        "average_pooling", {"light": light}, (unit + 2 * half,), {"strides": unit, **window}
    )
    yield Exhibit(soft, "overlapping windows, padding left out of the mean", step=unit)


def _gradients(light: Array, unit: int) -> Iterator[Exhibit]:
    reach = max(1, unit // 10)
    window = {"start_padding": reach, "end_padding": reach, "axes": (0, 1)}
    ones = np.ones([(light.shape[0] + 1) // 2, (light.shape[1] + 1) // 2, 3], np.float32)
    wins = Call(
        "max_pooling_grad",
        {"light": light, "ones": ones},
        (2 * reach + 1,),
        {"strides": 2, **window},
    )
    yield Exhibit(wins, "how many windows each pixel wins", tone="heat")
    coarse = cudml.average_pooling(light, unit, unit, output_sizes="ceil", axes=(0, 1))
    rest = (-light.shape[0] % unit, -light.shape[1] % unit)
    geometry = {"strides": unit, "end_padding": rest, "include_padding": True, "axes": (0, 1)}
    spread = Call(
        "average_pooling_grad",
        {"coarse": coarse},
        (light.shape, unit),
        geometry,
        shown={0: "light.shape"},
    )
    yield Exhibit(spread, "each mean handed back to the pixels it came from", tone="stretch")


def _unpooling(photo: Array, unit: int) -> Exhibit:
    image = _image(photo)
    brightest, indices = cudml.max_pooling(image, unit, unit, return_indices=True)
    arrays = {"brightest": brightest, "indices": indices}
    back = Call("max_unpooling", arrays, (image.shape,), shown={0: "image.shape"})
    remark = "the brightest of every window, back where they stood"
    return Exhibit(back, remark, tone="points")


def _contrast(light: Array, reach: int) -> Iterator[Exhibit]:
    width = 2 * reach + 1
    window: dict[str, Any] = {"start_padding": reach, "end_padding": reach, "axes": (0, 1)}
    detail = light - cudml.average_pooling(light, width, **window)
    energy = Call("lp_pooling", {"detail": detail}, (width,), {"strides": 2, "p": 2, **window})
    remark = "detail is light less its local mean; the L2 norm is its strength"
    yield Exhibit(energy, remark, tone="ink", step=2)
    del window["axes"]
    image = _image(detail)
    norms = cudml.lp_pooling(image, width, 2, p=2, **window)
    arrays = {"detail": image, "norms": norms, "ones": np.ones_like(norms)}
    shares = Call("lp_pooling_grad", arrays, (width,), {"strides": 2, "p": 2, **window})
    yield Exhibit(shares, "what a lighter pixel adds to the strength around it", tone="signed")


def _padding(photo: Array) -> Iterator[Exhibit]:
    height, width = photo.shape[:2]
    fifth, third = (height // 5, width // 5, 0), _third(photo)
    corner, sides = (height // 12, width // 12, 0), (height // 8, width // 4, 0)
    mixed = ("edge", "wrap", "constant")
    plans: list[tuple[Any, Pads, Pads, str]] = [
        ("reflection", fifth, fifth, "mirrored about the edge pixel"),
        ("symmetric", third, corner, "mirrored with the edge pixel repeated"),
        (mixed, sides, sides, "one mode per dimension: edge down, wrap across"),
    ]
    for mode, start, end, remark in plans:
        call = Call("padding", {"photo": photo}, (start, end), {"mode": mode})
        yield Exhibit(call, remark, pads=(start, end))


def _third(photo: Array) -> Pads:
    return photo.shape[0] // 3, photo.shape[1] // 3, 0


def _padding_grad(photo: Array) -> Exhibit:
    third = _third(photo)
    sizes = [n + 2 * pad for n, pad in zip(photo.shape, third, strict=True)]
    shown = Call(
        "padding_grad",
        {"ones": np.ones(sizes, np.float32)},
        (photo.shape, third, third),
        {"mode": "symmetric"},
        shown={0: "photo.shape"},
    )
    return Exhibit(shown, "how often mirrored padding shows each pixel", tone="heat")


_SCALE = np.array([1.5, 1.5, 1.5], np.float32).reshape(1, 1, 3)
_BIAS = np.array([0.2, 0.1, 0.0], np.float32).reshape(1, 1, 3)


def _normalization(light: Array) -> Iterator[Exhibit]:
    scale, bias = _SCALE, _BIAS
    balanced = Call(
        "mean_variance_normalization",
        {"light": light, "scale": scale, "bias": bias},
        (),
        {"axes": (0, 1), "activation": "sigmoid"},
    )
    yield Exhibit(balanced, "colours balanced: each channel to mean 0 and deviation 1")
    arrays = {"light": light, "ones": np.ones_like(light), "scale": scale, "bias": bias}
    pull = Call("mean_variance_normalization_grad", arrays, (), balanced.kwargs)
    yield Exhibit(pull, "where more light would brighten all of that, and where not", tone="signed")
    rows = Call("mean_variance_normalization", {"light": light}, (), {"axes": (1, 2)})
    yield Exhibit(rows, "every line to the same mean and contrast", tone="sigma")
    hue = Call("mean_variance_normalization", {"light": light}, (), {"axes": 2, "epsilon": 1e-3})
    yield Exhibit(hue, "every pixel on its own: only the hue is left", tone="sigma")


def _two_phases(light: Array) -> Iterator[Exhibit]:
    """Normalization of data that stand apart: each part's statistics and sums, then the rest."""
    half = (light.shape[1] + 1) // 2
    parts = (light[:, :half], light[:, half:])
    each = [cudml.normalization_statistics(part, axes=(0, 1)) for part in parts]
    count, mean, m2 = cudml.merge_statistics(*each)
    given = {"mean": mean, "variance": m2 / count}
    whole = Call("normalize", {"light": light, **given})
    yield Exhibit(whole, "by statistics of two halves, merged", tone="sigma")
    rest = (*given.values(), _SCALE, _BIAS)
    sums = [
        cudml.normalize_grad_sums(
            part, np.ones_like(part), *rest, axes=(0, 1), activation="sigmoid"
        )
        for part in parts
    ]
    arrays = {"light": light, "ones": np.ones_like(light), **given, "scale": _SCALE, "bias": _BIAS}
    total = tuple(left + right for left, right in zip(*sums, strict=True))
    pull = Call(
        "normalize_grad", arrays, (), {"count": count, "sums": total, "activation": "sigmoid"}
    )
    yield Exhibit(pull, "the gradient above, by sums of two halves", tone="signed")
