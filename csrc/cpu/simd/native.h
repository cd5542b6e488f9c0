// The instruction set's own file: each says the same words, which loops then share.
//
// What each of them has: kLaneIndices, kDoubleIndices; stream_bits; load_halves, store_halves,
// load_wide and store_narrow of part of a vector; widen, narrow, widen_one, narrow_one,
// upper_halves, kNarrowsBFloat16, kNarrowsPairs; fused, at_least, by_sign, gated_product,
// quotient, root; as_doubles, as_floats; all_of, is_zero, times_power; kTableBits, looked_up,
// kPermutes, permuted, lanes_of; opaque; LaneSet, nan_lanes, is_any; as_words; pick_bytes,
// merged_line.
#pragma once

#if defined(__x86_64__)
#include "cpu/simd/x86.h"
#elif defined(__aarch64__)
#include "cpu/simd/arm.h"
#else
#include "cpu/simd/unknown.h"
#endif
