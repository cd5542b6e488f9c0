// Bulk copies: ranges of shared memory that one thread asks for, each with a barrier there that
// waits for one arrival and for the bytes which that expects.
#pragma once

#include "async_copies.h"

namespace cudml::simt {

void begin_copy_barrier(const void* barrier, uint32_t arrivals, Site site);
/// The copy engine sees the barriers that the running thread has begun.
void show_copy_barriers();
/// Of the one arrival.
void expect_bytes(const void* barrier, uint32_t bytes, Site site);
void ask_bulk_copy(const void* barrier, void* to, const void* from, uint32_t bytes, Site site);
/// The barrier's copy, which the running thread is to carry out and then to end, or null where that
/// has been done. Waits until it has been asked for.
const AsyncCopy* awaited_copy(const void* barrier, uint32_t parity, Site site);
void end_bulk_copy(const void* barrier);

/// At a block's begin and end: its memory goes to another when it returns.
void begin_bulk_copies(int rank);
void check_bulk_copies(int rank);

}  // namespace cudml::simt
