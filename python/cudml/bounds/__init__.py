"""How far a result may be from the exact one: a bound for each element, and the pass rule.

`expected` computes results and bounds of a call, `compare` judges a result by them. `judge` is the
rule for arrays of numbers alone, and `FORMATS` has the float formats that it takes, by their names.
"""

from __future__ import annotations

from ..reference.numbers import FORMATS
from .comparison import Comparison, Expected, compare, judge
from .expectation import expected

__all__ = ["FORMATS", "Comparison", "Expected", "compare", "expected", "judge"]
