// The parts of pooling without indices, which pool/paths.cpp chooses among.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/simd/vector.h"
#include "ops/pool.h"

namespace cudml::cpu::CUDML_ISA {

enum class ValuePath {
  taps,
  lane_thirds,
  plane_thirds,
  short_rows,
  packed_planes,
  fourths,
  pairs,
  strips,
  short_planes,
  planes,
  side_by_side,
  plain
};

void max_values(const PoolPlan& plan, ValuePath path, const void* x, void* y);
void average_values(const PoolPlan& plan, ValuePath path, const void* x, void* y);
void lp_values(const PoolPlan& plan, ValuePath path, const void* x, void* y);

using tuning::pool::kMostTaps;

/// What loops are compiled for.
struct Loops {
  PoolKind kind;
  int bytes;      // of an element
  bool is_float;  // float32 or float64

  /// The usual operators and types, whose vectors are finished one by one.
  constexpr bool are_usual() const {
    return kind != PoolKind::lp && (bytes <= 2 || (bytes == 4 && is_float));
  }
};

/// Whether there are loops of a path for such plans, on processors for which code is not kept
/// small.
constexpr bool has_loops(ValuePath path, Loops of) {
  const bool is_max = of.kind == PoolKind::max;
  switch (path) {
    case ValuePath::taps:
    case ValuePath::plane_thirds: return of.are_usual();
    case ValuePath::lane_thirds:
    case ValuePath::short_rows: return of.are_usual() && is_max && of.bytes > 1;
    case ValuePath::fourths: return of.are_usual() && of.bytes > 1;
    case ValuePath::pairs:
      return of.are_usual() || (of.kind == PoolKind::lp && of.bytes == 4 && of.is_float);
    case ValuePath::short_planes: return of.kind == PoolKind::average && of.bytes == 2;
    default: return true;
  }
}

/// Whether a path is compiled at all.
constexpr bool is_compiled(ValuePath path) {
  switch (path) {
    case ValuePath::taps:
    case ValuePath::lane_thirds:
    case ValuePath::plane_thirds:
    case ValuePath::fourths:
    case ValuePath::short_planes: return !kIsKeptSmall;
    case ValuePath::short_rows: return kTurnsVectors;
    default: return true;
  }
}

}  // namespace cudml::cpu::CUDML_ISA
