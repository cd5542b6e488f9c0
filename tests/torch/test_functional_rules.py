"""Where cudml.torch.functional goes beyond torch: pads per side, empty windows, statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness import refused

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional

import cudml.torch as canonical  # noqa: E402
from cudml.torch import functional as ours  # noqa: E402
from tests.torch.comparing import Recorder, assert_close  # noqa: E402


def values(*shape: int, dtype: Any = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pads_per_side_are_padding_before(n: int) -> None:
    """Of maxima with -inf; of averages and norms with 0. torch's order of pads is the reverse."""
    x, sides = values(2, 3, 7, 6, 5)[(slice(None),) * 2 + (0,) * (3 - n)], [(4, 0), (0, 5), (1, 3)]
    flat = [pad for pair in reversed(sides[:n]) for pad in pair]
    window, stride = [5, 6, 4][:n], [2, 1, 3][:n]
    more = {"padding": tuple(sides[:n])}
    want = getattr(F, f"max_pool{n}d")(F.pad(x, flat, value=-torch.inf), window, stride)
    assert_close(getattr(ours, f"max_pool{n}d")(x, window, stride, **more), want)
    want = getattr(F, f"avg_pool{n}d")(F.pad(x, flat), window, stride)
    assert_close(getattr(ours, f"avg_pool{n}d")(x, window, stride, **more), want)
    weight = getattr(F, f"avg_pool{n}d")(F.pad(torch.ones_like(x), flat), window, stride)
    got = getattr(ours, f"avg_pool{n}d")(x, window, stride, **more, count_include_pad=False)
    assert_close(got, want / weight)
    want = getattr(F, f"avg_pool{n}d")(F.pad(x, flat) ** 2, window, stride)
    want = (want * np.prod(window)).sqrt()
    assert_close(getattr(ours, f"lp_pool{n}d")(x, 2, window, stride, **more), want)


def test_a_window_of_padding_alone() -> None:
    x = torch.tensor([[[4.0]]], dtype=torch.float64, requires_grad=True)
    y, indices = ours.max_pool1d(x, 1, 1, ((1, 2),), return_indices=True)
    assert y.tolist() == [[[-np.inf, 4, -np.inf, -np.inf]]]
    assert indices.tolist() == [[[-1, 0, -1, -1]]]
    y, indices = ours.max_pool1d(x.expand(2, 3, 1), 2, 1, 1, 2, return_indices=True)
    assert (y == -np.inf).all() and indices.tolist() == [[[-1]] * 3] * 2
    _, indices = ours.max_pool1d(x, 1, 1, ((0, 2),), return_indices=True)
    assert indices.tolist() == [[[0, -1, -1]]]
    assert ours.avg_pool1d(x, 1, 1, ((1, 2),)).tolist() == [[[0, 4, 0, 0]]]
    assert ours.lp_pool1d(x, 2, 1, 1, padding=1).tolist() == [[[0, 4, 0]]]


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 3), (2, 3, 4, 3, 2)])
@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
def test_the_ceiling_gives_a_window_longer_than_the_input_a_place(
    name: str, shape: tuple[int, ...]
) -> None:
    """torch refuses avg_pool3d there; the window has one place, where fewer taps count."""
    n = len(shape) - 2
    window, stride, padding = [7, 3, 5][:n], [2, 3, 4][:n], [1, 0, 1][:n]
    call = {"padding": padding, "ceil_mode": True}
    call |= {"dilation": [1, 2, 1][:n]} if name == "max_pool" else {"count_include_pad": n == 1}
    window = window if name == "max_pool" else [7, 4, 5][:n]
    like = [values(*shape).requires_grad_() for _ in range(2)]
    got = getattr(ours, f"{name}{n}d")(like[0], window, stride, **call)
    if (name, n) == ("avg_pool", 3):
        want = like[1].mean((2, 3, 4), keepdim=True)
    else:
        want = getattr(F, f"{name}{n}d")(like[1], window, stride, **call)
    assert got.shape[2:] == (1,) * n
    assert_close(got, want)
    for y in (got, want):
        y.backward(values(*y.shape))
    assert_close(like[0].grad, like[1].grad)


def test_the_ceiling_of_a_dilated_window_longer_than_the_padded_input() -> None:
    """Of its taps those inside the padding count; the next place would begin in the end padding."""
    x = values(2, 3, 4, 5)
    call = {"stride": (3, 4), "padding": (1, 2), "dilation": (2, 3), "ceil_mode": True}
    got = ours.max_pool2d(x, (4, 4), **call)
    assert got.shape == (2, 3, 1, 1) and torch.equal(got, F.max_pool2d(x, (4, 4), **call))


def test_lists_of_one_entry_and_of_none() -> None:
    """One stands for all dimensions, and none of a stride for the window, as in torch."""
    x = values(2, 3, 7, 8)
    call = ([3], [], [1], [2])
    assert torch.equal(ours.max_pool2d(x, *call), F.max_pool2d(x, *call))
    assert_close(ours.avg_pool2d(x, [3], [2], [1]), F.avg_pool2d(x, [3], [2], [1]))


def test_indices_count_in_their_plane() -> None:
    """Also where windows of padding alone are among them, in every plane."""
    x = values(2, 3, 4, 5)
    y, indices = ours.max_pool2d(x, (2, 1), (2, 3), ((2, 0), (0, 1)), return_indices=True)
    assert (indices[:, :, 0] == -1).all() and torch.isneginf(y[:, :, 0]).all()
    seen = indices >= 0
    assert int(indices.max()) < 20 and seen.sum() == y[~torch.isneginf(y)].numel()
    taken = x.flatten(2).gather(2, indices.clamp(min=0).flatten(2)).view_as(y)
    assert torch.equal(taken[seen], y[seen])


def test_of_several_nan_the_first_wins() -> None:
    x = torch.tensor([[[1.0, np.nan, 3.0, np.nan, 2.0]]])
    y, indices = ours.max_pool1d(x, 3, 1, return_indices=True)
    assert torch.isnan(y).all() and indices.tolist() == [[[1, 1, 3]]]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_maxima_of_integers(dtype: torch.dtype) -> None:
    x = (values(2, 3, 6, 7) * 40).to(torch.int64).to(dtype)
    got, indices = ours.max_pool2d(x, (2, 3), (1, 2), return_indices=True)
    want = F.max_pool2d(x.double(), (2, 3), (1, 2))
    assert got.dtype == dtype and torch.equal(got.double(), want)
    assert torch.equal(x.flatten(2).gather(2, indices.flatten(2)).view_as(got), got)


def test_dilated_averages_and_norms() -> None:
    x = values(2, 3, 9, 8)
    taps = [x[..., i : i + 5, j : j + 5] for i in (0, 2, 4) for j in (0, 3)]
    assert_close(ours.avg_pool2d(x, (3, 2), 1, dilation=(2, 3)), sum(taps) / 6)
    want = sum(t.abs() ** 3 for t in taps) ** (1 / 3)
    assert_close(ours.lp_pool2d(x, 3, (3, 2), 1, dilation=(2, 3)), want)


def test_norms_of_windows_that_reach_beyond() -> None:
    """What is there, and no more (D-LP-2)."""
    x = torch.tensor([[[3.0, -4.0, -2.0]]])
    assert ours.lp_pool1d(x, 2, 2, 2, True).tolist() == [[[5, 2]]]
    assert ours.lp_pool1d(x, 1, 2, 2, True).tolist() == [[[7, 2]]]
    y = ours.lp_pool2d(x.reshape(1, 1, 1, 3), 2, (1, 2), None, True)
    z = ours.lp_pool3d(x.reshape(1, 1, 3, 1, 1), 2, (2, 1, 1), None, True)
    assert y.flatten().tolist() == z.flatten().tolist() == [5, 2]


NUMPY = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "symmetric": "symmetric"}


@pytest.mark.parametrize("mode", NUMPY)
@pytest.mark.parametrize("shape, pads", [
    ((3,), (7, 8)), ((2, 3, 4), (0, 9, 5, 0, 3, 1)), ((1, 2, 2, 1, 3), (4, 5, 3, 2)),
    ((2, 3, 1, 2, 2, 1), (1, 2, 0, 3, 3, 0, 2, 2, 1, 1)),
])  # fmt: skip
def test_pads_fold_in_any_rank(mode: str, shape: tuple[int, ...], pads: tuple[int, ...]) -> None:
    x = values(*shape)
    pairs = [(0, 0)] * (len(shape) - len(pads) // 2) + [
        (pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)
    ]
    want = np.pad(x.numpy(), pairs, mode=NUMPY[mode])
    assert torch.equal(ours.pad(x, pads, mode), torch.from_numpy(want))


def test_pads_that_crop_and_fold() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    got = ours.pad(x, (-1, 3, 2, -1), "symmetric")
    want = np.pad(x.numpy()[:-1, 1:], ((2, 0), (0, 3)), mode="symmetric")
    assert torch.equal(got, torch.from_numpy(want))
    assert torch.equal(ours.pad(x, (-2, -1, -1, 0)), x[1:, 2:3])
    assert torch.equal(ours.pad(x, ()), x)
    assert ours.pad(x, (-1, -3, 1, 0)).shape == (4, 0)  # which older releases of torch refuse


def test_values_of_pads() -> None:
    """A zero keeps its sign, and may be named in other modes."""
    x = torch.arange(6.0).reshape(2, 3)
    assert ours.pad(x, (1, 0), value=-0.0).signbit().tolist() == [[True] + [False] * 3] * 2
    assert torch.equal(ours.pad(x, (2, 0), "reflect", 0), F.pad(x, (2, 0), "reflect"))


def test_a_bias_alone() -> None:
    x, bias = values(2, 6, 5), values(6)
    across = bias[:, None].expand(6, 5).contiguous()
    assert_close(ours.layer_norm(x, (6, 5), bias=across), F.layer_norm(x, (6, 5)) + across)
    assert_close(ours.group_norm(x, 2, bias=bias), F.group_norm(x, 2) + bias[:, None])
    assert_close(ours.rms_norm(x, (5,), bias=values(5)), F.rms_norm(x, (5,)) + values(5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_epsilon_of_rms_norm(dtype: torch.dtype) -> None:
    """torch's own: of 16-bit data releases differ by a factor of thousands."""
    x = (values(3, 8) * 1e-3).to(dtype)
    want, room = F.rms_norm(x, (8,)), 4 * torch.finfo(dtype).eps
    module = torch.nn.RMSNorm(8).to(dtype)
    for got in (ours.rms_norm(x, (8,)), canonical.convert(module).model(x)):
        torch.testing.assert_close(got, want, rtol=room, atol=0)


def test_a_type_that_rms_norm_does_not_have() -> None:
    with refused(TypeError, "mean_variance_normalization: InputTensor.DataType", "int32"):
        ours.rms_norm(torch.ones(3, 8, dtype=torch.int32), (8,))


def test_an_epsilon_of_zero_is_one() -> None:
    x = torch.tensor([[3e-5, 4e-5]], dtype=torch.float64)
    want = x / x.square().mean(1, keepdim=True).sqrt()
    assert_close(ours.rms_norm(x, (2,), eps=0.0), want)


def test_groups_of_one_element() -> None:
    """As torch has it, of a batch they are normalized, to the bias; of one sample they are not."""
    x, bias = values(2, 3), values(3)
    assert_close(ours.group_norm(x, 3, None, bias), F.group_norm(x, 3, None, bias))


def test_groups_are_views_of_input(monkeypatch: Any) -> None:
    """Of channels-last memory, too, and of the most dimensions; weights are {1,G,C/G,1,...}."""
    recorder, weight = Recorder(monkeypatch, canonical), torch.rand(6, dtype=torch.float64)
    for shape in ((2, 6, 5, 4), (2, 6, 3, 2, 1, 2, 2)):
        x = torch.rand(shape, dtype=torch.float64)
        x = x.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else x
        assert_close(ours.group_norm(x, 2, weight), F.group_norm(x.contiguous(), 2, weight))
        _, (groups, scale, _), _ = recorder.calls[-1]
        assert groups.shape == (2, 2, 3, *shape[2:]) and groups.data_ptr() == x.data_ptr()
        assert scale.shape == (1, 2, 3, *[1] * (len(shape) - 2))
        assert scale.data_ptr() == weight.data_ptr()


def test_parameters_in_float32_of_half_precision() -> None:
    x, weight = values(2, 4, 3, dtype=torch.bfloat16), values(4, dtype=torch.float32)
    got = ours.group_norm(x, 2, weight, weight)
    want = F.group_norm(x.double(), 2, weight.double(), weight.double())
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.double(), want, rtol=2.0**-8, atol=2.0**-8)


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
@pytest.mark.parametrize("momentum", [0.1, 0.0, 1.0, -1.2])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 4, 3, 2, 5)])
def test_running_statistics(name: str, momentum: float, shape: tuple[int, ...]) -> None:
    x, mean, variance = values(*shape) * 3 + 1, values(4), values(4).abs()
    stored = {"running_mean": mean, "running_var": variance}
    kept = {k: v.clone() for k, v in stored.items()}
    more = {"training": True} if name == "batch_norm" else {}
    want = getattr(F, name)(x, **stored, momentum=momentum, **more)
    assert_close(getattr(ours, name)(x, **kept, momentum=momentum, **more), want)
    for key, value in kept.items():
        assert_close(value, stored[key])


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_running_statistics_one_by_one(name: str) -> None:
    """What is given moves, as it does beside the other one."""
    more = {"training": True} if name == "batch_norm" else {}
    x, normalized = values(3, 4, 5) * 3 + 1, getattr(ours, name)
    mean, variance = values(4), values(4).abs()
    both, alone = [mean.clone(), variance.clone()], [mean.clone(), variance.clone()]
    want = normalized(x, *both, **more)
    assert torch.equal(normalized(x, alone[0], None, **more), want)
    assert torch.equal(normalized(x, None, alone[1], **more), want)
    for got, kept, before in zip(alone, both, (mean, variance), strict=True):
        assert torch.equal(got, kept) and not torch.equal(got, before)


def test_running_statistics_of_no_elements() -> None:
    mean, variance = values(3), values(3).abs()
    kept = [mean.clone(), variance.clone()]
    y = ours.batch_norm(torch.zeros(0, 3, 4).double(), *kept, training=True)
    assert y.shape == (0, 3, 4)
    assert torch.equal(kept[0], mean) and torch.equal(kept[1], variance)


@pytest.mark.parametrize("places", [(1, 1, 0), (None, 1, 0), (0, 0, 1)])
def test_running_statistics_of_each_part(places: tuple[Any, ...]) -> None:
    """torch.vmap moves those of a part by its own elements, or by those that all parts share."""
    x, *stored = (
        values(*size) if place is None
        else torch.stack([values(*size) * (i + 1) + i for i in range(4)], place)
        for size, place in zip(((2, 3, 5), (3,), (3,)), places, strict=True)
    )  # fmt: skip
    alone = [t.clone() for t in stored]
    run = lambda v, m, s: ours.instance_norm(v, m, s, momentum=0.3)  # noqa: E731
    got = torch.vmap(run, places)(x, *stored)
    for i in range(4):
        given = zip((x, *alone), places, strict=True)
        assert_close(got[i], run(*(t if p is None else t.select(p, i) for t, p in given)))
    assert_close(stored[0], alone[0])
    assert_close(stored[1], alone[1])


def test_running_statistics_that_all_parts_share_are_refused() -> None:
    shared = torch.zeros(3).double()
    with pytest.raises(RuntimeError, match="each needs its own, or none"):
        torch.vmap(lambda v: ours.instance_norm(v, shared, shared))(values(4, 2, 3, 5))


def test_running_statistics_keep_their_type() -> None:
    x = values(4, 3, 6, dtype=torch.bfloat16)
    mean, variance = torch.zeros(3), torch.ones(3)
    ours.batch_norm(x, mean, variance, training=True, momentum=1.0)
    assert mean.dtype == torch.float32
    torch.testing.assert_close(mean, x.float().mean((0, 2)), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(variance, x.float().var((0, 2)), rtol=1e-6, atol=1e-6)


def test_unpooling_goes_back() -> None:
    """With a batch and without; with the size by the rule, given, or given with the batch's."""
    x = values(2, 3, 6, 8)
    y, indices = ours.max_pool2d(x, 2, return_indices=True)
    want = F.max_unpool2d(y, indices, 2)
    assert torch.equal(ours.max_unpool2d(y, indices, 2), want)
    assert torch.equal(ours.max_unpool2d(y[1], indices[1], 2), want[1])
    assert torch.equal(ours.max_unpool2d(y, indices.int(), (2, 2), output_size=x.shape), want)
    lines = F.max_unpool2d(y[:, :, :1, :], indices[:, :, :1, :] % 8, 2, 2, 0, (1, 9))
    got = ours.max_unpool2d(y[:, :, :1, :], indices[:, :, :1, :] % 8, 2, 2, 0, (1, 9))
    assert torch.equal(got, lines)
    larger = F.max_unpool2d(y, indices, 2, 2, 0, (7, 9))
    assert torch.equal(ours.max_unpool2d(y, indices, 2, 2, 0, (7, 9)), larger)
    y, indices = ours.max_pool2d(x, (3, 2), 2, ((1, 0), (0, 2)), return_indices=True)
    back = ours.max_unpool2d(y, indices, (3, 2), 2, ((1, 0), (0, 2)))
    assert back.shape == x.shape and torch.equal(back[back != 0], x[back != 0])


def test_unpooling_out_of_range_and_twice() -> None:
    """None reaches another plane; of two with one index the later stays, with its gradient."""
    x = torch.arange(1.0, 9).reshape(2, 2, 2).requires_grad_()
    for places, want, slopes in (
        ([[[0, 0], [-1, 3]], [[4, 1], [9, -5]]],
         [[[2, 0, 0, 0], [0, 0, 0, 4]], [[0, 6, 0, 0], [0, 0, 0, 0]]],
         [[[0, 0], [0, 7]], [[0, 9], [0, 0]]]),
        ([[[0, 0], [2, 3]], [[3, 1], [1, 1]]],
         [[[2, 0, 0, 0], [0, 0, 3, 4]], [[0, 6, 0, 5], [0, 8, 0, 0]]],
         [[[0, 0], [6, 7]], [[11, 9], [0, 13]]]),
        ([[[0, 1], [2, 3]], [[0, 4], [0, 1]]],
         [[[1, 2, 0, 0], [0, 0, 3, 4]], [[5, 0, 0, 0], [7, 8, 0, 0]]],
         [[[0, 1], [6, 7]], [[8, 0], [12, 13]]]),
        ([[[0, 1], [-1, 3]], [[0, 2], [0, 1]]],
         [[[1, 2, 0, 0], [0, 0, 0, 4]], [[5, 0, 6, 0], [7, 8, 0, 0]]],
         [[[0, 1], [0, 7]], [[8, 10], [12, 13]]]),
        ([[[4, 1], [2, 3]], [[0, 1], [2, 3]]],
         [[[0, 2, 0, 0], [0, 0, 3, 4]], [[5, 6, 0, 0], [0, 0, 7, 8]]],
         [[[0, 1], [6, 7]], [[8, 9], [14, 15]]]),
    ):  # fmt: skip
        for dtype in (torch.int32, torch.int64):
            y = ours.max_unpool1d(x, torch.tensor(places, dtype=dtype), 2)
            assert y.tolist() == want
            (dx,) = torch.autograd.grad(y, x, torch.arange(16.0).reshape(2, 2, 4))
            assert dx.tolist() == slopes


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_gradients_of_unpooling_to_places_of_their_own(order: Any) -> None:
    """In any order within a plane, and where the last two of a batch meet."""
    y = values(2, 3, 4, 5).to(memory_format=order).requires_grad_()
    shuffled = values(6, 80).argsort()[:, :20].reshape(2, 3, 4, 5)
    for places in (shuffled, torch.where(shuffled == shuffled[1, 2, 3, 4], shuffled[1, 2, 0, 1],
                                         shuffled)):  # fmt: skip
        indices = places.to(memory_format=order)
        grad = values(2, 3, 8, 10).to(memory_format=order)
        (dx,) = torch.autograd.grad(ours.max_unpool2d(y, indices, 2), y, grad)
        flat, want = grad.reshape(6, 80), grad.new_zeros(6, 20)
        for plane, own in enumerate(places.reshape(6, 20).tolist()):
            for k, place in enumerate(own):
                if place not in own[k + 1 :]:
                    want[plane, k] = flat[plane, place]
        assert torch.equal(dx, want.reshape(2, 3, 4, 5))


def test_activations_by_torchs_names_too() -> None:
    x = values(2, 6)
    want = F.silu(F.layer_norm(x, (6,)))
    for name in ("silu", "swish", ("silu", {}), ("swish", {"sigmoid_input_scale": 1})):
        assert_close(ours.layer_norm(x, (6,), activation=name), want)
    want = F.leaky_relu(F.layer_norm(x, (6,)), 0.3)
    got = ours.layer_norm(x, (6,), activation=("leaky_relu", {"alpha": 0.3}))
    assert_close(got, want)


@pytest.mark.parametrize("flag", [np.True_, np.False_])
def test_flags_of_numpy_are_flags(flag: Any) -> None:
    x, want = values(1, 2, 5), bool(flag)
    found = ours.max_pool1d(x, 2, return_indices=flag)
    expected = F.max_pool1d(x, 2, return_indices=want)
    pairs = zip(found, expected, strict=True) if want else [(found, expected)]
    assert all(torch.equal(*pair) for pair in pairs)
    got = ours.avg_pool1d(x, 2, 2, 1, ceil_mode=flag, count_include_pad=flag)
    assert_close(got, F.avg_pool1d(x, 2, 2, 1, ceil_mode=want, count_include_pad=want))
