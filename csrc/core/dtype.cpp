// What dtype.h keeps out of every object: the refusal of an element type that a kernel lacks.
#include "core/dtype.h"

#include "core/check.h"

namespace cudml {

void refuse_dtype(Dtype dtype) {
  refuse_type("element type ", name_of(dtype), " has no kernel here");
}

}  // namespace cudml
