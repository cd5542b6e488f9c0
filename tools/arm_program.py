"""Runs the CPU back end for aarch64 under an emulator: python tools/arm_program.py [-march=…]

Cross-compiles csrc's sources without the bindings, together with tests/cpu/emulated/paths.cpp, and
runs every path over short cases. The x86 build of the same program, of the product's objects,
writes the numbers that the emulated one must come to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import native_build
from native_build import COMMON, GXX, LOOPS, ROOT
from ninja_file import DEPENDENCIES, Ninja
from recipe import RECIPE, sources

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
LIBRARIES = "/usr/aarch64-linux-gnu"
PROGRAM = ROOT / "tests" / "cpu" / "emulated" / "paths.cpp"
MOST_SECONDS = 240  # to run; the emulator is some fifty times slower than the processor


def missing():
    """What the run needs and is not installed."""
    return [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]


def ninja_run(folder, target):
    jobs = ["-j", os.environ["MAX_JOBS"]] if os.environ.get("MAX_JOBS") else []
    command = [sys.executable, "-m", "ninja", "--quiet", "-C", str(folder), *jobs, target]
    if subprocess.run(command).returncode:
        raise SystemExit("cudml: the program did not compile; the message stands above")
    return folder / target


def program(name, compiler, flags):
    """The program compiled as the product would be with more flags, for one instruction set."""
    folder = ROOT / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    cache = native_build.compiler()[:-1]
    command = [*cache, compiler, *COMMON, *LOOPS, *GXX, *flags]
    ninja = Ninja(native_build.OWN_FLAGS)
    for rule in ("loops", "plans", "cpp"):
        ninja.rule(rule, [*command, DEPENDENCIES])
    for room in RECIPE["ROOMS"][:3]:
        for source in sources(room):
            ninja.compile("plans", source)
    native_build.cpu_rules(ninja, folder, command, {"base": []})
    ninja.compile("loops", PROGRAM)
    return linked(ninja, folder, [compiler])


def x86_program():
    """The same of the product's objects, of all instruction sets."""
    native_build.build("_core")
    product = native_build.folder_of("_core")
    ninja = native_build.core_ninja(product)
    rooms = ("core_", "choose_", "ops_", "cpu_")
    kept = [o for o in ninja.objects if o.split("/")[1].startswith(rooms)]
    folder = ROOT / "build" / "arm-compared"
    folder.mkdir(parents=True, exist_ok=True)
    ninja = Ninja()
    ninja.rule("loops", [*native_build.compiler(), *COMMON, *LOOPS, *GXX, DEPENDENCIES])
    ninja.compile("loops", PROGRAM)
    ninja.objects += [str(product / name) for name in kept]
    return linked(ninja, folder, native_build.compiler()[-1:])


def linked(ninja, folder, compiler):
    ninja.rule("link", [*compiler, "$in", "-lpthread", "-ldl", "-o $out"], False)
    ninja.lines.append(f"build program: link {' '.join(ninja.objects)}")
    ninja.write(folder)
    return ninja_run(folder, "program")


def run(command, **variables):
    environment = {**os.environ, "CUDML_NUM_THREADS": "1", **variables}
    done = subprocess.run(
        [str(part) for part in command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
    )
    print(" ".join(f"{k}={v}" for k, v in variables.items()), *command[:1], flush=True)
    print(done.stdout + done.stderr, end="")
    if done.returncode:
        raise SystemExit(f"cudml: {command[0]} ended with {done.returncode}")
    return {line.split(":")[0] for line in done.stdout.splitlines() if line.count(": ") == 1}


def main():
    if missing():
        raise SystemExit(
            f"cudml: {' and '.join(missing())} missing: apt install g++-aarch64-linux-gnu qemu-user"
        )
    flags = sys.argv[1:]
    native, arm = x86_program(), program("".join(["arm", *flags]), COMPILER, flags)
    numbers = native.parent / "numbers"
    want = run([native, "write", numbers], CUDML_CPU_ISA="base", CUDML_STREAM_BYTES="0")
    emulated = [EMULATOR, "-L", LIBRARIES, arm, "check", numbers]
    got = set()
    for stream_bytes in ("0", str(1 << 40)):
        got |= run(emulated, CUDML_CPU_ISA="base", CUDML_STREAM_BYTES=stream_bytes)
    if want - got:
        raise SystemExit(f"cudml: paths that ran on x86 alone: {', '.join(sorted(want - got))}")


if __name__ == "__main__":
    main()
