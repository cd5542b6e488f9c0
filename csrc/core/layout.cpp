// Overlap, aliasing and memory order of strided tensors.
#include "core/layout.h"

#include <algorithm>

namespace cudml {
namespace {

bool is_empty(const Dims& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 0; });
}

/// Distance in stride units from the first element to the last one.
int64_t span(const Dims& sizes, const Dims& strides) {
  int64_t sum = 0;
  for (int d = 0; d < sizes.rank; ++d) sum += (sizes[d] - 1) * strides[d];
  return sum;
}

/// Dimensions larger than 1, by descending stride.
struct SortedDims {
  int rank = 0;
  int order[kMaxRank] = {};

  SortedDims(const Dims& sizes, const Dims& strides) {
    for (int d = 0; d < sizes.rank; ++d)
      if (sizes[d] > 1) order[rank++] = d;
    std::stable_sort(order, order + rank, [&](int a, int b) { return strides[a] > strides[b]; });
  }
};

/// Whether some sum of steps[i] * strides[i], each step between its limits, lies in (low, high).
/// Strides descend and are positive; `budget` bounds the work.
struct StepSearch {
  int rank = 0;
  int64_t stride[kMaxRank], least[kMaxRank], most[kMaxRank];
  int64_t least_rest[kMaxRank + 1], most_rest[kMaxRank + 1];  // sums over the dimensions from i on
  int64_t low, high;
  int budget = 20000;

  void add(int64_t step, int64_t fewest, int64_t greatest) {
    stride[rank] = step;
    least[rank] = fewest;
    most[rank++] = greatest;
  }

  Overlap run() {
    least_rest[rank] = most_rest[rank] = 0;
    for (int d = rank - 1; d >= 0; --d) {
      least_rest[d] = least_rest[d + 1] + least[d] * stride[d];
      most_rest[d] = most_rest[d + 1] + most[d] * stride[d];
    }
    return at(0, 0);
  }

  Overlap at(int d, int64_t sum) {
    if (--budget < 0) return Overlap::unknown;
    if (d == rank) return low < sum && sum < high ? Overlap::some : Overlap::none;
    const auto ceil_div = [](int64_t a, int64_t b) { return a / b + (a % b > 0); };
    const auto floor_div = [](int64_t a, int64_t b) { return a / b - (a % b < 0); };
    const int64_t first = std::max(least[d], ceil_div(low + 1 - sum - most_rest[d + 1], stride[d]));
    const int64_t last =
        std::min(most[d], floor_div(high - 1 - sum - least_rest[d + 1], stride[d]));
    for (int64_t step = first; step <= last; ++step) {
      const Overlap found = at(d + 1, sum + step * stride[d]);
      if (found != Overlap::none) return found;
    }
    return Overlap::none;
  }
};

bool have_equal_strides(const Footprint& a, const Footprint& b) {
  if (a.sizes.rank != b.sizes.rank) return false;
  for (int d = 0; d < a.sizes.rank; ++d)
    if (a.sizes[d] > 1 && b.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

bool is_dense(const Footprint& f) {
  int64_t expected = f.item_size;
  const SortedDims sorted(f.sizes, f.strides);
  for (int i = sorted.rank - 1; i >= 0; --i) {
    const int d = sorted.order[i];
    if (f.strides[d] != expected) return false;
    expected *= f.sizes[d];
  }
  return true;
}

}  // namespace

Footprint footprint_of(const TensorView& tensor) {
  Footprint f;
  f.base = reinterpret_cast<uintptr_t>(tensor.data);
  f.item_size = int64_t(size_of(tensor.dtype));
  f.sizes = tensor.sizes;
  f.strides = tensor.strides;
  for (int d = 0; d < f.strides.rank; ++d)
    f.strides[d] = f.sizes[d] > 1 ? f.strides[d] * f.item_size : 0;
  return f;
}

void check_output_strides(const char* op, const char* field, const TensorDesc& output) {
  if (is_empty(output.sizes)) return;
  const SortedDims sorted(output.sizes, output.strides);
  int64_t reach = 0;  // offset of the last element of the dimensions seen so far
  for (int i = sorted.rank - 1; i >= 0; --i) {
    const int d = sorted.order[i];
    check(output.strides[d] > reach, op, ": ", field, ".Strides[", d, "] is ", output.strides[d],
          "; it must be greater than ", reach,
          ", the span of the faster dimensions, or two elements would share memory");
    reach += (output.sizes[d] - 1) * output.strides[d];
  }
}

void check_extent(const char* op, const char* field, const TensorDesc& tensor) {
  if (is_empty(tensor.sizes)) return;
  using Wide = __int128;
  const Wide limit = Wide(1) << 62;
  const auto item = Wide(size_of(tensor.dtype));
  Wide elements = item, last = item;
  for (int d = 0; d < tensor.rank(); ++d) {
    elements *= tensor.sizes[d];
    check(elements <= limit, op, ": ", field, ".Sizes are ", tensor.sizes,
          "; together they must not exceed 2^62 bytes");
    if (tensor.sizes[d] > 1) last += Wide(tensor.sizes[d] - 1) * tensor.strides[d] * item;
    check(last <= limit, op, ": ", field, ".Strides[", d, "] is ", tensor.strides[d],
          "; the last element must lie within 2^62 bytes of the first");
  }
}

Overlap overlap(const Footprint& a, const Footprint& b) {
  if (is_empty(a.sizes) || is_empty(b.sizes)) return Overlap::none;
  const auto end = [](const Footprint& f) {
    return f.base + span(f.sizes, f.strides) + f.item_size;
  };
  if (end(a) <= b.base || end(b) <= a.base) return Overlap::none;
  if (is_dense(a) && is_dense(b)) return Overlap::some;
  if (!have_equal_strides(a, b)) return Overlap::unknown;

  // The elements at i in a and j in b meet where base_a - base_b + sum (i - j) * stride lies in
  // (-item_a, item_b).
  Dims sizes = a.sizes, strides = a.strides;
  for (int d = 0; d < sizes.rank; ++d) {
    if (a.sizes[d] <= 1) strides[d] = b.strides[d];
    sizes[d] = std::max(a.sizes[d], b.sizes[d]);
  }
  StepSearch search;
  const SortedDims sorted(sizes, strides);
  for (int i = 0; i < sorted.rank; ++i) {
    const int d = sorted.order[i];
    if (strides[d] > 0) search.add(strides[d], 1 - b.sizes[d], a.sizes[d] - 1);
  }
  const int64_t distance = int64_t(a.base) - int64_t(b.base);
  search.low = -a.item_size - distance;
  search.high = b.item_size - distance;
  return search.run();
}

bool is_alias(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || a.dtype != b.dtype || !(a.sizes == b.sizes)) return false;
  for (int d = 0; d < a.rank(); ++d)
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

void check_no_overlap(const char* op, const char* output_field, const Footprint& output,
                      const char* other_field, const Footprint& other) {
  switch (overlap(output, other)) {
    case Overlap::none: return;
    case Overlap::some:
      refuse(op, ": ", output_field, " shares memory with ", other_field,
             "; an output must not overlap any other tensor of the call");
    case Overlap::unknown:
      refuse(op, ": ", output_field, " and ", other_field,
             " lie in the same range of memory with different strides, and whether they share an "
             "element cannot be decided; an output must not overlap any other tensor of the call");
  }
}

Dims strides_like(const Dims& sizes, const TensorDesc& like) {
  // Sizes of 1 and broadcast dimensions say nothing about the order; they go outermost unless the
  // others are in row- or column-major order already.
  const auto is_free = [&](int d) { return like.sizes[d] <= 1 || like.strides[d] == 0; };
  const int rank = sizes.rank;
  bool row_major = true, column_major = true;
  int64_t previous = -1;
  for (int d = 0; d < rank; ++d) {
    if (is_free(d)) continue;
    if (previous >= 0) {
      row_major &= previous >= like.strides[d];
      column_major &= previous <= like.strides[d];
    }
    previous = like.strides[d];
  }
  int order[kMaxRank];
  for (int d = 0; d < rank; ++d) order[d] = row_major || !column_major ? d : rank - 1 - d;
  if (!row_major && !column_major)
    std::stable_sort(order, order + rank, [&](int a, int b) {
      if (is_free(a) || is_free(b)) return is_free(a) && !is_free(b);
      return like.strides[a] > like.strides[b];
    });
  Dims strides = Dims::filled(rank, 1);
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return strides;
}

}  // namespace cudml
