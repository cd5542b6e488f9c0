// Where pooling puts its outputs: neighbouring ones are assembled in the first cache and written
// together, whole lines past the caches where the output is large.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/simd/copy.h"
#include "cpu/simd/stream.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kSinkSlack = 128;

/// Writes a vector of values as elements past the caches; `p` is a multiple of what that takes.
template <class Op>
inline void store_past(const Op& op, typename Op::Element* p, const Vector<typename Op::V>& v) {
  constexpr int kBytes = kLanes<typename Op::V> * int(sizeof(*p));
  typename Op::Element room[kLanes<typename Op::V>];
  op.store(room, v);
  if constexpr (kBytes >= 16) {
    stream_vector(p, load_vector<Vector<char, kBytes>>(room));
  } else {
    std::memcpy(p, room, kBytes);
  }
}

template <class T>
class Sink {
 public:
  /// What may be put down in one piece.
  static constexpr int64_t kPiece = tuning::memory::kPieceBytes / int64_t(sizeof(T));

  Sink(T* y, bool streamed) : y_(y), streamed_(streamed) {}
  Sink(const Sink&) = delete;
  ~Sink() { flush(true); }

  /// Where the caller is to put the n <= kPiece outputs that stand `offset` elements from y on; it
  /// may write kSinkSlack bytes more.
  T* room(int64_t offset, int64_t n) {
    if (offset != start_ + fill_) {
      flush(true);
      start_ = offset;
    } else if (fill_ + n > kCapacity || fill_ >= kShort) {
      flush(false);
    }
    T* place = room_ + fill_;
    fill_ += n;
    return place;
  }

 private:
  static constexpr int64_t kLine = 64 / int64_t(sizeof(T));
  static constexpr int64_t kCapacity = 2 * kPiece + kLine;
  /// What is not worth a wait for more: reads stand still while long runs are written.
  static constexpr int64_t kShort = kPiece / 2;

  /// Writes everything, or all but the end of the last line, which waits for its neighbours.
  [[gnu::noinline]] void flush(bool all) {
    T* to = y_ + start_;
    int64_t n = fill_;
    if (!all) n -= int64_t(reinterpret_cast<uintptr_t>(to + n) & 63) / int64_t(sizeof(T));
    if (n <= 0) return;
    if (streamed_)
      stream_bytes(to, room_, n * int64_t(sizeof(T)));
    else
      copy_bytes(to, room_, n * int64_t(sizeof(T)));
    copy_short(reinterpret_cast<char*>(room_), reinterpret_cast<const char*>(room_ + n),
               (fill_ - n) * int64_t(sizeof(T)));
    start_ += n;
    fill_ -= n;
  }

  T* y_;
  bool streamed_;
  int64_t start_ = 0, fill_ = 0;
  alignas(64) T room_[kCapacity + kSinkSlack / int64_t(sizeof(T))];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
