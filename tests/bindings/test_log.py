"""CUDML_LOG=debug: one line for each call on standard error, and nothing without it."""

from __future__ import annotations

import re

import pytest

import cudml
from array_support import LABELS, child

SETUP = "import cudml\nfrom array_support import make\n"
LINE = re.compile(
    r"cudml: (?P<op>\w+)(?P<tensors>( \w+=\w+\{[\d,]+\}strides\{[\d,]+\})+)"
    r" device=(?P<device>\S+) stream=(?P<stream>\S+) kernel=(?P<kernel>[\w/]+)"
    r" bytes=(?P<bytes>\d+) reason=\"(?P<reason>[^\"]+)\""
)


def lines(code: str, wish: str | None = "debug") -> list[str]:
    """What a child process writes to standard error."""
    environment = {} if wish is None else {"CUDML_LOG": wish}
    done = child(SETUP + code, limit=600, **environment)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_one_line_for_each_call() -> None:
    said = lines(f"for label in {LABELS!r}:\n    make(label).run()\n")
    assert len(said) == len(LABELS)
    for label, line in zip(LABELS, said, strict=True):
        found = LINE.fullmatch(line)
        assert found, line
        op = label.split("+")[0]
        assert found["op"] == op and "/" in found["kernel"]
        assert (found["device"], found["stream"]) == ("cpu", "none")
        assert int(found["bytes"]) > 0 and "instruction set" in found["reason"]
    assert "InputTensor=float32{2,3,5,7}strides{105,35,7,1}" in said[0]
    assert "OutputIndicesTensor=uint32" in said[1] and "OutputIndicesTensor" not in said[0]
    assert "InputGradientTensor=" in said[LABELS.index("max_pooling_grad")]
    assert "ScaleTensor=" in said[LABELS.index("mean_variance_normalization")]


def test_compiled_operators_too() -> None:
    said = lines(
        "import numpy as np\n"
        "from cudml.directml import BufferTensorDesc as T, PaddingOperatorDesc as Desc\n"
        "desc = Desc(InputTensor=T('FLOAT32', [3]), OutputTensor=T('FLOAT32', [6]),\n"
        "    PaddingMode='WRAP', PaddingValue=0, StartPadding=[1], EndPadding=[2])\n"
        "pad = cudml.Operator(desc).compile('cpu')\n"
        "pad(np.zeros(3, 'f4')), pad(np.zeros(3, 'f4'))\n"
    )
    assert len(said) == 2 and said[0] == said[1]
    found = LINE.fullmatch(said[0])
    assert found and found["op"] == "PADDING" and found["kernel"] == "pad/plain"


@pytest.mark.parametrize("wish", [None, "", "off", "0"])
def test_nothing_otherwise(wish: str | None) -> None:
    assert lines("make('padding').run()\n", wish) == []


def test_refused_calls_and_explanations_are_no_calls() -> None:
    said = lines(
        "import numpy as np\n"
        "try:\n"
        "    cudml.max_pooling(np.zeros((1, 1, 3)), 9)\n"
        "except ValueError:\n"
        "    pass\n"
        "cudml.explain('padding', np.zeros(3), 1, 1, device='sm_90')\n"
    )
    assert said == []


def test_lines_of_threads_do_not_mix() -> None:
    said = lines(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "problem = make('padding')\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    list(pool.map(lambda _: problem.run(), range(400)))\n"
    )
    assert len(said) == 400 and all(LINE.fullmatch(line) for line in said)


def test_lines_of_a_device(request: pytest.FixtureRequest) -> None:
    """The kernel with its reason, the device and the stream."""
    if "simt" not in (request.config.getoption("--backend") or "simt"):
        pytest.skip("--backend leaves simt out")
    said = lines(
        "import backends\n"
        "from cudml import _backend\n"
        "from device_array import InterfaceArray\n"
        "_backend.core = backends.simt()\n"
        "p = make('padding')\n"
        "x = InterfaceArray.copy_of(p.arrays['x'])\n"
        "cudml.padding(x, *p.args, **p.kwargs)\n"
        "cudml.padding(x, *p.args, stream=2, **p.kwargs)\n"
    )
    found = [LINE.fullmatch(line) for line in said]
    assert len(found) == 2 and all(found)
    assert [(f["device"], f["stream"]) for f in found if f] == [
        ("cuda:0", "0x0"),
        ("cuda:0", "0x2"),
    ]
    for f in found:
        assert f and f["kernel"] in {k.name for k in cudml.kernels("padding")}
        assert f["reason"].startswith(f["kernel"] + ": ")
