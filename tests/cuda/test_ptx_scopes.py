"""PTX with its registers named anew: the same program, its machine code the same byte for byte."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import cuda_toolkit
import kernel_report
import ptx_scopes

HEAD = ".version 9.0\n.target sm_75\n.address_size 64\n"
BEFORE = """\
.visible .entry a_kernel(
\t.param .u64 a_kernel_param_0
)
{
\t.reg .pred \t%p<3>;
\t.reg .b32 \t%r<9>;
\t.reg .b64 \t%rd<4>;

\tld.param.u64 \t%rd1, [a_kernel_param_0];
\tcvta.to.global.u64 \t%rd2, %rd1;
\tmov.u32 \t%r1, %tid.x;
\tsetp.gt.u32 \t%p1, %r1, 31;
\t@%p1 bra \t$L__BB0_2;
$L__BB0_1:
\tld.global.u32 \t%r3, [%rd2];
\tadd.s32 \t%r4, %r3, %r1;
\tadd.s32 \t%r5, %r4, %r4;
\t{ .reg .b32 %t; mov.b32 %t, %r5; add.s32 %r6, %t, 1; }
\tmov.u32 \t%r7, 31;
\tshfl.sync.bfly.b32 \t%r8|%p2, %r6, %r7, 31, -1;
\tst.global.u32 \t[%rd2], %r8;
$L__BB0_2:
\tret;
}
"""
AFTER = """\
.visible .entry a_kernel(
.param .u64 a_kernel_param_0
)
{
.reg .b32 %r<3>;.reg .b64 %rd<1>;
{.reg .pred %P<1>;.reg .b64 %RD<1>;
ld.param.u64 %RD0, [a_kernel_param_0];
cvta.to.global.u64 %rd0, %RD0;
mov.u32 %r0, %tid.x;
setp.gt.u32 %P0, %r0, 31;
@%P0 bra $L__BB0_2;
}
$L__BB0_1:
{.reg .b32 %R<2>;
ld.global.u32 %R0, [%rd0];
add.s32 %R1, %R0, %r0;
add.s32 %r1, %R1, %R1;
}
{ .reg .b32 %t; mov.b32 %t, %r1; add.s32 %r2, %t, 1; }
{.reg .pred %P<1>;.reg .b32 %R<2>;
mov.u32 %R0, 31;
shfl.sync.bfly.b32 %R1|%P0, %r2, %R0, 31, -1;
st.global.u32 [%rd0], %R1;
}
$L__BB0_2:
ret;
}
"""


def test_registers_of_a_stretch_have_a_scope() -> None:
    """Labels and scopes of the source end a stretch, and what crosses them stays outside."""
    assert ptx_scopes.rewritten(BEFORE) == AFTER


def test_equal_code_becomes_equal_text() -> None:
    """Numbers begin anew in each function, however many registers there were before."""
    code = "{\n.reg .b32 %r<99>;\nmov.u32 %r{0}, 1;\nadd.s32 %r{1}, %r{0}, %r{0};\n}\n"
    first, second = (
        ptx_scopes.rewritten(code.replace("{0}", str(n)).replace("{1}", str(n + 1)))
        for n in (7, 41)
    )
    assert first == second


def test_a_name_on_both_sides_of_a_label_stays_one() -> None:
    """A stretch after a label that uses a register of the one before it has no copy of its own."""
    text = ptx_scopes.rewritten(BEFORE)
    written = re.findall(r"cvta\.to\.global\.u64 (%\w+)", text)
    assert written == ["%rd0"] and text.count("[%rd0]") == 2


def assembled(text: str, folder: Path, name: str) -> bytes:
    """The machine code that the toolkit makes of a text."""
    toolkit = cuda_toolkit.find()
    if toolkit is None:
        pytest.skip("no CUDA toolkit is installed")
    (folder / "a.ptx").write_text(text)
    words = [toolkit.nvcc.with_name("ptxas"), "-arch=sm_75", "a.ptx", "-o", name]
    subprocess.run(words, cwd=folder, check=True)
    return (folder / name).read_bytes()


def test_the_machine_code_is_the_same(tmp_path: Path) -> None:
    after = ptx_scopes.rewritten(HEAD + BEFORE)
    assert assembled(HEAD + BEFORE, tmp_path, "b") == assembled(after, tmp_path, "a")


SOURCE = """\
namespace cudml::cuda {
__global__ void sum_kernel(const float* x, float* y, int n) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i] * y[i];
  y[threadIdx.x] = sum;
}
}  // namespace cudml::cuda
"""


@pytest.mark.long
def test_the_object_holds_the_shorter_text(tmp_path: Path) -> None:
    """The text for GPUs to come is replaced, the machine code beside it is not."""
    toolkit = cuda_toolkit.find()
    if toolkit is None:
        pytest.skip("no CUDA toolkit is installed")
    source, plain, short = (tmp_path / name for name in ("sum.cu", "plain.o", "short.o"))
    source.write_text(SOURCE)
    words = [*cuda_toolkit.code_flags(["90"]), "--compress-mode=none", "-c", str(source), "-o"]
    subprocess.run([toolkit.nvcc, *words, plain], check=True)
    assert (
        kernel_report.main(
            [
                "compile",
                ",".join(cuda_toolkit.ALL_ARCHITECTURES),
                str(toolkit.nvcc),
                *words,
                str(short),
            ]
        )
        == 0
    )
    before, after = plain.read_bytes(), short.read_bytes()
    assert b"%F<" not in before and b"%F<" in after
    for kept in (b".target sm_75", b"_ZN5cudml4cuda10sum_kernelEPKfPfi", b"mul.wide.s32"):
        assert kept in before and kept in after


@pytest.mark.parametrize("fails", [False, True])
def test_a_users_build_has_short_ptx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], fails: bool
) -> None:
    """Nothing that a gate forbids stops it, nor PTX that stays as it was."""
    toolkit = cuda_toolkit.find()
    if toolkit is None:
        pytest.skip("no CUDA toolkit is installed")
    seen: list[str] = []
    rename = ptx_scopes.rewritten

    def rewritten(ptx: str) -> str:
        seen.append(ptx)
        if fails:
            raise OSError("no room")
        return rename(ptx)

    monkeypatch.setattr(ptx_scopes, "rewritten", rewritten)
    source, target = tmp_path / "bad.cu", tmp_path / "bad.cu.o"
    source.write_text("__global__ void bad_kernel(float* y) { int unused; atomicAdd(y, 1.0f); }\n")
    words = [str(toolkit.nvcc), *cuda_toolkit.code_flags(["90"]), "-c", str(source)]
    assert kernel_report.main(["shorten", *words, "-o", str(target)]) == 0
    assert target.exists() and len(seen) == 1 and "bad_kernel" in seen[0]
    assert ("the PTX stays long: no room" in capfd.readouterr().out) == fails
