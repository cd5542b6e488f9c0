// Elements of a line of a gradient of padding that have several terms. They stand at its ends,
// mostly.
#pragma once

#include <numeric>

#include "cpu/pad_grad/gather.h"
#include "cpu/simd/convert.h"
#include "cpu/simd/lanes.h"
#include "cpu/simd/single.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// A line: the folded axis, at each of whose positions `run` elements stand packed. Positions
/// follow each other in memory, or lie apart.
struct GradLine {
  static constexpr int64_t kLeastRun = 16;  // elements that are worth a position of their own

  PadGradAxis axis;
  int64_t run = 1;
  bool has_runs = false, is_packed = false;  // one run, or none, behind the axis; no gaps

  explicit GradLine(const PadGradPlan& plan) : axis(plan.axis[plan.folded]) {
    if (plan.folded < plan.rank - 2) return;
    if (plan.folded == plan.rank - 2) {
      const PadGradAxis& inside = plan.axis[plan.rank - 1];
      if (inside.is_padded() || inside.grad_stride != 1 || inside.stride != 1) return;
      run = inside.out;
    }
    has_runs = true;
    is_packed = (axis.out == 1 || axis.grad_stride == run) && (axis.in == 1 || axis.stride == run);
    if (axis.mode == Border::wrap && is_packed) split();
  }

 private:
  /// What goes round goes round as well by whole runs of elements, as an axis does that channels
  /// lay behind: its ends are as many vectors then, and not elements that are looked up one by one.
  void split() {
    const int64_t each = std::gcd(std::gcd(axis.in, axis.out), axis.start);
    if (each < kLeastRun) return;
    for (int64_t* n : {&axis.in, &axis.out, &axis.start, &axis.inner_begin, &axis.inner_end})
      *n /= each;
    axis.grad_stride *= each;
    axis.stride *= each;
    run *= each;
  }
};

/// Their terms, as offsets from the line's first position.
struct Ends {
  static constexpr int64_t kMost = 1024, kMostTerms = 4096;

  int64_t count = 0;
  int64_t element[kMost];
  int32_t first[kMost + 1];  // of an element's offsets, which end where the next one's begin
  int64_t offset[kMostTerms];

  int64_t terms(int64_t e) const { return first[e + 1] - first[e]; }

  /// False where there are too many.
  bool prepare(const GradLine& line) {
    const PadGradAxis& a = line.axis;
    if (a.in - (a.inner_end - a.inner_begin) > kMost) return false;
    int64_t terms = 0;
    for (int64_t i = a.inner_begin > 0 ? 0 : a.inner_end; i < a.in; ++i) {
      const Preimages p = preimages_of(a, i);
      if (p.count > kChain || terms + p.count > kMostTerms) return false;
      if (p.count > 1) {
        element[count] = i;
        first[count++] = int32_t(terms);
        for (int64_t k = 0; k < p.count; ++k) offset[terms++] = p.at(k) * a.grad_stride;
      }
      if (i + 1 == a.inner_begin) i = a.inner_end - 1;
    }
    first[count] = int32_t(terms);
    return true;
  }
};

/// The same by vectors, where each has two terms: that of its own position, as all elements have,
/// and one that is a lane of a vector nearby.
struct EndVectors {
  static constexpr int64_t kMost = 32, kMostOthers = 2;

  /// Lane l of those that have the term gets element index[l] from `at` on.
  struct Other {
    int64_t at;
    LaneIndices index, has;
  };
  /// Elements [element, element + kFloats) of a line.
  struct Group {
    int64_t element, count;
    Other other[kMostOthers];
  };

  int64_t count = 0;  // none where they do not suit
  Group group[kMost];

  void prepare(const GradLine& line, const Ends& ends) {
    if (!line.is_packed || line.run != 1 || line.axis.in < kFloats) return;
    int64_t end = 0;  // of the elements that are in a group
    for (int64_t e = 0; e < ends.count; ++e) {
      if (ends.element[e] < end) continue;
      if (count == kMost) return void(count = 0);
      Group& g = group[count];
      g.element = std::min(ends.element[e], line.axis.in - kFloats);
      if (!fill(line, ends, g)) return void(count = 0);
      end = g.element + kFloats;
      ++count;
    }
  }

 private:
  static bool fill(const GradLine& line, const Ends& ends, Group& g) {
    constexpr int64_t kNone = INT64_MAX;
    int64_t position[kFloats];  // of the lanes' other terms that are not in the group yet
    std::fill_n(position, kFloats, kNone);
    for (int64_t e = 0; e < ends.count; ++e) {
      const int64_t lane = ends.element[e] - g.element;
      if (lane < 0 || lane >= kFloats) continue;
      if (ends.terms(e) != 2) return false;
      const int64_t* const both = ends.offset + ends.first[e];
      position[lane] = both[both[0] == line.axis.start + ends.element[e]];
    }
    for (g.count = 0;; ++g.count) {
      const int64_t first = *std::min_element(position, position + kFloats);
      if (first == kNone) return true;
      if (g.count == kMostOthers) return false;
      Other& o = g.other[g.count] =
          Other{std::min(first, line.axis.out - kFloats), LaneIndices{}, LaneIndices{}};
      for (int64_t lane = 0; lane < kFloats; ++lane) {
        if (position[lane] >= o.at + kFloats) continue;
        o.index[lane] = int32_t(position[lane] - o.at);
        o.has[lane] = -1;
        position[lane] = kNone;
      }
    }
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
