"""The budget of the CUDA kernels: which there are, and what each may take of a multiprocessor.

tools/kernel_budget.json holds a line for each kernel, by its mangled name; docs/kernels.md the
same kernels counted by family, function and element type.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUDGET = ROOT / "tools" / "kernel_budget.json"
TABLE = ROOT / "docs" / "kernels.md"
REWRITE = "python tools/kernel_report.py write"
SLACK = 4  # registers that a kernel may gain; the hardware hands them out by eights
FAMILIES = {  # kernels at most
    "pool": 149,
    "pool_grad": 45,
    "unpool": 5,
    "pad": 17,
    "pad_grad": 12,
    "mvn": 88,  # and normalization in two phases
    "mvn_grad": 34,
}
TOTAL = 350
KERNEL = re.compile(r"cudml::cuda::(\w+_kernel)(<.*>)?\(")
TYPES = {
    "cudml::Float16": "float16",
    "cudml::BFloat16": "bfloat16",
    "float": "float32",
    "double": "float64",
    "signed char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
}
_TYPE = re.compile(
    r"(?<![\w:)])(" + "|".join(sorted(TYPES, key=len, reverse=True)) + r")(?=[,> *&]|$)"
)


@dataclass
class Kernel:
    """One instantiation; lists have an entry for each architecture. Bytes are of one thread, but
    for `shared`, which are of one block.
    """

    family: str
    name: str  # demangled, without its parameters
    registers: list[int] = field(default_factory=list)
    stack: list[int] = field(default_factory=list)
    spilled: list[int] = field(default_factory=list)  # bytes stored and loaded again
    shared: list[int] = field(default_factory=list)

    @property
    def function(self) -> str:
        return self.name.split("<")[0]

    @property
    def dtype(self) -> str:
        """The first element type among the template arguments, or a dash."""
        found = _TYPE.search(self.name.partition("<")[2])
        return TYPES[found.group(1)] if found else "-"


@dataclass
class Budget:
    nvcc: str
    architectures: list[str]
    kernels: dict[str, Kernel]  # by mangled name

    def of(self, architectures: list[str]) -> Budget:
        """The same for some of the architectures, those that it has."""
        at = [
            self.architectures.index(arch) for arch in architectures if arch in self.architectures
        ]

        def column(numbers: list[int]) -> list[int]:
            return [numbers[i] for i in at] if numbers else []

        kernels = {
            symbol: Kernel(
                k.family, k.name, *map(column, (k.registers, k.stack, k.spilled, k.shared))
            )
            for symbol, k in self.kernels.items()
        }
        return Budget(self.nvcc, [self.architectures[i] for i in at], kernels)


def demangled(symbol: str) -> str:
    """The C++ name, through the C++ library that every extension module loads anyway."""
    demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    address = demangle(symbol.encode(), None, None, None)
    if not address:
        return symbol
    text = ctypes.string_at(address).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(address))
    return text


def kernel_name(symbol: str) -> str:
    """`function<arguments>` of a kernel of the library, or nothing: its name breaks the rule."""
    found = KERNEL.search(demangled(symbol))
    return found.group(1) + (found.group(2) or "") if found else ""


def family_of(source: str) -> str:
    """The family of a file of csrc/cuda: its name's longest beginning that names one."""
    fits = [f for f in FAMILIES if re.match(rf"{f}(_|\.|$)", source)]
    return max(fits, key=len, default="")


# --- files


def dump(budget: Budget) -> str:
    """JSON with one line for each kernel; what is zero everywhere is left out."""
    lines = []
    ordered = sorted(budget.kernels.items(), key=lambda item: (item[1].family, item[1].name))
    for symbol, kernel in ordered:
        entry: dict[str, Any] = {"family": kernel.family, "name": kernel.name}
        for key in ("registers", "stack", "spilled", "shared"):
            if any(getattr(kernel, key)):
                entry[key] = getattr(kernel, key)
        lines.append(f"  {json.dumps(symbol)}: {json.dumps(entry)}")
    head = (
        f'"nvcc": {json.dumps(budget.nvcc)},\n"architectures": {json.dumps(budget.architectures)}'
    )
    body = ",\n".join(lines)
    return f'{{\n{head},\n"kernels": {{\n{body}\n}}}}\n'


def load(text: str) -> Budget:
    content = json.loads(text)
    archs = content["architectures"]
    zeros = [0] * len(archs)
    kernels = {
        symbol: Kernel(
            entry["family"],
            entry["name"],
            *(list(entry.get(key, zeros)) for key in ("registers", "stack", "spilled", "shared")),
        )
        for symbol, entry in content["kernels"].items()
    }
    return Budget(content["nvcc"], archs, kernels)


def table(budget: Budget) -> str:
    """docs/kernels.md."""
    kernels = list(budget.kernels.values())
    lines = [
        "# The CUDA kernels",
        "",
        f"Written by `{REWRITE}`, which compiles all of them for sm_"
        + ", ".join(budget.architectures)
        + ".",
        f"At most {TOTAL}: the library's size and the time to build it. Padding's kernels move",
        "elements of a size and not of a type: uint16 stands for every type of two bytes.",
        "",
        f"| family | kernels | at most |\n|---|---:|---:|\n{_family_rows(kernels)}",
    ]
    for family in FAMILIES:
        of_family = [k for k in kernels if k.family == family]
        if of_family:
            lines += ["", f"## {family}", "", *_function_rows(of_family)]
    return "\n".join(lines) + "\n"


def _family_rows(kernels: list[Kernel]) -> str:
    counts = Counter(k.family for k in kernels)
    rows = [f"| {family} | {counts[family]} | {most} |" for family, most in FAMILIES.items()]
    return "\n".join([*rows, f"| all | {len(kernels)} | {TOTAL} |"])


def _function_rows(kernels: list[Kernel]) -> list[str]:
    """A row for each kernel function: how many instantiations per element type, registers."""
    order = ["-", *sorted(TYPES.values(), key=lambda t: (t.strip("u"), t))]
    dtypes = [d for d in order if any(k.dtype == d for k in kernels)]
    heads = ["any type" if d == "-" else d for d in dtypes]
    rows = [
        f"| kernel | {' | '.join(heads)} | all | registers |",
        f"|---|{'---:|' * (len(dtypes) + 1)}---|",
    ]
    for function in sorted({k.function for k in kernels}):
        own = [k for k in kernels if k.function == function]
        counts = Counter(k.dtype for k in own)
        registers = [r for k in own for r in k.registers]
        cells = [str(counts[d] or "") for d in dtypes]
        spread = f"{min(registers)}–{max(registers)}" if registers else ""
        rows.append(f"| `{function}` | {' | '.join(cells)} | {len(own)} | {spread} |")
    return rows


# --- comparison


def problems(budget: Budget, compiled: Budget) -> list[str]:
    """What is new, gone or has grown; a line each."""
    found = [f"{_what(k)} is new" for s, k in compiled.kernels.items() if s not in budget.kernels]
    found += [
        f"{_what(k)} is in the budget and no longer compiled"
        for s, k in budget.kernels.items()
        if s not in compiled.kernels
    ]
    found += too_many(compiled)
    if budget.architectures != compiled.architectures:
        both = f"{', '.join(budget.architectures)}; compiled: {', '.join(compiled.architectures)}"
        return [*found, f"the budget is of architectures {both}"]
    if budget.nvcc != compiled.nvcc:  # another compiler allocates differently
        return found
    for symbol, kernel in compiled.kernels.items():
        if symbol in budget.kernels:
            found += _growth(budget.kernels[symbol], kernel, compiled.architectures)
    return found


def too_many(compiled: Budget) -> list[str]:
    counts = Counter(k.family for k in compiled.kernels.values())
    found = [
        f"family {family} has {counts[family]} kernels; at most {most} are allowed"
        for family, most in FAMILIES.items()
        if counts[family] > most
    ]
    total = len(compiled.kernels)
    return found + ([f"{total} kernels; at most {TOTAL} are allowed"] if total > TOTAL else [])


def _what(kernel: Kernel) -> str:
    return f"{kernel.family}: {kernel.name}"


def _growth(allowed: Kernel, now: Kernel, architectures: list[str]) -> list[str]:
    limits: Mapping[str, tuple[str, int]] = {
        "registers": ("registers", SLACK),
        "stack": ("bytes of stack", 0),
        "spilled": ("bytes spilled", 0),
        "shared": ("bytes of static shared memory", 0),
    }
    found = []
    for key, (unit, slack) in limits.items():
        before, after = getattr(allowed, key), getattr(now, key)
        grown = [
            f"sm_{arch} {b} -> {a}"
            for arch, b, a in zip(architectures, before, after, strict=True)
            if a > b + slack
        ]
        if grown:
            found.append(f"{_what(now)}: {unit}: {', '.join(grown)}")
    return found
