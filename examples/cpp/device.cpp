// Max pooling on a GPU: memory of the CUDA runtime, a stream, a workspace of the caller's.
#include <cuda_runtime_api.h>
#include <cudml/cudml.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  const cudml::Tensor x_desc(DML_TENSOR_DATA_TYPE_FLOAT32, {2, 3, 64, 64});
  const cudml::Tensor y_desc(DML_TENSOR_DATA_TYPE_FLOAT32, {2, 3, 32, 32});
  const UINT two[] = {2, 2}, zero[] = {0, 0}, one[] = {1, 1};
  const DML_MAX_POOLING2_OPERATOR_DESC pooling = {x_desc, y_desc, nullptr, 2,  two,
                                                  two,    zero,   zero,    one};
  try {
    const cudml::Compiled compiled = cudml::Operator(pooling).compile("cuda");
    std::printf("%s\n", compiled.explain().c_str());

    std::vector<float> x(x_desc.bytes() / sizeof(float)), y(y_desc.bytes() / sizeof(float));
    std::iota(x.begin(), x.end(), 0.f);
    void *x_device, *y_device, *workspace = nullptr;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMalloc(&x_device, x_desc.bytes());
    cudaMalloc(&y_device, y_desc.bytes());
    if (compiled.workspace_bytes()) cudaMalloc(&workspace, compiled.workspace_bytes());

    cudaMemcpyAsync(x_device, x.data(), x_desc.bytes(), cudaMemcpyHostToDevice, stream);
    compiled.execute({x_device}, {y_device}, {workspace, compiled.workspace_bytes(), stream});
    cudaMemcpyAsync(y.data(), y_device, y_desc.bytes(), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    std::printf("first %g, last %g\n", y.front(), y.back());

    cudaFree(workspace);
    cudaFree(y_device);
    cudaFree(x_device);
    cudaStreamDestroy(stream);
  } catch (const cudml::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
