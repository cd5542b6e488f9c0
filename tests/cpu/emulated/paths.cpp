// Every path of the CPU over short cases, for a build that Python does not reach: each against the
// plain path of its family, and the plain path's numbers against those of another build.
//
//   paths write FILE    runs, and writes the numbers
//   paths check FILE    runs, and compares the numbers with those of the file
//   paths bits FILE     runs, and writes a hash of what each path wrote, a line for each
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "cpu/isa/backend.h"
#include "cpu/threads/parallel.h"

using namespace cudml;
using cpu::Arrays;

namespace {

int failures = 0;
std::map<std::string, int> runs;     // of each path
std::vector<std::string> names;      // of each case
std::vector<double> bounds, wanted;  // of each number: 0 where bits are fixed
std::vector<double> numbers;
std::vector<std::string> hashes;  // of each case by each path

/// Numbers in the type of a tensor, with room behind and before them that must stay as it is.
struct Tensor {
  TensorDesc desc;
  std::vector<unsigned char> room;
  static constexpr size_t kEdge = 128;

  Tensor() = default;
  Tensor(Dtype dtype, Dims sizes, int seed = 0) {
    desc = {dtype, sizes, packed_strides(sizes)};
    room.assign(bytes() + 2 * kEdge, 0x5a);
    for (int64_t i = 0; seed && i < count(sizes); ++i) set(i, number(i, seed));
  }
  size_t bytes() const { return size_t(count(desc.sizes)) * size_of(desc.dtype); }
  void* data() { return room.data() + kEdge; }

  static double number(int64_t i, int seed) {
    const auto mixed = uint64_t(i * 2654435761 + seed * 40503) * 0x9e3779b97f4a7c15u;
    return double(int64_t(mixed >> 44) - (1 << 19)) / (1 << 18);  // in [-2, 2)
  }
  double at(int64_t i) {
    switch (desc.dtype) {
#define ENTRY(name, type) \
  case Dtype::name: return double(load_as_acc(static_cast<type*>(data())[i]));
      CUDML_DTYPES(ENTRY)
#undef ENTRY
    }
    return 0;
  }
  void set(int64_t i, double v) {
    switch (desc.dtype) {
#define ENTRY(name, type)                                                  \
  case Dtype::name:                                                        \
    static_cast<type*>(data())[i] =                                        \
        store_as<type>(Acc<type>(is_float(desc.dtype) ? v : 20 * v + 50)); \
    return;
      CUDML_DTYPES(ENTRY)
#undef ENTRY
    }
  }
  /// FNV-1a of all bytes.
  uint64_t hash() const {
    uint64_t h = 0xcbf29ce484222325u;
    for (unsigned char byte : room) h = (h ^ byte) * 0x100000001b3u;
    return h;
  }
  bool has_edges() const {
    for (size_t i = 0; i < kEdge; ++i)
      if (room[i] != 0x5a || room[room.size() - 1 - i] != 0x5a) return false;
    return true;
  }
};

/// What two right results may differ by, of numbers up to 1.
double bound_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return 0x1p-9;
    case Dtype::bfloat16: return 0x1p-6;
    case Dtype::float64: return 1e-12;
    default: return 4e-6;
  }
}

bool is_close(double a, double b, double bound) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= bound * (1 + std::abs(b));
}

void fail(const std::string& name, const char* path, const char* what) {
  std::printf("%s by %s: %s\n", name.c_str(), path, what);
  ++failures;
}

/// Runs all paths that take a plan, and once more past the caches if that is how it was called.
template <class Plan>
void run_paths(const std::string& name, cpu::Paths<Plan> paths, const Plan& plan, Arrays arrays,
               Tensor y, Tensor indices, Tensor workspace, bool is_exact) {
  const double bound = is_exact ? 0 : bound_of(y.desc.dtype);
  const int64_t n = count(y.desc.sizes);
  std::vector<double> plain, where;
  for (size_t i = paths.size(); i-- > 0;) {
    const auto& path = paths[i];
    if (choose::refusal(path, plan, cpu::Machine{cpu::num_threads()})) continue;
    Tensor out = y, at = indices, space = workspace;
    arrays.outputs[0] = out.data();
    arrays.outputs[1] = at.room.empty() ? nullptr : at.data();
    arrays.workspace = space.room.empty() ? nullptr : space.data();
    path.run(plan, arrays);
    ++runs[path.name];
    hashes.push_back(name + " by " + path.name + ": " + std::to_string(out.hash()) + " " +
                     std::to_string(at.hash()));
    if (!out.has_edges()) fail(name, path.name, "writes beyond its result");
    bool is_same = true;
    for (int64_t k = 0; k < n; ++k) {
      if (plain.size() < size_t(n)) plain.push_back(out.at(k));
      is_same &= is_close(out.at(k), plain[size_t(k)], bound);
    }
    for (int64_t k = 0; !at.room.empty() && k < n; ++k) {
      if (where.size() < size_t(n)) where.push_back(at.at(k));
      is_same &= at.at(k) == where[size_t(k)];
    }
    if (!is_same) fail(name, path.name, "differs from the plain path");
  }
  plain.insert(plain.end(), where.begin(), where.end());
  for (double v : plain) {
    numbers.push_back(v);
    bounds.push_back(bound);
    names.push_back(name);
  }
}

std::string called(const char* what, Dtype dtype, const Dims& sizes) {
  std::string name = std::string(what) + " " + name_of(dtype);
  for (int64_t size : sizes) name += " " + std::to_string(size);
  return name;
}

/// A description with the axes in another order of memory: channels last.
void put_channels_last(TensorDesc& t) {
  const Dims s = t.sizes;
  t.strides = {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]};
}

PoolDesc pool_desc(PoolKind kind, int64_t window, int64_t stride, int64_t padding) {
  PoolDesc d;
  d.kind = kind;
  d.axes = {2, 3};
  d.window_size = {window, window};
  d.strides = {stride, stride};
  d.start_padding = d.end_padding = {padding, padding};
  d.dilations = {1, 1};
  return d;
}

/// By all exponents that have loops of their own, with y for the norms.
void lp_gradient(const std::string& name, const PoolDesc& d, Tensor& x, const Tensor& like) {
  const Dtype dtype = x.desc.dtype;
  Tensor y(dtype, like.desc.sizes, 11), grad(dtype, like.desc.sizes, 9),
      result(dtype, x.desc.sizes);
  for (int64_t i = 0; i < count(y.desc.sizes); ++i) y.set(i, std::abs(y.at(i)) + 1);
  y.desc.strides = grad.desc.strides = like.desc.strides;
  result.desc.strides = x.desc.strides;
  Arrays arrays;
  arrays.inputs[0] = x.data();
  arrays.inputs[1] = y.data();
  arrays.inputs[2] = grad.data();
  for (uint32_t p : {1, 2, 3, 6}) {
    PoolGradDesc g{d, x.desc.sizes};
    g.forward.p = p;
    run_paths(name + " gradient of p " + std::to_string(p), cpu::backend().lp_pool_grad(),
              make_plan(g, &x.desc, grad.desc, result.desc, &y.desc), arrays, result, {}, {}, true);
  }
}

/// Indices within planes, several times the same, or through all of the result.
void unpool(Dtype dtype, const Dims& sizes, bool is_last, bool is_within) {
  Tensor x(dtype, sizes, 3), indices(Dtype::uint32, sizes);
  UnpoolDesc d;
  d.output_sizes = {sizes[0], sizes[1], 2 * sizes[2], 2 * sizes[3] + 1};
  Tensor y(dtype, d.output_sizes);
  for (TensorDesc* t : {&x.desc, &indices.desc, &y.desc})
    if (is_last) put_channels_last(*t);
  const int64_t plane = d.output_sizes[2] * d.output_sizes[3], n = count(sizes);
  auto* const at = static_cast<uint32_t*>(indices.data());
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = is_last ? i % sizes[1] : i / (sizes[2] * sizes[3]) % sizes[1];
    const int64_t b = i / (n / sizes[0]), flat = i * 7919 % plane;
    at[i] = uint32_t(is_within ? (b * sizes[1] + c) * plane + flat : i * 7919 % (4 * n));
  }
  Arrays arrays;
  arrays.inputs[0] = x.data();
  arrays.inputs[1] = indices.data();
  run_paths(called("unpool", dtype, sizes) + (is_last ? " channels last" : "") +
                (is_within ? " within planes" : ""),
            cpu::backend().unpool(), make_plan(d, x.desc, indices.desc, y.desc), arrays, y, {}, {},
            true);
}

void pool(PoolKind kind, Dtype dtype, const Dims& sizes, int64_t window, int64_t stride,
          int64_t padding, bool is_last) {
  const PoolDesc d = pool_desc(kind, window, stride, padding);
  Tensor x(dtype, sizes, 7);
  if (is_last) put_channels_last(x.desc);
  Tensor y(dtype, output_sizes(d, x.desc));
  if (is_last) put_channels_last(y.desc);
  Arrays arrays;
  arrays.inputs[0] = x.data();
  const char* const kinds[] = {"max", "average", "lp"};
  const std::string name = called(kinds[int(kind)], dtype, sizes) + " window " +
                           std::to_string(window) + (is_last ? " channels last" : "");
  const bool is_exact = kind == PoolKind::max;
  run_paths(name, cpu::backend().pool(), make_plan(d, x.desc, y.desc, nullptr), arrays, y, {}, {},
            is_exact);
  if (kind == PoolKind::max) {
    Tensor indices(Dtype::uint32, y.desc.sizes);
    indices.desc.strides = y.desc.strides;
    run_paths(name + " winners", cpu::backend().winners(),
              make_plan(d, x.desc, y.desc, &indices.desc), arrays, y, indices, {}, true);
  }
  if (!is_float(dtype)) return;
  if (kind == PoolKind::lp) return lp_gradient(name, d, x, y);
  PoolGradDesc g{d, sizes};
  Tensor grad(dtype, y.desc.sizes, 9), result(dtype, sizes);
  grad.desc.strides = y.desc.strides;
  result.desc.strides = x.desc.strides;
  const PoolGradPlan plan =
      make_plan(g, kind == PoolKind::max ? &x.desc : nullptr, grad.desc, result.desc);
  arrays.inputs[1] = grad.data();
  Tensor workspace;
  if (plan.workspace_bytes) workspace = Tensor(Dtype::uint8, {plan.workspace_bytes});
  run_paths(
      name + " gradient",
      kind == PoolKind::max ? cpu::backend().max_pool_grad() : cpu::backend().average_pool_grad(),
      plan, arrays, result, {}, workspace, false);
}

void pad(Dtype dtype, const Dims& sizes, int64_t start, int64_t end, Border mode) {
  PadDesc d;
  d.start_padding = d.end_padding = Dims::filled(sizes.rank, 0);
  for (int i = 0; i < sizes.rank; ++i) d.mode[i] = mode;
  for (int i = std::max(0, sizes.rank - 2); i < sizes.rank; ++i) {
    d.start_padding[i] = start;
    d.end_padding[i] = end;
  }
  d.value = pad_value("pad", dtype, 3);
  Tensor x(dtype, sizes, 3);
  Tensor y(dtype, output_sizes(d, x.desc));
  Arrays arrays;
  arrays.inputs[0] = x.data();
  run_paths(called("pad", dtype, sizes) + " mode " + std::to_string(int(mode)),
            cpu::backend().pad(), make_plan(d, x.desc, y.desc), arrays, y, {}, {}, true);
}

void mvn(Dtype dtype, const Dims& sizes, const Dims& axes, const Dims& affine, ActivationKind kind,
         bool use_mean) {
  MvnDesc d;
  d.axes = axes;
  d.use_mean = use_mean;
  d.activation = {kind, 1, 0.5};
  Tensor x(dtype, sizes, 5), scale(dtype, affine, 2), bias(dtype, affine, 4), y(dtype, sizes);
  for (TensorDesc* t : {&scale.desc, &bias.desc})
    for (int i = 0; i < sizes.rank; ++i) {
      if (t->sizes[i] == 1) t->strides[i] = 0;
      t->sizes[i] = sizes[i];
    }
  Arrays arrays;
  arrays.inputs[0] = x.data();
  arrays.inputs[1] = scale.data();
  arrays.inputs[2] = bias.data();
  run_paths(called("mvn", dtype, sizes) + " activation " + std::to_string(int(kind)),
            cpu::backend().mvn(), make_plan(d, x.desc, &scale.desc, &bias.desc, y.desc), arrays, y,
            {}, {}, false);
}

void run_all() {
  const Dtype floats[] = {Dtype::float32, Dtype::float16, Dtype::bfloat16, Dtype::float64};
  for (Dtype dtype : floats) {
    for (PoolKind kind : {PoolKind::max, PoolKind::average, PoolKind::lp})
      for (bool is_last : {false, true}) {
        pool(kind, dtype, {2, 16, 12, 14}, 2, 2, 0, is_last);
        pool(kind, dtype, {2, 3, 21, 37}, 3, 2, 1, is_last);
        pool(kind, dtype, {1, 20, 16, 64}, 3, 1, 1, is_last);
        pool(kind, dtype, {2, 33, 7, 7}, 7, 1, 0, is_last);
        pool(kind, dtype, {1, 8, 19, 40}, 5, 3, 2, is_last);
        pool(kind, dtype, {2, 18, 15, 41}, 5, 4, 2, is_last);
      }
    using enum ActivationKind;
    for (ActivationKind kind : {identity, relu, swish, gelu, tanh})
      for (bool use_mean : {true, false}) {
        mvn(dtype, {9, 16}, {1}, {1, 16}, kind, use_mean);
        mvn(dtype, {7, 61}, {1}, {1, 61}, kind, use_mean);
        mvn(dtype, {5, 768}, {1}, {1, 768}, kind, use_mean);
        mvn(dtype, {9, 3072}, {1}, {1, 3072}, kind, use_mean);
        mvn(dtype, {2, 6, 5, 7}, {2, 3}, {1, 6, 1, 1}, kind, use_mean);
        mvn(dtype, {300, 40}, {0}, {1, 40}, kind, use_mean);
        mvn(dtype, {2, 50, 4, 24}, {1, 3}, {1, 1, 4, 24}, kind, use_mean);
      }
  }
  for (Dtype dtype : {Dtype::int8, Dtype::uint8, Dtype::int32, Dtype::uint64}) {
    pool(PoolKind::max, dtype, {2, 16, 12, 34}, 3, 2, 1, false);
    pool(PoolKind::max, dtype, {2, 16, 12, 34}, 2, 2, 0, true);
  }
  for (Dtype dtype : {Dtype::uint8, Dtype::float16, Dtype::int32, Dtype::float64})
    for (bool is_last : {false, true})
      for (bool is_within : {false, true}) unpool(dtype, {2, 19, 5, 7}, is_last, is_within);
  for (Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::uint8, Dtype::float64})
    for (Border mode : {Border::constant, Border::edge, Border::reflection, Border::symmetric})
      for (const Dims& sizes : {Dims{100}, Dims{5, 7}, Dims{3, 20, 300}, Dims{2, 40, 3}})
        for (int64_t end : {1, 4}) pad(dtype, sizes, 2, std::min<int64_t>(end, 2), mode);
}

/// Compares what the plain paths came to with the numbers of another build.
void compare() {
  if (wanted.size() != numbers.size()) fail("all", "this build", "another count of numbers");
  std::string last;
  for (size_t i = 0; i < std::min(wanted.size(), numbers.size()); ++i)
    if (names[i] != last && !is_close(numbers[i], wanted[i], bounds[i]))
      fail(last = names[i], "this build", "differs from the other build");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  run_all();
  const bool writes = std::strcmp(argv[1], "write") == 0;
  const bool is_hashed = std::strcmp(argv[1], "bits") == 0;
  std::FILE* file = std::fopen(argv[2], writes || is_hashed ? "wb" : "rb");
  if (!file) return 2;
  if (is_hashed) {
    for (const std::string& line : hashes) std::fprintf(file, "%s\n", line.c_str());
  } else if (writes) {
    std::fwrite(numbers.data(), sizeof(double), numbers.size(), file);
  } else {
    for (double v; std::fread(&v, sizeof v, 1, file) == 1;) wanted.push_back(v);
    compare();
  }
  std::fclose(file);
  for (const auto& [path, n] : runs) std::printf("%s: %d\n", path.c_str(), n);
  std::printf("%zu numbers, %d failures\n", numbers.size(), failures);
  return failures != 0;
}
