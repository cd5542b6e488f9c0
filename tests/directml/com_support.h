// What the programs of these tests share: a counted pointer, memory to bind, and a way to give up.
#pragma once

#include <DirectML.h>
#include <cudml.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#ifdef CUDML_TEST_CUDA
#include <cuda_runtime.h>
#endif

template <class T>
class Ptr {
 public:
  Ptr() = default;
  Ptr(const Ptr&) = delete;
  ~Ptr() { Clear(); }
  void Clear() {
    if (object_) object_->Release();
    object_ = nullptr;
  }
  T** operator&() {
    Clear();
    return &object_;
  }
  T* operator->() const { return object_; }
  T* get() const { return object_; }

 private:
  T* object_ = nullptr;
};

inline void Check(HRESULT result, const char* what) {
  if (result == S_OK) return;
  std::fprintf(stderr, "%s: 0x%08x %s\n", what, unsigned(result), cudml_last_error());
  std::exit(1);
}

inline const CUDML_DEVICE_DESC kCpu = {CUDML_DEVICE_TYPE_CPU, 0};

#ifdef CUDML_TEST_CUDA

inline const CUDML_DEVICE_DESC kPlace = {CUDML_DEVICE_TYPE_CUDA, 0};

inline void CheckCuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA error %d\n", int(error));
  std::exit(1);
}

/// A stream that waits for no other.
inline cudaStream_t Stream() {
  static const cudaStream_t made = [] {
    cudaStream_t stream = nullptr;
    CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }();
  return made;
}

/// Memory with `size` bytes from `offset` on, which is what a binding to it names. What the program
/// reads and writes is a copy of the host's: Upload and Download bring it up to date.
class Memory {
 public:
  Memory(UINT64 size, UINT64 offset) : offset_(offset), host_(size) {
    buffer_.SizeInBytes = offset + size;
    CheckCuda(cudaMalloc(&buffer_.Data, offset + size + 1));
    binding_ = {&buffer_, offset, size};
  }
  Memory(const Memory&) = delete;
  ~Memory() { cudaFree(buffer_.Data); }

  void* data() { return host_.data(); }
  UINT64 size() const { return host_.size(); }
  void Upload() {
    CheckCuda(cudaStreamSynchronize(Stream()));
    CheckCuda(cudaMemcpy(on_device(), host_.data(), size(), cudaMemcpyHostToDevice));
  }
  void Download() {
    CheckCuda(cudaStreamSynchronize(Stream()));
    CheckCuda(cudaMemcpy(host_.data(), on_device(), size(), cudaMemcpyDeviceToHost));
  }
  const DML_BUFFER_BINDING& buffer_binding() const { return binding_; }
  DML_BINDING_DESC binding() const { return {DML_BINDING_TYPE_BUFFER, &binding_}; }

 private:
  void* on_device() { return static_cast<char*>(buffer_.Data) + offset_; }

  UINT64 offset_;
  std::vector<char> host_;
  CUDML_BUFFER buffer_ = {};
  DML_BUFFER_BINDING binding_ = {};
};

#else

inline const CUDML_DEVICE_DESC kPlace = kCpu;
inline CUDML_STREAM Stream() { return nullptr; }

/// Memory with `size` bytes from `offset` on, which is what a binding to it names.
class Memory {
 public:
  Memory(UINT64 size, UINT64 offset) : size_(size), offset_(offset) {
    const UINT64 room = (offset + size + 255) / 256 * 256;
    buffer_ = {room ? std::aligned_alloc(256, room) : nullptr, offset + size};
    binding_ = {&buffer_, offset, size};
  }
  Memory(const Memory&) = delete;
  ~Memory() { std::free(buffer_.Data); }

  void* data() const { return static_cast<char*>(buffer_.Data) + offset_; }
  UINT64 size() const { return size_; }
  void Upload() {}
  void Download() {}
  const DML_BUFFER_BINDING& buffer_binding() const { return binding_; }
  DML_BINDING_DESC binding() const { return {DML_BINDING_TYPE_BUFFER, &binding_}; }

 private:
  UINT64 size_, offset_;
  CUDML_BUFFER buffer_;
  DML_BUFFER_BINDING binding_;
};

#endif
