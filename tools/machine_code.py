"""What a kernel's machine code says of its speed: loads on their way at each wait, their width,
instructions on its vector path.

    python tools/machine_code.py FILE.cubin [PATTERN]   a line for each kernel whose name matches

Nothing is run. The vector path is the way through a kernel's blocks, each loop taken once, with
the most 16-byte accesses; a scoreboard walks it and notes, whenever an instruction needs a register
that a load has yet to fill, or waits for copies into shared memory, which loads are outstanding.
The disassembler is NVIDIA's nvdisasm.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import kernel_budget

TARGET_LINE = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
SECTION = re.compile(r"^\.text\.([\w$]+):")
LABEL = re.compile(r"^(\.L_\w+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:\{\s*)?(.*?)\s*;")
GUARD = re.compile(r"^@!?U?P[0-9T]+\s+")
TARGET = re.compile(r"`\((\.L_\w+)\)")
REGISTER = re.compile(r"\bR(\d+)(\.64)?")
BOUNDS = re.compile(r"\.entry\s+([\w$]+)\s*\(.*?\)\s*\.maxntid\s+(\d+)", re.DOTALL)
WIDTH = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}  # bytes; 4 without a suffix

# What a multiprocessor of an architecture holds at most: warps, and 32-bit registers for them.
MOST_WARPS = {"75": 32, "80": 64, "86": 48, "89": 48, "90": 64, "100": 64, "120": 48}
REGISTERS = 65536
MISSING = "nvdisasm is missing: pip install nvidia-cuda-nvdisasm==13.2.51"


@dataclass
class Code:
    """One kernel on one architecture, along its vector path. Bytes are of one thread."""

    waits: list[int] = field(default_factory=list)  # loads outstanding at each wait for one
    in_flight: int = 0  # bytes of loads outstanding at the wait that sees most of them
    wide_loads: int = 0
    wide_stores: int = 0
    local: int = 0  # accesses of local memory, anywhere in the kernel
    instructions: int = 0
    stored: int = 0  # bytes, or those loaded where the path stores none


@dataclass
class _Block:
    lines: list[str]
    targets: list[str] = field(default_factory=list)
    falls_through: bool = True


def nvdisasm() -> Path | None:
    """NVIDIA's disassembler: what NVDISASM names, its wheel's, else one on the path."""
    if named := os.environ.get("NVDISASM"):
        return Path(named)
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for found in sorted(Path(root).glob("*/bin/nvdisasm")):
            return found
    there = shutil.which("nvdisasm")
    return Path(there) if there else None


def disassembled(cubin: Path) -> tuple[str, dict[str, list[str]]]:
    """The architecture, and the lines of each kernel: instructions and labels."""
    tool = nvdisasm()
    if tool is None:
        raise SystemExit(f"machine_code: {MISSING}")
    text = subprocess.run([tool, "-c", cubin], capture_output=True, text=True, check=True).stdout
    target = TARGET_LINE.search(text)
    kernels: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if match := SECTION.match(line):
            lines = kernels.setdefault(match.group(1), [])
        elif match := LABEL.match(line):
            lines.append(match.group(1) + ":")
        elif match := INSTRUCTION.match(line):
            lines.append(match.group(1))
    return target.group(1) if target else "", kernels


def block_sizes(ptx: str) -> dict[str, int]:
    """The threads of a block that each kernel is compiled for, where it says so."""
    return {name: int(threads) for name, threads in BOUNDS.findall(ptx)}


# --- the vector path


def _opcode(line: str) -> str:
    return GUARD.sub("", line).split(" ", 1)[0]


def _blocks(lines: list[str]) -> tuple[list[_Block], dict[str, int]]:
    """The kernel's basic blocks in order, and where each label's begins."""
    blocks, places = [_Block([])], {}
    for line in lines:
        if line.endswith(":"):
            if blocks[-1].lines:
                blocks.append(_Block([]))
            places[line[:-1]] = len(blocks) - 1
            continue
        blocks[-1].lines.append(line)
        opcode = _opcode(line).split(".")[0]
        if opcode in ("BRA", "EXIT", "RET", "BRX", "JMP"):
            blocks[-1].falls_through = bool(GUARD.match(line)) or "DIV" in line
            blocks[-1].targets = TARGET.findall(line) if opcode == "BRA" else []
            blocks.append(_Block([]))
    return blocks, places


def _access(line: str) -> tuple[str, int]:
    """ "load", "store", "local" or nothing, and how many bytes."""
    opcode, *suffixes = _opcode(line).split(".")
    size = next((WIDTH[s] for s in suffixes if s in WIDTH), 4)
    if opcode in ("LDG", "LD", "LDGSTS"):
        return "load", size
    if opcode in ("STG", "ST"):
        return "store", size
    return ("local", size) if opcode in ("LDL", "STL") else ("", 0)


def _worth(block: _Block) -> tuple[int, int, int]:
    """What makes a block part of the vector path: 16-byte accesses, bytes, few instructions."""
    accesses = [_access(line) for line in block.lines]
    of_memory = [size for kind, size in accesses if kind in ("load", "store")]
    return sum(size == 16 for size in of_memory), sum(of_memory), -len(block.lines)


def vector_path(lines: list[str]) -> list[str]:
    """The instructions on the way through a kernel that moves most in 16 bytes, no block twice."""
    blocks, places = _blocks(lines)
    best: list[tuple[tuple[int, int, int], int]] = []  # of what follows each block; the next one
    for at in range(len(blocks) - 1, -1, -1):
        block = blocks[at]
        ways = [places[t] for t in block.targets if places.get(t, 0) > at]
        if block.falls_through and at + 1 < len(blocks):
            ways.append(at + 1)
        after = max(((best[len(blocks) - 1 - way][0], way) for way in ways), default=None)
        worth = _worth(block)
        if after:
            worth = (worth[0] + after[0][0], worth[1] + after[0][1], worth[2] + after[0][2])
        best.append((worth, after[1] if after else -1))
    path: list[str] = []
    at = 0
    while at >= 0:
        path += blocks[at].lines
        at = best[len(blocks) - 1 - at][1]
    return path


# --- the scoreboard


def _registers(operands: list[str]) -> Iterator[int]:
    for operand in operands:
        for number, pair in REGISTER.findall(operand):
            yield int(number)
            if pair:
                yield int(number) + 1


def _reads_and_writes(line: str) -> tuple[set[int], set[int]]:
    body = GUARD.sub("", line)
    opcode, _, rest = body.partition(" ")
    operands = [operand.strip() for operand in rest.split(",")]
    kind, size = _access(line)
    span = range(max(1, size // 4))
    if kind in ("store", "local") and opcode.startswith("ST"):
        values = list(_registers(operands[-1:]))
        data = {values[0] + i for i in span} if values else set()
        return set(_registers(operands[:-1])) | data, set()
    first = REGISTER.match(operands[0])
    if not first:
        return set(_registers(operands)), set()
    wide = span if kind else range(2 if ".64" in first.group() or ".WIDE" in opcode else 1)
    return set(_registers(operands[1:])), {int(first.group(1)) + i for i in wide}


def measured(lines: list[str]) -> Code:
    """A kernel's vector path under the scoreboard."""
    path = vector_path(lines)
    code = Code(instructions=len(path), local=sum(_access(x)[0] == "local" for x in lines))
    # Register -> number of the load that fills it. Copies into shared memory fill none; they have
    # numbers below 0 here.
    pending: dict[int, int] = {}
    sizes: list[int] = []
    loaded = 0
    for line in path:
        reads, writes = _reads_and_writes(line)
        kind, size = _access(line)
        awaited = reads | writes
        if _opcode(line).startswith("DEPBAR"):
            awaited |= {r for r in pending if r < 0}
        if waited := {pending[r] for r in awaited if r in pending}:
            outstanding = set(pending.values())
            code.waits.append(len(outstanding))
            code.in_flight = max(code.in_flight, sum(sizes[load] for load in outstanding))
            latest = max(waited)  # loads come back in order
            pending = {r: load for r, load in pending.items() if load > latest}
        if kind == "load":
            loaded += size
            code.wide_loads += size == 16
            pending.update(dict.fromkeys(writes or {-1 - len(sizes)}, len(sizes)))
            sizes.append(size)
        elif kind == "store":
            code.stored += size
            code.wide_stores += size == 16
    code.stored = code.stored or loaded
    return code


def resident_threads(arch: str, registers: int, shared: int, block: int) -> int:
    """How many threads a multiprocessor holds at once; registers are handed out by 256 a warp."""
    warps = -(-block // 32)
    per_warp = -(-registers * 32 // 256) * 256
    blocks = min(MOST_WARPS[arch] // warps, REGISTERS // per_warp // warps, 32)
    if shared:
        blocks = min(blocks, (100 if arch in ("86", "89", "120") else 164) * 1024 // shared)
    return blocks * warps * 32


def main(words: list[str]) -> int:
    if not words:
        print(__doc__)
        return 2
    pattern = re.compile(words[1] if len(words) > 1 else "")
    _, kernels = disassembled(Path(words[0]))
    for symbol, lines in kernels.items():
        name = kernel_budget.kernel_name(symbol) or symbol
        if pattern.search(name):
            print(f"{name}: {measured(lines)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
