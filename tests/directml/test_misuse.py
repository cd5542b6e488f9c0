"""What DirectML's interfaces refuse, with which code and words, and what that leaves behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.directml.programs import HERE, WATCHED, build

INVALID, POINTER, NO_INTERFACE = "80070057", "80004003", "80004002"
UNSUPPORTED, REMOVED = "887a0004", "887a0005"
OK, FALSE = "00000000", "00000001"

DEVICES = [
    ("null device", INVALID, "DMLCreateDevice: device is null"),
    ("device type 7", INVALID, "DMLCreateDevice: Type is 7; it must be 0 (CPU) or 1 (CUDA)"),
    ("second CPU", INVALID, "DMLCreateDevice: Ordinal is 1; of the CPU it must be 0"),
    ("device 4000", UNSUPPORTED, "DMLCreateDevice: Ordinal is 4000; there are "),
    ("the device after the last", UNSUPPORTED, "DMLCreateDevice: Ordinal is "),
    ("device flags", INVALID, "DMLCreateDevice: flags is 6; it must be 0 (NONE) or 1 (DEBUG)"),
    ("device of an operator's interface", NO_INTERFACE, "riid names no interface"),
    ("device without ppv", FALSE, ""),
    ("level 6_4", OK, ""),
    ("level 7_0", UNSUPPORTED, "DMLCreateDevice1: minimumFeatureLevel is 28672; it must be at"),
    ("level 0", INVALID, "DMLCreateDevice1: minimumFeatureLevel is 0; it must be one of 1_0"),
]
FEATURES = [
    ("types 1 2 3 4 5 6 7 8 9 10 11 ", OK, ""),
    ("levels", OK, ""),
    ("highest level 5000", OK, ""),
    ("unknown level", UNSUPPORTED, "CheckFeatureSupport: none of RequestedFeatureLevels is supp"),
    ("no levels", INVALID, "CheckFeatureSupport: no RequestedFeatureLevels are given; there must"),
    ("feature 2", INVALID, "CheckFeatureSupport: feature is 2; it must be 0 (TENSOR_DATA_TYPE_"),
    ("query of another size", INVALID, "CheckFeatureSupport: featureQueryData has 4 bytes; it"),
    ("null query", INVALID, "CheckFeatureSupport: featureQueryData is null; it must point to 16"),
    (
        "null levels",
        INVALID,
        "CheckFeatureSupport: no RequestedFeatureLevels are given; there must",
    ),
    ("none of the levels", INVALID, "CheckFeatureSupport: no RequestedFeatureLevels are given; th"),
    ("null answer", INVALID, "CheckFeatureSupport: featureSupportData is null; it must point to 4"),
]
CREATION = [
    ("null desc", INVALID, "CreateOperator: desc is null; it must point to a DML_OPERATOR_DESC"),
    ("unknown operator", INVALID, "DML_OPERATOR_DESC: Type is 9999; it must be one of MAX_POOLING"),
    ("null operator desc", INVALID, "MAX_POOLING1: Desc is null; it must point to"),
    (
        "activation that is its host",
        INVALID,
        "MEAN_VARIANCE_NORMALIZATION: FusedActivation is MEAN",
    ),
    ("short tensor", INVALID, "MAX_POOLING1: OutputTensor.TotalTensorSizeInBytes is 28; sizes and"),
    ("type that is not taken", INVALID, "MAX_POOLING1: OutputTensor.DataType is FLOAT64; at feat"),
    ("owned output", INVALID, "MAX_POOLING1: OutputTensor.Flags is 1 (OWNED_BY_DML); of an output"),
    ("operator without ppv", FALSE, ""),
    ("operator as a device", NO_INTERFACE, "riid names no interface of the object's"),
    ("pointer after a failure (nil)", OK, ""),
    ("null op", INVALID, "CompileOperator: op is null; it must be an object of this device"),
    ("op of another device", INVALID, "CompileOperator: op is of another device"),
    ("all flags", OK, ""),
    ("flag 8", INVALID, "CompileOperator: flags is 8; it must be a combination of 1, 2 and 4"),
    ("null operators", INVALID, "IDMLOperatorInitializer: operators is null; it must point to 2"),
    ("null among operators", INVALID, "IDMLOperatorInitializer: operators[1] is null"),
    ("initializer without ppv", POINTER, "CreateOperatorInitializer: ppv is null"),
    ("null dispatchable", INVALID, "DML_BINDING_TABLE_DESC: Dispatchable is null"),
    ("dispatchable of another device", INVALID, "DML_BINDING_TABLE_DESC: Dispatchable is of anoth"),
    ("evict", OK, ""),
    ("make resident", OK, ""),
    ("evict null", INVALID, "Evict: ppObjects[1] is null; it must be an object of this device"),
    ("null resident", INVALID, "MakeResident: ppObjects[1] is null; it must be an object of this"),
    ("evict null first", INVALID, "Evict: ppObjects[0] is null; it must be an object of this dev"),
    ("evict nothing", INVALID, "Evict: ppObjects is null; it must point to 1 objects"),
    ("still there", OK, ""),
    ("device (nil)", INVALID, ""),
    ("operator (nil)", INVALID, ""),
    ("compiled (nil)", INVALID, ""),
    ("initializer (nil)", INVALID, ""),
    ("recorder of a removed device (nil)", REMOVED, ""),
    ("table (nil)", INVALID, ""),
]

# From here on a failure removes the device, and its message says so first.
INPUTS = "IDMLBindingTable::BindInputs: "
POOL, NORM = "MAX_POOLING1: ", "MEAN_VARIANCE_NORMALIZATION: "
BINDINGS = [
    ("two inputs", POOL + "bindingCount is 2; it must be 1, the number of inputs (InputTensor)"),
    ("no inputs", POOL + "bindingCount is 0; it must be 1"),
    ("binding of type 9", INPUTS + "bindings[0].Type is 9; it must be 0 (NONE), 1 (BUFFER) or 2"),
    ("binding without desc", INPUTS + "bindings[0].Desc is null; it must point to a DML_BUFFER_B"),
    ("input unbound", POOL + "InputTensor is not bound; it must be a BUFFER of at least 128 bytes"),
    ("input as an array", POOL + "InputTensor is bound to a BUFFER_ARRAY; it must be a BUFFER"),
    ("array without bindings", INPUTS + "bindings[0].Bindings is null; it must point to 3"),
    ("array with a hole", INPUTS + "bindings[0].Bindings[1].Buffer->Data is null; it must point"),
    ("array of nothing", POOL + "InputTensor is bound to a BUFFER_ARRAY; it must be a BUFFER"),
    ("endless array", INPUTS + "bindings[0].BindingCount is 4294967295; it must be at most 9"),
    ("endless bindings", POOL + "bindingCount is 4294967295; it must be 1, the number of inputs"),
    ("too few bytes", POOL + "InputTensor is bound to 124 bytes; there must be at least 128"),
    ("odd offset", INPUTS + "bindings[0].Offset is 8; Buffer->Data + Offset must be a multiple of"),
    ("offset beyond the end", INPUTS + "bindings[0].Offset is 272; it must be at most 256"),
    ("offset that wraps around", INPUTS + "bindings[0].Offset is 18446744073709551600; it must"),
    ("more than the buffer", INPUTS + "bindings[0].SizeInBytes is 128; it must be at most 112"),
    ("no bytes", INPUTS + "bindings[0].SizeInBytes is 0; it must be at least 1"),
    ("buffer without data", INPUTS + "bindings[0].Buffer->Data is null; it must point to 256"),
    ("null bindings", INPUTS + "bindings is null; it must point to 1 bindings"),
    ("one output", POOL + "bindingCount is 1; it must be 2, the number of outputs (OutputTensor, "),
    ("output that is not there", POOL + "OutputIndicesTensor is bound; the operator has no such"),
    ("owned input bound again", NORM + "ScaleTensor is bound; it is OWNED_BY_DML and bound for th"),
    ("odd temporary", "IDMLBindingTable::BindTemporaryResource: binding.Offset is 16; Buffer->Data "
     "+ Offset must be a multiple of 256"),
    ("odd persistent", "IDMLBindingTable::BindPersistentResource: binding.Offset is 16; Buffer"),
    ("nothing temporary, nothing persistent", ""),
]  # fmt: skip
DISPATCHES = [
    ("not initialized", POOL + "the operator is not initialized; an IDMLOperatorInitializer with"),
    ("nothing bound", POOL + "bindingCount is 0; it must be 1"),
    ("null dispatchable", "IDMLCommandRecorder::RecordDispatch: dispatchable is null"),
    ("null table", "IDMLCommandRecorder::RecordDispatch: bindings is null"),
    ("table of another dispatchable", "IDMLCommandRecorder::RecordDispatch: bindings is a table f"),
    ("no temporary resource", "MAX_POOLING_GRAD: the temporary resource is not bound; it must be a "
     "BUFFER of at least "),
    ("temporary resource too small", "MAX_POOLING_GRAD: the temporary resource is bound to 4 byte"),
    ("stream on the CPU", POOL + "stream is 0x"),
    ("output in the input", POOL + "OutputTensor shares memory with InputTensor"),
    ("output where the input is", ""),
    ("output in a part of the input", NORM + "OutputTensor shares memory with InputTensor"),
    ("no persistent resource", NORM + "the persistent resource is not bound; it must be a BUFFER"),
    ("table without dispatchable", INPUTS + "the table has no Dispatchable; Reset"),
]  # fmt: skip
INITIALIZERS = [
    ("owned input missing", NORM + "the initializer's binding is no array of the operator's input"),
    ("array too short", NORM + "the initializer's binding is no array of the operator's inputs; it "
     "must be a BUFFER_ARRAY with 3 bindings"),
    ("input that is not owned", NORM + "InputTensor is bound for the initializer; it is not OWNED"),
    ("no room to keep it", NORM + "the persistent resource, the initializer's output, is not boun"),
    ("kept where it comes from", NORM + "ScaleTensor overlaps the persistent resource"),
    ("operator that owns nothing", POOL + "inputs are bound for the initializer; no input is OWNE"),
    ("reset to more operators", "IDMLOperatorInitializer: bindingCount is 1; it must be 2"),
]  # fmt: skip
AFTER_REMOVAL = [
    ("create after removal", REMOVED),
    ("reset after removal", REMOVED),
    ("reason in another thread", INVALID),
    ("interface after removal", OK),
    ("name after removal", OK),
]
GONE = "the device has been removed: "


def expected() -> list[tuple[str, str, str]]:
    removing = [
        (label, INVALID if text else OK, GONE + text if text else "")
        for label, text in BINDINGS + DISPATCHES + INITIALIZERS
    ]
    message = GONE + INPUTS + "bindings is null; it must point to 1 bindings"
    after = [(label, code, "" if code == OK else message) for label, code in AFTER_REMOVAL]
    return DEVICES + FEATURES + CREATION + removing + after


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    program = build(HERE / "misuse.cpp", tmp_path_factory.mktemp("misuse"), *WATCHED)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [line.split("|") for line in done.stdout.splitlines()]


def test_misuse_is_refused(said: list[list[str]]) -> None:
    wanted = expected()
    assert [line[0] for line in said] == [label for label, _, _ in wanted]
    for (label, code, message), (_, want, beginning) in zip(said, wanted, strict=True):
        assert code == want and message.startswith(beginning), (label, code, message)
        assert bool(message) == bool(beginning), (label, message)


def test_objects_are_counted_as_coms(tmp_path: Path) -> None:
    program = build(HERE / "objects.cpp", tmp_path, *WATCHED)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


DEBUGGED = """
#include "com_support.h"
int main(int count, char**) {
  Ptr<IDMLDevice> device;
  const auto flags = count > 1 ? DML_CREATE_DEVICE_FLAG_DEBUG : DML_CREATE_DEVICE_FLAG_NONE;
  Check(DMLCreateDevice(&kCpu, flags, IID_PPV_ARGS(&device)), "device");
  return device->CreateOperator(nullptr, __uuidof(IDMLOperator), nullptr) == E_INVALIDARG ? 0 : 1;
}
"""


def test_the_debug_flag_shows_messages(tmp_path: Path) -> None:
    source = tmp_path / "debugged.cpp"
    source.write_text(DEBUGGED)
    program = build(source, tmp_path)
    quiet = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    loud = subprocess.run([program, "1"], capture_output=True, text=True, timeout=60, check=True)
    text = "cudml: CreateOperator: desc is null; it must point to a DML_OPERATOR_DESC (0x80070057)"
    assert (quiet.stderr, loud.stderr) == ("", text + "\n")


CANCELLED = """
#include "fixture.h"
#include <pthread.h>
#include <unistd.h>
#include <cstring>
static const char* what;
static bool Is(const char* name) { return std::strcmp(what, name) == 0; }
static void* CallForEver(void*) {
  Fixture f;
  Ptr<IDMLDevice> device;
  Ptr<IDMLOperator> op;
  Check(DMLCreateDevice(&kCpu, DML_CREATE_DEVICE_FLAG_DEBUG, IID_PPV_ARGS(&device)), "device");
  Ptr<IDMLBindingTable> table;
  Check(device->CreateBindingTable(nullptr, IID_PPV_ARGS(&table)), "table");
  if (Is("reason")) table->BindInputs(0, nullptr);
  f.BindPool();
  for (;; pthread_testcancel()) {
    if (Is("device"))
      DMLCreateDevice(nullptr, DML_CREATE_DEVICE_FLAG_DEBUG, IID_PPV_ARGS(&device));
    if (Is("operator")) device->CreateOperator(nullptr, IID_PPV_ARGS(&op));
    if (Is("reason")) device->GetDeviceRemovedReason();
    if (Is("dispatch")) f.Record(f.pool.get());
  }
}
int main(int, char** argv) {
  what = argv[1];
  for (int i = 0; i < 20; ++i) {
    pthread_t thread;
    void* result = nullptr;
    if (pthread_create(&thread, nullptr, CallForEver, nullptr)) return 1;
    usleep(5000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) return 2;
  }
  std::puts("cancelled");
}
"""


@pytest.fixture(scope="module")
def cancelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("cancelled") / "cancelled.cpp"
    source.write_text(CANCELLED)
    return build(source, source.parent)


@pytest.mark.parametrize("method", ["device", "operator", "reason", "dispatch"])
def test_a_thread_that_is_cancelled(cancelled: Path, method: str) -> None:
    """Not in the middle of a method, which writes here, and as soon as it is over."""
    environment = {**os.environ, "CUDML_LOG": "debug"}
    done = subprocess.run(
        [cancelled, method], capture_output=True, text=True, timeout=120, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "cancelled\n"), done.stderr[-300:]
