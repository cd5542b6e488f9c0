// Pooling with its gradients, padding and normalization on the host: a descriptor, an execution,
// the values. Unpooling and batch normalization are called alike.
#include <cudml/cudml.hpp>

#include <cstdio>
#include <vector>

using Inputs = std::initializer_list<const void*>;

template <class Desc>
void run(const char* name, const Desc& desc, Inputs inputs, std::vector<float>& y) {
  cudml::Operator(desc).compile("cpu").execute(inputs, {y.data()});
  std::printf("%-12s", name);
  for (const float value : y) std::printf(" %g", value);
  std::printf("\n");
}

int main() {
  const auto type = DML_TENSOR_DATA_TYPE_FLOAT32;
  const cudml::Tensor X(type, {1, 1, 2, 4}), Y(type, {1, 1, 1, 2}), W(type, {1, 1, 2, 7});
  const UINT two[] = {2, 2}, one[] = {1, 1}, none[] = {0, 0, 0, 0}, end[] = {0, 0, 0, 3};
  const UINT axes[] = {2, 3};
  std::vector<float> x = {3, 1, 4, 1, 5, 9, 2, 6}, y(2), dx(8), wide(14), z(8);

  using Max = DML_MAX_POOLING2_OPERATOR_DESC;
  run("maxima", Max{X, Y, nullptr, 2, two, two, none, none, one}, {x.data()}, y);
  using MaxGrad = DML_MAX_POOLING_GRAD_OPERATOR_DESC;
  run("gradient", MaxGrad{X, Y, X, 2, two, two, none, none, one}, {x.data(), y.data()}, dx);
  using Average = DML_AVERAGE_POOLING1_OPERATOR_DESC;
  run("averages", Average{X, Y, 2, two, two, none, none, one, FALSE}, {x.data()}, y);
  using AverageGrad = DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC;
  run("gradient", AverageGrad{Y, X, 2, two, two, none, none, FALSE}, {y.data()}, dx);
  using Norm = DML_LP_POOLING1_OPERATOR_DESC;
  run("norms", Norm{X, Y, 2, two, two, none, none, one, 2}, {x.data()}, y);
  using Padding = DML_PADDING_OPERATOR_DESC;
  const Padding padding = {X, W, DML_PADDING_MODE_REFLECTION, 0, 4, none, end};
  run("reflected", padding, {x.data()}, wide);
  using Normalization = DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC;
  const Normalization normalization = {X, nullptr, nullptr, X, 2, axes, TRUE, 1e-5f, nullptr};
  run("normalized", normalization, {x.data()}, z);
}
