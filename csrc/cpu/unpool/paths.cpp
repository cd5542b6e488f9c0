// The paths of max unpooling on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/unpool/lane_cells.h"
#include "cpu/unpool/plain.h"
#include "cpu/unpool/plane_cells.h"
#include "cpu/unpool/planes.h"
#include "cpu/unpool/side_by_side.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool has_neighbours(const UnpoolPlan& plan, const Machine&) {
  return UnpoolSideBySide<uint32_t, uint32_t>::fits(plan);
}
bool has_cells(const UnpoolPlan& plan, const Machine&) { return UnpoolCell(plan).is_handled(); }
bool has_lane_cells(const UnpoolPlan& plan, const Machine&) {
  return UnpoolLaneCells<uint32_t, uint32_t>::fits(plan);
}
bool has_plane_cells(const UnpoolPlan& plan, const Machine&) {
  return UnpoolPlaneCells<uint32_t, uint32_t>::fits(plan);
}
bool has_planes(const UnpoolPlan& plan, const Machine&) {
  return UnpoolPlanes<uint32_t, uint32_t>::fits(plan);
}
bool are_planes_several(const UnpoolPlan& plan, const Machine&) { return plan.planes() > 1; }

/// Runs a path for the plan's item size and type of indices.
template <template <class, class> class Loop>
void run(const UnpoolPlan& plan, const Arrays& a) {
  visit_items(plan, [&]<class T>() {
    visit_indices(plan, [&]<class Index>() { Loop<T, Index>(plan, a).run(); });
  });
}

constexpr Path<UnpoolPlan> kPaths[] = {
    {"unpool/lane_cells",
     {{"planes lie side by side, their elements equally far apart", has_neighbours},
      {"sources may have 2, 4 or 8 targets each, in at most four rows", has_cells},
      {"planes fill a vector, two where it is 8 targets; sources are equally far apart",
       has_lane_cells}},
     run<UnpoolLaneCells>,
     {1.9, "82 unpool+uint32 2x2/2, 16x64x256x256, float16 L"}},
    {"unpool/side_by_side",
     {{"planes lie side by side, their elements equally far apart", has_neighbours}},
     run<UnpoolSideBySide>,
     {7.7, "unpool+uint32 2x2/2, 5x64x256x256, float16 L, on Zen 5"}},
    {"unpool/plane_cells",
     {{"planes of the result are packed", has_planes},
      {"there are several planes", are_planes_several},
      {"sources may have 2, 4 or 8 targets each, in at most four rows", has_cells},
      {"rows of 128 or more sources, of two columns of targets each, are packed", has_plane_cells}},
     run<UnpoolPlaneCells>,
     {1.54, "82 unpool+uint32 2x2/2, 16x64x256x256, float16 C"}},
    {"unpool/planes",
     {{"planes of the result are packed", has_planes},
      {"there are several planes", are_planes_several}},
     run<UnpoolPlanes>,
     {2.31, "unpool+uint32 2x2/2, 5x64x256x256, float16 C, on Zen 5"}},
    {"unpool/plain", {}, run<UnpoolPlain>},
};

}  // namespace

Paths<UnpoolPlan> unpool_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
