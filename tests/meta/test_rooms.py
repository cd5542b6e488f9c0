"""Where the sources may speak of one instruction set: csrc/cpu/simd, and few files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from folders import ROOT

CSRC = ROOT / "csrc"
# A macro by which compilers tell architectures or their features apart, in a condition.
CONDITION = re.compile(
    r"^\s*#\s*(?:el)?if.*\b__(?:x86_64|i386|aarch64|arm|ARM_|riscv|powerpc|s390x|"
    r"SSE|SSSE3|AVX|FMA|F16C|BMI|GFNI)"
)
INTRINSIC = re.compile(
    r"\b_k?mm(?:256|512)?_\w|\b_k\w+_mask\d+|\b__m(?:128|256|512)|\b__mmask\d|"
    r"\b__builtin_(?:ia32|cpu|aarch64|neon)_|\bfloat32x4_t|<\w*intrin\.h>|<arm_\w+\.h>|<cpuid\.h>"
)
EXCEPTIONS = {
    "math/fused.h",  # is for kernels, too, which include nothing of the CPU's
    "cpu/isa/dispatch.cpp",  # asks for the features of the levels it chooses among
    "simt/fiber.cpp",  # switches stacks, in tests only
}


def speaking() -> Iterator[tuple[str, str]]:
    """File and line, of all lines outside csrc/cpu/simd that are about one instruction set."""
    for path in sorted(CSRC.rglob("*")):
        name = path.relative_to(CSRC).as_posix()
        if path.suffix in (".h", ".cpp", ".cu", ".cuh") and not name.startswith("cpu/simd/"):
            for line in path.read_text().splitlines():
                if CONDITION.search(line) or INTRINSIC.search(line):
                    yield name, line


def test_instruction_sets_stay_in_their_room() -> None:
    found = list(speaking())
    assert {name for name, _ in found} == EXCEPTIONS, found
