// Max unpooling: what a caller asks for, what a kernel reads, and the rules between.
#pragma once

#include "core/hd.h"
#include "core/tensor.h"

namespace cudml {

struct UnpoolDesc {
  const char* op = "";  // the name that refusals begin with
  Dims output_sizes;    // of all dimensions
};

/// A batch dimension of all three tensors, with element strides.
struct UnpoolBatch {
  int64_t size = 1, x = 0, indices = 0, y = 0;
};

/// A spatial dimension of x and the indices.
struct UnpoolSource {
  int64_t size = 1, x = 0, indices = 0;
};

/// A spatial dimension of y.
struct UnpoolTarget {
  int64_t size = 1, y = 0;
};

/// The sizes of a spatial dimension.
struct UnpoolExtent {
  int64_t x = 1, y = 1;
};

/// What a kernel reads. Dimensions keep their order, that of source positions and of flat indices,
/// and are collapsed where memory allows; they are right-aligned. A plan without elements of y does
/// nothing.
struct UnpoolPlan {
  int item_size = 4;
  Dtype index_dtype = Dtype::uint32;
  uint64_t limit = 0;  // indices from here on are out of range
  int64_t step = 1;    // source positions to the next index of x's first spatial dimension
  UnpoolBatch batch[2];
  UnpoolSource source[3];
  UnpoolTarget target[3];
  UnpoolExtent extent[3];  // of the spatial dimensions as they are

  HD int64_t planes() const { return batch[0].size * batch[1].size; }
  HD int64_t plane_sources() const { return source[0].size * source[1].size * source[2].size; }
  HD int64_t plane_targets() const { return target[0].size * target[1].size * target[2].size; }
  HD int64_t sources() const { return planes() * plane_sources(); }
  HD int64_t targets() const { return planes() * plane_targets(); }
  bool is_empty() const { return targets() == 0; }
  int64_t compulsory_bytes() const;  // inputs read once, the output written once
};

/// Where a source position stands in x and in the indices, in elements.
struct UnpoolPlace {
  int64_t x, indices;
};
HD UnpoolPlace source_at(const UnpoolPlan& plan, int64_t position) {
  UnpoolPlace place{0, 0};
  for (int i = 2; i >= 0; --i) {
    const UnpoolSource& s = plan.source[i];
    const int64_t at = position % s.size;
    position /= s.size;
    place.x += at * s.x;
    place.indices += at * s.indices;
  }
  for (int i = 1; i >= 0; --i) {
    const UnpoolBatch& b = plan.batch[i];
    const int64_t at = position % b.size;
    position /= b.size;
    place.x += at * b.x;
    place.indices += at * b.indices;
  }
  return place;
}

/// Where the element of a flat index stands in y, in elements.
HD int64_t target_at(const UnpoolPlan& plan, int64_t flat) {
  int64_t offset = 0;
  for (int i = 2; i >= 0; --i) {
    offset += flat % plan.target[i].size * plan.target[i].y;
    flat /= plan.target[i].size;
  }
  for (int i = 1; i >= 0; --i) {
    offset += flat % plan.batch[i].size * plan.batch[i].y;
    flat /= plan.batch[i].size;
  }
  return offset;
}

/// Sizes of the result. Checks everything that does not need it.
Dims output_sizes(const UnpoolDesc& desc, const TensorDesc& x, const TensorDesc& indices);

/// Every check of the specification, then the plan.
UnpoolPlan make_plan(const UnpoolDesc& desc, const TensorDesc& x, const TensorDesc& indices,
                     const TensorDesc& y);

}  // namespace cudml
