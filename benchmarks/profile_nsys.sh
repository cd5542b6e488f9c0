#!/usr/bin/env bash
# Nsight Systems on one named case: the time line, with the library's NVTX ranges.
#
#     benchmarks/profile_nsys.sh CASE [FOLDER]      writes FOLDER/CASE.nsys-rep; . where not given
#
# The cases: python benchmarks/profile_cases.py list. Needs PyTorch and the library, installed or
# built in place; PYTHON names another interpreter. The clocks stay as they are. Status 2: no case,
# no profiler or no GPU.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
name=${1:-} folder=${2:-.}

stop() {
  echo "profile_nsys: $1" >&2
  exit 2
}

command -v "$python" >/dev/null || stop "$python is not on PATH"
why=$("$python" "$here/profile_cases.py" check "$name" 2>&1) || stop "$why"
command -v nsys >/dev/null || stop "nsys (Nsight Systems) is not on PATH"
why=$("$python" "$here/gpu.py" 2>&1 >/dev/null) || stop "$why"

if compgen -G "$here/../python/cudml/_core.*.so" >/dev/null; then
  export PYTHONPATH="$here/../python${PYTHONPATH:+:$PYTHONPATH}"
fi
nsys profile --trace=cuda,nvtx,osrt --capture-range=cudaProfilerApi --capture-range-end=stop \
  --force-overwrite=true --output "$folder/$name" \
  "$python" "$here/profile_cases.py" run "$name" || exit 1
nsys stats --force-export=true --report nvtx_pushpop_sum --report nvtx_kern_sum \
  --report cuda_gpu_kern_sum "$folder/$name.nsys-rep"
