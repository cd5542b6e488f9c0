"""What cudml's model of the machine code says of a problem, beside what was measured on a GPU."""

from __future__ import annotations

from typing import Any

from arrays import Arrays, numpy_dtype
from contenders import cudml_calls

import cudml
from cudml._cli import predicted

Row = dict[str, Any]


def of(arrays: Arrays) -> Row | None:
    """Milliseconds on the model's GPU and what bounds them; of a step, those of its calls."""
    found = [_of_call(one) for one in arrays.of_each_call()]
    if None in found:
        return None
    models = [model for model in found if model]
    longest = max(models, key=lambda model: model.seconds)
    return {
        "gpu": predicted.NAME,
        "ms": sum(model.seconds for model in models) * 1e3,
        "bound": longest.bound,
    }


def _of_call(arrays: Arrays) -> predicted.Prediction | None:
    problem = arrays.problem
    inputs, kwargs = cudml_calls.arguments(arrays)
    said = cudml.explain(problem.case.op, *inputs, device=predicted.DEVICE, **kwargs)
    item = numpy_dtype(problem.dtype).itemsize
    return predicted.predicted(said, item, problem.written)


def lines(rows: list[Row]) -> list[str]:
    """The table, where rows have a prediction: the largest distance first."""
    some = [row for row in rows if row.get("predicted")]
    if not some:
        return []
    pairs = [(row["contenders"]["cudml"]["ms"] / row["predicted"]["ms"], row) for row in some]
    gpu = some[0]["predicted"]["gpu"]
    found = [
        "",
        f"Beside a model of an {gpu}, which is no measurement:",
        f"{'case':<56}{'measured':>10}{'predicted':>11}{'times':>7}  bound by",
    ]
    for times, row in sorted(pairs, key=lambda pair: -pair[0]):
        own, model = row["contenders"]["cudml"]["ms"], row["predicted"]
        found.append(
            f"{row['name']:<56}{own:>10.4f}{model['ms']:>11.4f}{times:>7.2f}  {model['bound']}"
        )
    return found
