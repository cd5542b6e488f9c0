// The kernels of max unpooling, how they cut the work, and what they keep between launches.
#pragma once

#include "cuda/choose.h"

namespace cudml::cuda {

inline constexpr uint32_t kUnpoolThreads = 256;

/// In the order of the list.
enum class UnpoolKernel : int { near, generic, count };

/// Whether source positions need 64 bits. One more than each is kept; 0 is none.
inline bool are_claims_wide(const UnpoolPlan& plan) { return plan.sources() >= 0xffffffff; }

/// How a loop over `n` source positions or elements of the result is launched.
Geometry unpool_geometry(int64_t n);

/// The workspace begins with a word that asks for the generic launches; claims follow.
inline constexpr int64_t kUnpoolFlagBytes = 256;

/// Which of a plan's tensors follow each other in memory, by position.
struct UnpoolPacked {
  bool x = true, indices = true, y = true;

  explicit UnpoolPacked(const UnpoolPlan& plan);
};

/// Elements of the result that a block keeps claims of.
inline constexpr int64_t kUnpoolTile = 8192;

/// Some elements of the result and the source positions that may name them: those that stand in the
/// plane where they do, and `reach` more on either side. Of these, [own, own_end) are in no other.
struct UnpoolChunk {
  int64_t target, targets;  // the first one, how many
  int64_t source, source_end;
  int64_t own, own_end;

  HD bool holds(int64_t position) const { return position >= source && position < source_end; }
};

HD int64_t lower(int64_t a, int64_t b) { return a < b ? a : b; }

/// Planes, several small ones together, in chunks.
struct UnpoolChunks {
  int64_t sources = 0, targets = 0;            // of all
  int64_t unit_sources = 1, unit_targets = 1;  // of some planes
  int64_t units = 0, chunks = 1, reach = 0;    // chunks of a unit

  explicit UnpoolChunks(const UnpoolPlan& plan);

  HD int64_t count() const { return units * chunks; }
  HD UnpoolChunk at(int64_t number) const {
    const int64_t unit = number / chunks, begin = number % chunks * kUnpoolTile;
    const int64_t last = lower(begin + kUnpoolTile, unit_targets);
    const int64_t first = unit * unit_sources, end = lower(first + unit_sources, sources);
    UnpoolChunk c;
    c.target = unit * unit_targets + begin;
    c.targets = lower(last - begin, targets - c.target);
    c.own = first + begin * unit_sources / unit_targets;
    c.own_end = lower(first + last * unit_sources / unit_targets, end);
    c.source = c.own - reach < first ? first : c.own - reach;
    c.source_end = lower(c.own_end + reach, end);
    return c;
  }
  /// The chunk of an element of the result.
  HD int64_t number_of(int64_t target) const {
    const int64_t unit = target / unit_targets;
    return unit * chunks + (target - unit * unit_targets) / kUnpoolTile;
  }
};

}  // namespace cudml::cuda
