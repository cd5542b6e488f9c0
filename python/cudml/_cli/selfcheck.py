"""``python -m cudml selfcheck``: seeded parity of every operator with the reference."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import cudml
from cudml import bounds

from .call import Call, holds_arrays
from .cases import case, families, left_out
from .failure import Failure
from .numbers import is_number
from .progress import Progress

Array = npt.NDArray[Any]

_CASES, _QUICK_CASES = 500, 40  # per family and element type


def _same(array: Any) -> Any:
    return array


@dataclass(frozen=True)
class Backend:
    """Where operators run: ``put`` makes its arrays of NumPy's, ``get`` brings results back."""

    name: str
    put: Callable[[Array], Any] = _same
    get: Callable[[Any], Array] = _same

    def run(self, call: Call) -> Any:
        args = [self.put(a) if isinstance(a, np.ndarray) else a for a in call.positional]
        kwargs = {
            k: self.put(v) if isinstance(v, np.ndarray) else v for k, v in call.kwargs.items()
        }
        result = getattr(cudml, call.name)(*args, **kwargs)
        return tuple(map(self.get, result)) if isinstance(result, tuple) else self.get(result)


def backends() -> list[Backend]:
    """Those at hand in this installation, on this machine."""
    return [Backend("cpu")]


@dataclass
class Outcome:
    """One line: a family on a back end."""

    backend: str
    family: str
    types: list[str]
    cases: int = 0
    largest_share: float = 0.0  # of what the bounds allow; 0 where results must be exact
    seconds: float = 0.0
    mismatches: list[dict[str, str]] = field(default_factory=list)


def run(quick: bool, as_json: bool, seed: int, only: str | None) -> int:
    """Check and print; 1 if anything differs from the reference."""
    plan = _plan(quick, only)
    places = backends()
    outcomes = []
    with Progress(sum(len(types) for types, _ in plan.values()) * len(places)) as progress:
        for outcome in _outcomes(plan, places, seed, progress):
            outcomes.append(outcome)
            if not as_json:
                progress.clear()
                print("\n".join(_lines(outcome, seed)), flush=True)
    ok = not any(outcome.mismatches for outcome in outcomes)
    if as_json:
        results = [asdict(outcome) for outcome in outcomes]
        facts = {"version": cudml.__version__, "ok": ok, "seed": seed, "quick": quick}
        print(json.dumps({**facts, "left_out": left_out(), "results": results}, indent=2))
    else:
        print(_summary(outcomes))
        for name, reason in left_out().items():
            print(f"{name} is left out: {reason}")
    return 0 if ok else 1


def _plan(quick: bool, only: str | None) -> dict[str, tuple[list[str], range]]:
    """Element types and case numbers of each family."""
    every = families()
    if only is None:
        numbers = range(_QUICK_CASES if quick else _CASES)
        return {family: (types, numbers) for family, types in every.items()}
    family, _, rest = only.partition("/")
    dtype, _, number = rest.partition("/")
    if family not in every:
        raise Failure(f"--case {only}: {family!r} is none of {', '.join(every)}")
    if dtype not in every[family]:
        raise Failure(f"--case {only}: {dtype!r} is none of {', '.join(every[family])}")
    if not is_number(number):
        raise Failure(f"--case {only}: it must be FAMILY/TYPE/NUMBER, like padding/uint8/3")
    return {family: ([dtype], range(int(number), int(number) + 1))}


def _outcomes(
    plan: dict[str, tuple[list[str], range]],
    places: list[Backend],
    seed: int,
    progress: Progress,
) -> Iterator[Outcome]:
    for place in places:
        for family, (types, numbers) in plan.items():
            outcome = Outcome(place.name, family, types)
            begin = time.perf_counter()
            for dtype in types:
                progress.step(f"{place.name} {family} {dtype}")
                for number in numbers:
                    _check(place, outcome, case(family, dtype, number, seed), dtype, number)
            outcome.seconds = time.perf_counter() - begin
            yield outcome


def _check(place: Backend, outcome: Outcome, call: Call, dtype: str, number: int) -> None:
    outcome.cases += 1
    expected = bounds.expected(call.name, *call.positional, **call.kwargs)
    try:
        verdict = bounds.compare(place.run(call), expected)
    except Exception as error:  # a refusal or a crash of the operator is a finding like any other
        message = f"raised {type(error).__name__}: {error}"
    else:
        message = verdict.message
        if verdict.ok:
            outcome.largest_share = max(outcome.largest_share, verdict.largest_bound_share)
            return
    name = f"{outcome.family}/{dtype}/{number}"
    outcome.mismatches.append({"case": name, "call": _described(call), "message": message})


def _described(call: Call) -> str:
    """The call, and the types, shapes and strides of its arrays."""
    given = [*call.arrays.items(), *call.kwargs.items()]
    found = [f"{name} = {_kinds(value)}" for name, value in given if holds_arrays(value)]
    return f"{call.text()}; {'; '.join(found)}"


def _kinds(value: Any) -> str:
    arrays = value if isinstance(value, tuple) else (value,)
    return ", ".join(f"{a.dtype.name}{list(a.shape)} strides {list(a.strides)}" for a in arrays)


def _lines(outcome: Outcome, seed: int) -> list[str]:
    share = "exact" if outcome.largest_share == 0 else f"{outcome.largest_share:.2f} of bound"
    verdict = "MISMATCH" if outcome.mismatches else share
    line = (
        f"{outcome.backend:<5}{outcome.family:<33}{_types(outcome.types):<44}"
        f"{outcome.cases:>5} cases  {verdict:<14}{outcome.seconds:>7.2f} s"
    )
    shown = [
        f"  {found['case']}: {found['message']}\n    {found['call']}\n"
        f"    again: python -m cudml selfcheck --seed {seed} --case {found['case']}"
        for found in outcome.mismatches[:3]
    ]
    if len(outcome.mismatches) > 3:
        shown.append(f"  and {len(outcome.mismatches) - 3} more; --json lists all")
    return [line, *shown]


def _types(types: list[str]) -> str:
    """Names in short; the eight integer types as one."""
    integers = [name for name in types if "int" in name]
    floats = [name for name in types if "int" not in name]
    return " ".join([*floats, *(["int8-uint64"] if len(integers) == 8 else integers)])


def _summary(outcomes: list[Outcome]) -> str:
    cases = sum(outcome.cases for outcome in outcomes)
    wrong = sum(len(outcome.mismatches) for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    agreed = f"all {cases} cases agree with" if cases != 1 else "the one case agrees with"
    verdict = f"{wrong} of {cases} cases differ from" if wrong else agreed
    return f"{verdict} the reference, {seconds:.1f} s"
