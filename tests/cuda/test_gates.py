"""The gates of the compiled kernels: each catches what it is for; the checked-in files agree."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cudml
from folders import ROOT

TOOLS = ROOT / "tools"
sys.path.append(str(TOOLS))
import cuda_toolkit  # noqa: E402
import kernel_budget  # noqa: E402
import kernel_report  # noqa: E402
import ptx_lint  # noqa: E402
from kernel_budget import Budget, Kernel  # noqa: E402

ROWS = "_ZN5cudml4cuda9mvn_row_kernelINS_7Float16ELi4EEEvPKT_"
SAID = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN5cudml4cuda8a_kernelEv' for 'sm_75'
ptxas info    : Function properties for _ZN5cudml4cuda8a_kernelEv
    16 bytes stack frame, 24 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 26 registers, used 1 barriers, 2048 bytes smem, 372 bytes cmem[0]
ptxas info    : Compiling entry function '_ZN5cudml4cuda8b_kernelEv' for 'sm_75'
ptxas info    : Function properties for _ZN5cudml4cuda8b_kernelEv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _ZN5cudml6helperEv
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers
ptxas info    : Compiling entry function '_ZN5cudml4cuda8a_kernelEv' for 'sm_90'
ptxas info    : Function properties for _ZN5cudml4cuda8a_kernelEv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 19 registers, used 1 barriers, 1024 bytes smem
"""
PTX = """\
.version 9.0
.target sm_90
.visible .entry _ZN5cudml4cuda8a_kernelEv(
	.param .u64 _ZN5cudml4cuda8a_kernelEv_param_0
)
{
	ld.param.u64 	%rd1, [_ZN5cudml4cuda8a_kernelEv_param_0];
	fma.rn.f32 	%f1, %f2, %f3, %f4;
	div.rn.f32 	%f1, %f2, %f3;
	sqrt.rn.f32 	%f1, %f2;
	cvt.rn.f16.f32 	%rs1, %f1;
	atom.global.add.u32 	%r1, [%rd1], 1;
	red.shared.max.s64 	[%rd1], %rd2;
	bar.sync 	0;
	%s
	ret;
}
"""


def kernel(registers: int = 32, **more: int) -> Kernel:
    numbers = {"stack": 0, "spilled": 0, "shared": 0, **more}
    lists = {key: [value, value] for key, value in numbers.items()}
    return Kernel("mvn", "mvn_row_kernel<cudml::Float16, 4>", [registers, registers], **lists)


def budget(registers: int = 32, **more: int) -> Budget:
    return Budget("13.0", ["75", "90"], {ROWS: kernel(registers, **more)})


# --- what the compiler says


def test_resources_are_read() -> None:
    found = kernel_report.resources(SAID)
    assert found == {
        "_ZN5cudml4cuda8a_kernelEv": {"75": [26, 16, 44, 2048], "90": [19, 0, 0, 1024]},
        "_ZN5cudml4cuda8b_kernelEv": {"75": [255, 8, 8, 0]},
    }


def test_names_are_read() -> None:
    symbol = "_ZN5cudml4cuda13sample_kernelINS_7Float16ELi3EEEvPKT_PS3_i"
    assert kernel_budget.kernel_name(symbol) == "sample_kernel<cudml::Float16, 3>"
    assert kernel_budget.kernel_name("_ZN5cudml4cuda13atomic_kernelEPf") == "atomic_kernel"
    for wrong in ("_ZN5cudml4cuda6sampleEPf", "_ZN5cudml13sample_kernelEPf", "sample_kernel"):
        assert kernel_budget.kernel_name(wrong) == ""


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("mvn_row_kernel<cudml::Float16, 4>", "float16"),
        ("mvn_row_kernel<4, cudml::BFloat16, float>", "bfloat16"),
        ("pool_tile_kernel<cudml::cuda::Tile<unsigned char, 3>, true>", "uint8"),
        ("pool_tile_kernel<(cudml::PoolKind)0, signed char>", "int8"),
        ("pad_row_kernel<unsigned long>", "uint64"),
        ("pad_row_kernel", "-"),
    ],
)
def test_element_types_are_read(name: str, dtype: str) -> None:
    assert Kernel("pad", name).dtype == dtype
    assert Kernel("pad", name).function == name.split("<")[0]


def test_files_belong_to_families() -> None:
    family = kernel_budget.family_of
    assert family("pool.cu") == family("pool_tile.cu") == "pool"
    assert family("pool_grad_max.cu") == family("pool_grad.cu") == "pool_grad"
    assert family("mvn.cu") == "mvn" and family("pad.cu") == "pad"
    assert family("device.cu") == family("padding.cu") == ""


# --- the budget


def test_budget_survives_its_file() -> None:
    before = budget(40, spilled=8)
    assert kernel_budget.load(kernel_budget.dump(before)) == before
    assert len(kernel_budget.dump(before).splitlines()) == 6  # one for the kernel


def test_what_fits_the_budget_passes() -> None:
    assert kernel_budget.problems(budget(), budget()) == []
    assert kernel_budget.problems(budget(), budget(32 + kernel_budget.SLACK)) == []
    assert kernel_budget.problems(budget(40, spilled=8), budget(24)) == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (budget(32 + kernel_budget.SLACK + 1), "registers: sm_75 32 -> 37, sm_90 32 -> 37"),
        (budget(spilled=4), "bytes spilled: sm_75 0 -> 4, sm_90 0 -> 4"),
        (budget(stack=8), "bytes of stack: sm_75 0 -> 8, sm_90 0 -> 8"),
        (budget(shared=1), "bytes of static shared memory: sm_75 0 -> 1, sm_90 0 -> 1"),
    ],
)
def test_growth_fails(now: Budget, said: str) -> None:
    found = kernel_budget.problems(budget(), now)
    assert found == [f"mvn: mvn_row_kernel<cudml::Float16, 4>: {said}"]


def test_new_and_lost_kernels_fail() -> None:
    empty = Budget("13.0", ["75", "90"], {})
    assert kernel_budget.problems(empty, budget()) == [
        "mvn: mvn_row_kernel<cudml::Float16, 4> is new"
    ]
    (line,) = kernel_budget.problems(budget(), empty)
    assert "is in the budget and no longer compiled" in line


@pytest.mark.parametrize(
    ("asked", "checked"),
    [
        ("", ["75", "80", "86", "89", "90", "100", "120"]),
        ("all", ["75", "80", "86", "89", "90", "100", "120"]),
        ("90", ["90"]),
        ("80,90", ["80", "90"]),
    ],
)
def test_what_the_gates_compile(
    monkeypatch: pytest.MonkeyPatch, asked: str, checked: list[str]
) -> None:
    monkeypatch.setenv("CUDML_CUDA_ARCHS", asked)
    if not asked:
        monkeypatch.delenv("CUDML_CUDA_ARCHS")
    assert cuda_toolkit.checked_architectures() == checked


def test_a_budget_of_some_architectures() -> None:
    """The others' numbers are not compared; those of the chosen ones are, each with its own."""
    row = Kernel("mvn", "mvn_row_kernel", [10, 20, 30], [0, 0, 0], [0, 8, 0], [0, 0, 0])
    whole = Budget("13.0", ["75", "80", "90"], {"k": row})
    compiled = Budget("13.0", ["75", "90"], {"k": kernel()})
    compiled.kernels["k"].registers = [10, 35]
    (line,) = kernel_budget.problems(whole.of(["75", "90"]), compiled)
    assert "sm_90 30 -> 35" in line
    compiled.kernels["k"].registers = [10, 30]
    assert kernel_budget.problems(whole.of(["75", "90"]), compiled) == []


def test_too_many_kernels_fail() -> None:
    many = Budget("13.0", ["75", "90"], {str(i): kernel() for i in range(351)})
    assert kernel_budget.problems(many, many) == [
        "family mvn has 351 kernels; at most 88 are allowed",
        "351 kernels; at most 350 are allowed",
    ]


def test_another_compiler_compares_the_list_alone() -> None:
    other = budget(200)
    other.nvcc = "13.5"
    assert kernel_budget.problems(budget(), other) == []
    other.kernels["new"] = kernel()
    assert len(kernel_budget.problems(budget(), other)) == 1


def test_kernels_with_other_names_are_refused() -> None:
    numbers = {arch: [1, 0, 0, 0] for arch in cuda_toolkit.checked_architectures()}
    found = [("pad.cu", {"resources": {"_ZN5cudml4cuda6sampleEPf": numbers}, "lint": []})]
    assert kernel_report.collect(found, "13.0")[1] == [
        "pad.cu: cudml::cuda::sample(float*) is not named cudml::cuda::…_kernel"
    ]


# --- the lint


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("atom.global.add.f32 	%f13, [%rd1], 0f3F800000;", "a float atomic"),
        ("atom.add.noftz.f16 	%rs1, [%rd1], %rs2;", "a float atomic"),
        ("red.global.add.f64 	[%rd1], %fd1;", "a float atomic"),
        ("red.relaxed.gpu.global.add.noftz.bf16x2 	[%rd1], %r1;", "a float atomic"),
        ("@%p1 add.ftz.f32 	%f1, %f2, %f3;", "flushes subnormals"),
        ("cvt.ftz.f64.f32 	%fd1, %f3;", "flushes subnormals"),
        ("div.approx.f32 	%f1, %f2, %f3;", "approximate"),
        ("div.full.f32 	%f1, %f2, %f3;", "approximate"),
        ("sqrt.approx.f32 	%f1, %f2;", "approximate"),
        ("@!%p2 rsqrt.approx.f32 	%f1, %f2;", "approximate"),
        ("tanh.approx.f16 	%rs1, %rs2;", "approximate"),
        ("ex2.approx.ftz.f32 	%f1, %f2;", "flushes subnormals, approximate"),
    ],
)
def test_forbidden_instructions_are_found(instruction: str, why: str) -> None:
    name = re.sub(r"^@!?%\w+ ", "", instruction).split()[0]
    found = ptx_lint.uses(PTX.replace("%s", instruction))
    assert found == {"_ZN5cudml4cuda8a_kernelEv": {name: 1}}
    assert ptx_lint.problems([found], []) == [f"_ZN5cudml4cuda8a_kernelEv: {name} ({why})"]


def test_exact_instructions_pass() -> None:
    assert ptx_lint.uses(PTX.replace("%s", "")) == {}


def test_allowed_instructions_need_a_use() -> None:
    entry = ptx_lint.Allowed("a_kernel", r"ex2\.approx\.f32", "because")
    used = [{"_ZN5cudml4cuda8a_kernelEv": {"ex2.approx.f32": 2}}]
    assert ptx_lint.problems(used, [entry]) == []
    assert "which nothing uses" in ptx_lint.problems([], [entry])[0]
    elsewhere = [{"_ZN5cudml4cuda8b_kernelEv": {"ex2.approx.f32": 2}}]
    assert len(ptx_lint.problems(elsewhere, [entry])) == 2


def test_allowed_instructions_have_a_reason() -> None:
    assert all(len(entry.reason.split()) > 4 for entry in ptx_lint.ALLOWED)


# --- what stands before nvcc


def fake_compiler(folder: Path, status: int) -> list[str]:
    """A program that says what ptxas says and keeps a PTX file as nvcc does."""
    program = folder / "nvcc.py"
    program.write_text(
        "import sys\nfrom pathlib import Path\nwords = sys.argv[1:]\n"
        "assert '-Werror' in words and 'all-warnings' in words and '-Xcompiler=-Werror' in words\n"
        f"Path(words[words.index('--keep-dir') + 1], 'a.ptx').write_text({PTX!r})\n"
        f"print({SAID!r}, 'and a message', file=sys.stderr)\nsys.exit({status})\n"
    )
    return [sys.executable, str(program), "-c", "a.cu", "-o", str(folder / "a.cu.o")]


def test_the_compiler_is_listened_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        kernel_report.main(
            ["compile", ",".join(cuda_toolkit.ALL_ARCHITECTURES), *fake_compiler(tmp_path, 0)]
        )
        == 0
    )
    assert capsys.readouterr().out.strip() == "and a message"
    left = json.loads((tmp_path / "a.cu.o.json").read_text())
    assert left.pop("seconds") > 0
    kept = {"resources": kernel_report.resources(SAID), "lint": [{}], "code": {}, "blocks": {}}
    assert left == kept


def test_the_compiler_may_fail(tmp_path: Path) -> None:
    stale = tmp_path / "a.cu.o.json"
    stale.write_text("{}")
    assert (
        kernel_report.main(
            ["compile", ",".join(cuda_toolkit.ALL_ARCHITECTURES), *fake_compiler(tmp_path, 3)]
        )
        == 3
    )
    assert not stale.exists()


BAD = """\
namespace cudml::cuda {
__global__ void bad_kernel(float* y) {
  atomicAdd(y, __fdividef(y[1], y[2]));
  %s
}
}  // namespace cudml::cuda
"""


@pytest.mark.parametrize(("line", "status"), [("", 0), ("int unused;", 1)])
def test_the_real_compiler(tmp_path: Path, line: str, status: int) -> None:
    """A warning fails; a float atomic and a fast division are found in its PTX."""
    toolkit = cuda_toolkit.find()
    if toolkit is None:
        pytest.skip("no CUDA toolkit is installed")
    source, target = tmp_path / "bad.cu", tmp_path / "bad.cu.o"
    source.write_text(BAD.replace("%s", line))
    code = cuda_toolkit.code_flags(["90"])
    words = [str(toolkit.nvcc), *code, "-c", str(source), "-o", str(target)]
    assert (
        kernel_report.main(["compile", ",".join(cuda_toolkit.ALL_ARCHITECTURES), *words]) != 0
    ) == bool(status)
    if status:
        return
    left = json.loads((tmp_path / "bad.cu.o.json").read_text())
    (by_arch,) = left["resources"].values()
    # sm_75, sm_100 and sm_120 are assembled from the PTX that is kept.
    assert by_arch.keys() == {"75", "90", "100", "120"}
    assert by_arch["90"][0] > 0 and by_arch["75"][0] > 0
    found = {i for uses in left["lint"] for counts in uses.values() for i in counts}
    assert "div.approx.f32" in found
    assert any(re.fullmatch(r"(atom|red)\.global\.add\.f32", i) for i in found)


@pytest.mark.parametrize(("archs", "most"), [("90", 8_000_000), ("80,90,120", 11_200_000)])
def test_the_wheel_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archs: str, most: int
) -> None:
    monkeypatch.setenv("CUDML_CUDA_ARCHS", archs)
    wheel = tmp_path / "cudml.whl"
    with wheel.open("wb") as file:
        file.truncate(most)
    assert kernel_report.main(["wheel", str(wheel)]) == 0
    with wheel.open("ab") as file:
        file.write(b"1")
    assert kernel_report.main(["wheel", str(wheel)]) == 1


def test_the_tool_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOLS / "kernel_report.py"), "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "wheel" in done.stdout


# --- the checked-in files


@pytest.fixture(scope="module")
def checked_in() -> Budget:
    return kernel_budget.load(kernel_budget.BUDGET.read_text())


def test_the_budget_holds_its_own_limits(checked_in: Budget) -> None:
    assert checked_in.architectures == cuda_toolkit.ALL_ARCHITECTURES
    assert kernel_budget.too_many(checked_in) == []
    assert kernel_budget.TOTAL == sum(kernel_budget.FAMILIES.values()) == 350


def test_the_budget_is_of_the_kernels_it_names(checked_in: Budget) -> None:
    for symbol, entry in checked_in.kernels.items():
        assert kernel_budget.kernel_name(symbol) == entry.name
        assert entry.family in kernel_budget.FAMILIES
        assert len(entry.registers) == len(checked_in.architectures)


def test_the_table_is_that_of_the_budget(checked_in: Budget) -> None:
    assert kernel_budget.TABLE.read_text() == kernel_budget.table(checked_in)


def test_the_built_library_has_the_kernels_of_the_budget(checked_in: Budget) -> None:
    """Their names stand in the library, where the runtime registers them."""
    facts = cudml._core.build_info()["cuda"]
    if not facts["built"]:
        pytest.skip(f"cudml is built without CUDA: {facts['why']}")
    library = (Path(cudml._core.__file__).parent / "lib" / "libcudml.so.0").read_bytes()
    names = {name.decode() for name in re.findall(rb"_ZN5cudml4cuda[\w$]+", library)}
    assert {name for name in names if kernel_budget.kernel_name(name)} == set(checked_in.kernels)


def test_the_simulated_device_has_the_kernels_of_the_budget(checked_in: Budget) -> None:
    if importlib.util.find_spec("simt_build") is None:
        pytest.skip("the tests cannot build the simulated device")
    import backends

    simulated = {name.removeprefix("cudml::cuda::") for name in backends.simt().all_kernels()}
    assert simulated == {kernel.name for kernel in checked_in.kernels.values()}
