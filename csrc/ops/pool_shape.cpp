// Geometry checks of pooling, and the dimensions of a plan.
#include "ops/pool_shape.h"

#include <algorithm>
#include <limits>

namespace cudml {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kUintMax = 4294967295;
constexpr int64_t kExtentMax = 2147483647;

void check_length(const PoolDesc& desc, const char* field, const Dims& values) {
  check(values.rank == desc.axes.rank, desc.op, ": ", field, " has ", values.rank,
        " elements; DimensionCount, the number of pooled dimensions, is ", desc.axes.rank);
}

void check_range(const PoolDesc& desc, const char* field, const Dims& values, int64_t least) {
  for (int i = 0; i < values.rank; ++i)
    check(values[i] >= least && values[i] <= kUintMax, desc.op, ": ", field, "[", i, "] is ",
          values[i], "; it must be between ", least, " and ", kUintMax);
}

void check_structure(const PoolDesc& desc, const Dims& input, const PoolTensorNames& names) {
  check(input.rank >= 1 && input.rank <= kMaxRank, desc.op, ": ", names.input,
        ".DimensionCount is ", input.rank, "; it must be between 1 and ", kMaxRank);
  check(desc.axes.rank >= 1 && desc.axes.rank <= 3, desc.op, ": Axes has ", desc.axes.rank,
        " elements; 1 to 3 dimensions can be pooled");
  for (int i = 0; i < desc.axes.rank; ++i) {
    const int64_t axis = desc.axes[i];
    check(axis >= 0 && axis < input.rank, desc.op, ": Axes[", i, "] is ", axis,
          "; it must be between 0 and ", input.rank - 1);
    check(i == 0 || axis > desc.axes[i - 1], desc.op, ": Axes[", i, "] is ", axis,
          "; axes must ascend strictly, and Axes[", i - 1, "] is ", i ? desc.axes[i - 1] : 0);
  }
  check_length(desc, "Strides", desc.strides);
  check_length(desc, "WindowSize", desc.window_size);
  check_length(desc, "StartPadding", desc.start_padding);
  check_length(desc, "EndPadding", desc.end_padding);
  check_length(desc, "Dilations", desc.dilations);
  if (desc.output_rule == OutputRule::given) check_length(desc, "output_sizes", desc.output_sizes);
}

int64_t window_extent(const PoolDesc& desc, int i) {
  return saturating_sum(saturating_product(desc.window_size[i] - 1, desc.dilations[i]), 1);
}

int64_t padded_size(const PoolDesc& desc, const Dims& input, int i) {
  return saturating_sum(input[int(desc.axes[i])], desc.start_padding[i] + desc.end_padding[i]);
}

void check_products(const PoolDesc& desc, const Dims& input, const PoolTensorNames& names, int i) {
  const int axis = int(desc.axes[i]);
  const int64_t extent = window_extent(desc, i), padded = padded_size(desc, input, i);
  check(extent <= kExtentMax, desc.op, ": WindowSize[", i, "] is ", desc.window_size[i],
        " and Dilations[", i, "] is ", desc.dilations[i],
        "; the extent 1 + (WindowSize - 1) * Dilations is ", extent, " and must not exceed ",
        kExtentMax);
  check(padded <= kExtentMax, desc.op, ": ", names.input, ".Sizes[", axis, "] is ", input[axis],
        ", StartPadding[", i, "] is ", desc.start_padding[i], " and EndPadding[", i, "] is ",
        desc.end_padding[i], "; the padded size is ", padded, " and must not exceed ", kExtentMax);
  check(extent <= padded, desc.op, ": WindowSize[", i, "] is ", desc.window_size[i],
        " with Dilations[", i, "] ", desc.dilations[i], ", an extent of ", extent,
        "; it must not exceed the padded size ", padded, " (", names.input, ".Sizes[", axis, "] ",
        input[axis], " + StartPadding[", i, "] ", desc.start_padding[i], " + EndPadding[", i, "] ",
        desc.end_padding[i], ")");
}

PoolAxis make_axis(const PoolDesc& desc, const Dims& input, const Dims& output, int i) {
  const int d = int(desc.axes[i]);
  PoolAxis a;
  a.in = input[d];
  a.out = output[d];
  a.window = desc.window_size[i];
  a.start = desc.start_padding[i];
  a.end = desc.end_padding[i];
  a.dilation = a.window == 1 ? 1 : desc.dilations[i];
  a.stride = a.out == 1 ? 1 : std::min(desc.strides[i], a.in + a.start + a.end);
  return a;
}

/// Strides of one dimension; where there is a single element any stride is allowed, and none is
/// used.
PoolDim make_dim(const PoolOperands& t, int64_t in, int64_t out, int d) {
  const auto stride = [d](const Dims* strides, int64_t size) {
    return strides && size != 1 ? (*strides)[d] : 0;
  };
  return {in,
          stride(t.x, in),
          stride(t.y, out),
          stride(t.indices, out),
          stride(t.flat, in),
          stride(t.result, in)};
}

/// Where a dimension stands in memory: x's stride, or y's where x is broadcast or absent. One that
/// moves in neither comes first: what runs along memory stands last. So does one of a single
/// element of x, wherever its windows stand in y: sums are added in the order of x's memory.
int64_t memory_key(const PoolDim& dim) {
  if (dim.size == 1) return kLargest;
  return dim.x ? dim.x : dim.y ? dim.y : kLargest;
}

bool merges(const PoolDim& outer, const PoolDim& inner) {
  const int64_t n = inner.size;
  return outer.x == inner.x * n && outer.y == inner.y * n && outer.indices == inner.indices * n &&
         outer.flat == inner.flat * n && outer.result == inner.result * n;
}

void collapse_batch(PoolDims& dims) {
  std::stable_sort(
      dims.batch, dims.batch + dims.batch_rank,
      [](const PoolDim& a, const PoolDim& b) { return memory_key(a) > memory_key(b); });
  int kept = 0;
  for (int i = 0; i < dims.batch_rank; ++i) {
    PoolDim dim = dims.batch[i];
    if (kept > 0 && merges(dims.batch[kept - 1], dim)) {
      dim.size *= dims.batch[--kept].size;
    }
    dims.batch[kept++] = dim;
  }
  dims.batch_rank = kept;
}

/// Axis and dimension of one spatial place, moved together.
struct Place {
  PoolAxis axis;
  PoolDim dim;
};

/// The one window of the axis covers exactly the input, no padding.
bool is_whole(const PoolAxis& a) {
  return a.out == 1 && a.dilation == 1 && a.window == a.in && a.start == 0 && a.end == 0;
}

/// Windows of the axis follow each other without gaps and cover exactly the input.
bool is_tiled(const PoolAxis& a) {
  return a.dilation == 1 && a.start == 0 && a.stride == a.window && a.window * a.out == a.in;
}

/// Joins the last two places where one window covers both and memory runs through.
bool join_whole(Place* place) {
  const Place& outer = place[1];
  Place& inner = place[2];
  const int64_t n = inner.axis.in;
  if (!is_whole(outer.axis) || !is_whole(inner.axis)) return false;
  if (outer.dim.x != inner.dim.x * n || outer.dim.flat != inner.dim.flat * n) return false;
  if (outer.dim.result != inner.dim.result * n) return false;
  if (outer.axis.in == 1 || outer.axis.in > kExtentMax / n) return false;
  inner.axis.in = inner.axis.window = outer.axis.in * n;
  place[1] = place[0];
  place[0] = Place{};
  return true;
}

/// One element under one window: taps are visited in the same order wherever it stands.
bool is_single(const Place& place) { return place.axis.in == 1 && place.axis.out == 1; }

/// Loops run along the last axis, which is to be one of several elements.
void arrange(Place* place, int axes, bool ordered) {
  if (ordered)
    std::stable_partition(place + 3 - axes, place + 3, is_single);
  else
    std::stable_sort(place + 3 - axes, place + 3, [](const Place& a, const Place& b) {
      return memory_key(a.dim) > memory_key(b.dim);
    });
  while (join_whole(place)) {
  }
}

/// The windows of a tiled axis as a dimension of the batch, before which the axis is one window.
PoolDim tiles_of(Place& place) {
  PoolAxis& a = place.axis;
  PoolDim& d = place.dim;
  const int64_t n = a.window;
  const PoolDim tiles{a.out, d.x * n, d.y, d.indices, d.flat * n, d.result * n};
  a.in = n;
  a.out = a.stride = 1;
  d = n == 1 ? PoolDim{} : PoolDim{1, d.x, 0, 0, d.flat, d.result};
  return tiles;
}

/// Windows that cover some axes and tile the others are whole planes of a larger batch, where what
/// each sees can be walked as one axis. Of maxima the batch must not take more loops than it did;
/// sums may not be told how many dimensions of the batch have several elements (D-TEN-9).
void set_apart(Place* place, PoolDims& dims, int axes, bool ordered, bool is_max) {
  Place apart[3];
  PoolDims more = dims;
  bool has_whole = false, has_tiles = false;
  for (int i = 0; i < 3; ++i) {
    apart[i] = place[i];
    if (is_whole(place[i].axis)) {
      has_whole |= place[i].axis.in > 1;
    } else if (is_tiled(place[i].axis)) {
      more.batch[more.batch_rank++] = tiles_of(apart[i]);
      has_tiles = true;
    } else {
      return;
    }
  }
  if (!has_whole || !has_tiles) return;
  arrange(apart, axes, ordered);
  collapse_batch(more);
  if (apart[1].axis.in > 1 || apart[0].axis.in > 1) return;
  if (is_max && more.batch_rank > std::max(2, dims.batch_rank)) return;
  std::copy_n(apart, 3, place);
  dims = more;
}

void place_space(PoolPlan& plan, PoolDims& dims, const Place* place) {
  PoolStrides* tensors[] = {&plan.x, &plan.y, &plan.indices, &plan.flat};
  for (int i = 0; i < 3; ++i) {
    plan.axis[i] = place[i].axis;
    const PoolDim& dim = dims.space[i] = place[i].dim;
    const int64_t strides[] = {dim.x, dim.y, dim.indices, dim.flat};
    for (int t = 0; t < 4; ++t) tensors[t]->space[i] = strides[t];
  }
}

}  // namespace

int64_t saturating_product(int64_t a, int64_t b) {
  return a != 0 && b > kLargest / a ? kLargest : a * b;
}

int64_t saturating_sum(int64_t a, int64_t b) { return a > kLargest - b ? kLargest : a + b; }

void check_geometry(const PoolDesc& desc, const Dims& input, const PoolTensorNames& names) {
  check_structure(desc, input, names);
  for (int64_t axis : desc.axes)
    check(input[int(axis)] >= 1, desc.op, ": ", names.input, ".Sizes[", axis, "] is ",
          input[int(axis)], "; a pooled dimension must have at least 1 element");
  check_range(desc, "Strides", desc.strides, 1);
  check_range(desc, "WindowSize", desc.window_size, 1);
  check_range(desc, "StartPadding", desc.start_padding, 0);
  check_range(desc, "EndPadding", desc.end_padding, 0);
  check_range(desc, "Dilations", desc.dilations, 1);
  check(desc.kind != PoolKind::lp || desc.p >= 1, desc.op, ": P is ", desc.p,
        "; it must be between 1 and ", kUintMax);
  for (int i = 0; i < desc.axes.rank; ++i) check_products(desc, input, names, i);
}

OutputRange output_range(const PoolDesc& desc, const Dims& input, int i) {
  const int64_t room = padded_size(desc, input, i) - window_extent(desc, i);
  const int64_t step = desc.strides[i];
  return {room / step + 1, (room + step - 1) / step + 1};
}

PoolDims place_dimensions(PoolPlan& plan, const PoolDesc& desc, const Dims& input,
                          const Dims& output, const PoolOperands& operands, bool ordered) {
  PoolDims dims;
  Place place[3];
  for (int d = 0, i = 0; d < input.rank; ++d) {
    if (i < desc.axes.rank && desc.axes[i] == d) {
      place[3 - desc.axes.rank + i] = {make_axis(desc, input, output, i),
                                       make_dim(operands, input[d], output[d], d)};
      ++i;
    } else if (input[d] != 1) {
      dims.batch[dims.batch_rank++] = make_dim(operands, input[d], input[d], d);
    }
  }
  collapse_batch(dims);
  arrange(place, desc.axes.rank, ordered);
  set_apart(place, dims, desc.axes.rank, ordered, desc.kind == PoolKind::max);
  place_space(plan, dims, place);
  plan.outer_rank = std::max(0, dims.batch_rank - 2);
  for (int i = 0; i < dims.batch_rank; ++i) {
    const PoolDim& dim = dims.batch[i];
    if (i < plan.outer_rank) {
      plan.outer[i] = {dim.size, dim.x, dim.y, dim.indices, dim.flat};
      continue;
    }
    const int b = 2 - (dims.batch_rank - i);
    plan.batch[b] = dim.size;
    plan.x.batch[b] = dim.x;
    plan.y.batch[b] = dim.y;
    plan.indices.batch[b] = dim.indices;
    plan.flat.batch[b] = dim.flat;
  }
  return dims;
}

void check_same_sizes(const char* op, const char* field, const Dims& sizes, const Dims& expected,
                      const char* reason) {
  check(sizes.rank == expected.rank, op, ": ", field, ".DimensionCount is ", sizes.rank,
        "; it must be ", expected.rank, ", ", reason);
  for (int d = 0; d < sizes.rank; ++d)
    check(sizes[d] == expected[d], op, ": ", field, ".Sizes[", d, "] is ", sizes[d],
          "; it must be ", expected[d], ", ", reason);
}

void check_pool_dtype(const char* op, const char* field, Dtype dtype, bool integers) {
  check_type(integers || is_float(dtype), op, ": ", field, ".DataType is ", name_of(dtype),
             "; it must be float16, bfloat16, float32 or float64");
}

}  // namespace cudml
