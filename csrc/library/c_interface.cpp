// The functions of cudml.h.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/environment.h"
#include "cpu/threads/parallel.h"
#include "directml/tensor.h"
#include "library/compiled.h"
#include "library/environment.h"
#include "library/errors.h"
#include "library/thread_text.h"

struct cudml_operator {
  std::shared_ptr<const cudml::library::Operator> lowered;
};

struct cudml_compiled {
  std::unique_ptr<cudml::library::Compiled> compiled;
};

namespace cudml::library {
namespace {

/// The first versions of the structs ended where they end now.
constexpr size_t kFirstProperties = sizeof(cudml_properties), kFirstTensor = sizeof(cudml_tensor),
                 kFirstExecution = sizeof(cudml_execution);

void check_pointer(const void* pointer, const char* function, const char* name) {
  check(pointer, function, ": ", name, " is null");
}

void check_size(size_t size, size_t least, const char* function, const char* name) {
  check(size >= least, function, ": ", name, ".size is ", size, "; it must be at least ", least,
        ", the size of the struct");
}

/// Fills in a caller's struct, which may be of another version, as far as it goes.
template <class Struct>
void fill(Struct* to, Struct from) {
  from.size = to->size;
  std::memcpy(static_cast<void*>(to), &from, std::min(to->size, sizeof from));
}

/// What a caller's struct says, which may be of a newer version as long as it asks for nothing new.
cudml_execution read(const cudml_execution* execution) {
  constexpr const char* kFunction = "cudml_execute";
  check_pointer(execution, kFunction, "execution");
  check_size(execution->size, kFirstExecution, kFunction, "execution");
  constexpr size_t kMostSize = 4096;
  check(execution->size <= kMostSize, kFunction, ": execution.size is ", execution->size,
        "; it must be at most ", kMostSize);
  const auto* bytes = reinterpret_cast<const unsigned char*>(execution);
  check(std::all_of(bytes + sizeof *execution, bytes + execution->size,
                    [](unsigned char byte) { return byte == 0; }),
        kFunction, ": execution has fields that this version does not know; they must be 0");
  check(!execution->persistent && execution->persistent_bytes == 0, kFunction,
        ": execution.persistent is given; no operator of this version keeps anything, it must be "
        "null");
  check(execution->inputs || !execution->input_count, kFunction, ": execution.inputs is null");
  check(execution->outputs || !execution->output_count, kFunction, ": execution.outputs is null");
  return *execution;
}

const char* kept(std::string text) {
  struct Answer;
  return (ThreadText<Answer>::here() = std::move(text)).c_str();
}

cudml_status describe_slot(const cudml_compiled* compiled, bool is_output, uint32_t index,
                           cudml_tensor* tensor) {
  return guarded([&] {
    const char* function = is_output ? "cudml_compiled_output" : "cudml_compiled_input";
    check_pointer(compiled, function, "compiled");
    check_pointer(tensor, function, "tensor");
    check_size(tensor->size, kFirstTensor, function, "tensor");
    const Compiled& of = *compiled->compiled;
    const std::vector<Slot>& slots = is_output ? of.outputs() : of.inputs();
    check(index < slots.size(), function, ": index is ", index, "; it must be below ",
          slots.size());
    const TensorDesc& desc = slots[index].tensor->desc;
    cudml_tensor found = {};
    found.field = slots[index].tensor->field;
    found.data_type = directml::data_type_of(desc.dtype);
    found.dimension_count = uint32_t(desc.rank());
    std::copy(desc.sizes.begin(), desc.sizes.end(), found.sizes);
    std::copy(desc.strides.begin(), desc.strides.end(), found.strides);
    found.bytes = slots[index].span;
    fill(tensor, found);
  });
}

}  // namespace
}  // namespace cudml::library

using namespace cudml;
using namespace cudml::library;

const char* cudml_version(void) { return CUDML_VERSION; }

cudml_status cudml_operator_create(const DML_OPERATOR_DESC* desc, DML_FEATURE_LEVEL level,
                                   cudml_operator** op) {
  return guarded([&] {
    check_pointer(op, "cudml_operator_create", "op");
    *op = nullptr;
    check_pointer(desc, "cudml_operator_create", "desc");
    *op = new cudml_operator{make_operator(*desc, level)};
  });
}

void cudml_operator_destroy(cudml_operator* op) { delete op; }

cudml_status cudml_operator_describe(const cudml_operator* op, const char** text) {
  return guarded([&] {
    check_pointer(op, "cudml_operator_describe", "op");
    check_pointer(text, "cudml_operator_describe", "text");
    *text = kept(directml::describe(*op->lowered));
  });
}

cudml_status cudml_operator_compile(const cudml_operator* op, const char* device,
                                    cudml_compiled** compiled) {
  return guarded([&] {
    check_pointer(compiled, "cudml_operator_compile", "compiled");
    *compiled = nullptr;
    check_pointer(op, "cudml_operator_compile", "op");
    check_pointer(device, "cudml_operator_compile", "device");
    *compiled = new cudml_compiled{compile(op->lowered, device)};
  });
}

void cudml_compiled_destroy(cudml_compiled* compiled) { delete compiled; }

cudml_status cudml_compiled_properties(const cudml_compiled* compiled,
                                       cudml_properties* properties) {
  return guarded([&] {
    constexpr const char* kFunction = "cudml_compiled_properties";
    check_pointer(compiled, kFunction, "compiled");
    check_pointer(properties, kFunction, "properties");
    check_size(properties->size, kFirstProperties, kFunction, "properties");
    const Compiled& of = *compiled->compiled;
    fill(properties, {0, uint64_t(of.workspace_bytes()), uint64_t(of.persistent_bytes()),
                      uint32_t(workspace_alignment(of.place())), uint32_t(of.inputs().size()),
                      uint32_t(of.outputs().size()), of.place().device});
  });
}

cudml_status cudml_compiled_input(const cudml_compiled* compiled, uint32_t index,
                                  cudml_tensor* tensor) {
  return describe_slot(compiled, false, index, tensor);
}

cudml_status cudml_compiled_output(const cudml_compiled* compiled, uint32_t index,
                                   cudml_tensor* tensor) {
  return describe_slot(compiled, true, index, tensor);
}

cudml_status cudml_compiled_explain(const cudml_compiled* compiled, const char** text) {
  return guarded([&] {
    check_pointer(compiled, "cudml_compiled_explain", "compiled");
    check_pointer(text, "cudml_compiled_explain", "text");
    *text = kept(compiled->compiled->explained());
  });
}

cudml_status cudml_execute(cudml_compiled* compiled, const cudml_execution* execution) {
  return guarded([&] {
    check_pointer(compiled, "cudml_execute", "compiled");
    const cudml_execution e = read(execution);
    compiled->compiled->execute({{e.inputs, e.input_count},
                                 {e.outputs, e.output_count},
                                 e.workspace,
                                 e.workspace_bytes,
                                 e.stream});
  });
}

cudml_status cudml_get_num_threads(uint32_t* threads) {
  return guarded([&] {
    check_pointer(threads, "cudml_get_num_threads", "threads");
    check_environment("cudml_get_num_threads");
    *threads = uint32_t(cpu::num_threads());
  });
}

cudml_status cudml_set_num_threads(uint32_t threads) {
  return guarded([&] {
    check_environment("cudml_set_num_threads");
    check(threads >= 1 && threads <= kMaxThreads, "cudml_set_num_threads: threads is ", threads,
          "; it must be between 1 and ", kMaxThreads);
    cpu::set_num_threads(int(threads));
  });
}
