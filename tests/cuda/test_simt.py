"""The executor of CUDA kernels: it and the sanitizers catch planted faults, and only those.

simt_faults.cu holds the kernels, each with its correct twin; line numbers are looked up
there. `python tests/sanitized.py` runs the library's own kernels in the same way.
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

import simt_build
from tests import sanitized

SOURCE = Path(__file__).parent / "simt_faults.cu"
MORE = [Path(__file__).parent / f"simt_{of}_faults.cuh" for of in ("cluster", "bulk")]
SEEDS = ("0", "1", "2", "3")
# What the executor itself says, and the line of the faulty kernel that it names.
REFUSED = {
    "divergent_barrier": ("another barrier than the one at", "__syncthreads();"),
    "early_return": ("the barrier is met by 127 of 128 threads; thread 5 has", "__syncthreads();"),
    "bad_mask": ("the mask leaves out the calling lane", "__shfl_xor_sync(kFaulty"),
    "lane_left": ("the mask names lane 7, which has returned", "__shfl_xor_sync("),
    "divergent_shuffle": ("another call than the one at", "__shfl_xor_sync("),
    "cluster_exit": ("of the cluster, which has returned", "__cluster_map_shared_rank("),
    "cluster_return": ("the cluster's barrier is met by 511 of 512", "__cluster_barrier_wait("),
    "cluster_arrives_twice": ("again without having waited", "__cluster_barrier_arrive("),
    "cluster_waits_first": ("without having arrived", "__cluster_barrier_wait("),
    "cluster_rank": ("block 4 of a cluster of 4", "__cluster_map_shared_rank("),
    "misaligned_copy": ("an address that is no multiple of 16", "__pipeline_memcpy_async("),
    "bulk_left": ("is still on its way when the block returns", "ptx::cp_async_bulk("),
    "bulk_unseen": ("that no fence has shown to the copy engine", "mbarrier_arrive_expect_tx("),
    "bulk_expected": ("waits for other bytes than those", "mbarrier_try_wait_parity("),
    "bulk_size": ("copies 504 bytes in bulk: not a multiple of 16", "ptx::cp_async_bulk("),
}
# Where the line is not in the kernel itself.
CALLED = dict.fromkeys(("bulk_left", "bulk_unseen", "bulk_size"), "ask_for")
# Faults that a wrong result shows under some order of the threads.
WRONG = (
    "missing_barrier",
    "reused_scratch",
    "missing_syncwarp",
    "reduce_result",
    "missing_cluster_barrier",
    "missing_copy_wait",
    "copies_of_others",
    "bulk_early_read",
)
# Faults that no order shows, because the result is right all the same.
HIDDEN = ("missing_fence", "two_writers", "plain_sum", "shared_bounds", "misaligned")
# What a sanitizer says, and the lines that it names.
ADDRESS = {
    "shared_bounds": ("use-after-poison", ["place[threadIdx.x + "]),
    "dynamic_bounds": ("use-after-poison", ["tile[threadIdx.x + kFaulty]"]),
    "global_bounds": ("use-after-poison", ["y[i + 1] = 0;"]),
    "misaligned": ("misaligned address", ["load_vector<4>"]),
}
RACES = {
    "missing_barrier": ["tile[threadIdx.x] = x[i];", "y[i] = tile[kThreads - 1"],
    "reused_scratch": ["tile[threadIdx.x] = first + 1;", "const int first = tile["],
    "missing_fence": ["partial[blockIdx.x] = 1;", "sum += partial[block];"],
    "two_writers": ["y[i] = x[blockIdx.x", "y[i + 1] = x[i + kThreads];"],
    "plain_sum": ["*count += 1;"],
    "missing_syncwarp": ["tile[threadIdx.x] = x[i];", "y[i] = tile[threadIdx.x ^ 31]"],
    "missing_cluster_barrier": ["tile[threadIdx.x] = x[blockIdx.x"],
    "copies_of_others": ["y[i] = tile[kThreads - 1", "__pipeline_wait_prior(0);"],
    "bulk_early_read": ["write(tile, y);", "mbarrier_try_wait_parity("],
}


@functools.cache
def program(variant: str) -> Path:
    """The faults as a program, linked with the executor's objects of the plain build."""
    executor = simt_build.built("plain").parent / "executor"
    native = simt_build.native_build()
    folder = executor.parent.parent / "simt_faults"
    made, object_file = folder / variant, folder / f"{variant}.o"
    csrc = simt_build.ROOT / "csrc"
    needs = [
        SOURCE,
        *MORE,
        *executor.glob("*.o"),
        *csrc.glob("simt/**/*.*h"),
        *csrc.glob("cuda/*.cuh"),
    ]
    with native.locked(f"simt_faults-{variant}"):
        if made.exists() and all(p.stat().st_mtime < made.stat().st_mtime for p in needs):
            return made
        folder.mkdir(exist_ok=True)
        compile_it, link_it = native.simt_commands(simt_build.VARIANTS[variant])
        run([*compile_it, "-x", "c++", "-g1", "-c", SOURCE, "-o", object_file])
        run([*link_it, object_file, *sorted(executor.glob("*.o")), "-ldl", "-o", made])
    return made


def run(command: list[object]) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        env=simt_build.ordinary_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def launch(variant: str, *words: str, seed: str = "0") -> tuple[int, str]:
    """Exit status and output: 0 for a right result, 1 for a wrong one, 2 for a refused launch."""
    made = program(variant)
    environment = {
        **simt_build.ordinary_environment(),
        "CUDML_SIMT_SEED": seed,
        **sanitized.options(),
    }
    done = subprocess.run(
        [str(made), *words], env=environment, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def lines_with(code: str, fault: str) -> set[int]:
    """The numbers of the lines of the faulty kernel, or what it calls, that hold this code."""
    kernel = CALLED.get(fault, f"{fault}_kernel")
    files = [file.read_text().splitlines() for file in (SOURCE, *MORE)]
    text, begin = next(
        (text, i) for text in files for i, line in enumerate(text) if f" {kernel}(" in line
    )
    end = next(i for i in range(begin, len(text)) if text[i] == "}")
    found = {i + 1 for i in range(begin, end) if code in text[i]}
    assert found, f"{code!r} is not in {kernel}"
    return found


def named_lines(output: str) -> set[int]:
    return {int(n) for n in re.findall(r"simt_(?:\w+_)?faults\.cuh?:(\d+)", output)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("variant", simt_build.VARIANTS)
def test_correct_kernels_pass(variant, seed):
    assert launch(variant, "all", seed=seed) == (0, "")


@pytest.mark.parametrize("fault", REFUSED)
def test_the_executor_refuses(fault):
    says, code = REFUSED[fault]
    for seed in SEEDS:
        status, output = launch("plain", fault, "faulty", seed=seed)
        assert status == 2, output
        assert f"cudaErrorLaunchFailure: cudml::cuda::{fault}_kernel<true>, block " in output
        assert ", thread " in output
        assert says in output
        assert named_lines(output) <= lines_with(code, fault)


@pytest.mark.parametrize("fault", WRONG)
def test_an_order_of_threads_shows(fault):
    assert 1 in [launch("plain", fault, "faulty", seed=seed)[0] for seed in SEEDS]


def test_who_waits_for_a_barrier_before_it_has_begun_is_refused_in_some_order():
    told = [launch("plain", "bulk_early_wait", "faulty", seed=seed) for seed in SEEDS]
    refused = [output for status, output in told if status == 2]
    assert refused and all("waits for a barrier that has not begun" in output for output in refused)


@pytest.mark.parametrize("fault", HIDDEN)
def test_no_order_of_threads_shows(fault):
    """Why the sanitizers are needed; if one of these fails, the executor has become better."""
    assert {launch("plain", fault, "faulty", seed=seed)[0] for seed in SEEDS} == {0}


@pytest.mark.parametrize("fault", ADDRESS)
def test_address_and_undefined_behaviour_sanitizers_catch(fault):
    says, codes = ADDRESS[fault]
    status, output = launch("asan", fault, "faulty")
    assert status != 0
    assert says in output
    for code in codes:
        assert named_lines(output) & lines_with(code, fault), output


@pytest.mark.parametrize("fault", RACES)
def test_thread_sanitizer_catches(fault):
    for seed in SEEDS[:2]:
        status, output = launch("tsan", fault, "faulty", seed=seed)
        assert status == 66, output
        assert "data race" in output
    for code in RACES[fault]:
        assert named_lines(output) & lines_with(code, fault), output


def test_seeds_give_different_orders():
    """The faulty kernel writes the place at which each thread came."""
    orders = [launch("plain", "order", "faulty", seed=seed)[1] for seed in SEEDS]
    again = [launch("plain", "order", "faulty", seed=seed)[1] for seed in SEEDS]
    assert orders == again
    assert len(set(orders)) == len(SEEDS)
    assert [int(n) for n in orders[0].split()] == list(range(512))  # seed 0 is natural order


def test_limits_of_launches():
    status, output = launch("plain", "limits")
    assert status == 0
    assert output.split() == [
        "cudaErrorInvalidConfiguration",  # 1025 threads
        "cudaErrorInvalidConfiguration",  # no blocks
        "cudaErrorInvalidValue",  # 49 KiB without asking for them
        "cudaErrorInvalidValue",  # asking for 228 KiB
        "cudaSuccess",
        "cudaSuccess",
        "cudaSuccess",  # 48 KiB of dynamic memory and variables together
        "cudaErrorLaunchFailure",  # and more without asking for it
        "cudaErrorInvalidClusterSize",  # sixteen blocks, which not every GPU has
        "cudaErrorInvalidClusterSize",  # six blocks in clusters of four
        "cudaSuccess",
    ]


def test_the_shared_keyword_is_an_error(tmp_path):
    source = tmp_path / "raw.cu"
    source.write_text(
        "#include <cuda_runtime.h>\n__global__ void raw_kernel() { __shared__ int tile[32]; }\n"
    )
    compile_it, _ = simt_build.native_build().simt_commands("")
    command = [*compile_it, "-x", "c++", "-fsyntax-only", str(source)]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode != 0
    assert "shared memory is declared by DEVICE_SHARED or DYNAMIC_SHARED" in done.stderr


def test_kernels_are_listed():
    names = simt_build.module().all_kernels()
    assert len(names) == len(set(names)) > 0
    assert all(re.match(r"cudml::cuda::\w+_kernel(<|$)", name) for name in names), names
    assert set(simt_build.module().launched_kernels()) <= set(names)
