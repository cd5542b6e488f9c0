"""`Operator` itself: what it is made with and what it keeps."""

from __future__ import annotations

import copy
import pickle

import pytest

import cudml
from cudml import directml
from cudml.directml import FeatureLevel
from directml_support import desc_of


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
