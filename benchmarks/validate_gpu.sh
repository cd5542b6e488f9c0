#!/usr/bin/env bash
# Validates the CUDA back end on this machine's GPU: builds the checkout for it, tests, compares,
# sanitizes, tries offsets beyond 2^31 and measures a first speed table. At most 8 minutes.
#
#     benchmarks/validate_gpu.sh [--output DIR] [STEP ...]
#
# Needs no network: Python with NumPy, PyTorch, CuPy, pybind11, ninja, setuptools and pytest, a C++
# compiler and a CUDA 13 toolkit, as they are installed. PYTHON names another interpreter,
# CUDML_COMMIT the commit where git cannot. Writes one JSON and one text file to DIR
# (benchmarks/results). Status: 0 all passed, 1 a step failed, 2 nothing could run.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}

if ! command -v "$python" >/dev/null; then
  echo "validate_gpu: $python is not on PATH" >&2
  exit 2
fi
why=$("$python" "$here/gpu.py" 2>&1 >/dev/null) || {
  echo "validate_gpu: $why" >&2
  exit 2
}
exec "$python" "$here/validate_gpu/run.py" "$@"
