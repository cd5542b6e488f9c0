"""The readable summary of a GPU validation, and how its files are named."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHOWN = 20  # failures that are listed by name
ON_CUDA = re.compile(r"\[(.*-)?cuda(-.*)?\]$")


def stem(facts: dict[str, Any]) -> str:
    device = re.sub(r"[^a-z0-9]+", "-", facts["device"].lower()).strip("-")
    return f"validate_gpu-{device}-{facts['commit'].split('+')[0][:10]}"


def junit(path: Path) -> dict[str, Any]:
    """Counts and the names of what failed, from pytest's report."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return {}
    bad = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    return {
        "tests": len(cases),
        "failed": len(bad),
        "skipped": sum(c.find("skipped") is not None for c in cases),
        "on_cuda": sum(bool(ON_CUDA.search(c.get("name", ""))) for c in cases),
        "failures": [_failure(c) for c in bad],
    }


def _failure(case: ElementTree.Element) -> str:
    """Its name and the first line of what it says, without this machine's folders."""
    found = [e for e in (case.find("failure"), case.find("error")) if e is not None]
    said = (found[0].get("message") or "").split("\n")[0].replace(f"{ROOT}/", "")[:200]
    return f"{case.get('classname')}::{case.get('name')}: {said}"


def text(content: dict[str, Any]) -> str:
    memory = content["memory_bytes"] / 2**30
    lines = [
        f"{content['device']}, compute capability {content['compute_capability']}, "
        f"{content['multiprocessors']} multiprocessors, {memory:.0f} GiB",
        f"driver {content['driver']}, toolkit {content['toolkit']}",
        f"commit {content['commit']}, {content['date']}, {content['seconds']} s",
        "",
    ]
    for step in content["steps"]:
        took = f"{step['seconds']:6.0f} s"
        lines.append(f"{step['name']:<11}{step['status']:<10}{took}  {step['what']}")
    for step in content["steps"]:
        body = _BODIES[step["name"]](step["found"]) if step["found"] else []
        if step["status"] != "passed":
            body += [f"! {line}" for line in step["tail"][-8:]]
        if body:
            lines += ["", f"{step['name']}:", *(f"  {line}" for line in body)]
    return "\n".join(lines) + "\n"


def _suite(found: dict[str, Any]) -> list[str]:
    counts = (
        f"{found['tests']} tests, {found['on_cuda']} of them on cuda, "
        f"{found['failed']} failed, {found['skipped']} skipped"
    )
    return [counts, *found["failures"][:SHOWN]]


def _parity(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{found['calls']} calls through {len(found['kernels'])} kernels, "
        f"compared bit for bit: {found['exact']}, within bounds: {found['bounded']}",
        f"results against simt that differ in any bit: {found['simt_differs']} of "
        f"{found['simt_compared']}",
    ]
    if found["not_reached"]:
        lines.append("kernels that no case reached: " + ", ".join(found["not_reached"]))
    return [*lines, *found["failures"][:SHOWN]]


def _sanitizer(found: dict[str, Any]) -> list[str]:
    return [f"{name:<10} {said}" for name, said in found.items()]


def _large(found: dict[str, Any]) -> list[str]:
    return [f"{case['case']:<52} {case['status']}" for case in found["cases"]]


def _speed(found: dict[str, Any]) -> list[str]:
    quack = [f"QuACK {found['quack']}"] if "quack" in found else []
    lines = [
        *quack,
        f"device copy of {found['copy_bytes'] / 2**20:.0f} MiB: "
        f"{found['copy_gb_per_s']:.0f} GB/s, read and written",
        f"{'case':<46}{'type':<9}{'µs':>9}{'p10':>9}{'p90':>9}{'of copy':>9}"
        f"{'torch µs':>10}{'ratio':>7}",
    ]
    for row in found["rows"]:
        if "problem" in row:
            lines.append(f"{row['case']:<46}{row['dtype']:<9}{row['problem']}")
            continue
        lines.append(
            f"{row['case']:<46}{row['dtype']:<9}{row['us']:>9.1f}{row['p10']:>9.1f}"
            f"{row['p90']:>9.1f}{row['of_copy']:>9.2f}{row['torch_us']:>10.1f}{row['ratio']:>7.2f}"
        )
    return lines


def _regret(found: dict[str, Any]) -> list[str]:
    left = [f"{found['left']} cases were left for want of time"] if found["left"] else []
    return [*found.get("summary", []), *left, *found["failures"][:SHOWN]]


_BODIES: dict[str, Any] = {
    "build": lambda found: [],
    "suite": _suite,
    "parity": _parity,
    "sanitizer": _sanitizer,
    "large": _large,
    "speed": _speed,
    "regret": _regret,
}
