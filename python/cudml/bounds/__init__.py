"""How far a result may be from the exact one: a bound for each element, and the pass rule."""

from __future__ import annotations

from ..reference.numbers import FORMATS
from .comparison import Comparison, Expected, compare, judge
from .expectation import expected

__all__ = ["FORMATS", "Comparison", "Expected", "compare", "expected", "judge"]
