"""`Operator` itself: what it is made with and what it keeps."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from cudml import directml
from cudml.directml import FeatureLevel
from directml_support import desc_of, operator, tensor
from harness import refused


@pytest.mark.decision("D-FL-1")
def test_the_level_goes_along_and_is_the_newest_where_none_is_named() -> None:
    desc = desc_of("Padding", PaddingMode="WRAP")
    newest = cudml.Operator(desc)
    assert newest.feature_level is FeatureLevel.FL_6_4
    assert newest.compile().explain().device == "cpu"
    older = cudml.Operator(desc_of("Padding"), "5_0")
    pasted = eval(repr(older), vars(directml) | {"Operator": cudml.Operator})
    for built in (older, pasted, pickle.loads(pickle.dumps(older)), copy.deepcopy(older)):
        assert built.feature_level is FeatureLevel.FL_5_0 and built.desc == older.desc


COPIES = {"copy": copy.copy, "deep": copy.deepcopy, **{
    f"pickle {n}": lambda op, n=n: pickle.loads(pickle.dumps(op, n))
    for n in range(pickle.HIGHEST_PROTOCOL + 1)
}}  # fmt: skip


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_compiled_operators_are_compiled_again(way: str) -> None:
    """From the same description, for the same device; bound methods go along."""
    built = cudml.Operator(desc_of("MaxPooling1"), "4_0")
    pool = built.compile()
    again = COPIES[way](pool)
    assert again is not pool and repr(again) == repr(pool) and again.explain() == pool.explain()
    sizes = built.desc.InputTensor.Sizes
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    for y, wanted in zip(again(x), pool(x), strict=True):
        assert y.tobytes() == wanted.tobytes()
    _, (device,) = pool.__reduce__()
    source = pool.__reduce__()[0].__self__
    assert device == "cpu" and source is built and source.feature_level is FeatureLevel.FL_4_0
    assert COPIES[way](pool.explain)() == pool.explain()


def test_compiled_operators_go_to_other_processes() -> None:
    pad = cudml.Operator(desc_of("Padding", PaddingMode="EDGE")).compile()
    text = f"import pickle; print(pickle.loads({pickle.dumps(pad)!r}))"
    assert child_says(text) == repr(pad)


WINDOWS = (
    "over axes {2,3}: window_size {2,2}, strides {1,1}, start_padding {0,0}, end_padding {0,0}, "
    "dilations {1,1}, output_sizes {3,4}"
)
EPSILON = "epsilon 9.99999975e-06, activation "


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("MaxPooling", {}, f"max pooling {WINDOWS}"),
        ("AveragePooling", {"IncludePadding": True}, f"average pooling {WINDOWS}, include_pad"
         "ding true"),
        ("LpPooling", {"P": 3}, f"lp pooling {WINDOWS}, p 3"),
        ("MaxPoolingGrad", {}, f"gradient for input_sizes {{1,2,4,5}} of max pooling {WINDOWS}"),
        ("Padding", {"PaddingMode": "EDGE"}, "padding edge: start_padding {0,0,0,1}, end_padding "
         "{0,0,0,2}, value bytes" + " 00" * 8),
        ("MeanVarianceNormalization", {"FusedActivation": directml.ActivationLinearOperatorDesc(
         Alpha=2, Beta=0.5)}, "mean-variance normalization over axes {2,3}: use_mean true, "
         f"use_variance true, {EPSILON}linear(2, 0.5)"),
        ("BatchNormalizationGrad", {}, "gradient of normalization with given statistics: "
         f"{EPSILON}identity(0, 0)"),
        ("BatchNormalizationTrainingGrad", {}, "gradient of mean-variance normalization over axes "
         f"{{0,2,3}}: use_mean true, use_variance true, {EPSILON}identity(0, 0)"),
        ("MaxUnpooling", {}, "max unpooling: output_sizes {1,2,4,8}"),
    ],
)  # fmt: skip
def test_words_of_an_operator(name: str, changes: dict[str, Any], words: str) -> None:
    assert operator(name, **changes).describe().splitlines()[-1].strip() == words


def test_a_single_rank_is_no_range() -> None:
    with refused(ValueError, "InputTensor.DimensionCount is 5; at feature level 6_4 it must be 4"):
        operator("MeanVarianceNormalization", InputTensor=tensor([1, 2, 4, 5, 1]))
