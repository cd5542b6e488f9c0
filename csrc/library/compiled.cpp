// Executions: addresses against the tensors of a descriptor, then the work.
#include "library/compiled.h"

#include <string_view>
#include <utility>
#include <variant>

#include "core/check.h"
#include "core/layout.h"
#include "core/shown.h"
#include "cpu/simd/float_state.h"

namespace cudml::library {
namespace {

constexpr uintptr_t kOwnAlignment = 64;    // of an operator's own workspace on the CPU
constexpr uintptr_t kCpuAlignment = 8;     // it holds indices
constexpr uintptr_t kCudaAlignment = 256;  // what device allocations have

/// The caller's workspace for one execution, or the operator's own. On a GPU executions share that
/// in turn; on the CPU one that finds it taken, perhaps by a thread that a fork has left behind,
/// brings its own.
class SharedScratch : public Scratch {
 public:
  SharedScratch(void* given, std::mutex& own, HostMemory& memory, cuda::OwnedMemory& device)
      : given_(given), lock_(own, std::defer_lock), memory_(memory), device_(device) {}

  void* begin(int64_t bytes, void* stream) override {
    if (given_) return given_;
    if (device_.data()) {
      lock_.lock();
      device_.enter(stream);
      return device_.data();
    }
    HostMemory& memory = lock_.try_lock() ? memory_ : extra_;
    if (!memory) memory.reset(new std::byte[size_t(bytes) + kOwnAlignment]);
    const auto address = reinterpret_cast<uintptr_t>(memory.get());
    return reinterpret_cast<void*>((address + kOwnAlignment - 1) & ~(kOwnAlignment - 1));
  }
  void end(void* stream) override {
    if (!given_ && device_.data()) device_.leave(stream);
  }
  void release() noexcept override {
    if (lock_.owns_lock()) lock_.unlock();
  }

 private:
  void* given_;
  std::unique_lock<std::mutex> lock_;
  HostMemory& memory_;
  HostMemory extra_;
  cuda::OwnedMemory& device_;
};

bool is_multiple(const void* address, uintptr_t of) {
  return reinterpret_cast<uintptr_t>(address) % of == 0;
}

void check_address(const char* op, const Slot& slot, const void* address) {
  const size_t item = size_of(slot.tensor->desc.dtype);
  check(address, op, ": ", slot.tensor->field, " has no memory; its address must not be null");
  check(is_multiple(address, item), op, ": ", slot.tensor->field, " starts at ", address,
        "; it must be a multiple of ", item, ", the size of an element");
}

/// What is handed over beside what the descriptor has.
void check_count(const char* op, const char* what, size_t given, const std::vector<Slot>& slots) {
  if (given == slots.size()) return;
  std::string names;
  for (const Slot& slot : slots) names += join(names.empty() ? "" : ", ", slot.tensor->field);
  refuse(op, ": ", given, ' ', what, " are given; the descriptor has ", slots.size(), " (", names,
         ")");
}

bool are_apart_in_range(const Slot& a, const void* at_a, const Slot& b, const void* at_b) {
  const auto p = reinterpret_cast<uintptr_t>(at_a), q = reinterpret_cast<uintptr_t>(at_b);
  return p + a.span <= q || q + b.span <= p;
}

TensorView view_at(const Slot& slot, const void* address) {
  TensorView view;
  static_cast<TensorDesc&>(view) = slot.tensor->desc;
  view.data = const_cast<void*>(address);
  return view;
}

Footprint bytes_at(const void* address, uint64_t bytes) {
  return {reinterpret_cast<uintptr_t>(address), 1, Dims{int64_t(bytes)}, Dims{1}};
}

}  // namespace

Slot::Slot(const directml::Tensor& of) : tensor(&of), span(size_of(of.desc.dtype)) {
  const auto item = int64_t(span);
  for (int d = 0; d < of.desc.rank(); ++d)
    span += uintptr_t((of.desc.sizes[d] - 1) * of.desc.strides[d] * item);
}

Compiled::Compiled(std::shared_ptr<const Operator> lowered, Place place)
    : lowered_(std::move(lowered)), program_(lowered_->op, lowered_->plan, place) {
  for (const directml::Tensor& tensor : lowered_->tensors)
    if (tensor.present) (tensor.is_output ? outputs_ : inputs_).emplace_back(tensor);
  if (!place.is_cuda()) return;
  program_.load_kernels();
  const cuda::DeviceGuard guard(place.device);
  device_memory_ = cuda::OwnedMemory(workspace_bytes());
}

namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

}  // namespace

const Dims* Compiled::pooled_axes() const {
  if (const auto* desc = std::get_if<PoolDesc>(&lowered_->desc)) return &desc->axes;
  if (const auto* desc = std::get_if<PoolGradDesc>(&lowered_->desc)) return &desc->forward.axes;
  return nullptr;
}

std::string Compiled::explained() const {
  const Explanation e = explain();
  TextStream text;
  text << op() << " on " << name_of(place()) << ": " << e.kernel;
  if (const Dims* axes = pooled_axes()) {
    text << "\n  pools      dimension" << (axes->rank > 1 ? "s " : " ");
    for (int i = 0; i < axes->rank; ++i) text << (i ? ", " : "") << (*axes)[i];
  }
  std::string reason = e.reason;
  if (reason.starts_with(e.kernel + ": ")) reason.erase(0, e.kernel.size() + 2);
  replace_all(reason, "; not ", "\n  not        ");
  text << "\n  because    " << reason << "\n  bytes      " << e.bytes
       << ", each input read once, each output written once";
  if (e.geometry) {
    text << "\n  launch     " << e.geometry->blocks << " blocks of " << e.geometry->threads
         << " threads";
    if (e.geometry->cluster > 1) text << " in clusters of " << e.geometry->cluster;
    if (e.geometry->shared_bytes)
      text << ", " << e.geometry->shared_bytes << " bytes of shared memory";
  }
  if (e.workspace_bytes) text << "\n  workspace  " << e.workspace_bytes << " bytes";
  return text.str();
}

Operands Compiled::operands_of(const void* const* inputs, void* const* outputs) const {
  Operands operands;
  for (size_t i = 0; i < inputs_.size(); ++i)
    operands.inputs[inputs_[i].tensor->operand] = inputs[i];
  for (size_t o = 0; o < outputs_.size(); ++o)
    operands.outputs[outputs_[o].tensor->operand] = outputs[o];
  return operands;
}

bool Compiled::are_apart(const void* const* inputs, void* const* outputs) const {
  for (size_t o = 0; o < outputs_.size(); ++o) {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!are_apart_in_range(outputs_[o], outputs[o], inputs_[i], inputs[i])) return false;
    for (size_t other = 0; other < o; ++other)
      if (!are_apart_in_range(outputs_[o], outputs[o], outputs_[other], outputs[other]))
        return false;
  }
  return true;
}

void Compiled::run(const Operands& operands, void* workspace, void* stream) {
  if (is_logging()) {
    std::vector<NamedTensor> tensors;
    for (const auto* slots : {&inputs_, &outputs_})
      for (const Slot& slot : *slots) tensors.push_back({slot.tensor->field, &slot.tensor->desc});
    log_call(op(), place(), stream, program_.explain(operands), tensors);
  }
  SharedScratch scratch(workspace, own_workspace_, memory_, device_memory_);
  program_.run(operands, scratch, stream);
}

void Compiled::check_overlap(const Arguments& a) const {
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const TensorView y = view_at(outputs_[o], a.outputs[o]);
    const char* field = outputs_[o].tensor->field;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TensorView x = view_at(inputs_[i], a.inputs[i]);
      if (!(may_be_in_place() && i == 0 && is_alias(y, x)))
        check_no_overlap(op(), field, y, inputs_[i].tensor->field, x);
    }
    for (size_t other = 0; other < o; ++other)
      check_no_overlap(op(), field, y, outputs_[other].tensor->field,
                       view_at(outputs_[other], a.outputs[other]));
  }
}

void Compiled::check(const Arguments& a) const {
  check_count(op(), "inputs", a.inputs.size(), inputs_);
  check_count(op(), "outputs", a.outputs.size(), outputs_);
  for (size_t i = 0; i < inputs_.size(); ++i) check_address(op(), inputs_[i], a.inputs[i]);
  for (size_t o = 0; o < outputs_.size(); ++o) check_address(op(), outputs_[o], a.outputs[o]);
  cudml::check(place().is_cuda() || !a.stream, op(), ": stream is ", a.stream,
               "; on the CPU it must be null");
  if (!are_apart(a.inputs.data(), a.outputs.data())) check_overlap(a);
  if (!a.workspace) return;
  cudml::check(a.workspace_bytes >= uint64_t(workspace_bytes()), op(), ": workspace has ",
               a.workspace_bytes, " bytes; it must have at least ", workspace_bytes());
  cudml::check(is_multiple(a.workspace, workspace_alignment(place())), op(),
               ": workspace starts at an odd address; it must be a multiple of ",
               workspace_alignment(place()));
  const Footprint workspace = bytes_at(a.workspace, uint64_t(workspace_bytes()));
  for (const auto* slots : {&inputs_, &outputs_})
    for (size_t s = 0; s < slots->size() && workspace_bytes() > 0; ++s)
      check_no_overlap(
          op(), "workspace", workspace, (*slots)[s].tensor->field,
          footprint_of(view_at((*slots)[s], slots == &inputs_ ? a.inputs[s] : a.outputs[s])));
}

void Compiled::execute(const Arguments& a) {
  const FloatState state;
  check(a);
  run(operands_of(a.inputs.data(), a.outputs.data()), a.workspace, a.stream);
}

uintptr_t workspace_alignment(Place place) {
  return place.is_cuda() ? kCudaAlignment : kCpuAlignment;
}

std::unique_ptr<Compiled> compile(std::shared_ptr<const Operator> lowered,
                                  const std::string& device) {
  const char* op = lowered->op;
  try {
    const auto place = place_named(device);
    check(place.has_value(), op, ": device is \"", shown(device),
          "\"; it must be \"cpu\", \"cuda\" or \"cuda:<number>\"");
    return std::make_unique<Compiled>(std::move(lowered), *place);
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(op, ": device is \"", shown(device), "\"; "));
  }
}

}  // namespace cudml::library
