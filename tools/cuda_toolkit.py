"""Finds a CUDA toolkit: a prefix with bin/nvcc and include/cuda_runtime.h."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

PIP_PACKAGES = [
    f"nvidia-{part}==13.0.*"
    for part in ("cuda-nvcc", "nvvm", "cuda-cccl", "cuda-runtime", "cuda-crt")
]
HEADER_PACKAGES = ["nvidia-cuda-runtime==13.0.*", "nvidia-cuda-crt==13.0.*"]
# Every architecture that the kernels are compiled for in continuous integration.
ALL_ARCHITECTURES = ["75", "80", "86", "89", "90", "100", "120"]
# What a wheel for many holds, of at most 9.6 MB: sm_86 and sm_89 run the code of sm_80, and the
# driver compiles the PTX for sm_75, sm_100 and sm_120, when a kernel is first used; it keeps what
# it made.
WHEEL_ARCHITECTURES = ["80", "90"]
# Assembled from an older one's PTX where that is built too: the kernels use nothing newer, and the
# compiler goes over them less often.
PTX_OF = {"75": "75", "86": "80", "89": "80", "100": "90", "120": "90"}


class Toolkit(NamedTuple):
    nvcc: Path
    include: Path
    cudart: Path
    version: str


def _prefixes() -> list[Path]:
    named = [os.environ.get(name) for name in ("CUDML_CUDA_HOME", "CUDA_HOME", "CUDA_PATH")]
    prefixes = [Path(home) for home in named if home]
    on_path = shutil.which("nvcc")
    if on_path:
        prefixes.append(Path(on_path).resolve().parent.parent)
    prefixes.append(Path("/usr/local/cuda"))
    prefixes += sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
    roots = [sysconfig.get_path("purelib"), *sys.path]
    return prefixes + [Path(root) / "nvidia" / "cu13" for root in roots if root]


def find() -> Toolkit | None:
    """The first complete toolkit; the environment's own choice stands before what is installed."""
    for prefix in _prefixes():
        nvcc, include = prefix / "bin" / "nvcc", prefix / "include"
        libraries = (prefix / lib / "libcudart_static.a" for lib in ("lib64", "lib"))
        cudart = next((path for path in libraries if path.exists()), None)
        if nvcc.exists() and (include / "cuda_runtime.h").exists() and cudart:
            text = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
            match = re.search(r"release (\d+\.\d+)", text)
            return Toolkit(nvcc, include, cudart, match.group(1) if match else "unknown")
    return None


def headers() -> Path | None:
    """A folder with the CUDA runtime's headers: of a toolkit, or of HEADER_PACKAGES alone."""
    found = find()
    includes = [prefix / "include" for prefix in ([] if found else _prefixes())]
    complete = (path for path in includes if (path / "cuda_runtime_api.h").exists())
    return found.include if found else next(complete, None)


def architectures() -> list[str]:
    """CUDML_CUDA_ARCHS ("all" or a list such as "80,90"), else this machine's GPUs, else 90."""
    asked = os.environ.get("CUDML_CUDA_ARCHS", "")
    if asked == "all":
        return WHEEL_ARCHITECTURES
    if asked:
        return [arch for arch in re.split(r"[,; ]+", asked) if arch]
    try:
        query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        text = subprocess.run(query, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    return sorted({line.replace(".", "") for line in re.findall(r"^\d+\.\d+$", text, re.M)}) or [
        "90"
    ]


def checked_architectures() -> list[str]:
    """Those that the gates look at: the ones that CUDML_CUDA_ARCHS names, or all."""
    asked = os.environ.get("CUDML_CUDA_ARCHS", "all")
    return ALL_ARCHITECTURES if asked == "all" else architectures()


def code_flags(archs: list[str]) -> list[str]:
    """One cubin for each architecture, and PTX of the lowest for GPUs yet to come."""
    numeric = min((int(re.sub(r"\D", "", arch)) for arch in archs), default=75)
    ptx = {arch: PTX_OF.get(arch, arch) for arch in archs}
    from_ptx = {arch: base if base in archs else arch for arch, base in ptx.items()}
    flags = [f"-gencode=arch=compute_{base},code=sm_{arch}" for arch, base in from_ptx.items()]
    return [*flags, f"-gencode=arch=compute_{min(numeric, 75)},code=compute_{min(numeric, 75)}"]
