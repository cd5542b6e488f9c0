"""Compares the bits of the CPU's results as two compilers make them:

    python tools/second_compiler.py [clang++-16]

Runs tests/cpu/emulated/paths.cpp over short cases by every path of x86-64-v3: with the product's
objects, and with those of the other compiler, which is found where none is named. A minute or two.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import arm_program
import native_build
from recipe import LEVELS, ROOT

OLDEST = 16  # of clang: older ones have no structured bindings within a lambda
KNOWN = (*(f"clang++-{n}" for n in range(21, OLDEST - 1, -1)), "clang++")


def found():
    """The name of another compiler than the product's, or None."""
    product = Path(native_build.compiler()[-1]).name
    others = ("g++",) if "clang" in product else KNOWN
    return next((name for name in others if name != product and knows_the_language(name)), None)


def knows_the_language(name):
    """Whether a compiler is there, and new enough."""
    if shutil.which(name) is None:
        return False
    said = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"clang version (\d+)", said)
    return version is None or int(version[1]) >= OLDEST


def other_program():
    """The program of the compiler that CXX names; its one instruction set, "base", is v3."""
    compiler = native_build.compiler()[-1]
    return arm_program.program(f"second-{Path(compiler).name}", compiler, LEVELS["v3"])


def built_by(name):
    """other_program() in a process of its own: flags are the compiler's."""
    cache = native_build.compiler()[:-1]
    code = "import second_compiler; print(second_compiler.other_program())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CXX": " ".join([*cache, name])},
        cwd=ROOT / "tools",
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}cudml: {name} did not build the program")
    return done.stdout.splitlines()[-1]


def bits(program, level, stream_bytes):
    """What each path wrote in each case, as lines."""
    file = ROOT / "build" / "bits"
    arm_program.run([program, "bits", file], CUDML_CPU_ISA=level, CUDML_STREAM_BYTES=stream_bytes)
    return file.read_text().splitlines()


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else found()
    if name is None:
        raise SystemExit("cudml: no other compiler was found: apt install clang-16")
    ours, theirs = arm_program.x86_program(), built_by(name)
    for stream_bytes in ("0", str(1 << 40)):
        a, b = bits(ours, "v3", stream_bytes), bits(theirs, "base", stream_bytes)
        other = [line for line, twin in zip(a, b, strict=True) if line != twin]
        if other:
            print(*other, sep="\n")
            raise SystemExit(f"cudml: {len(other)} of {len(a)} results have other bits by {name}")
        print(f"{len(a)} results have the same bits by {name}")


if __name__ == "__main__":
    main()
