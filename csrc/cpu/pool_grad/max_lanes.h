// Max pooling's gradient in vectors of neighbouring planes: keys of elements, the winners of a row
// of windows, and what these hand to a row of elements.
#pragma once

#include "cpu/pool_grad/covers.h"
#include "cpu/pool_grad/max_windows.h"
#include "cpu/simd/stream.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Numbers of taps as large as the sums that they are told apart for.
template <class T>
using LaneTap = IntegerLike<Acc<T>>;

/// Pixels of `lanes` planes each, `step` elements apart.
template <class A>
struct Pixels {
  A* at;
  int64_t step, count;
};

/// Calls body(from, to) with the places of vectors that cover all lanes of all pixels, of which the
/// last of a pixel may overlap the one before; pixels become `pitch` apart. Fewer lanes than a
/// vector has go by way of a room.
template <int64_t kStep, class A, class B, class Body>
[[gnu::always_inline]] inline void for_lanes(Pixels<A> from, int64_t lanes, B* to, int64_t pitch,
                                             const Body& body) {
  if (from.step == lanes && pitch == lanes) {
    lanes *= from.count;
    from.count = 1;
  }
  for (int64_t c = 0; c < from.count; ++c, from.at += from.step, to += pitch) {
    if (lanes < kStep) {
      std::remove_const_t<A> room[kStep] = {};
      std::copy_n(from.at, lanes, room);
      body(room, to);
      continue;
    }
    for (int64_t i = 0; i + kStep <= lanes; i += kStep) body(from.at + i, to + i);
    if (lanes % kStep != 0) body(from.at + lanes - kStep, to + lanes - kStep);
  }
}

/// Keys of pixels.
template <class T>
[[gnu::noinline]] void load_lane_keys(Pixels<const T> x, int64_t lanes, RowKey<T>* to,
                                      int64_t pitch) {
  using Keys = Vector<RowKey<T>>;
  for_lanes<kLanes<RowKey<T>>>(x, lanes, to, pitch, [&](const T* from, RowKey<T>* key) {
    store_vector(key, keys_of<T>(load_vector<Keys>(from)));
  });
}

/// Gradients of planes that are `plane` elements apart.
template <class T>
[[gnu::noinline]] void load_lane_grads(Pixels<const T> grad, int64_t lanes, int64_t plane,
                                       int64_t ahead, Acc<T>* to, int64_t pitch) {
  if (plane != 1) {
    for (int64_t c = 0; c < grad.count; ++c)
      load_grads<T>(to + c * pitch, grad.at + c * grad.step, plane, lanes);
    return;
  }
  for_lanes<kLanes<Acc<T>>>(grad, lanes, to, pitch, [&](const T* from, Acc<T>* sum) {
    const char* const next = reinterpret_cast<const char*>(from) + ahead * int64_t(sizeof(T));
    __builtin_prefetch(next, 0, 2);
    store_vector(sum, load_floats(from));
  });
}

/// A row of windows: `count` of them, whose taps are `step` keys further on each.
template <class T>
struct LaneWindows {
  const RowKey<T>* const* taps;
  int64_t taps_count, step, count, pitch;
  LaneTap<T>* winner;
};

template <class T>
void store_taps(LaneTap<T>* to, const Vector<RowKey<T>>& tap) {
  if constexpr (sizeof(T) == 2) {
    store_vector(to, wide_taps<0>(tap));
    store_vector(to + kRowLanes, wide_taps<1>(tap));
  } else {
    store_vector(to, tap);
  }
}

/// Winners of a row of windows: the first of the largest taps; -1 where no tap is real. kTaps is
/// their number, or 0 for any.
template <int kTaps, class T>
[[gnu::noinline]] void find_lane_winners(const LaneWindows<T>& windows) {
  using K = RowKey<T>;
  const LaneWindows<T> w = windows;
  const int64_t taps = kTaps ? kTaps : w.taps_count;
  const K* line[kTaps ? kTaps : 1];
  for (int k = 0; k < kTaps; ++k) line[k] = w.taps[k];
  for (int64_t c = 0; c < w.count; ++c)
    for (int64_t i = 0; i < w.pitch; i += kLanes<K>) {
      const int64_t at = c * w.step + i;
      auto best = all_lanes(std::numeric_limits<K>::min()), tap = all_lanes(K{-1}), number = tap;
#pragma GCC unroll 9
      for (int64_t k = 0; k < taps; ++k) {
        const auto key = load_vector<Vector<K>>((kTaps ? line[k] : w.taps[k]) + at);
        number += 1;
        tap = key > best ? number : tap;
        best = key > best ? key : best;
      }
      store_taps<T>(w.winner + c * w.pitch + i, tap);
    }
}

template <class T>
void find_winners(const LaneWindows<T>& w) {
  if (w.taps_count == 4) return find_lane_winners<4>(w);
  if (w.taps_count == 8) return find_lane_winners<8>(w);
  if (w.taps_count == 9) return find_lane_winners<9>(w);
  find_lane_winners<0>(w);
}

/// Windows that cover elements alike: their winners and gradients, and the taps that elements are.
template <class T>
struct LaneCovers {
  static constexpr int kMost = 32;

  const LaneTap<T>* winner[kMost];
  const Acc<T>* grad[kMost];
  LaneTap<T> number[kMost];
  int64_t count = 0;
};

/// Elements of columns that are equally far apart get what the windows over them hand out, in the
/// order of taps. kCovers is the number of windows, or 0 for any. Pixels of `next` are fetched, one
/// for each that is written: reads wait for none of the stores.
template <int kCovers, bool kStreamed, class T>
[[gnu::noinline]] void hand_out_lanes(const LaneCovers<T>& covers, int64_t pitch,
                                      const Pixels<T>& to, const Pixels<const T>& next) {
  using Sum = Acc<T>;
  using Taps = Vector<LaneTap<T>>;
  const LaneTap<T>* winner[kCovers ? kCovers : 1];
  const Sum* grad[kCovers ? kCovers : 1];
  Taps number[kCovers ? kCovers : 1];
  for (int k = 0; k < kCovers; ++k) {
    winner[k] = covers.winner[k];
    grad[k] = covers.grad[k];
    number[k] = all_lanes(covers.number[k]);
  }
  const int64_t count = kCovers ? kCovers : covers.count;
  T* dst = to.at;
  const T* ahead = next.at;
  for (int64_t c = 0, at = 0; c < to.count; ++c, dst += to.step, ahead += next.step)
    for (int64_t i = 0; i < pitch; i += kLanes<Sum>, at += kLanes<Sum>) {
      __builtin_prefetch(ahead + i, 0, 3);
      Vector<Sum> sum = {};
#pragma GCC unroll 4
      for (int64_t k = 0; k < count; ++k) {
        const auto won = load_vector<Taps>((kCovers ? winner[k] : covers.winner[k]) + at);
        const auto more = load_vector<Vector<Sum>>((kCovers ? grad[k] : covers.grad[k]) + at);
        const Taps tap = kCovers ? number[k] : all_lanes(covers.number[k]);
        sum = won == tap ? sum + more : sum;
      }
      if constexpr (!kStreamed)
        store_floats(dst + i, sum);
      else if constexpr (std::is_same_v<T, double>)
        stream_vector(dst + i, sum);
      else
        stream_narrow(dst + i, sum);
    }
}

template <bool kStreamed, class T>
void hand_out(const LaneCovers<T>& covers, int64_t pitch, const Pixels<T>& to,
              const Pixels<const T>& next) {
  if (covers.count == 1) return hand_out_lanes<1, kStreamed>(covers, pitch, to, next);
  if (covers.count == 2) return hand_out_lanes<2, kStreamed>(covers, pitch, to, next);
  if (covers.count == 4) return hand_out_lanes<4, kStreamed>(covers, pitch, to, next);
  hand_out_lanes<0, kStreamed>(covers, pitch, to, next);
}

/// What paths by blocks of planes have: how these are cut, and the tensors.
template <class T, class Shape>
class LaneBlocks {
 public:
  LaneBlocks(const Shape& shape, const void* x, const void* grad, void* result)
      : s_(shape),
        f_(shape.f),
        x_(static_cast<const T*>(x)),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)) {}

 protected:
  /// Calls block(task, room) for each of them; those of a thread have a room together.
  template <class Room, class Block>
  void run_blocks(const Block& block) const {
    const TaskSpace space = s_.tasks();
    parallel_for(space.count(), s_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      Room room(s_);
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { block(task, room); });
    });
  }

  const Shape& s_;
  const PoolPlan& f_;
  const T* const x_;
  const T* const grad_;
  T* const result_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
