// Normalization of rows that stay in shared memory, a block's own or that of a cluster, in the
// parts that mvn_split cuts and with its sums: equal bits.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "cuda/bulk.cuh"
#include "cuda/mvn_parts.cuh"

namespace cudml::cuda {

/// Which parts of a row a block keeps: `per_block` neighbours, dealt to teams of kMvnThreads
/// threads in turn. A part's accesses lie next to each other in shared memory.
struct MvnDeal {
  uint32_t blocks = 1, per_block = 1, teams = 1;  // of a row, of a block
  uint32_t parts = 1, part_size = 0;              // of a row, in elements

  MvnDeal(const MvnParts& cut, const Geometry& geometry)
      : blocks(geometry.cluster),
        per_block(uint32_t(ceil_div(cut.count, geometry.cluster))),
        teams(geometry.threads / kMvnThreads),
        parts(uint32_t(cut.count)),
        part_size(uint32_t(cut.elements)) {}
};

/// One part of a row and the shared memory that holds its whole accesses, as its team sees them.
template <class T, RowParameters kParameters>
struct MvnKeptPart {
  static constexpr uint32_t kN = kVector<T>;
  using Row = MvnRow<T, true, kParameters>;
  using Slot = RowSlot<T>;

  MvnPart part;
  uint32_t own;       // its number in the block
  uint32_t thread;    // of the team
  uint32_t accesses;  // whole ones
  Slot* memory;

  __device__ __forceinline__ MvnKeptPart(const MvnDeal& deal, uint32_t rank, uint32_t turn,
                                         uint32_t length, Slot* all)
      : own(turn * deal.teams + threadIdx.x / kMvnThreads), thread(threadIdx.x % kMvnThreads) {
    const uint32_t index = rank * deal.per_block + own;
    if (own < deal.per_block && index < deal.parts) part = MvnPart(index, deal.part_size, length);
    accesses = (part.end - part.begin) / kN;
    memory = all + own * (deal.part_size / kN);
  }

  /// Where the accesses lie in x, next to each other.
  __device__ __forceinline__ const Slot* source(const Row& row) const {
    return row.x_slots() + part.begin / kN;
  }

  /// Asks for the part's accesses, one thread for all of them.
  __device__ __forceinline__ void bring(const Row& row, BulkCopy& copy) const {
    if (thread == 0 && accesses > 0) copy.begin(memory, source(row), accesses * sizeof(Slot));
  }

  /// The same, each thread for those it meets.
  __device__ __forceinline__ void bring(const Row& row) const {
    for (uint32_t k = thread; k < accesses; k += kMvnThreads)
      __pipeline_memcpy_async(memory + k, source(row) + k, sizeof(Slot));
    __pipeline_commit();
  }

  /// Brings elements one by one, which a barrier of the block must follow.
  __device__ __forceinline__ void gather(const Row& row) const {
    T* to = reinterpret_cast<T*>(memory);
#pragma unroll 4
    for (uint32_t i = thread; i < accesses * kN; i += kMvnThreads) to[i] = row.load(part.begin + i);
  }

  __device__ __forceinline__ MvnTile<T> tile(uint32_t first) const {
    return {reinterpret_cast<const Carrier*>(memory), (first - part.begin) / kN + thread, accesses};
  }

  /// Writes the part's results, to y or in place of what they are made of.
  __device__ __forceinline__ void write(Row& row, const Normalizer<Acc<T>>& n) const {
    // The row's accesses are numbered from its first, the part's memory holds those from its own.
    const uint32_t first = part.begin / kN;
    row.thread = first + thread;
    row.slots = first + accesses;
    Slot* const to = row.shape.y.is_linear ? row.y_slots() : memory - first;
#pragma unroll 1
    for (uint32_t s = 0; row.slot(s) < row.slots; s += kMvnSharedParameterSlots) {
      Slot some[kMvnSharedParameterSlots];
#pragma unroll
      for (int i = 0; i < kMvnSharedParameterSlots; ++i)
        if (row.slot(s + i) < row.slots) some[i] = memory[row.slot(s + i) - first];
      row.template write<kMvnSharedParameterSlots>(to, some, s, n);
    }
    const uint32_t last = part.begin + accesses * kN + thread;
    if (last < part.end) row.store(row.load(last), last, n);
  }

  /// Takes results from there to y, after a barrier of the block.
  __device__ __forceinline__ void drain(const Row& row) const {
    const T* from = reinterpret_cast<const T*>(memory);
#pragma unroll 4
    for (uint32_t i = thread; i < accesses * kN; i += kMvnThreads)
      row.args.y[row.group.y + row.shape.offset(row.shape.y, part.begin + i)] = from[i];
  }
};

/// Statistics of the block's parts, and what its threads share of the row.
template <class A>
struct MvnSharedRow {
  Raw<TwoSums> first_scratch[32], second_scratch[2][32];
  Raw<Moments<A>> moments[kMvnMostKeptParts];
  Raw<Normalizer<A>> normalizer;
  BulkCopy copies[kMvnMostKeptParts];
};

/// A block's share of one row.
template <class T, RowParameters kParameters>
struct MvnSharedBlock {
  using A = Acc<T>;
  using Kept = MvnKeptPart<T, kParameters>;

  const MvnArgs<T>& args;
  const MvnDeal& deal;
  typename Kept::Row& row;
  RowSlot<T>* memory;
  MvnSharedRow<A>& shared;
  Cluster cluster;

  /// Calls fn(part, turn) for the parts of the calling thread's team.
  template <class Fn>
  __device__ __forceinline__ void for_parts(const Fn& fn) const {
#pragma unroll 1
    for (uint32_t turn = 0; turn < turns(); ++turn)
      fn(Kept(deal, cluster.rank, turn, row.shape.length, memory), turn);
  }

  /// Whether the copy engine brings the parts: a cluster's.
  __device__ __forceinline__ bool is_bulk() const {
    return cluster.blocks > 1 && row.shape.x.is_linear;
  }

  /// Asks for all parts before any of them is needed.
  __device__ __forceinline__ void bring() const {
    for_parts([&](const Kept& kept, uint32_t) {
      if (!row.shape.x.is_linear) {
        kept.gather(row);
      } else if (is_bulk()) {
        kept.bring(row, shared.copies[kept.own]);
      } else {
        kept.bring(row);
      }
    });
    if (!row.shape.x.is_linear || is_bulk()) __syncthreads();
  }

  /// Waits for what the calling thread reads of its team's part of this turn.
  __device__ __forceinline__ void wait(const Kept& kept, uint32_t turn) const {
    if (!is_bulk()) return __pipeline_wait_prior(turns() - 1 - turn);
    if (kept.accesses > 0) shared.copies[kept.own].wait();
  }

  __device__ __forceinline__ uint32_t turns() const {
    return (deal.per_block + deal.teams - 1) / deal.teams;
  }

  __device__ __forceinline__ void sum() const {
    const uint32_t team = threadIdx.x / kMvnThreads;
    for_parts([&](const Kept& kept, uint32_t turn) {
      wait(kept, turn);
      const Moments<A> moments = part_moments(
          args, kept.part, true, team * (kMvnThreads / 32), shared.first_scratch,
          shared.second_scratch[turn % 2], [&](uint32_t first) { return kept.tile(first); },
          [&](uint32_t at) { return load_as_acc(row.load(at)); });
      if (kept.thread == 0 && kept.own < deal.per_block) shared.moments[kept.own].value() = moments;
    });
  }

  /// What all parts of the row make together, the same in every block.
  __device__ __forceinline__ Normalizer<A> join(uint32_t group) const {
    cluster.sync();
    if (threadIdx.x < 32) {
      const Moments<A> moments = joined_parts<A>(deal.parts, [&](uint32_t i) {
        const uint32_t block = i / deal.per_block;
        return cluster.of(shared.moments[i - block * deal.per_block].value(), block);
      });
      if (threadIdx.x == 0)
        shared.normalizer.value() = args.normalizer(moments, group, cluster.rank == 0);
    }
    cluster.arrive();
    __syncthreads();
    return shared.normalizer.value();
  }

  __device__ __forceinline__ void write(const Normalizer<A>& n) const {
    row.fetch_operands();
    for_parts([&](const Kept& kept, uint32_t) { kept.write(row, n); });
    if (row.shape.y.is_linear) return;
    __syncthreads();
    for_parts([&](const Kept& kept, uint32_t) { kept.drain(row); });
  }
};

/// Looks at the activation in any case: beside shared memory a branch for each access is nothing.
template <class T, RowParameters kParameters>
__global__ __launch_bounds__(kMvnSharedThreads) void mvn_shared_kernel(const MvnArgs<T> args,
                                                                       const MvnRowShape shape,
                                                                       const MvnDeal deal) {
  using A = Acc<T>;
  DYNAMIC_SHARED(memory, RowSlot<T>);
  DEVICE_SHARED(shared, Raw<MvnSharedRow<A>>);
  const uint32_t g = blockIdx.x / deal.blocks;
  const MvnOffsets group = args.kept.at(g);
  MvnRow<T, true, kParameters> row(args, shape, group, true, 0, kMvnThreads);
  const MvnSharedBlock<T, kParameters> block{args,   deal,           row,
                                             memory, shared.value(), Cluster(deal.blocks)};
  block.bring();
  Normalizer<A> normalizer;
  if (args.has_statistics()) {
    block.sum();
    normalizer = block.join(g);
  } else {
    block.for_parts([&](const auto& kept, uint32_t turn) { block.wait(kept, turn); });
  }
  block.write(normalizer);
  if (args.has_statistics()) block.cluster.wait();  // others may still read this block's statistics
}

}  // namespace cudml::cuda
