// Where a padded element comes from.
#pragma once

#include <cstdint>

#include "core/hd.h"

namespace cudml {

/// Values are DirectML's.
enum class Border : uint8_t { constant = 0, edge = 1, reflection = 2, symmetric = 3, wrap = 4 };

template <class I>
HD I floor_mod(I i, I n) {
  const I r = i % n;
  return r < 0 ? r + n : r;
}

/// The element of [0, n) that stands at position i, inside or outside; -1 means the constant.
/// 2 * n must fit I.
template <class I>
HD I border_index(Border mode, I i, I n) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case Border::constant: return -1;
    case Border::edge: return i < 0 ? 0 : n - 1;
    case Border::wrap: return floor_mod(i, n);
    case Border::symmetric: {  // ... b a | a b c | c b ...
      const I r = floor_mod(i, 2 * n);
      return r < n ? r : 2 * n - 1 - r;
    }
    case Border::reflection: {  // ... c b | a b c | b a ...
      if (n == 1) return 0;
      const I r = floor_mod(i, 2 * (n - 1));
      return r < n ? r : 2 * (n - 1) - r;
    }
  }
  return -1;
}

}  // namespace cudml
