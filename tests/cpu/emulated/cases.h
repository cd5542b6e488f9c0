// Short cases by every path of a family: arrays with room around them, and what is compared.
#pragma once

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

}  // namespace
