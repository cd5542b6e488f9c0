// Every path of the CPU over short cases, for a build that Python does not reach: each against the
// plain path of its family, and the plain path's numbers against those of another build.
//
//   paths write FILE    runs, and writes the numbers
//   paths check FILE    runs, and compares the numbers with those of the file
//   paths bits FILE     runs, and writes a hash of what each path wrote, a line for each
#include "cases.h"

namespace {

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

/// Memory orders: rows, channels or columns whose elements are packed.
enum class Order { rows, channels, columns };

void put_in(Order order, TensorDesc& desc) {
  if (order == Order::channels) put_channels_last(desc);
  if (order != Order::columns) return;
  const int rows = desc.rank() - 2, columns = desc.rank() - 1;
  desc.strides[rows] = 1;
  desc.strides[columns] = desc.sizes[rows];
}

void pool(PoolKind kind, Dtype dtype, const Dims& sizes, int64_t window, int64_t stride,
          int64_t padding, Order order) {
  const PoolDesc d = pool_desc(kind, window, stride, padding);
  Tensor x(dtype, sizes, 7);
  put_in(order, x.desc);
  Tensor y(dtype, output_sizes(d, x.desc));
  put_in(order, y.desc);
  Arrays arrays;
  arrays.inputs[0] = x.data();
  const char* const kinds[] = {"max", "average", "lp"};
  const std::string name = called(kinds[int(kind)], dtype, sizes) + " window " +
                           std::to_string(window) + " order " + std::to_string(int(order));
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

/// Columns to rows.
void turn(Dtype dtype, const Dims& sizes) {
  PadDesc d;
  d.start_padding = d.end_padding = Dims::filled(sizes.rank, 0);
  Tensor x(dtype, sizes, 3), y(dtype, sizes);
  put_in(Order::columns, x.desc);
  Arrays arrays;
  arrays.inputs[0] = x.data();
  run_paths(called("turn", dtype, sizes), cpu::backend().pad(), make_plan(d, x.desc, y.desc),
            arrays, y, {}, {}, true);
}

/// An array whose dimensions of 1 are broadcast to other sizes.
Tensor broadcast(Dtype dtype, const Dims& from, const Dims& sizes, int seed) {
  Tensor t(dtype, from, seed);
  for (int i = 0; i < sizes.rank; ++i) {
    if (from[i] == 1) t.desc.strides[i] = 0;
    t.desc.sizes[i] = sizes[i];
  }
  return t;
}

void mvn(Dtype dtype, const Dims& sizes, const Dims& axes, const Dims& affine, ActivationKind kind,
         bool use_mean) {
  MvnDesc d;
  d.axes = axes;
  d.use_mean = use_mean;
  d.activation = {kind, 1, 0.5};
  Tensor x(dtype, sizes, 5), y(dtype, sizes), scale = broadcast(dtype, affine, sizes, 2),
                                              bias = broadcast(dtype, affine, sizes, 4);
  Arrays arrays;
  arrays.inputs[0] = x.data();
  arrays.inputs[1] = scale.data();
  arrays.inputs[2] = bias.data();
  run_paths(called("mvn", dtype, sizes) + " activation " + std::to_string(int(kind)),
            cpu::backend().mvn(), make_plan(d, x.desc, &scale.desc, &bias.desc, y.desc), arrays, y,
            {}, {}, false);
}

/// dx, then the gradient of scale, each as the only result.
void mvn_grad(Dtype dtype, const Dims& sizes, const Dims& axes, const Dims& affine,
              ActivationKind kind, bool use_mean) {
  MvnGradDesc d;
  d.axes = axes;
  d.use_mean = use_mean;
  d.activation = {kind, 1, 0.5};
  Tensor x(dtype, sizes, 5), grad(dtype, sizes, 9), scale(dtype, affine, 2), bias(dtype, affine, 4),
      dx(dtype, sizes), total(dtype, affine);
  Arrays arrays;
  arrays.inputs[0] = x.data();
  arrays.inputs[1] = grad.data();
  arrays.inputs[2] = scale.data();
  arrays.inputs[3] = bias.data();
  for (int k = 0; k < 2; ++k) {
    Tensor& result = k == 0 ? dx : total;
    MvnGradTensors t;
    t.x = &x.desc;
    t.grad = &grad.desc;
    t.scale = &scale.desc;
    t.bias = &bias.desc;
    t.outputs[k] = &result.desc;
    MvnGradPlan plan = make_plan(d, t);
    plan.totals[0].output = 0;
    run_paths(called("mvn_grad", dtype, sizes) + " output " + std::to_string(k) + " activation " +
                  std::to_string(int(kind)),
              cpu::backend().mvn_grad(), plan, arrays, result, {}, {}, false);
  }
}

void normalize(Dtype dtype, const Dims& sizes, const Dims& group, const Dims& affine,
               ActivationKind kind) {
  NormalizeDesc d;
  d.activation = {kind, 1, 0.5};
  Tensor x(dtype, sizes, 5), y(dtype, sizes), mean = broadcast(Dtype::float64, group, sizes, 6),
                                              variance = broadcast(Dtype::float32, group, sizes, 8),
                                              scale = broadcast(dtype, affine, sizes, 2),
                                              bias = broadcast(Dtype::float32, affine, sizes, 4);
  if (dtype == Dtype::float64) bias = broadcast(dtype, affine, sizes, 4);
  for (int64_t i = 0; i < count(group); ++i) variance.set(i, std::abs(variance.at(i)) + 0.25);
  Arrays arrays;
  Tensor* const inputs[] = {&x, &mean, &variance, &scale, &bias};
  for (int i = 0; i < 5; ++i) arrays.inputs[i] = inputs[i]->data();
  run_paths(called("normalize", dtype, sizes) + " activation " + std::to_string(int(kind)),
            cpu::backend().normalize(),
            make_plan(d, {&x.desc, &mean.desc, &variance.desc, &scale.desc, &bias.desc}, y.desc),
            arrays, y, {}, {}, false);
}

/// Count, mean and sum of squares of each group by every path.
void statistics(Dtype dtype, const Dims& sizes, const Dims& axes, bool use_mean) {
  const double bound = bound_of(dtype == Dtype::float64 ? dtype : Dtype::float32);
  Dims groups = sizes;
  for (int64_t a : axes) groups[int(a)] = 1;
  const StatisticsDesc d = {"statistics", axes, use_mean, Dtype::float64};
  Tensor x(dtype, sizes, 5);
  const Tensor result(Dtype::float64, groups);
  const StatisticsPlan plan = make_plan(d, x.desc, result.desc, result.desc, result.desc);
  const std::string name = called("statistics", dtype, sizes);
  const auto paths = cpu::backend().statistics();
  std::vector<double> plain;
  for (size_t i = paths.size(); i-- > 0;) {
    if (choose::refusal(paths[i], plan, cpu::Machine{cpu::num_threads()})) continue;
    Tensor results[3] = {result, result, result};
    Arrays arrays;
    arrays.inputs[0] = x.data();
    for (int k = 0; k < 3; ++k) arrays.outputs[k] = results[k].data();
    paths[i].run(plan, arrays);
    ++runs[paths[i].name];
    std::string hash;
    for (size_t k = 0; k < size_t(3 * plan.groups); ++k) {
      Tensor& own = results[k / size_t(plan.groups)];
      const double v = own.at(int64_t(k) % plan.groups);
      if (plain.size() <= k) plain.push_back(v);
      if (!is_close(v, plain[k], bound)) fail(name, paths[i].name, "differs from the plain path");
    }
    for (Tensor& own : results) {
      if (!own.has_edges()) fail(name, paths[i].name, "writes beyond its result");
      hash += " " + std::to_string(own.hash());
    }
    hashes.push_back(name + " by " + paths[i].name + ":" + hash);
  }
  numbers.insert(numbers.end(), plain.begin(), plain.end());
  bounds.resize(numbers.size(), bound);
  names.resize(numbers.size(), name);
}

void run_norms(Dtype dtype) {
  using enum ActivationKind;
  for (ActivationKind kind : {identity, relu, swish}) {
    normalize(dtype, {7, 61}, {7, 1}, {1, 61}, kind);
    normalize(dtype, {2, 6, 5, 7}, {1, 6, 1, 1}, {1, 6, 1, 1}, kind);
    normalize(dtype, {40, 33}, {1, 33}, {1, 33}, kind);
    normalize(dtype, {3, 1100}, {3, 1100}, {1, 1}, kind);
    normalize(dtype, {5, 2, 7}, {1, 2, 7}, {5, 1, 7}, kind);
  }
  for (bool use_mean : {true, false}) {
    statistics(dtype, {37, 16}, {1}, use_mean);
    statistics(dtype, {7, 61}, {1}, use_mean);
    statistics(dtype, {2, 9000}, {1}, use_mean);
    statistics(dtype, {4, 6, 5, 7}, {0, 2, 3}, use_mean);
    statistics(dtype, {4, 6, 3, 5}, {0, 2, 3}, use_mean);
    statistics(dtype, {300, 40}, {0}, use_mean);
  }
  for (ActivationKind kind : {identity, relu, swish, gelu, tanh})
    for (bool use_mean : {true, false}) {
      mvn_grad(dtype, {9, 16}, {1}, {1, 16}, kind, use_mean);
      mvn_grad(dtype, {21, 61}, {1}, {1, 61}, kind, use_mean);
      mvn_grad(dtype, {21, 61}, {1}, {21, 1}, kind, use_mean);
      mvn_grad(dtype, {21, 7}, {1}, {21, 1}, kind, use_mean);
      mvn_grad(dtype, {60, 20}, {0}, {1, 20}, kind, use_mean);
      mvn_grad(dtype, {70, 21}, {0}, {70, 1}, kind, use_mean);
      mvn_grad(dtype, {2, 3, 4, 41}, {2, 3}, {1, 3, 4, 1}, kind, use_mean);
      mvn_grad(dtype, {3, 2, 2100}, {0, 2}, {1, 2, 1}, kind, use_mean);
    }
}

void run_all() {
  const Dtype floats[] = {Dtype::float32, Dtype::float16, Dtype::bfloat16, Dtype::float64};
  for (Dtype dtype : floats) {
    for (PoolKind kind : {PoolKind::max, PoolKind::average, PoolKind::lp})
      for (Order order : {Order::rows, Order::channels, Order::columns}) {
        pool(kind, dtype, {2, 16, 12, 14}, 2, 2, 0, order);
        pool(kind, dtype, {2, 3, 21, 37}, 3, 2, 1, order);
        pool(kind, dtype, {2, 18, 9, 13}, 3, 2, 1, order);
        pool(kind, dtype, {1, 20, 16, 64}, 3, 1, 1, order);
        pool(kind, dtype, {2, 33, 7, 7}, 7, 1, 0, order);
        pool(kind, dtype, {1, 8, 19, 40}, 5, 3, 2, order);
        pool(kind, dtype, {2, 18, 15, 41}, 5, 4, 2, order);
      }
    using enum ActivationKind;
    for (ActivationKind kind : {identity, relu, swish, gelu, tanh})
      for (bool use_mean : {true, false}) {
        mvn(dtype, {9, 15}, {1}, {1, 15}, kind, use_mean);
        mvn(dtype, {9, 16}, {1}, {1, 16}, kind, use_mean);
        mvn(dtype, {7, 61}, {1}, {1, 61}, kind, use_mean);
        mvn(dtype, {5, 768}, {1}, {1, 768}, kind, use_mean);
        mvn(dtype, {9, 3072}, {1}, {1, 3072}, kind, use_mean);
        mvn(dtype, {2, 6, 5, 7}, {2, 3}, {1, 6, 1, 1}, kind, use_mean);
        mvn(dtype, {300, 40}, {0}, {1, 40}, kind, use_mean);
        mvn(dtype, {2, 50, 4, 24}, {1, 3}, {1, 1, 4, 24}, kind, use_mean);
      }
    run_norms(dtype);
  }
  for (Dtype dtype : {Dtype::int8, Dtype::uint8, Dtype::int32, Dtype::uint64}) {
    pool(PoolKind::max, dtype, {2, 16, 12, 34}, 3, 2, 1, Order::rows);
    pool(PoolKind::max, dtype, {2, 16, 12, 34}, 2, 2, 0, Order::channels);
  }
  for (Dtype dtype : {Dtype::uint8, Dtype::float16, Dtype::int32, Dtype::float64})
    for (bool is_last : {false, true})
      for (bool is_within : {false, true}) unpool(dtype, {2, 19, 5, 7}, is_last, is_within);
  for (Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::uint8, Dtype::float64})
    for (const Dims& sizes : {Dims{2, 17, 35}, Dims{16, 16}, Dims{3, 40, 4}}) turn(dtype, sizes);
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
