"""docs/porting.md keeps its word: its code is the example's, and the example runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from folders import ROOT
from library_support import STRICT, built, run
from tests.directml.programs import HEADERS

PORT = ROOT / "examples" / "cpp" / "directml_port.cpp"
DOCUMENT = (ROOT / "docs" / "porting.md").read_text()
PRINTED = """\
maxima 7 9 11 19 21 23 31 33 35 43 45 47
normalized 0 0.553 2.89 7.02
gradient 0 0 0 0 0 1 0 2 3
the device has been removed: MAX_POOLING_GRAD: InputGradientTensor is bound to 8 bytes; \
there must be at least 16
"""


def test_the_example_runs(tmp_path: Path) -> None:
    program = built(PORT, tmp_path)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED, "")
    assert PRINTED.splitlines()[-1] in DOCUMENT.replace("\n", " ")


def test_the_code_after_the_port_is_the_examples() -> None:
    example = "".join(PORT.read_text().split())
    after = re.findall(r"</td><td>\n\n```cpp\n(.*?)```", DOCUMENT, re.DOTALL)
    before = re.findall(r"<tr><td>\n\n```cpp\n", DOCUMENT)
    assert len(after) == len(before) >= 10
    for block in after:
        for part in re.split(r"\n\n+", block):
            assert "".join(part.split()) in example, part


@pytest.mark.parametrize("name", ["IDML\\w+", "E_[A-Z]+", "S_[A-Z]+", "DXGI_\\w+", "CUDML_[A-Z_]+"])
def test_what_the_document_names_is_declared(name: str) -> None:
    header = "".join(file.read_text() for file in HEADERS.glob("*.h"))
    absent = {"IDMLDevice1", "IDMLDebugDevice"}
    named = set(re.findall(rf"\b{name}\b", DOCUMENT))
    assert named
    for word in named - absent:
        assert re.search(rf"\b{word}\b", header), word
    for word in absent:
        assert not re.search(rf"\b{word}\b", header), word


ADAPTER = """
#include <cstddef>
#include <cstdint>
#include <cstring>
#define COM_NO_WINDOWS_H
typedef uint8_t UINT8, BYTE;
typedef int8_t INT8;
typedef uint16_t UINT16;
typedef int16_t INT16;
typedef uint32_t UINT32, UINT, ULONG, BOOL;
typedef int32_t INT32, INT, HRESULT;
typedef uint64_t UINT64;
typedef int64_t INT64;
typedef float FLOAT;
typedef double DOUBLE;
typedef const wchar_t* PCWSTR;
struct GUID { uint32_t a; uint16_t b, c; uint8_t d[8]; };
typedef GUID IID;
#define REFGUID const GUID&
#define REFIID const IID&
#define FAILED(hr) ((hr) < 0)
template <typename T> GUID uuidof() = delete;
template <typename T> GUID uuidof(T&) { return uuidof<T>(); }
struct IUnknown {
  virtual HRESULT QueryInterface(REFIID riid, void** ppv) = 0;
  virtual ULONG AddRef() = 0;
  virtual ULONG Release() = 0;
};
#define IID_PPV_ARGS(pp) uuidof(**(pp)), reinterpret_cast<void**>(pp)
#define DEFINE_ENUM_FLAG_OPERATORS(E) \\
  inline constexpr E operator|(E a, E b) { return E(int32_t(a) | int32_t(b)); }
#include <DirectML.h>
HRESULT create(IDMLDevice** device) {
  const CUDML_DEVICE_DESC place = {CUDML_DEVICE_TYPE_CPU, 0};
  return DMLCreateDevice(&place, DML_CREATE_DEVICE_FLAG_NONE, IID_PPV_ARGS(device));
}
"""


def test_the_header_takes_windows_names_from_an_adapter(tmp_path: Path) -> None:
    """Like the one of DirectX-Headers, which has these names, some of other types."""
    source = tmp_path / "adapted.cpp"
    source.write_text(ADAPTER)
    run(["g++", "-std=c++17", *STRICT, f"-I{HEADERS}", "-fsyntax-only", str(source)])
