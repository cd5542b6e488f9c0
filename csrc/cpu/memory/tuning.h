// What the loops of the CPU were tuned by, one room after the other: distances from what is worked
// on to what is fetched, sizes of pieces and tasks, and the sizes from which one way beats another.
//
// They were measured where a core has 48 KB of first-level and 1 MB of second-level cache, and
// lines have 64 bytes. Results are right by any value. What orders sums (chunks, chains), what
// formats and vectors demand, and the room of buffers stand with the loops.
#pragma once

#include "core/scalar.h"

namespace cudml::cpu::tuning {

/// Padding (pad/).
namespace pad {
constexpr int64_t kLongestSeamBytes = 640;  // of a row: longer ones have few seams
/// From what is written to what is fetched, of seams and of packed lines, from a cache that is far:
/// the processor itself fetches lines of the output late.
constexpr int64_t kSeamAheadBytes = 2048, kPackedAheadBytes = 2048;
constexpr int64_t kLongestPackedBytes = 64 * 1024;  // longer lines are cut for the threads to share
constexpr int64_t kChunkBytes = 256 * 1024;         // the same of those that are not packed
/// Of a line, from which it pays to put the lines of memory together first.
constexpr int64_t kStreamedBytes = 512;
/// Elements of a line at most, and lines beside each other at least, of which one position is
/// written at a time: short lines cost more to begin than to fill.
constexpr int64_t kLongestShortLine = 24, kFewestShortLines = 16;
}  // namespace pad

}  // namespace cudml::cpu::tuning
