// The kernels of forward pooling, first choice first.
#include "cuda/pool_kernels.h"

#include <algorithm>

namespace cudml::cuda {
namespace {

constexpr int64_t kLimit = int64_t{1} << 31;
/// Threads count on a little beyond the last coordinate or tap.
constexpr int64_t kCountable = kLimit - 1024;
/// Sums of FLOAT32 are one chain up to this many taps (D-AVG-5).
constexpr int64_t kLongestChain = 4096;
/// Shared memory of a tile of the separable kernel, which then shares a multiprocessor with others.
constexpr int64_t kSeparableBytes = 40960;
/// Long windows are cut into pieces of at least so many taps, and at most so many pieces.
constexpr int64_t kLeastPiece = 2048, kMostPieces = 512;

/// The largest offset of a tensor with these strides.
int64_t reach(const PoolPlan& plan, const PoolStrides& s, int64_t PoolAxis::* size) {
  int64_t offset = 0;
  for (int i = 0; i < 2; ++i) offset += (plan.batch[i] - 1) * s.batch[i];
  for (int i = 0; i < 3; ++i) offset += (plan.axis[i].*size - 1) * s.space[i];
  return offset;
}

bool offsets_are_small(const PoolPlan& plan, const Situation&) {
  for (const PoolAxis& a : plan.axis)
    if ((a.out - 1) * a.stride >= kCountable) return false;
  return inner_outputs(plan) < kLimit && reach(plan, plan.x, &PoolAxis::in) < kLimit &&
         reach(plan, plan.y, &PoolAxis::out) < kLimit &&
         reach(plan, plan.indices, &PoolAxis::out) < kLimit &&
         reach(plan, plan.flat, &PoolAxis::in) < kLimit;
}

bool windows_are_short(const PoolPlan& plan, const Situation&) {
  return most_taps(plan) <= kLongestChain;
}

/// The element types of the fast kernels.
bool is_common_type(const PoolPlan& plan, const Situation&) {
  switch (plan.dtype) {
    case Dtype::float32:
    case Dtype::float16:
    case Dtype::bfloat16: return true;
    case Dtype::int8:
    case Dtype::uint8: return !plan.with_indices;
    default: return false;
  }
}

bool is_no_norm(const PoolPlan& plan, const Situation&) { return plan.kind != PoolKind::lp; }

bool columns_are_packed(const PoolPlan& plan, const Situation&) { return plan.x.space[2] == 1; }

bool is_spaced(const PoolAxis& a, int64_t stride) { return a.out == 1 || a.stride == stride; }

template <int kH, int kW, int kS>
bool has_window(const PoolPlan& plan, const Situation&) {
  const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
  return h.window == kH && h.dilation == 1 && (kH == 1 || is_spaced(h, kS)) && w.window == kW &&
         w.dilation == 1 && is_spaced(w, kS);
}

bool planes_make_vectors(const PoolPlan& plan, const Situation& situation) {
  return lane_bytes(plan, situation.alignment) != 0;
}

bool windows_are_small(const PoolPlan& plan, const Situation&) { return most_taps(plan) < 64; }

bool windows_are_large(const PoolPlan& plan, const Situation&) { return most_taps(plan) >= 64; }

bool taps_are_countable(const PoolPlan& plan, const Situation&) {
  return most_taps(plan) < kCountable;
}

bool windows_stand_alone(const PoolPlan& plan, const Situation& situation) {
  if (!windows_are_short(plan, situation)) return true;
  for (const PoolAxis& a : plan.axis)
    if (a.out > 1 && a.stride <= (a.window - 1) * a.dilation) return false;
  return true;
}

/// Windows that share taps along rows or columns.
bool windows_overlap(const PoolPlan& plan, const Situation&) {
  for (int i = 1; i < 3; ++i) {
    const PoolAxis& a = plan.axis[i];
    if (a.out > 1 && a.stride <= (a.window - 1) * a.dilation) return true;
  }
  return false;
}

bool tiles_are_small(const PoolPlan& plan, const Situation&) {
  for (const PoolAxis& a : plan.axis)
    if (a.window > kLongestChain || (a.window - 1) * a.dilation > kLongestChain ||
        a.stride > kLongestChain)
      return false;
  return separable_tile(plan).bytes(plan) <= kSeparableBytes;
}

bool is_separable(const PoolPlan& plan, const Situation& situation) {
  return is_no_norm(plan, situation) && is_common_type(plan, situation) &&
         size_of(plan.dtype) > 1 && !plan.with_indices;
}

constexpr Predicate<PoolPlan> kSmallOffsets = {"all offsets are below 2^31 elements",
                                               offsets_are_small};
constexpr Predicate<PoolPlan> kShortWindows = {"windows have at most 4096 taps", windows_are_short};
constexpr Predicate<PoolPlan> kCommonType = {
    "elements are float32, float16 or bfloat16, or int8 or uint8 without indices", is_common_type};
constexpr Predicate<PoolPlan> kNoNorm = {"it is max or average pooling", is_no_norm};
constexpr Predicate<PoolPlan> kPackedColumns = {"the input's columns are packed",
                                                columns_are_packed};

/// n threads, which loop where the grid is cut short.
Geometry threads_for(int64_t n, const Situation& situation) {
  const int64_t blocks = (n + kPoolThreads - 1) / kPoolThreads;
  const int64_t most = std::min(int64_t{situation.multiprocessors} * 256, kMostLoopBlocks);
  return {uint32_t(std::min(blocks, most)), kPoolThreads, 0, 0};
}

Geometry one_output_each(const PoolPlan& plan, const Situation& situation) {
  return threads_for(inner_outputs(plan), situation);
}

Geometry lane_geometry(const PoolPlan& plan, const Situation& situation) {
  const int planes = lane_bytes(plan, situation.alignment) / int(size_of(plan.dtype));
  return threads_for(inner_outputs(plan) / planes, situation);
}

template <int kH, int kW, int kS>
Geometry tile_geometry(const PoolPlan& plan, const Situation& situation) {
  return threads_for(tiles_of(plan, kH, kS), situation);
}

/// Windows are cut into pieces by their taps alone, so that sums do not change with the number of
/// outputs or the device's size.
Geometry reduce_geometry(const PoolPlan& plan, const Situation& situation) {
  const int64_t outputs = inner_outputs(plan), slots = kPoolThreads / reduce_members(plan);
  const int64_t groups = (outputs + slots - 1) / slots;
  const int64_t pieces = std::clamp<int64_t>(most_taps(plan) / kLeastPiece, 1, kMostPieces);
  const int64_t most = std::max(int64_t{situation.multiprocessors} * 256 / pieces, int64_t{1});
  const int64_t of_a_piece = std::min(std::max(groups, (outputs + pieces - 1) / pieces), most);
  return {uint32_t(of_a_piece * pieces), kPoolThreads, 0,
          pieces > 1 ? outputs * pieces * kReduceState : 0};
}

Geometry separable_geometry(const PoolPlan& plan, const Situation&) {
  const SeparableTile tile = separable_tile(plan);
  return {uint32_t(std::min(tiles_of(plan, tile), kMostLoopBlocks)), kPoolThreads, tile.bytes(plan),
          0};
}

template <int kH, int kW, int kS>
constexpr Kernel<PoolPlan> tile(const char* name, const char* window) {
  return {name,
          {{window, has_window<kH, kW, kS>},
           kPackedColumns,
           kNoNorm,
           kCommonType,
           kSmallOffsets,
           kShortWindows},
          tile_geometry<kH, kW, kS>};
}

constexpr Kernel<PoolPlan> kKernels[] = {
    tile<2, 2, 2>("pool_tile_2x2_s2", "rows and columns have windows of 2x2, 2 apart"),
    tile<3, 3, 2>("pool_tile_3x3_s2", "rows and columns have windows of 3x3, 2 apart"),
    tile<3, 3, 1>("pool_tile_3x3_s1", "rows and columns have windows of 3x3, 1 apart"),
    tile<1, 2, 2>("pool_tile_2_s2", "rows and columns have windows of 1x2, 2 apart"),
    tile<1, 3, 2>("pool_tile_3_s2", "rows and columns have windows of 1x3, 2 apart"),
    {"pool_lanes",
     {{"planes lie side by side in vectors of at least 4 bytes", planes_make_vectors},
      {"windows have fewer than 64 taps, however many outputs there are", windows_are_small},
      kCommonType,
      kSmallOffsets},
     lane_geometry},
    {"pool_reduce",
     {{"windows have at least 64 taps", windows_are_large},
      {"windows do not overlap or have more than 4096 taps", windows_stand_alone},
      {"windows have fewer than 2^31 taps", taps_are_countable},
      kSmallOffsets},
     reduce_geometry},
    {"pool_separable",
     {{"windows overlap along rows or columns", windows_overlap},
      {"it is max or average pooling of float32, float16 or bfloat16, without indices",
       is_separable},
      {"a tile of outputs and its windows take at most 40 KiB", tiles_are_small},
      kPackedColumns,
      kSmallOffsets,
      kShortWindows},
     separable_geometry},
    {"pool_window", {kSmallOffsets, kShortWindows}, one_output_each},
    {"pool_generic", {}, one_output_each},
};
static_assert(std::size(kKernels) == size_t(PoolKernel::count));

}  // namespace

int64_t most_taps(const PoolPlan& plan) {
  double taps = 1;
  for (const PoolAxis& a : plan.axis) taps *= double(std::min(a.window, a.in));
  return int64_t(std::min(taps, 0x1p62));
}

int64_t inner_outputs(const PoolPlan& plan) {
  int64_t n = plan.batch[0] * plan.batch[1];
  for (const PoolAxis& a : plan.axis) n *= a.out;
  return n;
}

PoolPlan in_slices(const PoolPlan& plan) {
  PoolPlan cut = plan;
  const auto fits = [&] { return offsets_are_small(cut, {}); };
  for (int d = 0; d < 2 && !fits(); ++d)
    if (cut.batch[d] > 1 && cut.outer_rank < kMaxRank) cut_batch(cut, d, fits);
  return fits() ? cut : plan;
}

bool planes_are_closest(const PoolPlan& plan) {
  return plan.batch[1] > 1 && plan.x.batch[1] < plan.x.space[2];
}

int64_t tiles_of(const PoolPlan& plan, int height, int stride) {
  const int64_t rows = tile_rows(height),
                columns = tile_columns(size_of(plan.dtype), height, stride);
  const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
  return plan.batch[0] * plan.batch[1] * plan.axis[0].out * ((h.out + rows - 1) / rows) *
         ((w.out + columns - 1) / columns);
}

int64_t SeparableTile::bytes(const PoolPlan& plan) const {
  const bool is_max = plan.kind == PoolKind::max;
  const int64_t width = int64_t{units} * (16 / int64_t(size_of(plan.dtype)));
  return int64_t{in_rows} * units * 16 + rows * width * (is_max ? int64_t(size_of(plan.dtype)) : 4);
}

SeparableTile separable_tile(const PoolPlan& plan) {
  constexpr int64_t kRows = 16, kColumns = 64;  // at most, in a block of 256 threads
  const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
  const int64_t n = 16 / int64_t(size_of(plan.dtype));
  const auto cut = [](int64_t size, int64_t most) {  // into equal parts
    const int64_t parts = (size + most - 1) / most;
    return (size + parts - 1) / parts;
  };
  const auto covered = [](const PoolAxis& a, int64_t outputs) {
    return (outputs - 1) * a.stride + (a.window - 1) * a.dilation + 1;
  };
  SeparableTile t;
  for (int64_t rows = kRows; rows > 0; rows /= 2) {
    t.rows = int32_t(cut(h.out, rows));
    t.columns = int32_t(cut(w.out, kColumns));
    t.in_rows = int32_t(covered(h, t.rows));
    t.units = int32_t((n - 1 + covered(w, t.columns) + n - 1) / n);
    if (t.bytes(plan) <= kSeparableBytes) break;
  }
  t.down = int32_t((h.out + t.rows - 1) / t.rows);
  t.across = int32_t((w.out + t.columns - 1) / t.columns);
  return t;
}

int64_t tiles_of(const PoolPlan& plan, const SeparableTile& tile) {
  return plan.batch[0] * plan.batch[1] * plan.axis[0].out * tile.down * tile.across;
}

int lane_bytes(const PoolPlan& plan, int64_t alignment) {
  if (plan.x.batch[1] != 1 || plan.y.batch[1] != 1) return 0;
  const int64_t item = int64_t(size_of(plan.dtype));
  int64_t bits = alignment | plan.batch[1] * item | plan.x.batch[0] * item | plan.y.batch[0] * item;
  for (int i = 0; i < 3; ++i) bits |= (plan.x.space[i] | plan.y.space[i]) * item;
  for (int i = 0; i < plan.outer_rank; ++i) bits |= (plan.outer[i].x | plan.outer[i].y) * item;
  return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 0;
}

uint32_t reduce_members(const PoolPlan& plan) {
  if (reduces_lanes(plan)) return kPoolThreads / 32;
  // A block's threads do as much beside the taps as a warp's, so a warp takes a window or a piece;
  // where pieces are no more but longer, a block does.
  return most_taps(plan) >= kLeastPiece * kMostPieces ? kPoolThreads : 32;
}

bool reduces_lanes(const PoolPlan& plan) { return plan.x.space[2] > 1; }

Kernels<PoolPlan> pool_kernels() { return kKernels; }

}  // namespace cudml::cuda
