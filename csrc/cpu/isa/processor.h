// What is known of a processor beside its instruction set, by measurement.
#pragma once

#include <cstdint>

namespace cudml::cpu {

struct Processor {
  /// Whether runs of memory arrive sooner where the program asks for what comes next. Zen 4 fetches
  /// runs by itself; told to as well, it takes 1.1 to 2 times as long (global pooling, maxima over
  /// a length, 3 x 3 windows on rows). Others gained 1.1 to 1.8.
  bool is_told_of_runs = true;
  int64_t level1_bytes = 32 << 10;  // of data, that a core has at the first level

  /// Whether pieces do that are read in turn, a few bytes of each at a time, and begin `apart`
  /// bytes from each other. Zen 4 foresees near ones as it does runs: asked for as well, they
  /// take 1.05 to 1.4 times as long; from 512 bytes on it does not, and they take up to 2.5 times
  /// as long unasked.
  bool is_told_of_pieces(int64_t apart) const { return is_told_of_runs || apart >= 512; }
};

/// Of the processor this runs on; found out when the library is loaded.
extern const Processor processor;

}  // namespace cudml::cpu
