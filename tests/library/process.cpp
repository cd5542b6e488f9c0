// What a process does to the library: threads, rounding modes, loading and unloading. Names the
// case that fails.
#include <dlfcn.h>
#include <cudml/cudml.hpp>

#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

namespace {

constexpr auto kFloat = DML_TENSOR_DATA_TYPE_FLOAT32;
const UINT kTwo[] = {2, 2}, kThree[] = {3, 3}, kNone[] = {0, 0}, kOne[] = {1, 1};

void require(bool ok, const char* what) {
  if (ok) return;
  std::printf("%s\n", what);
  std::fflush(stdout);
  std::_Exit(1);
}

/// Large enough for several threads.
const cudml::Tensor kInput(kFloat, {2, 4, 512, 512}), kOutput(kFloat, {2, 4, 255, 255});

std::vector<float> made_up(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = float(unsigned(i) * 2654435761u >> 8) / 3;
  return values;
}

cudml::Compiled average() {
  const DML_AVERAGE_POOLING1_OPERATOR_DESC desc = {kInput, kOutput, 2,    kTwo, kThree,
                                                   kNone,  kNone,   kOne, FALSE};
  return cudml::Operator(desc).compile();
}

/// Needs working memory, which executions at the same time must not share.
cudml::Compiled gradient() {
  const DML_MAX_POOLING_GRAD_OPERATOR_DESC desc = {kInput, kOutput, kInput, 2,   kTwo,
                                                   kThree, kNone,   kNone,  kOne};
  return cudml::Operator(desc).compile();
}

void threads_share_an_operator() {
  const cudml::Compiled op = gradient();
  const std::vector<float> x = made_up(kInput.bytes() / 4), dy = made_up(kOutput.bytes() / 4);
  std::vector<float> results[4];
  std::thread threads[4];
  for (int t = 0; t < 4; ++t)
    threads[t] = std::thread([&, t] {
      results[t].resize(x.size());
      for (int i = 0; i < 3; ++i) op.execute({x.data(), dy.data()}, {results[t].data()});
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results)
    require(std::memcmp(result.data(), results[0].data(), kInput.bytes()) == 0,
            "threads that share an operator get different results");
}

void messages_are_a_threads_own() {
  require(cudml_set_num_threads(0) == CUDML_INVALID_ARGUMENT, "no threads are taken");
  const std::string here = cudml_last_error();
  std::thread([&] {
    require(std::strlen(cudml_last_error()) == 0, "another thread's message");
    require(cudml_set_num_threads(1025) != CUDML_SUCCESS, "1025 threads are taken");
    require(here != cudml_last_error(), "the message is the other thread's");
  }).join();
  require(here == cudml_last_error(), "a thread has changed another one's message");
}

void rounding_is_the_callers_own() {
  const cudml::Compiled op = average();
  const std::vector<float> x = made_up(kInput.bytes() / 4);
  std::vector<float> nearest(kOutput.bytes() / 4), upward(nearest.size());
  op.execute({x.data()}, {nearest.data()});
  std::fesetround(FE_UPWARD);
  average().execute({x.data()}, {upward.data()});
  require(std::fegetround() == FE_UPWARD, "the caller's rounding mode is lost");
  std::fesetround(FE_TONEAREST);
  require(nearest == upward, "the caller's rounding mode changes results");
}

void the_number_of_threads_is_kept() {
  for (const uint32_t number : {1u, 1024u, 3u}) {
    uint32_t threads = 0;
    cudml::check(cudml_set_num_threads(number));
    cudml::check(cudml_get_num_threads(&threads));
    require(threads == number, "the number of threads is not what was set");
  }
}

void unloading_leaves_threads_alone(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  require(handle, "the library does not load");
  const auto version = reinterpret_cast<decltype(&cudml_version)>(dlsym(handle, "cudml_version"));
  require(version && std::strcmp(version(), CUDML_VERSION) == 0, "its version is another one");
  dlclose(handle);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace

int main(int, char** argv) {
  threads_share_an_operator();
  messages_are_a_threads_own();
  rounding_is_the_callers_own();
  the_number_of_threads_is_kept();
  unloading_leaves_threads_alone(argv[1]);
  std::puts("good");
}
