"""The gate on machine code: the vector path, the scoreboard, what is worse, what has no reason."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import code_budget
import machine_code

# Two loads are out when the first is waited for; the scalar way beside them moves less.
BATCHED = [
    "ISETP.GE.AND P0, PT, R0, UR4, PT",
    "@P0 BRA `(.L_x_1)",
    "LDG.E.128 R4, desc[UR4][R2.64]",
    "LDG.E.128 R8, desc[UR4][R2.64+0x10]",
    "FADD R4, R4, R5",
    "FADD R8, R8, R9",
    "STG.E.128 desc[UR4][R20.64], R4",
    "EXIT",
    ".L_x_1:",
    "LDG.E.U16 R4, desc[UR4][R2.64]",
    "STG.E.U16 desc[UR4][R20.64], R4",
    "EXIT",
]
SERIAL = [
    "LDG.E.128 R4, desc[UR4][R2.64]",
    "FADD R4, R4, R5",
    "LDG.E.128 R8, desc[UR4][R2.64+0x10]",
    "FADD R8, R8, R11",
    "STL [R1], R8",
    "EXIT",
]


def test_loads_of_a_batch_are_out_together() -> None:
    code = machine_code.measured(BATCHED)
    assert code.waits == [2, 1] and code.in_flight == 32
    assert (code.wide_loads, code.wide_stores, code.stored) == (2, 1, 16)
    assert code.instructions == 8 and code.local == 0


def test_loads_that_wait_for_each_other_are_seen() -> None:
    code = machine_code.measured(SERIAL)
    assert code.waits == [1, 1] and code.in_flight == 16
    assert code.local == 1 and code.stored == 32  # what it loads, as it stores nothing


def test_asynchronous_copies_are_out_until_they_are_waited_for() -> None:
    """They fill no register; a load is waited for by itself, and stays out beside them."""
    lines = [
        "LDGSTS.E.BYPASS.128 [R9], desc[UR4][R2.64]",
        "LDGSTS.E.BYPASS.128 [R9+0x1000], desc[UR4][R2.64+0x1000]",
        "LDG.E R4, desc[UR4][R6.64]",
        "LDGDEPBAR",
        "FADD R10, R10, R9",
        "DEPBAR.LE SB0, 0x0",
        "FADD R4, R4, R4",
        "STG.E desc[UR4][R20.64], R4",
        "EXIT",
    ]
    code = machine_code.measured(lines)
    assert code.waits == [3, 1] and code.in_flight == 36
    assert code.wide_loads == 2 and code.stored == 4


def test_overwriting_a_pending_register_waits() -> None:
    lines = ["LDG.E.64 R4, desc[UR4][R2.64]", "MOV R5, R9", "EXIT"]
    assert machine_code.measured(lines).waits == [1]
    lines[1] = "MOV R6, R9"  # beside the pair
    assert machine_code.measured(lines).waits == []


def test_a_pair_of_registers_is_an_address() -> None:
    lines = ["LDG.E R3, desc[UR4][R6.64]", "STG.E desc[UR4][R2.64], R9", "EXIT"]
    assert machine_code.measured(lines).waits == [1]


def test_each_loop_is_taken_once() -> None:
    lines = [
        ".L_x_0:",
        "LDG.E.128 R4, desc[UR4][R2.64]",
        "FADD R0, R0, R4",
        "@P0 BRA `(.L_x_0)",
        "EXIT",
    ]
    assert machine_code.vector_path(lines) == [line for line in lines if not line.endswith(":")]


@pytest.mark.parametrize(
    ("arch", "registers", "shared", "block", "threads"),
    [
        ("90", 32, 0, 256, 2048),
        ("90", 33, 0, 256, 1536),  # 40 a thread: 51 warps fit, six blocks of 8
        ("90", 255, 0, 256, 256),
        ("86", 32, 0, 256, 1536),
        ("90", 32, 40 << 10, 128, 512),
        ("80", 64, 0, 96, 960),
    ],
)  # fmt: skip
def test_what_a_multiprocessor_holds(
    arch: str, registers: int, shared: int, block: int, threads: int
) -> None:
    assert machine_code.resident_threads(arch, registers, shared, block) == threads


def test_threads_of_a_block_are_read_from_the_ptx() -> None:
    ptx = (
        ".visible .entry _Z1f(\n.param .u64 a\n)\n.maxntid 256\n{\n}\n"
        ".visible .entry _Z1g(\n.param .u64 a\n)\n{\n}\n"
    )
    assert machine_code.block_sizes(ptx) == {"_Z1f": 256}


def entry(**changes: object) -> code_budget.Entry:
    fields = dataclasses.asdict(
        code_budget.Entry(
            "mvn_warp_kernel<float>", [[8]] * 3, [64 << 10] * 3, [12.0] * 3, [[8, 8]] * 3, [0] * 3
        )
    )
    return code_budget.Entry(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"on_their_way": [1 << 16, 60000, 1 << 16]}, "sm_90: bytes on their way 65536 -> 60000"),
        ({"instructions": [12.0, 12.0, 12.7]}, "sm_100: instructions 12.6 -> 12.7"),
        ({"wide": [[7, 8], [8, 8], [8, 8]]}, "sm_80: 16-byte loads 8 -> 7"),
        ({"wide": [[8, 8], [8, 7], [8, 8]]}, "sm_90: 16-byte stores 8 -> 7"),
        ({"local": [0, 0, 1]}, "sm_100: accesses of local memory 0 -> 1"),
    ],
)  # fmt: skip
def test_what_gets_worse_is_said(changes: dict[str, object], said: str) -> None:
    budget = {"f": entry()}
    assert code_budget.worse(budget, {"f": entry(instructions=[12.5] * 3)}) == []
    assert code_budget.worse(budget, {"f": entry(**changes)}) == [f"mvn_warp_kernel<float>: {said}"]
    assert code_budget.worse(budget, {}) == ["mvn_warp_kernel<float> is no longer compiled"]
    assert code_budget.worse({}, budget) == ["mvn_warp_kernel<float> is new"]


def test_one_architecture_is_held_against_its_own_column() -> None:
    """Where sm_90 alone was compiled, an entry has one number, and the budget three."""
    assert code_budget.compiled(["75", "90"]) == ["90"]
    budget = {"f": entry(instructions=[20.0, 12.0, 5.0])}
    same, more = ({"f": entry(instructions=[n])} for n in (12.0, 13.0))
    assert code_budget.worse(budget, same, ["90"]) == []
    (line,) = code_budget.worse(budget, more, ["90"])
    assert line == "mvn_warp_kernel<float>: sm_90: instructions 12.6 -> 13"
    slow = entry(instructions=[12.0], on_their_way=[1024])
    assert code_budget.missed(slow, ["90"]) == ["1 KB on their way"]


def test_a_missed_target_needs_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"f": entry(on_their_way=[64 << 10, 30 << 10, 64 << 10], instructions=[12, 17, 12])}
    monkeypatch.setattr(code_budget, "REASONS", {})
    assert code_budget.unexplained({"f": entry()}) == []
    [line] = code_budget.unexplained(slow)
    assert "30 KB on their way, 17 instructions an element, of 16" in line
    monkeypatch.setattr(code_budget, "REASONS", {"mvn_warp_kernel": "it is so"})
    assert code_budget.unexplained(slow) == []
    assert code_budget.unexplained({"f": entry()}) == [
        "mvn_warp_kernel: a reason, and no kernel misses"
    ]


def test_the_budget_is_the_table_in_the_documents() -> None:
    text = code_budget.BUDGET.read_text()
    codes = code_budget.load(text)
    assert code_budget.dump(codes) == text
    assert code_budget.table(codes) == code_budget.TABLE.read_text()
    assert code_budget.unexplained(codes) == []
