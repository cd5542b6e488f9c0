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
constexpr int64_t kLongRunBytes = 512;  // between gathered places: longer ones are copied singly
/// Of a line, from which it pays to put the lines of memory together first.
constexpr int64_t kStreamedBytes = 512;
/// Elements of a line at most, and lines beside each other at least, of which one position is
/// written at a time: short lines cost more to begin than to fill.
constexpr int64_t kLongestShortLine = 24, kFewestShortLines = 16;
}  // namespace pad

/// Normalization by a group's own statistics (mvn/).
namespace mvn {
constexpr int64_t kShortestPiece = 16;   // elements, of a row in several places that rows takes
constexpr int64_t kBackBytes = 1 << 20;  // of x, written forwards after all of it was read
/// Of a row that is gone through in parts, as a call may have to end in the middle of it.
constexpr int64_t kHugeBytes = 64 << 20;
/// Bytes of x in a batch. With more of it reading no longer overlaps writing, unless it is ahead.
template <class T>
constexpr int64_t kBatchBytes = kIsHalf<T> ? 16384 : 4096;
constexpr int64_t kLeanBytes = 16384;  // the same without an activation, with shared scale and bias
/// Bytes of rows whose shared scale and bias leave the first-level cache. A few of these rows are
/// written in turns of kColumns elements.
constexpr int64_t kLongBytes = 8000, kColumns = 2048, kMostLongRows = 8, kLongBatchBytes = 1 << 19;
constexpr int64_t kMostConvertedRows = 4;  // the same where scale or bias is converted each time
/// Bytes of a row that are read ahead while another is summed and written. Only conversions leave
/// room for it.
template <class T>
constexpr int64_t kMostAhead = kIsHalf<T> ? 1 << 18 : 0;
constexpr int64_t kLineAheadBytes = 4096;  // in a batch that is written in turns: the rest is gone
constexpr int64_t kWidenedAhead = 4096;    // elements from widened rows, up to whole groups of rows
/// Floats of a shared scale or bias that are converted once: more cost more page faults than few
/// groups cost conversions. kMostMoved of them are copied to begin a line.
constexpr int64_t kMostRoom = 65536, kManyGroups = 64, kMostMoved = 16384;
constexpr int64_t kUnwatchedChunks = 64;  // of a sum, between two looks at the clock
/// Short groups that go from step to step together, so that divisions and roots do not wait for
/// each other: with fewer there is nothing to gain.
constexpr int64_t kLeastBatch = 8, kMostBatch = 16;
constexpr int64_t kPackedPiece = 32;  // elements; shorter pieces are packed rather than done singly
/// From rows of columns that are summed to those read ahead. To the first level, since the
/// processor itself foresees no lines of several rows in turn, and those of one stream later than
/// memory wants it.
constexpr int64_t kAheadBytes = 1 << 14;
/// From what is written of a run to what is read ahead. No multiple of a page: reading ahead where
/// the addresses' last 12 bits are those of results on their way to memory takes longer.
constexpr int64_t kRunAheadBytes = 10 << 10;
constexpr int64_t kGapBytes = 1 << 12;  // of x, from rows that are written to those read ahead
constexpr int64_t kWorthBytes = 1024;   // of a row: what it takes to find rows of several stretches
constexpr int64_t kFewestInPlace = 16;  // columns of a row that is not worth a copy
constexpr int64_t kLeastStep = 8;       // elements between columns: nearer ones are packed instead
/// Columns of a block's row. Rows of few are read in pieces that memory is slow to find; but blocks
/// should be many.
constexpr int64_t kMostColumns = 4096, kFewColumns = 1024, kFewestWideBlocks = 16;
constexpr int64_t kFarColumns = 16;   // of groups that are read one after the other
constexpr int64_t kEvenBytes = 2048;  // of a row made of several
/// Elements of a row of scale and bias that come again along a group: the first-level cache has
/// room for it beside x and y. The group is so many times as long.
constexpr int64_t kMostPeriod = 2048, kLeastPeriods = 8;
constexpr int64_t kMostUniform = 64;  // elements over which they are the same, of such a row
constexpr int64_t kMostWidened = 1024, kWidenedRows = 8;  // elements, rows: the first cache's half
}  // namespace mvn

// Short planes that are put side by side.
namespace turn {

/// So many of them, and bytes of all that is made of them: with what is found of them the
/// second-level cache has room. Longer planes have rows that are worth their own paths.
constexpr int64_t kLanes = 128, kBytes = 1 << 17;
/// There must be room for so many: beside fewer planes walking the windows takes longer than
/// joining them.
constexpr int64_t kFewest = 32;
/// Bytes of a row from which on its values are joined as fast where they stand.
constexpr int64_t kLongRow = 512;

}  // namespace turn

/// Tensors copied into another order for loops along rows (…/copied).
namespace copied {

/// Bytes of what is copied at once, which stays in the caches; elements of x that copies are worth.
constexpr int64_t kBlockBytes = 1 << 22, kFewestElements = 512;

}  // namespace copied

/// Pooling (pool/).
namespace pool {
/// Elements of a row that are worked on at a time: several rows of double stay in the first cache.
constexpr int64_t kRowElements = 2048;
constexpr int64_t kPlanesAtOnce = 256;  // of a task, of planes that one window covers
constexpr int64_t kLanesAtOnce = 2048;  // planes side by side: their values stay in the first cache
/// A window is cut into pieces of at least so many taps where there are few tasks.
constexpr int64_t kPieceTaps = 65536, kMostPieces = 1024, kFewTasks = 16;
constexpr int64_t kLeastChunk = 512;  // lanes of a task, before windows are cut
constexpr int64_t kUnwatched = 64;    // short tasks between two looks at the clock
/// Taps of the windows that pool/taps takes, but for averages of 3 x 3: more are joined with less
/// work along the rows first.
constexpr int64_t kMostTaps = 8;
constexpr int64_t kTaskBytes = 16384;  // of outputs, in a task of pool/taps
constexpr int64_t kSinkBytes = 1024;   // of a row: shorter ones are put together before they go out
/// Rows from kLongBytes on are fetched side by side, kNearBytes ahead in all, into the first cache;
/// shorter ones from front to back, one row of outputs ahead, into the second.
constexpr int64_t kNearBytes = 8192, kLongBytes = 32768;
/// Of values in a line of a strip: with what it is made from and what it becomes it stays in the
/// first cache. A strip has kMostLines of them at most.
constexpr int64_t kLineBytes = 8192, kMostLines = 128;
/// From one window to the next of packed columns that strips take, at most.
constexpr int64_t kMostPackedStride = 32;
/// How far ahead of a strip of whole rows memory is fetched: nearer, it comes too late.
constexpr int64_t kStripsAhead = 3;
/// Taps of planes side by side: rows of kLongRunBytes are read one by one, shorter ones in blocks,
/// as memory is read fastest from front to back.
constexpr int64_t kLongRunBytes = 1024, kRunBlockBytes = 2048, kRunAheadBytes = 16384;
constexpr int64_t kWidePixelBytes = 2048;  // of planes side by side
}  // namespace pool

/// Maxima with their positions (winners/).
namespace winners {
constexpr int64_t kMostFoldedRows =
    16;                                // of taps: what is known of them stays in registers or near
constexpr int64_t kLanesAtOnce = 512;  // planes side by side: keys, places and winners of each
/// Taps one after the other, for vectors of planes: at most so many, and above how many strips take
/// less where they fit, of 16-bit floats and of others; results that go past the caches together.
constexpr int64_t kMostLaneTaps = 64, kFewHalfTaps = 32, kFewLaneTaps = 12, kLaneRoom = 512;
/// Elements of the longest rows of pairs of columns that are turned, of floats and of 16-bit ones;
/// where windows have a third column, longer ones.
constexpr int64_t kShortPairs = 12, kShortHalfPairs = 20, kShortThird = 4;
}  // namespace winners

/// Normalization by statistics that are given (normalize/).
namespace normalize {
constexpr int64_t kShortestRow = 16;  // elements that one loop is begun for
/// Elements of a task: a part of a row, or several rows.
constexpr int64_t kPart = 1 << 14;
/// Rows whose statistics are there at once, so that memory is read on from row to row; bytes from a
/// row that is written past the caches to what is read ahead.
constexpr int64_t kMostRows = 1024, kRowAheadBytes = 16384;
constexpr int64_t kColumnsTask = 1 << 15;  // elements, about, where columns stand side by side
constexpr int64_t kStreamedRowBytes =
    8192;                                 // from which rows with lines filled in part are worth it
constexpr int64_t kShortRow = 32;         // elements: shorter stretches are packed, not done singly
constexpr int64_t kConverted = 4096;      // elements whose scale and bias are converted at once
constexpr int64_t kColumnsAtOnce = 1024;  // of a block: what belongs to each stays near
/// The same of rows of a large result that follow each other.
constexpr int64_t kMostJoined = 2048;
}  // namespace normalize

/// Statistics of groups (statistics/).
namespace statistics {
constexpr int64_t kShortestPiece = 16;  // elements, of a group that stands in several places
constexpr int64_t kLongPiece = 1024;    // elements, of a piece that is read for itself
constexpr int64_t kLeastStep = 8;       // elements between columns: nearer ones are packed instead
}  // namespace statistics

/// Gradients of pooling (pool_grad/).
namespace pool_grad {
/// Elements of a task of whole rows, and bytes of those that go to memory together: both stay in
/// the caches that they pass.
constexpr int64_t kRowElements = 1 << 14, kStagedBytes = 8192;
/// Columns at most, and rows of a plane: what is known of each stays in the second-level cache.
constexpr int64_t kMostColumns = 8192;
/// Rows from joining those of windows to joining their columns. Loads at other offsets wait until
/// the stores of the line have left the processor.
constexpr int64_t kMostLate = 15;
constexpr int64_t kRowAheadBytes = 8192;  // from what rows are joined of to what is fetched
/// Of averages by twos, vectors until rows repeat where vectors begin, whose lanes are kept, and
/// vectors of a task.
constexpr int64_t kMostPeriod = 128, kPairVectors = 1024;
constexpr int64_t kRowsAlike = 8;  // of a task at most, joined once where windows are apart
constexpr int64_t kPixels = 256;   // of a task, of planes side by side: divisors are found for each
/// Elements of all phases in a block: what is made of them stays in the second-level cache. Whole
/// rows are worth it where there is room for a few slices and rows, which windows reach out of.
constexpr int64_t kBlockElements = 8192, kFewestSlices = 2, kFewestRows = 8;
constexpr int64_t kGatherColumns = 2048;  // of a task: several lines of sums stay near
constexpr int64_t kMostPhases = 8;        // steps of windows whose columns are summed by phases
constexpr int64_t kLanesAtOnce = 512;     // planes side by side: their sums stay in the first cache
/// Columns of a task of Lp's rows: taps, sums, norms and gradients of each stay in the first cache.
constexpr int64_t kLpColumns = 1024;
constexpr int64_t kPieceElements = 4096;  // of a plane that one window covers, for threads to share
/// Maxima of pairs: elements of a task; of planes side by side, bytes of a group of these, and of
/// what windows or results of theirs take before they go out.
constexpr int64_t kPairElements = 1 << 15, kPairLaneBytes = 2048, kPairStagedBytes = 16384;
constexpr int64_t kKeysAheadBytes = 2048;  // from what keys are made of to what is fetched
/// Two rows of planes side by side of at most so many bytes are fetched while those above are read:
/// the second-level cache keeps them until then. Of longer ones, so much further on.
constexpr int64_t kNextRowsBytes = 1 << 17, kLanesAheadBytes = 4096;
/// Maxima by rows: elements of a block, which has two rows more than it writes; bytes from which
/// on a row goes past the caches.
constexpr int64_t kBlockRowElements = 1 << 16, kShortestPastBytes = 160;
/// The same of planes side by side: rows of windows of a block, and bytes of the places of their
/// winners, for which the second-level cache has room.
constexpr int64_t kLaneRowHeight = 8, kPlaceBytes = 1 << 18;
/// Blocks: taps of a window and elements from its first to its last, beyond which windows are
/// scattered; bytes of lanes of planes side by side, and of what their windows hold.
constexpr int64_t kMostBlockTaps = 128, kMostReach = 64;
constexpr int64_t kBlockLaneBytes = 512, kBlockWindowBytes = 1 << 17;
/// Scattered maxima: sums of the elements that a task owns, which stay in the first caches; planes
/// side by side of a task; windows of a row that are gone through at a time.
constexpr int64_t kScatterSums = 8192, kScatterLanes = 16, kScatterWindows = 1 << 16;
/// The same where sums are elements of the result: bytes of a task, and planes side by side.
constexpr int64_t kDirectBytes = 1 << 18, kDirectLanes = 256;
/// Maxima by rows: windows of a row of pairs of float64, else bytes of what a row of windows steps
/// over. Maxima by blocks: a window's taps times the steps between windows.
constexpr int64_t kLongPairs = 8, kLongRowBytes = 448, kMostBlockWork = 10;
/// Maxima of windows 1 apart: bytes of lines, of which the first cache holds 15. Of planes side by
/// side, longer ones, for the second cache: memory is read in whole pixels.
constexpr int64_t kStepRowBytes = 2048, kStepLaneBytes = 16384;
}  // namespace pool_grad

/// Unpooling (unpool/).
namespace unpool {
constexpr int64_t kMostLanes = 256;       // planes side by side: lines that are written by turns
constexpr int64_t kClearedBytes = 16384;  // of zeros that are put down before one is written over
/// Bytes that are asked for before they are cleared, and lines of these that are at a time.
constexpr int64_t kFetchedBytes = 1 << 17, kFetchedLines = 16;
/// Of a row of targets before it goes past the caches, and the fewest that are worth it.
constexpr int64_t kCellRowBytes = 4096, kFewestStreamed = 512;
constexpr int64_t kTaskBytes = 1 << 17;     // of targets
constexpr int64_t kFewestPairs = 128;       // sources of a packed row that are worth vectors
constexpr int64_t kUnwatched = 1 << 14;     // elements between two looks at the clock
constexpr int64_t kWatchedBytes = 1 << 20;  // the same of zeros
}  // namespace unpool

/// Gradients of padding (pad_grad/).
namespace pad_grad {
constexpr int64_t kPieceBytes = 256 * 1024;  // longer lines are cut for the threads to share
}  // namespace pad_grad

/// Gradients of normalization (mvn_grad/).
namespace mvn_grad {
/// Elements of short planes that are summed up together: adding up lanes costs as much as 64 do.
constexpr int64_t kJoinedElements = 1024;
/// Elements of planes of which several are taken in turn, and of a cell of them, which stays in the
/// second-level cache; bytes of x and grad of neighbouring cells that are taken so together.
constexpr int64_t kMostShortPlane = 1024, kMostShortCell = 131072, kLanesBytes = 384 << 10;
/// Elements of short cells that are taken step by step together, which the first-level cache holds,
/// and how many cells at most: divisions and roots of one take as long as reading 200 elements.
constexpr int64_t kBatchedElements = 2048, kMostBatchedCells = 8;
/// Elements of pieces whose scale and bias are repeated for each: longer ones are short planes.
constexpr int64_t kLongestSpread = 15;
/// Planes of a group that are taken one by one even where they are short: columns of few rows cost
/// more to begin than to read.
constexpr int64_t kFewPlanes = 256;
/// Elements of rows that are taken as such: what a row takes of its own is more than turning
/// shorter ones, and of longer ones the caches do not hold what a batch of them needs. Where scale
/// or bias vary along rows, there is only the plain path beside, and a thread has the memory for so
/// many.
constexpr int64_t kShortestRow = 32, kLongestRow = 16384, kLongestVariedRow = 1 << 20;
/// Rows longer than kLongestRow that make up a share of totals.
constexpr int64_t kLeastLongRows = 16;
/// Vectors of a row whose sums are one chain each: further chains cost more than they save.
constexpr int64_t kMostChained = 8;
/// Of float32 rows without parameters and activation, by vectors of 64 bytes and by others: slices
/// of planes take less of longer ones.
constexpr int64_t kLongestPlainRow[] = {2047, 16383};
/// Of rows with a scale or bias of their own.
constexpr int64_t kLongestOwnRow = 2048;
/// Rows that are taken together, and the bytes that these have in one tensor: half as many as the
/// first-level cache. A few longer rows are taken together while the second-level cache has room:
/// scale and totals are read once for them, and the next ones are asked for meanwhile.
constexpr int64_t kMostBatched = 16, kBatchBytes = 16384;
constexpr int64_t kLeastBatched = 8, kMostBatchBytes = 1 << 17;
/// The same of floats without totals, which memory is slower than: the first-level cache has room.
constexpr int64_t kLeastPlain = 4;
/// From a row to what is read ahead: memory takes as long as two passes over these.
constexpr int64_t kRowAheadBytes = 6144;
constexpr int64_t kGradColumns = 512;  // of a block: what belongs to each stays in the first cache
/// The same of floats where short vectors read few rows in turn: whole rows, so that memory is read
/// as it lies, are worth what the second-level cache takes to bring. Threads want so many shares.
constexpr int64_t kLongGradColumns = 2048, kLeastColumnShares = 16;
/// Parts that the rows of columns are added up by, and rows of one: to begin one and to keep its
/// sums takes as long as reading 64 short rows does.
constexpr int64_t kColumnParts = 64, kFewestPartRows = 256, kMostPartRows = 1024;
/// Columns that a thread takes all passes over are a multiple of so many, of at most so many bytes
/// of x and grad in all, which the third-level cache holds.
constexpr int64_t kStripeColumns = 64, kMostStripedBytes = 8 << 20;
constexpr int64_t kMostJoinedColumns = 8192;  // of rows of dx that make up one of whole lines
/// Elements of neighbouring cells that a thread takes all passes over: fewer are not worth their
/// beginnings, and the first-level cache holds no more.
constexpr int64_t kTurnElements = 8192;
/// Elements from one position to the next below which several positions make up a row of columns,
/// elements that such a row spans at most and at least, and the fewest rows, which share what each
/// column begins with.
constexpr int64_t kNearPositions = 16, kMostRepeated = 128, kLeastRepeated = 16;
constexpr int64_t kFewestRepeatedRows = 16;
/// Columns up to which two tiles are taken at once: longer rows are read as fast by halves.
constexpr int64_t kPairedFloats = 96, kPairedHalves = 320;
constexpr int64_t kMostNarrow = 112;  // columns up to which tiles of one vector may be better
/// Bytes that all tiles together take in turn, a few rows, at least so many: memory is read nearly
/// as it lies, for which processors look ahead.
constexpr int64_t kTurnBytes = 1024, kLeastTurn = 4;
/// Bytes of rows of whole lines from which tiles one line wide do so, and so many rows in turn:
/// a line of more rows is gone from the caches before the next one of each is wanted.
template <class T>
constexpr int64_t kLeastTurnedBytes = kIsHalf<T> ? 1024 : 512;
template <class T>
constexpr int64_t kLineTurn = kIsHalf<T> ? 8 : 4;
/// Rows of multiples of so many bytes fight for the same few places of the first-level cache, which
/// holds about so many of them.
constexpr int64_t kWayBytes = 2048, kFightingTurn = 8;
constexpr int64_t kGatheredBytes = 4096;  // of a row of dx at most: longer ones share few lines
constexpr int64_t kMostFold = 128;        // elements: longer packed pieces are planes
/// The same of pieces whose scale varies along them, as channels of a group that are stored last,
/// and how many of them: each element of a piece has sums of its own.
constexpr int64_t kMostSharedFold = 4096, kFewestPieces = 8;
/// Threads share each of fewer cells than these a thread, from so many slices on.
constexpr int64_t kFewCells = 4, kLargeSlices = 8;
constexpr int64_t kStreamedBytes = 8192;  // of a plane: shorter ones have too few whole lines
/// Elements of a cell whose gradients are kept between two passes: as floats the third-level cache
/// holds them, and a thread has the memory for them.
constexpr int64_t kMostKept = 1 << 21;
/// Elements of all cells of which columns keep them: each pass goes over x, grad and dx.
constexpr int64_t kMostKeptColumns = 1 << 20;
/// Of a cell side by side with others: a tile of so many rows stays in the second-level cache. So
/// does a block of so many elements; memory is slow to find shorter pieces of rows.
constexpr int64_t kMostCellRows = 1024, kBlockElements = 32768, kMostCells = 512;
/// The same without scale and bias: more are read as fast where they stand.
constexpr int64_t kMostBareRows = 24;
/// Of packed cells that are put side by side: so many elements share the lanes of what is added up
/// over them.
constexpr int64_t kTurnedElements = 16384;
constexpr int64_t kRowsAhead = 8;         // from the row that is copied of such a block
constexpr int64_t kSharedElements = 256;  // of a total, whose shares are added together
}  // namespace mvn_grad

/// Copies (memory/).
namespace memory {
constexpr int64_t kDirectBytes = 192;  // pieces from here on are not gathered, but for their ends
/// Rows that end before the processor has seen where they go are fetched, from so far ahead.
constexpr int64_t kFetchedBytes = 6144, kCopyAheadBytes = 4096;
/// Of a long batch: lines that were put together a moment ago cannot be loaded at once.
constexpr int64_t kRoomBytes = 8192;
constexpr int64_t kPieceBytes = 4096;  // that may be put down at a time
}  // namespace memory

/// Work for several threads (threads/).
namespace threads {
constexpr int64_t kBytesPerThread = 64 * 1024;  // fewer: waking a thread costs more than it saves
/// Of a part, from which its last grains are small. Some loops take a few tasks at once.
constexpr int64_t kBytesOfLarge = 1 << 20, kTasksOfLarge = 32;
constexpr int64_t kSpinMicroseconds = 20;  // that a thread looks for work before it sleeps
}  // namespace threads

}  // namespace cudml::cpu::tuning
