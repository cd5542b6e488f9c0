#!/usr/bin/env bash
# Nsight Compute on one named case: its sections, then DRAM bytes over compulsory bytes.
#
#     benchmarks/profile_ncu.sh CASE [FOLDER]       writes FOLDER/CASE.ncu-rep; . where not given
#
# The cases: python benchmarks/profile_cases.py list. Needs PyTorch and the library, installed or
# built in place; PYTHON names another interpreter. The clocks stay as they are; the caches are
# flushed before each kernel, so that every compulsory byte comes from DRAM. What is still in the
# L2 when a kernel ends is not counted as written. Status 2: no case, no profiler or no GPU.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
name=${1:-} folder=${2:-.}

stop() {
  echo "profile_ncu: $1" >&2
  exit 2
}

command -v "$python" >/dev/null || stop "$python is not on PATH"
why=$("$python" "$here/profile_cases.py" check "$name" 2>&1) || stop "$why"
command -v ncu >/dev/null || stop "ncu (Nsight Compute) is not on PATH"
why=$("$python" "$here/gpu.py" 2>&1 >/dev/null) || stop "$why"

if compgen -G "$here/../python/cudml/_core.*.so" >/dev/null; then
  export PYTHONPATH="$here/../python${PYTHONPATH:+:$PYTHONPATH}"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common=(--profile-from-start off --clock-control none --nvtx)

ncu "${common[@]}" --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy \
  --section LaunchStats --section WarpStateStats --force-overwrite --export "$folder/$name" \
  "$python" "$here/profile_cases.py" run "$name" || exit 1
ncu --import "$folder/$name.ncu-rep" --page details || exit 1

ncu "${common[@]}" --cache-control all --csv --page raw --print-units base \
  --metrics dram__bytes_read.sum,dram__bytes_write.sum --log-file "$work/dram.csv" \
  "$python" "$here/profile_cases.py" run "$name" --facts "$work/facts.json" || exit 1
"$python" "$here/profile_cases.py" ratio "$work/dram.csv" "$work/facts.json"
