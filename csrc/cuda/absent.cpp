// Stands in for csrc/cuda's kernels and device calls in a build without a CUDA toolkit.
#include "cuda/backend.h"
#include "cuda/capture.h"
#include "cuda/operator_range.h"

namespace cudml::cuda {
namespace {

[[noreturn]] void refuse_cuda() { throw Error("this build has no CUDA kernels"); }

}  // namespace

DeviceQuery query_devices() { return {}; }
Situation situation_of_device(int) { refuse_cuda(); }
int current_device() { refuse_cuda(); }
int device_of(const void*) { refuse_cuda(); }
bool is_capturing(void*) { refuse_cuda(); }

DeviceGuard::DeviceGuard(int) { refuse_cuda(); }
DeviceGuard::~DeviceGuard() = default;

StreamMemory::StreamMemory(int64_t, void* stream) : stream_(stream) { refuse_cuda(); }
StreamMemory::~StreamMemory() = default;

OwnedMemory::OwnedMemory(int64_t) { refuse_cuda(); }
OwnedMemory::~OwnedMemory() = default;
OwnedMemory& OwnedMemory::operator=(OwnedMemory&&) noexcept { return *this; }
void OwnedMemory::enter(void*) { refuse_cuda(); }
void OwnedMemory::leave(void*) { refuse_cuda(); }

OperatorRange::OperatorRange(const char*) {}
OperatorRange::~OperatorRange() = default;

void order_after(void*, void*) { refuse_cuda(); }
void copy(void*, const void*, int64_t, void*) { refuse_cuda(); }

void pool(const PoolPlan&, const Choice&, const void*, void*, void*, const Target&) {
  refuse_cuda();
}
void max_pool_grad(const PoolGradPlan&, const Choice&, const void*, const void*, void*,
                   const Target&) {
  refuse_cuda();
}
void average_pool_grad(const PoolGradPlan&, const Choice&, const void*, void*, const Target&) {
  refuse_cuda();
}
void lp_pool_grad(const PoolGradPlan&, const Choice&, const void*, const void*, const void*, void*,
                  const Target&) {
  refuse_cuda();
}
void pad(const PadPlan&, const Choice&, const void*, void*, const Target&) { refuse_cuda(); }
void pad_grad(const PadGradPlan&, const Choice&, const void*, void*, const Target&) {
  refuse_cuda();
}
void unpool(const UnpoolPlan&, const Choice&, const void*, const void*, void*, const Target&) {
  refuse_cuda();
}
void mvn(const MvnPlan&, const Choice&, const Operands&, const Target&) { refuse_cuda(); }
void mvn_grad(const MvnGradPlan&, const Choice&, const Operands&, const Target&) { refuse_cuda(); }
void statistics(const StatisticsPlan&, const Choice&, const Operands&, const Target&) {
  refuse_cuda();
}
void merge(const MergePlan&, const Choice&, const Operands&, const Target&) { refuse_cuda(); }
void normalize(const NormalizePlan&, const Choice&, const Operands&, const Target&) {
  refuse_cuda();
}

}  // namespace cudml::cuda
