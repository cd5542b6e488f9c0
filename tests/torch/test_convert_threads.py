"""convert while other threads call and convert models: torch.fx has one patch for all threads."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudml.torch import _fusion, convert  # noqa: E402

nn = torch.nn


class Stops(nn.Module):
    """Does something whenever it is traced, which forward itself cannot tell."""

    def __init__(self, stop: Callable[[], Any]) -> None:
        super().__init__()
        self.norm, self.act, self.stop = nn.GroupNorm(2, 4), nn.SiLU(), stop

    def __deepcopy__(self, memo: Any) -> Stops:
        return type(self)(self.stop)

    def forward(self, x: Any) -> Any:
        self.stop()
        return self.act(self.norm(x))


@pytest.fixture(autouse=True)
def patches(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Whatever a failing test leaves behind is taken back."""
    for name in ("__call__", "__getattr__"):
        monkeypatch.setattr(nn.Module, name, getattr(nn.Module, name))
    return nn.Module.__call__


def test_other_threads_call_models_meanwhile() -> None:
    other, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4)
    want, results = other(x), []

    def stop() -> None:
        thread = threading.Thread(target=lambda: results.append(other(x)))
        thread.start()
        thread.join()

    assert convert(Stops(stop)).count("fused") == 1
    assert results and all(torch.equal(got, want) for got in results)


def test_functions_of_math_stay_themselves_meanwhile() -> None:
    """torch.fx would exchange them for everybody: torch.compile, which reads them where a forward
    pass that is traced comes to torch.utils.checkpoint, would know the real ones no more."""
    own, seen = dict(vars(math)), []
    assert convert(Stops(lambda: seen.append(dict(vars(math))))).count("fused") == 1
    assert len(seen) == 2 and all(found == own for found in seen)


def test_two_threads_convert(patches: Any) -> None:
    """The first to begin would be the first to end, and the second put back what that one had."""
    first_ends, second_begins = threading.Event(), threading.Event()
    found: list[int] = []

    def stop() -> None:
        second_begins.set()
        assert first_ends.wait(20)

    second = threading.Thread(target=lambda: found.append(convert(Stops(stop)).count("fused")))

    def begin() -> None:
        if second.ident is None:
            second.start()
        second_begins.wait(0.5)  # for one that does not wait for its turn

    found.append(convert(Stops(begin)).count("fused"))
    first_ends.set()
    second.join()
    assert found == [1, 1] and nn.Module.__call__ is patches
    assert nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_while_another_thread_converts() -> None:
    held, end = threading.Event(), threading.Event()

    def hold() -> None:
        with _fusion.alone:
            held.set()
            end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _fusion.alone.acquire(blocking=False) else 3)
    end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
