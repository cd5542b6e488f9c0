// swish of vectors over the whole range of its argument, for a build that ends where a signed
// number overflows.
#include <cmath>
#include <cstdio>
#include <limits>

#include "cpu/simd/swish.h"

using namespace cudml;
using namespace cudml::cpu::CUDML_ISA;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kEdges[] = {0.0f,   -0.0f, kInf,  -kInf, std::numeric_limits<float>::quiet_NaN(),
                            -3e38f, 3e38f, 1e-45f};

/// An edge now and then, else numbers from -100 to 100.
float argument(int step, int lane) {
  if (step % 100 == 0 && lane % 2) return kEdges[(step / 100 + lane / 2) & 7];
  return 0.05f * float(step - 2000) + 0.01f * float(lane);
}

/// Whether y is swish of x: the exponent's roundings grow with it.
bool is_right(double a, double x, double y) {
  if (std::isnan(x)) return std::isnan(y);
  const double want = x == -kInf ? 0 : x / (1 + std::exp(-a * x));
  const double bound = (3 * std::abs(a * x) + 8) * 0x1p-24 * std::abs(want) + 1e-37;
  return y == want || std::abs(y - want) <= bound;
}

int main() {
  int wrong = 0;
  for (const float a : {1.0f, 1.702f, 40.0f})
    for (int step = 0; step < 4000; ++step) {
      Floats x[4], y[4];
      for (int i = 0; i < 4 * int(kFloats); ++i)
        y[i / kFloats][i % kFloats] = x[i / kFloats][i % kFloats] = argument(step, i);
      Swish(Activation{ActivationKind::swish, a, 0})(y);
      for (int i = 0; i < 4 * int(kFloats); ++i) {
        const float from = x[i / kFloats][i % kFloats], to = y[i / kFloats][i % kFloats];
        if (is_right(a, from, to)) continue;
        ++wrong;
        std::printf("swish(%g) with %g is %g\n", from, a, to);
      }
    }
  return wrong != 0;
}
