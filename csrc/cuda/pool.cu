// Launches forward pooling: one launch for each place of the outer batch dimensions.
#include "cuda/pool_generic.cuh"
#include "cuda/pool_window.cuh"

namespace cudml::cuda {
namespace {

void launch_chosen(const PoolCall& call) {
  switch (call.kernel()) {
    case PoolKernel::lanes: return launch_pool_lanes(call);
    case PoolKernel::reduce: return launch_pool_reduce(call);
    case PoolKernel::separable: return launch_pool_separable(call);
    case PoolKernel::window: return launch_pool_window(call);
    case PoolKernel::generic: return launch_pool_generic(call);
    default: return launch_pool_tile(call);
  }
}

/// A maximum is a winner whose index nobody wants: one kernel finds both.
constexpr Pooled without_index(Pooled what) { return what == Pooled::max ? Pooled::winner : what; }

/// `p` moved on by n elements; absent tensors stay null.
template <class P>
P* moved(P* p, int64_t n, Dtype dtype) {
  using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
  return p ? static_cast<Byte*>(p) + n * int64_t(size_of(dtype)) : nullptr;
}

}  // namespace

void launch_pool_window(const PoolCall& call) {
  visit_pooled<AllTypes, AllTypes, FloatTypes>(call.plan, [&]<class T, Pooled kWhat>() {
    launch(call.choice.name, pool_window_kernel<T, without_index(kWhat)>, call.choice.geometry,
           call.target, shape_of<int32_t>(call), order_of(call.plan),
           uint32_t(inner_outputs(call.plan)), static_cast<const T*>(call.x),
           static_cast<T*>(call.y), call.indices);
  });
}

void launch_pool_generic(const PoolCall& call) {
  const PoolPlan& p = call.plan;
  const WideOrder order{
      p.batch[1], {p.axis[0].out, p.axis[1].out, p.axis[2].out}, planes_are_closest(p)};
  visit_pooled<AllTypes, AllTypes, FloatTypes>(p, [&]<class T, Pooled kWhat>() {
    launch(call.choice.name, pool_generic_kernel<T, without_index(kWhat)>, call.choice.geometry,
           call.target, shape_of<int64_t>(call), order, inner_outputs(p),
           static_cast<const T*>(call.x), static_cast<T*>(call.y), call.indices);
  });
}

void pool(const PoolPlan& whole, const Choice& choice, const void* x, void* y, void* indices,
          const Target& target) {
  if (whole.outputs() == 0) return;
  const PoolPlan plan = in_slices(whole);
  int64_t at[kMaxRank] = {};
  for (;;) {
    PoolOuter offset;
    for (int i = 0; i < plan.outer_rank; ++i) {
      const PoolOuter& o = plan.outer[i];
      const int64_t position = o.position(at[i]);
      offset.x += position * o.x;
      offset.y += position * o.y;
      offset.indices += position * o.indices;
      offset.flat += position * o.flat;
    }
    launch_chosen({plan, choice, moved(x, offset.x, plan.dtype), moved(y, offset.y, plan.dtype),
                   moved(plan.with_indices ? indices : nullptr, offset.indices, plan.index_dtype),
                   offset.flat, target});
    int i = plan.outer_rank - 1;
    while (i >= 0 && ++at[i] == plan.outer[i].turns()) at[i--] = 0;
    if (i < 0) return;
  }
}

}  // namespace cudml::cuda
