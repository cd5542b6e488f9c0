// Stands in for csrc/cuda in a build without a CUDA toolkit.
#include "cuda/device.h"

namespace cudml::cuda {

DeviceQuery query_devices() { return {}; }

}  // namespace cudml::cuda
