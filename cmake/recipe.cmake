# How the library is compiled: read by CMakeLists.txt and, line by line, by tools/recipe.py. It holds
# comments and commands set(NAME words...) only. Sources are named from csrc on.

set(STANDARD 20)

# What every source is compiled with.
set(WARNED -Wall -Wextra -Wno-unknown-pragmas
    -fno-math-errno -fno-trapping-math  # neither changes a result
    -ffp-contract=off  # products are fused where fused() says so, whatever compiler it is
    -ffunction-sections  # which the linker sorts
    # What Clang alone warns of, and is meant: one branch on several conditions, captures that one
    # side of an `if constexpr` needs, members that only a build with kernels uses.
    -Wno-bitwise-instead-of-logical -Wno-unused-lambda-capture -Wno-unused-private-field)
set(RELEASE -DNDEBUG)
# The standard library checks its subscripts, and each line of the source is in the code.
set(DEBUG -O1 -g -D_GLIBCXX_ASSERTIONS)

set(PLAIN -O2)
# What plans, checks and explains moves no data: small, it takes as long.
set(SMALL -Os)
# Vector loops as -O3 makes them, without its copies of loops; Clang does so anyway.
set(LOOPS -O2)
set(GCC_LOOPS -ftree-vectorize -fvect-cost-model=dynamic)

# Rooms of small sources, without the loops and what knows CUDA.
set(ROOMS core choose ops directml library com)
# Of csrc/cpu, what is compiled once; everything else there is compiled for each instruction set.
set(CPU_SMALL
    cpu/isa/choose.cpp cpu/isa/dispatch.cpp cpu/isa/processor.cpp cpu/simd/identity.cpp)
set(CPU_PLAIN
    cpu/threads/arena.cpp cpu/threads/interrupt.cpp cpu/threads/openmp.cpp
    cpu/threads/openmp_members.cpp cpu/threads/parallel.cpp cpu/threads/placement.cpp
    cpu/threads/thread_pool.cpp)

# Base first: the linker keeps the first copy of an inline function it meets. Processors that need
# it are older than 2013: it is kept small, half of what LOOPS makes of it. A wheel has 8 MB.
set(X86_LEVELS base v3 v4)
set(X86_base -Os)
set(X86_v3 -march=x86-64-v3)
set(X86_v4 -march=x86-64-v4 -mprefer-vector-width=512)
# Blocks of gradients are small arrays, which -O3 unrolls into registers: 3 to 4 times faster so. A
# level's own flags come after these.
set(UNROLLED -O3)
set(UNROLLED_SOURCES cpu/pool_grad/average_unrolled.cpp cpu/pool_grad/max_blocks.cpp)
# Loops for what no other path takes, and explicit vectors: without what LOOPS makes beside them.
# -Os would leave inline functions to the linker, which keeps one copy for all levels.
set(COMPACT -fno-tree-vectorize)
set(COMPACT_SOURCES
    cpu/merge/plain.cpp cpu/mvn_grad/columns.cpp cpu/mvn_grad/planes.cpp
    cpu/mvn_grad/rows.cpp cpu/mvn_grad/side_by_side.cpp
    cpu/normalize/plain.cpp cpu/statistics/plain.cpp)

set(NVCC -O3 --fmad=false --compress-mode=size --threads=2 --expt-relaxed-constexpr)
set(NVCC_HOST -fPIC -fvisibility=hidden -ffunction-sections -Wall -Wextra)

# Its threads outlive whoever unloads the library. Functions are sorted by name: instances of one
# template resemble each other, and a wheel packs what lies close together into less.
set(LINK -Wl,--as-needed -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,--sort-section=name)
set(LIBRARIES -lpthread -ldl)
set(CUDA_LIBRARIES -lrt -lpthread -ldl)
