// The paths of padding on the CPU, first choice first.
#include <cstring>
#include <type_traits>

#include "cpu/isa/families.h"
#include "cpu/memory/tuning.h"
#include "cpu/pad/packed.h"
#include "cpu/pad/rows_of_lines.h"
#include "cpu/pad/seams.h"
#include "cpu/pad/short_lines.h"
#include "cpu/pad/streamed_lines.h"
#include "cpu/pad/turned.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kStreamedLine = tuning::pad::kStreamedBytes;

/// Bytes of y where it is packed, else 0.
int64_t packed_bytes(const PadPlan& plan) {
  int64_t elements = 1;
  for (int d = plan.rank - 1; d >= 0; --d) {
    if (plan.axis[d].out > 1 && plan.axis[d].y_stride != elements) return 0;
    elements *= plan.axis[d].out;
  }
  return elements * plan.item_size;
}

bool is_past_caches(const PadPlan& plan) {
  const int64_t bytes = packed_bytes(plan);
  return bytes > 0 && is_copy_streamed(bytes);
}

/// Lines of a packed result, ready to be written; where they do not suit, prepare() says so.
bool prepare(const PadPlan& plan, PackedLines& lines) {
  return lines.prepare(plan, line_of(plan), packed_bytes(plan), is_past_caches(plan));
}

bool is_result_packed(const PadPlan& plan, const Machine&) { return packed_bytes(plan) > 0; }
bool is_result_large(const PadPlan& plan, const Machine&) { return is_past_caches(plan); }

bool are_lines_packed(const PadPlan& plan, const Machine&) {
  PackedLines lines;
  return prepare(plan, lines);
}

bool have_narrow_seams(const PadPlan& plan, const Machine&) {
  Seams seams;
  return seams.prepare(plan, line_of(plan));
}

/// Smaller vectors put a line together 3 to 10 times slower than pad/packed writes it.
bool has_line_vectors(const PadPlan&, const Machine&) { return kHasLineVectors; }

bool are_lines_short(const PadPlan& plan, const Machine&) { return fits_short_lines(plan); }

bool are_lines_long(const PadPlan& plan, const Machine&) {
  const Line line = line_of(plan);
  return line.axis.out * line.run * plan.item_size >= kStreamedLine;
}

/// The first element of x that is read.
const void* x_of(const PadPlan& plan, const Arrays& a) {
  return static_cast<const char*>(a.inputs[0]) + plan.x_first * plan.item_size;
}

void pad_seams(const PadPlan& plan, const Arrays& a) {
  const Line line = line_of(plan);
  Seams seams;
  seams.prepare(plan, line);
  if constexpr (kHasLineVectors)
    write_packed<SeamOutput>(plan, x_of(plan, a), a.outputs[0], line.outer_rank, seams);
}

void pad_packed(const PadPlan& plan, const Arrays& a) {
  PackedLines lines;
  prepare(plan, lines);
  write_packed<PackedOutput>(plan, x_of(plan, a), a.outputs[0], line_of(plan).outer_rank, lines);
}

/// Calls fn(x, y, the constant) with the arrays as integers of the elements' size.
template <class Fn>
void as_items(const PadPlan& plan, const Arrays& a, const Fn& fn) {
  const auto run = [&]<class T>(T value) {
    std::memcpy(&value, plan.value.bytes, sizeof value);
    fn(static_cast<const T*>(x_of(plan, a)), static_cast<T*>(a.outputs[0]), value);
  };
  switch (plan.item_size) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return run(uint32_t{});
    default: return run(uint64_t{});
  }
}

bool is_turned(const PadPlan& plan, const Machine&) {
  switch (plan.item_size) {
    case 1: return TurnedCopy<uint8_t>::fits(plan);
    case 2: return TurnedCopy<uint16_t>::fits(plan);
    case 4: return TurnedCopy<uint32_t>::fits(plan);
    default: return TurnedCopy<uint64_t>::fits(plan);
  }
}

void pad_turned(const PadPlan& plan, const Arrays& a) {
  as_items(plan, a, [&]<class T>(const T* x, T* y, T) {
    TurnedCopy<T>(plan, x, y).run(plan.compulsory_bytes());
  });
}

void pad_short_lines(const PadPlan& plan, const Arrays& a) {
  as_items(plan, a, [&]<class T>(const T* x, T* y, T value) {
    const Line line = line_of(plan);
    const int outer_rank = line.outer_rank - 1;
    const ShortLines<T> writer(line.axis, plan.axis[outer_rank], value);
    write_all(plan, x, y, outer_rank, line.axis.out, writer);
  });
}

void pad_streamed_lines(const PadPlan& plan, const Arrays& a) {
  as_items(plan, a, [&]<class T>(const T* x, T* y, T value) {
    const Line line = line_of(plan);
    stream_all(plan, x, y, line, LineWriter<T>(line, value));
  });
}

void pad_plain(const PadPlan& plan, const Arrays& a) {
  if (plan.axis[0].out == 0) return;
  as_items(plan, a, [&]<class T>(const T* x, T* y, T value) {
    const Line line = line_of(plan);
    write_all(plan, x, y, line.outer_rank, line.run, LineWriter<T>(line, value));
  });
}

constexpr Predicate<PadPlan> kPackedResult{"the result is packed", is_result_packed};
constexpr Predicate<PadPlan> kLargeResult{
    "the result is packed and larger than what the caches keep", is_result_large};
constexpr Predicate<PadPlan> kPackedLines{
    "lines are packed, of 8 bytes to 64 KB, with regular borders of at most 2 KB, which are "
    "constant "
    "or gathered from runs of less than 512 bytes, in the caches",
    are_lines_packed};

constexpr Path<PadPlan> kPaths[] = {
    {"pad/turned",
     {{"there are no pads, and other elements are packed in x than in the result, in squares as "
       "long as vectors",
       is_turned}},
     pad_turned,
     {18.4, "no pads, 1x1x128x128x128, uint8, columns first to rows first, on Zen 4"}},
    {"pad/seams",
     {{"the processor has vectors that fill a line of memory", has_line_vectors},
      kLargeResult,
      kPackedLines,
      {"rows are 64 to 640 bytes, and their borders at most 64", have_narrow_seams}},
     pad_seams,
     {1.8, "32 constant 6-D, 8x4x16x16x32x32, float16 C"}},
    {"pad/packed",
     {kPackedResult, kPackedLines},
     pad_packed,
     {2.48, "30 symmetric (2,4,4), 2x1x155x240x240, float32 C"}},
    {"pad/short_lines",
     {{"lines are at most 24 elements, under a dimension of 16 or more", are_lines_short}},
     pad_short_lines},
    {"pad/streamed_lines",
     {kLargeResult, {"lines are at least 512 bytes", are_lines_long}},
     pad_streamed_lines,
     {1.31, "47 reflect space, edge time, 1x128x18x256x256, bfloat16 L"}},
    {"pad/plain", {}, pad_plain},
};

}  // namespace

Paths<PadPlan> pad_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
