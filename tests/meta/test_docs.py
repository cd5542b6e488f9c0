"""The documents keep their word: code runs, docstrings are complete, links lead somewhere."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import bounds, descriptors, directml, reference
from folders import ROOT

DOCUMENTS = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *("docs/semantics.md", "docs/porting.md"),
]
OPERATORS = [
    "average_pooling",
    "average_pooling_grad",
    "lp_pooling",
    "lp_pooling_grad",
    "max_pooling",
    "max_pooling_grad",
    "max_unpooling",
    "mean_variance_normalization",
    "mean_variance_normalization_grad",
    "merge_statistics",
    "normalization_statistics",
    "normalize",
    "normalize_grad",
    "normalize_grad_sums",
    "padding",
    "padding_grad",
]


def _public() -> dict[str, Any]:
    found = {name: getattr(cudml, name) for name in cudml.__all__}
    for module in (directml, descriptors):
        short = module.__name__.removeprefix("cudml.")
        found |= {f"{short}.{name}": getattr(module, name) for name in module.__all__}
    return {
        name: thing
        for name, thing in found.items()
        if inspect.isfunction(thing) or inspect.isclass(thing)
    }


def _python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_readme_has_its_python_blocks() -> None:
    assert len(_python_blocks()) == 4


@pytest.mark.parametrize("number", range(4))
def test_readme_code_runs(number: int) -> None:
    if "cudml.torch" in _python_blocks()[number]:
        pytest.importorskip("torch", reason="torch is not installed")
    exec(compile(_python_blocks()[number], f"README block {number}", "exec"), {})


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_docstring_has_every_section(name: str) -> None:
    doc = inspect.getdoc(getattr(cudml, name)) or ""
    for section in ("Parameters", "Returns", "Raises", "Examples"):
        assert re.search(rf"^{section}\n-+$", doc, re.MULTILINE), section
    assert "DML_" in doc, "the DirectML page it follows"
    for parameter in inspect.signature(getattr(cudml, name)).parameters:
        assert re.search(rf"\b{parameter}\b", doc), parameter


def _run_examples(thing: Any, name: str, recurse: bool) -> int:
    """How many examples there are; each does what it says."""
    names = {"cudml": cudml, "np": np, "directml": directml}
    names |= vars(directml) | vars(descriptors)
    finder = doctest.DocTestFinder(recurse=recurse)
    tests = [test for test in finder.find(thing, name, globs=names) if test.examples]
    for test in tests:
        failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed
        assert failed == 0, test.name
    return len(tests)


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, t in sorted(_public().items())
        if not (inspect.isclass(t) and issubclass(t, Exception))
    ],
)
def test_examples_in_docstrings_run(name: str) -> None:
    thing = _public()[name]
    methods = [n for n in ("compile", "describe", "__call__") if n in vars(thing)]
    assert _run_examples(thing, name, recurse=True) == 1 + len(methods)


@pytest.mark.parametrize(
    "module", [cudml, directml, descriptors, reference, bounds], ids=lambda m: m.__name__
)
def test_examples_of_modules_run(module: Any) -> None:
    with_examples = module in (directml, descriptors)
    assert _run_examples(module, module.__name__, recurse=False) == with_examples


@pytest.mark.parametrize("name", descriptors.__all__)
def test_own_description_names_its_function_and_fields(name: str) -> None:
    kind = getattr(descriptors, name)
    doc = inspect.getdoc(kind) or ""
    assert doc.startswith(f"`cudml.{kind._dml_name}`")
    assert "".join(word.capitalize() for word in kind._dml_name.split("_")) + "Desc" == name
    for section in ("Parameters", "Raises", "Examples"):
        assert re.search(rf"^{section}\n-+$", doc, re.MULTILINE), section
    for field in dataclasses.fields(kind):
        assert re.search(rf"^(\w+, )*{field.name}(, \w+)* : ", doc, re.MULTILINE), field.name


@pytest.mark.parametrize("name", [n for n in directml.__all__ if n.endswith("OperatorDesc")])
def test_descriptor_docstring_has_every_section(name: str) -> None:
    kind = getattr(directml, name)
    doc = inspect.getdoc(kind) or ""
    assert re.search(r"^Examples\n-+$", doc, re.MULTILINE)
    if kind is directml.OperatorDesc:
        return
    assert f"DML_{kind._dml_name}_OPERATOR_DESC" in doc
    assert re.search(r"^Raises\n-+$", doc, re.MULTILINE)
    fused = name.startswith(("Activation", "ElementWise"))
    shared = {"InputTensor", "OutputTensor"} if fused else set()
    own = [f.name for f in dataclasses.fields(kind) if f.name not in shared]
    sections = doc.split("Parameters\n----------\n")
    assert len(sections) == (2 if own else 1)
    for field in own:
        assert re.search(rf"^(\w+, )?{field}(, \w+)? : ", sections[1], re.MULTILINE), field


@pytest.mark.parametrize("method", ["compile", "describe"])
def test_methods_of_operator_are_described(method: str) -> None:
    doc = inspect.getdoc(getattr(directml.Operator, method)) or ""
    for section in ("Parameters", "Returns", "Raises", "Examples"):
        assert re.search(rf"^{section}\n-+$", doc, re.MULTILINE), section


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_into_the_repository_exist(document: str) -> None:
    file = ROOT / document
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read_text()):
        if "://" not in target:
            assert (file.parent / target).exists(), target


def test_readme_names_every_descriptor() -> None:
    text = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| (DML_\w+_OPERATOR_DESC) \| `(\w+)` \|", text, re.MULTILINE)
    classes = {
        name
        for name in directml.__all__
        if name.endswith("OperatorDesc")
        and not name.startswith(("Activation", "ElementWise"))
        and name != "OperatorDesc"
    }
    assert {name for _, name in rows} == classes
    for structure, name in rows:
        words = structure.removeprefix("DML_").removesuffix("_DESC").split("_")
        assert "".join(word.capitalize() for word in words) + "Desc" == name
        assert structure in (inspect.getdoc(getattr(directml, name)) or "")


def test_readme_counts_the_activations() -> None:
    count = int(re.search(r"(\d+) activations", (ROOT / "README.md").read_text()).group(1))  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="hard_swish") as refusal:
        cudml.mean_variance_normalization(np.ones(3, "f4"), axes=0, activation="no such name")
    names = str(refusal.value).split("one of ", 1)[1]
    assert len(re.findall(r"\w+", names)) == count
