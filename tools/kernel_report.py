"""The gates that the compiled CUDA kernels pass, without a GPU.

    python tools/kernel_report.py check        compiles all architectures, or with
                                               CUDML_CUDA_ARCHS=90 this one alone, and compares
                                               with the budget
    python tools/kernel_report.py write        the same, and rewrites the budget and its table
    python tools/kernel_report.py wheel FILE   the wheel's size

`check` compiles the kernels in build/, as for a wheel, which then takes these objects. The build
puts `kernel_report.py shorten` before nvcc, which names the registers of the PTX so that it
compresses; with CUDML_KERNEL_REPORT set it is `kernel_report.py compile`, which also turns warnings
into errors and leaves what the compiler says of each kernel, and what its PTX must not hold, beside
the object.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import code_budget
import cuda_toolkit
import kernel_budget
import machine_code
import ptx_lint
import ptx_scopes
from kernel_budget import BUDGET, REWRITE, ROOT, TABLE, TOTAL, Budget, Kernel

WHEEL_BYTES = 8_000_000  # with the code of one architecture
FURTHER_BYTES = 1_600_000  # of each further one
STRICT = ["-Werror", "all-warnings", "-Xcompiler=-Werror", "-Xptxas", "-v"]
ENTRY = re.compile(r"Compiling entry function '([\w$]+)' for 'sm_(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
CHATTER = re.compile(r"ptxas info|^\s+\d+ bytes stack frame")

Resources = dict[str, dict[str, list[int]]]  # kernel -> architecture -> the four numbers


def resources(said: str) -> Resources:
    """Registers, bytes of stack, spilled and shared of each kernel, from ptxas's own report."""
    found: Resources = {}
    numbers = [0, 0, 0, 0]
    for line in said.splitlines():
        if match := ENTRY.search(line):
            numbers = [0, 0, 0, 0]
            found.setdefault(match.group(1), {})[match.group(2)] = numbers
        elif match := STACK.search(line):  # also of functions that are not inlined
            stack, stored, loaded = map(int, match.groups())
            numbers[1], numbers[2] = max(numbers[1], stack), numbers[2] + stored + loaded
        elif match := USED.search(line):
            shared = SHARED.search(line)
            numbers[0], numbers[3] = int(match.group(1)), int(shared.group(1)) if shared else 0
    return found


def assemble(nvcc: Path, kept: Path, archs: list[str]) -> tuple[int, str]:
    """Assembles for the architectures that no wheel holds; the status and what ptxas says."""
    said = ""
    for arch in sorted(set(archs) - set(cuda_toolkit.WHEEL_ARCHITECTURES)):
        for ptx in kept.glob(f"*.compute_{cuda_toolkit.PTX_OF[arch]}.ptx"):
            words = [nvcc.with_name("ptxas"), f"-arch=sm_{arch}", "-v", "--warning-as-error"]
            words += [ptx, "-o", kept / f"{arch}.cubin"]
            done = subprocess.run(words, capture_output=True, text=True)
            said += done.stdout + done.stderr
            if done.returncode:
                return done.returncode, said
    return 0, said


def shorten(command: list[str]) -> None:
    """Names the registers of the PTX that a wheel holds anew, and puts it into the object.

    Half of what PTX takes in a wheel are the numbers of its registers.
    """
    dry = subprocess.run([*command, "--dryrun"], capture_output=True, text=True)
    made = re.search(r"^#\$ (fatbinary .*?)(?: *>.*)?$", dry.stdout + dry.stderr, re.M)
    if dry.returncode or not made:
        return
    for file in map(Path, re.findall(r'kind=ptx,sm=\d+,file=([^"]+)"', made[1])):
        file.write_text(ptx_scopes.rewritten(file.read_text()))
    program, *words = shlex.split(made[1])
    subprocess.run([Path(command[0]).with_name(program), *words], check=True)
    (fatbin,) = (word.partition("=")[2] for word in words if word.startswith("--create="))
    section = f".nv_fatbin={fatbin}"
    target = command[command.index("-o") + 1]
    subprocess.run(["objcopy", "--update-section", section, target], check=True)


def compile_shortly(command: list[str]) -> int:
    """nvcc, as a user builds; where the PTX can't be put back, the object has nvcc's own."""
    with tempfile.TemporaryDirectory() as folder:
        kept = [*command, "--keep", "--keep-dir", folder]
        status = subprocess.run(kept).returncode
        if status == 0:
            try:
                shorten(kept)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"{command[command.index('-c') + 1]}: the PTX stays long: {error}")
    return status


def machine_codes(kept: Path) -> dict[str, dict[str, Any]]:
    """What the machine code of each kernel says, by architecture."""
    found: dict[str, dict[str, Any]] = {}
    if machine_code.nvdisasm() is None:  # builds need none; the gate says so
        return found
    for cubin in sorted(kept.glob("*.cubin")):
        if cubin.stem.isdigit() and cubin.stem not in code_budget.ARCHITECTURES:
            continue  # assembled here, and of no account
        arch, kernels = machine_code.disassembled(cubin)
        if arch not in code_budget.ARCHITECTURES:
            continue
        for symbol, lines in kernels.items():
            found.setdefault(symbol, {})[arch] = dataclasses.asdict(machine_code.measured(lines))
    return found


def compile_one(command: list[str], archs: list[str]) -> int:
    """nvcc, strictly; what it says of the kernels goes into a file beside the object."""
    target = Path(command[command.index("-o") + 1])
    target.with_name(target.name + ".json").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder)
        strict = [*command, *STRICT, "--keep", "--keep-dir", folder]
        done = subprocess.run(strict, capture_output=True, text=True)
        status, said = done.returncode, done.stdout + done.stderr
        if status == 0:
            shorten(strict)
            status, more = assemble(Path(command[0]), kept, archs)
            said += more
        codes = machine_codes(kept) if status == 0 else {}
        rest = [line for line in said.splitlines() if not CHATTER.search(line)]
        print("\n".join(rest), end="\n" if rest else "", flush=True)
        if status:
            return status
        texts = [path.read_text() for path in sorted(kept.glob("*.ptx"))]
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    content = {
        "resources": resources(said),
        "lint": [ptx_lint.uses(text) for text in texts],
        "code": codes,
        "blocks": {s: n for text in texts for s, n in machine_code.block_sizes(text).items()},
        "seconds": spent.ru_utime + spent.ru_stime,
    }
    target.with_name(target.name + ".json").write_text(json.dumps(content))
    return 0


def sources() -> list[str]:
    return [path.name for path in sorted((ROOT / "csrc" / "cuda").glob("*.cu"))]


def object_of(source: str) -> str:
    """The object's name in the build folder."""
    return f"cuda/cuda_{source}.o"


def build() -> Path:
    """Compiles the kernels for all architectures and returns the folder with the objects."""
    import native_build  # needs what the compilation of one file does not

    asked = {"CUDML_CUDA": "on", "CUDML_KERNEL_REPORT": "1"}
    os.environ.setdefault("CUDML_CUDA_ARCHS", "all")
    # The compilations run by the interpreter itself, which does not see an environment's packages.
    os.environ.update(asked, NVDISASM=str(machine_code.nvdisasm()))
    return Path(native_build.build("_core", targets=[object_of(s) for s in sources()])).parent


def reports(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each .cu file's name with what was left beside its object."""
    for source in sources():
        file = folder / f"{object_of(source)}.json"
        if not file.exists():
            raise SystemExit(f"kernel_report: {source} left no report; remove {folder}")
        yield source, json.loads(file.read_text())


def collect(found: list[tuple[str, dict[str, Any]]], nvcc: str) -> tuple[Budget, list[str]]:
    """All kernels of the library, and what is wrong with their names or places."""
    archs = cuda_toolkit.checked_architectures()
    compiled, wrong = Budget(nvcc, archs, {}), []
    for source, report in found:
        family = kernel_budget.family_of(source)
        for symbol, by_arch in report["resources"].items():
            name = kernel_budget.kernel_name(symbol)
            if not name:
                shown = kernel_budget.demangled(symbol)
                wrong.append(f"{source}: {shown} is not named cudml::cuda::…_kernel")
                name = shown
            if not family:
                wrong.append(f"{source}: its name begins with no family; it has kernels")
            if symbol in compiled.kernels:
                wrong.append(f"{source}: {name} is compiled in another file too")
            if set(by_arch) != set(archs):
                wrong.append(f"{source}: {name} is missing for some architectures")
                continue
            columns = zip(*(by_arch[arch] for arch in archs), strict=True)
            compiled.kernels[symbol] = Kernel(family, name, *map(list, columns))
    return compiled, wrong


def codes_of(compiled: Budget, found: list[tuple[str, dict[str, Any]]]) -> code_budget.Codes:
    """What the machine code of the library's kernels says."""
    codes = {}
    for _, report in found:
        for symbol, by_arch in report["code"].items():
            kernel, block = compiled.kernels.get(symbol), report["blocks"].get(symbol, 1024)
            if kernel:
                codes[symbol] = code_budget.entry_of(kernel, compiled.architectures, by_arch, block)
    return codes


def code_problems(budget: Budget, compiled: Budget, codes: code_budget.Codes) -> list[str]:
    """What the machine code has lost, and what misses its target for no reason given."""
    allowed = code_budget.load(code_budget.BUDGET.read_text())
    archs = code_budget.compiled(compiled.architectures)
    lines = code_budget.worse(allowed, codes, archs) if budget.nvcc == compiled.nvcc else []
    if code_budget.TABLE.read_text() != code_budget.table(allowed):
        lines.append(f"{code_budget.TABLE.relative_to(ROOT)} is not the table of the budget")
    if code_budget.MODEL.read_text() != code_budget.model(allowed):
        lines.append(f"{code_budget.MODEL.relative_to(ROOT)} is not that of the budget")
    return lines + code_budget.unexplained(codes, archs)


def forbidden(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """What the lint refuses, with readable names."""
    uses = [ptx for _, report in found for ptx in report["lint"]]
    lines = []
    for line in ptx_lint.problems(uses):
        symbol, colon, rest = line.partition(": ")
        lines.append(f"{kernel_budget.demangled(symbol)}{colon}{rest}")
    return lines


def read_budget() -> Budget:
    if not BUDGET.exists():
        return Budget("", list(cuda_toolkit.ALL_ARCHITECTURES), {})
    return kernel_budget.load(BUDGET.read_text())


def say(title: str, lines: list[str]) -> None:
    if lines:
        print("\n".join([f"\n{title}:", *(f"  {line}" for line in lines)]))


def summary(compiled: Budget, found: list[tuple[str, dict[str, Any]]]) -> str:
    kernels = compiled.kernels.values()
    spilling = sum(any(k.spilled) for k in kernels)
    most = max((r for k in kernels for r in k.registers), default=0)
    spent = sorted(((one["seconds"], source) for source, one in found), reverse=True)
    slowest = ", ".join(f"{source} {seconds:.0f}" for seconds, source in spent[:3])
    return (
        f"{len(kernels)} of at most {TOTAL} kernels for {len(compiled.architectures)} "
        f"architectures, at most {most} registers, {spilling} kernels spill\n"
        f"nvcc took {sum(s for s, _ in spent):.0f} s of CPU time in all ({slowest})"
    )


def report(is_writing: bool) -> int:
    toolkit = cuda_toolkit.find()
    if toolkit is None:
        print("kernel_report: no CUDA toolkit was found; set CUDML_CUDA_HOME", file=sys.stderr)
        return 2
    if machine_code.nvdisasm() is None:
        print(f"kernel_report: {machine_code.MISSING}", file=sys.stderr)
        return 2
    if is_writing:
        os.environ["CUDML_CUDA_ARCHS"] = "all"
    begin = time.monotonic()
    found = list(reports(build()))
    compiled, wrong = collect(found, toolkit.version)
    wrong += kernel_budget.too_many(compiled)
    lint = forbidden(found)
    codes = codes_of(compiled, found)
    if is_writing:
        BUDGET.write_text(kernel_budget.dump(compiled))
        TABLE.write_text(kernel_budget.table(compiled))
        code_budget.BUDGET.write_text(code_budget.dump(codes))
        code_budget.TABLE.write_text(code_budget.table(codes))
        code_budget.MODEL.write_text(code_budget.model(codes))
    budget = read_budget().of(compiled.architectures)
    grown = kernel_budget.problems(budget, compiled)
    grown = [line for line in grown if line not in wrong]
    if TABLE.exists() and TABLE.read_text() != kernel_budget.table(read_budget()):
        grown.append(f"{TABLE.relative_to(ROOT)} is not the table of the budget")
    slower = code_problems(budget, compiled, codes)
    say("Kernels that break a rule", wrong)
    say("PTX that tools/ptx_lint.py does not allow", lint)
    say(f"Beyond tools/kernel_budget.json; if it is meant:  {REWRITE}", grown)
    say(f"Beyond tools/code_budget.json; if it is meant:  {REWRITE}", slower)
    if budget.nvcc != compiled.nvcc and not is_writing:
        print(f"\nThe budget is of nvcc {budget.nvcc}, this is {compiled.nvcc}: only the list of "
              "kernels was compared.")  # fmt: skip
    print(f"\n{summary(compiled, found)}; {time.monotonic() - begin:.0f} s")
    return 1 if wrong or lint or grown or slower else 0


def wheel(path: Path) -> int:
    size = path.stat().st_size
    most = WHEEL_BYTES + FURTHER_BYTES * (len(cuda_toolkit.architectures()) - 1)
    print(f"{path.name}: {size / 1e6:.2f} MB of at most {most / 1e6:.1f}")
    return 0 if size <= most else 1


def main(words: list[str]) -> int:
    if words[:1] == ["compile"]:
        return compile_one(words[2:], words[1].split(","))
    if words[:1] == ["shorten"]:
        return compile_shortly(words[1:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="compile and compare with the budget")
    commands.add_parser("write", help="compile and rewrite the budget")
    commands.add_parser("wheel", help="the wheel's size").add_argument("file", type=Path)
    options = parser.parse_args(words)
    if options.command == "wheel":
        return wheel(options.file)
    return report(options.command == "write")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
