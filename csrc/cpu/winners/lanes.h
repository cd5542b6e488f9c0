// Lanes of max pooling with indices: values that compare as elements do, and where they stand.
#pragma once

#include <limits>

#include "cpu/simd/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

// A lane type V holds values so that they compare as the elements do, and takes them back to the
// same bits. Positions are what `flat` says, counted from the plane's first element, and kNowhere
// for what is no element.

template <class V>
using Position = std::conditional_t<sizeof(V) == 8, int64_t,
                                    std::conditional_t<sizeof(V) == 2, int16_t, int32_t>>;

template <class V>
constexpr Position<V> kNowhere = std::numeric_limits<Position<V>>::max();

template <class T>
struct WinnerLanes {
  using Element = T;
  using V = Acc<T>;
  static V none() { return -std::numeric_limits<V>::infinity(); }
  Vector<V> load(const T* p) const { return load_floats(p); }
  void store(T* p, Vector<V> v) const {
    if constexpr (std::is_same_v<T, BFloat16>)
      store_vector(p, __builtin_convertvector(same_bits<Vector<uint32_t>>(v) >> 16, HalfBits));
    else
      store_floats(p, v);
  }
};

/// Integers S, as `flip` makes signed ones of them.
template <class S>
struct WinnerIntegers {
  using Element = S;
  using V = std::conditional_t<sizeof(S) == 8, int64_t, int32_t>;
  using U = std::make_unsigned_t<S>;
  using Packed = Vector<S, kVectorBytes / int(sizeof(V) / sizeof(S))>;
  using Bits = Vector<U, kVectorBytes / int(sizeof(V) / sizeof(S))>;
  U flip = 0;

  static V none() { return std::numeric_limits<S>::min(); }
  Vector<V> load(const S* p) const {
    const Bits bits = load_vector<Bits>(p) ^ flip;
    return __builtin_convertvector(with_words(same_bits<Packed>(bits)), Vector<V>);
  }
  void store(S* p, Vector<V> v) const {
    using Half = std::conditional_t<sizeof(S) == 1, Words, Packed>;
    const auto narrow = __builtin_convertvector(__builtin_convertvector(v, Half), Packed);
    store_vector(p, same_bits<Bits>(narrow) ^ flip);
  }

 private:
  using Words = Vector<int16_t, kVectorBytes / 2>;
  /// Bytes by way of words: GCC takes single steps of size by the vector, others by the lane.
  static auto with_words(const Packed& v) {
    if constexpr (sizeof(S) == 1)
      return __builtin_convertvector(v, Words);
    else
      return v;
  }
};

/// wins() of math/reducer.h, lane by lane; where no value is NaN a comparison is enough.
template <class V, bool kHasNans = std::is_floating_point_v<V>>
inline Vector<Position<V>> wins_of(const Vector<V>& best, const Vector<V>& v) {
  if constexpr (kHasNans) return ~(v <= best) & (best == best);
  return v > best;
}

/// Whether both are equal, or NaNs.
template <class V>
inline Vector<Position<V>> is_as_large(const Vector<V>& v, const Vector<V>& best) {
  if constexpr (std::is_floating_point_v<V>) return (v == best) | ((v != v) & (best != best));
  return v == best;
}

/// Takes value v at position `at` where it wins: for taps in visiting order by wins_of() alone, for
/// taps in any order also where it is as large and stands earlier.
template <class V, bool kInOrder = true>
inline void offer(Vector<V>& best, Vector<Position<V>>& place, const Vector<V>& v,
                  const Vector<Position<V>>& at) {
  auto wins = wins_of<V>(best, v);
  if constexpr (!kInOrder) wins |= is_as_large<V>(v, best) & (at < place);
  best = wins ? v : best;
  place = wins ? at : place;
}

/// A line of values and their positions.
template <class V>
struct WinnerLine {
  V* value;
  Position<V>* place;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
