// Launches pooling's tile kernels.
#include "cuda/pool_tile.cuh"

namespace cudml::cuda {
namespace {

/// The part of a row that tiles load in vectors starts at a multiple of the vector's size.
template <class Tile>
TileAccess access_of(const PoolCall& call) {
  const PoolPlan& p = call.plan;
  const int64_t bytes = int64_t(size_of(p.dtype)), index = int64_t(size_of(p.index_dtype));
  TileAccess access;
  for (const int64_t n : {2, Tile::kVectorN}) {
    const int64_t lead = p.axis[2].start % n;
    if (lead > (Tile::kWidth > Tile::kStride) || !makes_vectors(call.x, p.x, n, bytes)) continue;
    access.lead = int32_t(lead);
    access.pairs = n == 2;
  }
  access.y_vectors = p.y.space[2] == 1 && makes_vectors(call.y, p.y, Tile::kOutW, bytes);
  access.index_vectors =
      p.indices.space[2] == 1 && makes_vectors(call.indices, p.indices, Tile::kOutW, index);
  return access;
}

/// Rows of x and y are whole vectors, and each vector of x has as many windows as outputs.
template <class T, int kS>
bool has_strip_vectors(const PoolCall& call) {
  constexpr int kN = kVector<T>;
  const PoolPlan& p = call.plan;
  const PoolAxis& w = p.axis[2];
  return w.start <= 1 && w.start >= 2 - kS && w.in == w.out * kS && w.in % kN == 0 &&
         p.y.space[2] == 1 && makes_vectors(call.x, p.x, kN, sizeof(T)) &&
         makes_vectors(call.y, p.y, kN / kS, sizeof(T));
}

/// Outputs along rows of a strip that is so many wide, 0 for tiles: with the rows of x above them,
/// whole batches of loads.
int32_t strip_rows_of(const PoolPlan& p, bool is_max, int64_t columns) {
  constexpr int64_t kThreads = 1 << 17;  // fill a GPU
  const PoolAxis& depth = p.axis[0];
  // Slices further apart end in the pads behind, if there are as many outputs as slices.
  if (depth.window != 1 || depth.stride != 1 || depth.start != 0 || depth.in != depth.out) return 0;
  const int32_t few = is_max ? 4 : 6, many = is_max ? 16 : 14;
  return inner_outputs(p) < kThreads * columns * many ? few : many;
}

template <class T, Pooled kWhat, int kH, int kW, int kS>
TileAccess access_with_strips(const PoolCall& call) {
  TileAccess access = access_of<Tile<T, kH, kW, kS>>(call);
  if constexpr (kHasStrips<T, kWhat, kH, kW, kS>) {
    constexpr bool kIsMax = kWhat == Pooled::max;
    const bool in_vectors = has_strip_vectors<T, kS>(call);
    const int64_t columns = in_vectors ? kVector<T> / kS : 1;
    if (in_vectors || !kIsMax) access.strip_rows = strip_rows_of(call.plan, kIsMax, columns);
    access.strip_vectors = in_vectors && access.strip_rows > 0;
  }
  return access;
}

template <int kH, int kW, int kS>
void launch_tile(const PoolCall& call) {
  const PoolPlan& p = call.plan;
  visit_pooled<CommonMaxTypes, CommonTypes, CommonTypes>(p, [&]<class T, Pooled kWhat>() {
    if constexpr (kWhat != Pooled::lp) {
      using Shape = Tile<T, kH, kW, kS>;
      const TileAccess access = access_with_strips<T, kWhat, kH, kW, kS>(call);
      const int64_t rows = access.strip_rows > 0 ? access.strip_rows : Shape::kOutH;
      const int64_t columns = access.strip_vectors    ? kVector<T> / kS
                              : access.strip_rows > 0 ? 1
                                                      : Shape::kOutW;
      const auto cut = [&](int axis, int64_t n) { return (p.axis[axis].out + n - 1) / n; };
      const auto by = [](int64_t n) { return FastDiv(uint32_t(n)); };
      const OutputOrder order{by(1), by(cut(2, columns)), by(cut(1, rows)), by(p.axis[0].out),
                              by(p.batch[1])};
      const int64_t tiles =
          p.batch[0] * p.batch[1] * p.axis[0].out * cut(1, rows) * cut(2, columns);
      launch(call.choice.name, pool_tile_kernel<T, kWhat, kH, kW, kS>, call.choice.geometry,
             call.target, shape_of<int32_t>(call), order, uint32_t(tiles), access,
             static_cast<const T*>(call.x), static_cast<T*>(call.y), call.indices);
    }
  });
}

}  // namespace

void launch_pool_tile(const PoolCall& call) {
  switch (call.kernel()) {
    case PoolKernel::tile_2x2_s2: return launch_tile<2, 2, 2>(call);
    case PoolKernel::tile_3x3_s2: return launch_tile<3, 3, 2>(call);
    case PoolKernel::tile_3x3_s1: return launch_tile<3, 3, 1>(call);
    case PoolKernel::tile_2_s2: return launch_tile<1, 2, 2>(call);
    case PoolKernel::tile_3_s2: return launch_tile<1, 3, 2>(call);
    default: return;
  }
}

}  // namespace cudml::cuda
