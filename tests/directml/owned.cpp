// What an initializer keeps of inputs that are OWNED_BY_DML: prints what each case answers, a line
// per case, for test_owned.py to compare. Each has a device of its own, which a failure removes.
#include "com_support.h"

namespace {

constexpr UINT kSizes[] = {1, 1, 4, 4};
constexpr UINT64 kBytes = 64;
constexpr auto kOwned = DML_TENSOR_FLAG_OWNED_BY_DML;
constexpr auto kFloat = DML_TENSOR_DATA_TYPE_FLOAT32;

void Say(const char* label, HRESULT result) {
  std::printf("%s|%08x|%s\n", label, unsigned(result), FAILED(result) ? cudml_last_error() : "");
}

struct Fixture {
  Fixture() {
    Check(DMLCreateDevice(&kCpu, DML_CREATE_DEVICE_FLAG_NONE, IID_PPV_ARGS(&device)), "device");
  }

  /// A normalization of an input and a scale, owned where their bytes are given.
  HRESULT Compile(UINT64 input, UINT64 scale, Ptr<IDMLCompiledOperator>& compiled) {
    const auto buffer = [](UINT64 owned) {
      return DML_BUFFER_TENSOR_DESC{
          kFloat, owned ? kOwned : DML_TENSOR_FLAG_NONE, 4, kSizes, nullptr, owned ? owned : kBytes,
          0};
    };
    const DML_BUFFER_TENSOR_DESC x = buffer(input), s = buffer(scale), y = buffer(0);
    const DML_TENSOR_DESC tensors[] = {
        {DML_TENSOR_TYPE_BUFFER, &x}, {DML_TENSOR_TYPE_BUFFER, &s}, {DML_TENSOR_TYPE_BUFFER, &y}};
    const DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC mvn = {
        &tensors[0], &tensors[1], nullptr, &tensors[2], FALSE, TRUE, 1e-5f, nullptr};
    const DML_OPERATOR_DESC desc = {DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION, &mvn};
    Ptr<IDMLOperator> op;
    Check(device->CreateOperator(&desc, IID_PPV_ARGS(&op)), "CreateOperator");
    return device->CompileOperator(op.get(), DML_EXECUTION_FLAG_NONE, IID_PPV_ARGS(&compiled));
  }

  Ptr<IDMLDevice> device;
};

void Sizes() {
  constexpr UINT64 kMost = UINT64(1) << 62;
  const auto compile = [](const char* label, UINT64 input, UINT64 scale) {
    Fixture f;
    Ptr<IDMLCompiledOperator> compiled;
    Say(label, f.Compile(input, scale, compiled));
    if (compiled.get() && compiled->GetBindingProperties().PersistentResourceSize < input + scale)
      std::puts("less is kept than there is");
  };
  compile("as much as there may be", kMost - 256, 256);
  compile("a byte count that wraps around", 0, ~UINT64(3));
  compile("two of them that wrap around", kMost, 64);
}

}  // namespace

int main() { Sizes(); }
