"""The binary interface in words: symbols of libcudml.so.0; sizes, offsets, numbers of its headers.

`python tests/support/abi.py` rewrites tests/library/abi.txt where a change is meant.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
CHECKED_IN = ROOT / "tests" / "library" / "abi.txt"
HEADERS = ("DirectML.h", "DirectMLActivations.h", "cudml.h")


def bare(header: str) -> str:
    return re.sub(r"//.*", "", (INCLUDE / "cudml" / header).read_text())


def program() -> str:
    """A C program that prints each struct's size, its fields' offsets, and numbers."""
    lines = ["#include <cudml/cudml.h>", "#include <stdio.h>", "int main(void) {"]
    for header in HEADERS:
        text = bare(header)
        for kind, name, body in re.findall(
            r"^typedef (struct|union) (\w+) \{(.*?)^\}", text, re.M | re.S
        ):
            lines.append(f'printf("{kind} {name} %zu:", sizeof({name}));')
            for field in re.findall(r"(\w+)(?:\[\d+\])?;", body):
                lines.append(f'printf(" {field} %zu", offsetof({name}, {field}));')
            lines.append('puts("");')
        for name, body in re.findall(r"^typedef enum (\w+)[^{]*\{(.*?)^\}", text, re.M | re.S):
            lines.append(f'printf("enum {name} %zu:", sizeof({name}));')
            for value in re.findall(r"^\s*(\w+)\b", body, re.M):
                lines.append(f'printf(" {value} %d", (int){value});')
            lines.append('puts("");')
    return "\n".join([*lines, "return 0;", "}", ""])


def layouts() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "abi.c", Path(folder) / "abi"
        source.write_text(program())
        subprocess.run(["gcc", "-std=c11", f"-I{INCLUDE}", source, "-o", target], check=True)
        return subprocess.run(
            [target], capture_output=True, text=True, check=True
        ).stdout.splitlines()


def symbols(library: Path) -> list[str]:
    """What programs link against; the private node is left out."""
    command = ["nm", "-D", "--defined-only", "--with-symbol-versions", str(library)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = (line.split()[-1] for line in text.splitlines())
    return sorted(name for name in names if "@" in name and "CUDML_PRIVATE" not in name)


def described(library: Path) -> str:
    return "\n".join([*(f"symbol {name}" for name in symbols(library)), *layouts(), ""])


if __name__ == "__main__":
    built = ROOT / "python" / "cudml" / "lib" / "libcudml.so.0"
    CHECKED_IN.write_text(described(built))
