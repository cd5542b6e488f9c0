"""A C++ process: threads that share an operator, messages, rounding modes, unloading."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from library_support import built, library, run

FOLDER = Path(__file__).parent


def test_a_process(tmp_path: Path) -> None:
    program = built(FOLDER / "process.cpp", tmp_path, "-O1", "-pthread", "-ldl")
    assert run([str(program), str(library())], CUDML_NUM_THREADS="3").stdout == "good\n"


def test_a_plugin_is_unloaded_while_its_threads_wait(tmp_path: Path) -> None:
    """The library stays, and so does the code that its threads return to."""
    plugin = tmp_path / "plugin.c"
    plugin.write_text(PLUGIN)
    host = tmp_path / "host.c"
    host.write_text(HOST)
    shared = built(plugin, tmp_path, "-shared", "-fPIC")
    program = tmp_path / "unload"
    subprocess.run(["gcc", host, "-o", program, "-ldl"], check=True)
    assert run([str(program), str(shared)], CUDML_NUM_THREADS="3").stdout == "255 3 255\n"


def test_messages_of_a_process_that_ends(tmp_path: Path) -> None:
    """A global object's destructor hears of failures, too, after all that the thread had ended."""
    source = tmp_path / "last.cpp"
    source.write_text(LAST)
    program = built(source, tmp_path)
    assert run([str(program)]).stdout == "told\n"


def test_threads_without_memory_for_a_message(tmp_path: Path) -> None:
    """Every allocation after the first n fails: there is a status and a text for each n."""
    source = tmp_path / "exhausted.cpp"
    source.write_text(EXHAUSTED)
    program = built(source, tmp_path, "-pthread")
    assert run([str(program)]).stdout == "told\n"


def test_numbers_in_a_process_whose_locale_groups_digits(tmp_path: Path) -> None:
    """Messages, descriptions and explanations are the same everywhere."""
    source = tmp_path / "grouped.cpp"
    source.write_text(GROUPED)
    said = run([str(built(source, tmp_path))], CUDML_LOG="debug")
    assert "threads is 99999; it must be between 1 and 1024" in said.stdout
    assert "{1,1,1200,1000} strides {1200000,1200000,1000,1}" in said.stdout
    assert "epsilon 0.25" in said.stdout and " 9600000, each input read once" in said.stdout
    assert "InputTensor=float32{1,1,1200,1000}strides{1200000," in said.stderr


def test_a_thread_that_is_cancelled(tmp_path: Path) -> None:
    """Not in the middle of a call, and as soon as it is over."""
    source = tmp_path / "cancelled.c"
    source.write_text(CANCELLED)
    program = built(source, tmp_path, "-pthread")
    assert run([str(program)], CUDML_LOG="debug").stdout == "cancelled\n"  # it writes as it calls


CANCELLED = """
#define _DEFAULT_SOURCE
#include <cudml/cudml.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void* call_for_ever(void* nothing) {
  const UINT four[] = {4}, none[] = {0};
  DML_BUFFER_TENSOR_DESC x = {0};
  x.DataType = DML_TENSOR_DATA_TYPE_FLOAT32;
  x.DimensionCount = 1;
  x.Sizes = four;
  x.TotalTensorSizeInBytes = 16;
  const DML_TENSOR_DESC tensor = {DML_TENSOR_TYPE_BUFFER, &x};
  const DML_PADDING_OPERATOR_DESC padding = {&tensor, &tensor, DML_PADDING_MODE_EDGE, 0, 1,
                                             none,    none};
  const DML_OPERATOR_DESC desc = {DML_OPERATOR_PADDING, &padding};
  cudml_operator* op = NULL;
  cudml_compiled* compiled = NULL;
  const float values[4] = {0};
  float result[4];
  const void* inputs[] = {values};
  void* outputs[] = {result};
  cudml_execution e = {sizeof e, inputs, outputs, 1, 1, NULL, 0, NULL, 0, NULL};
  if (cudml_operator_create(&desc, DML_FEATURE_LEVEL_6_4, &op)) return nothing;
  if (cudml_operator_compile(op, "cpu", &compiled)) return nothing;
  while (!cudml_execute(compiled, &e)) pthread_testcancel();
  return nothing;
}
int main(void) {
  for (int i = 0; i < 20; ++i) {
    pthread_t thread;
    void* result = NULL;
    if (pthread_create(&thread, NULL, call_for_ever, NULL)) return 1;
    usleep(5000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) return 2;
  }
  puts("cancelled");
  return 0;
}
"""


@pytest.mark.parametrize("name", ["CUDML_LOG", "CUDML_CPU_ISA"])
def test_a_fork_while_another_thread_reads_the_environment(tmp_path: Path, name: str) -> None:
    """The child's first call does not wait for that thread, which it has not."""
    source = tmp_path / "forked.cpp"
    source.write_text(FORKED)
    program = built(source, tmp_path, "-pthread", "-ldl")
    assert run([str(program), name]).stdout == "good\n"


FORKED = """
#include <cudml/cudml.hpp>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
std::atomic<const char*> held{nullptr};  // the variable at which a thread is held
std::atomic<bool> is_there{false};
extern "C" char* getenv(const char* name) noexcept {
  static const auto real = reinterpret_cast<char* (*)(const char*)>(dlsym(RTLD_NEXT, "getenv"));
  for (const char* at = held; at && std::strcmp(at, name) == 0; at = held) {
    is_there = true;
    usleep(1000);
  }
  return real(name);
}
void call() {
  uint32_t threads;
  cudml::check(cudml_get_num_threads(&threads));
  const cudml::Tensor x(DML_TENSOR_DATA_TYPE_FLOAT32, {1, 1, 4, 4});
  const UINT axes[] = {3};
  const DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC normalization = {
      x, nullptr, nullptr, x, 1, axes, TRUE, 0.25f, nullptr};
  cudml::Operator(normalization).compile();
}
int main(int, char** argv) {
  held = argv[1];
  std::thread other(call);
  while (!is_there) usleep(1000);
  const pid_t child = fork();
  held = nullptr;
  if (child == 0) {
    alarm(10);
    call();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  other.join();
  std::puts(status == 0 ? "good" : "the child hangs");
}
"""

GROUPED = """
#include <cudml/cudml.hpp>
#include <cstdio>
#include <locale>
struct Grouped : std::numpunct<char> {
  char do_thousands_sep() const override { return ','; }
  char do_decimal_point() const override { return ','; }
  std::string do_grouping() const override { return "\\3"; }
};
int main() {
  std::locale::global(std::locale(std::locale::classic(), new Grouped));
  const cudml::Tensor x(DML_TENSOR_DATA_TYPE_FLOAT32, {1, 1, 1200, 1000});
  const UINT axes[] = {3};
  const DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC normalization = {
      x, nullptr, nullptr, x, 1, axes, TRUE, 0.25f, nullptr};
  const cudml::Operator op(normalization);
  const cudml::Compiled compiled = op.compile();
  const std::vector<float> from(1200000);
  std::vector<float> to(1200000);
  compiled.execute({from.data()}, {to.data()});
  std::puts(op.describe().c_str());
  std::puts(compiled.explain().c_str());
  cudml_set_num_threads(99999);
  std::puts(cudml_last_error());
}
"""

EXHAUSTED = """
#include <cudml/cudml.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
thread_local long left = -1;
bool fails() { return left == 0 || (left > 0 && left-- < 0); }
extern "C" void* malloc(size_t n) { return fails() ? nullptr : __libc_malloc(n); }
extern "C" void* calloc(size_t n, size_t m) { return fails() ? nullptr : __libc_calloc(n, m); }
/* Whether a thread's first failure is told after so many allocations; `is_whole`: all of it. */
bool is_told(long allocations, bool& is_whole) {
  bool is = false;
  std::thread([&] {
    left = allocations;
    const cudml_status status = cudml_set_num_threads(0);
    const char* const text = cudml_last_error();
    left = -1;
    is_whole = std::strstr(text, "threads is 0; it must be") != nullptr;
    is = status != CUDML_SUCCESS && (is_whole || std::strstr(text, "no memory for"));
  }).join();
  return is;
}
int main() {
  bool is_whole = false;
  for (long n = 0; !is_whole; ++n)
    if (n > 100 || !is_told(n, is_whole)) return 1;
  std::puts("told");
}
"""

LAST = """
#include <cudml/cudml.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
bool is_told() {
  return cudml_set_num_threads(0) && std::strstr(cudml_last_error(), "threads is 0; it must be");
}
struct Last {
  ~Last() {
    static unsigned char* own[256];  // among it what the thread has given back
    for (size_t i = 0; i < 256; ++i) {
      own[i] = static_cast<unsigned char*>(std::malloc(1 + i));
      std::memset(own[i], 7, 1 + i);
    }
    bool is = is_told();
    for (size_t i = 0; i < 256; ++i)
      for (size_t k = 0; k <= i; ++k) is = is && own[i][k] == 7;
    std::puts(is ? "told" : "lost");
  }
} last;
int main() { return is_told() ? 0 : 1; }
"""

PLUGIN = """
#include <cudml/cudml.h>
#include <stdlib.h>
/* The greatest value of a large pooling of 0, 1, ... 255, 0, ... */
int work(void) {
  enum { kN = 4096 };
  static const UINT sizes[] = {1, 1, kN, kN}, pooled[] = {1, 1, kN / 2, kN / 2}, two[] = {2, 2};
  static const UINT none[] = {0, 0};
  DML_BUFFER_TENSOR_DESC x = {0}, y;
  x.DataType = DML_TENSOR_DATA_TYPE_UINT8;
  x.DimensionCount = 4;
  x.Sizes = sizes;
  x.TotalTensorSizeInBytes = kN * kN;
  y = x;
  y.Sizes = pooled;
  y.TotalTensorSizeInBytes = kN * kN / 4;
  const DML_TENSOR_DESC from = {DML_TENSOR_TYPE_BUFFER, &x}, to = {DML_TENSOR_TYPE_BUFFER, &y};
  const DML_MAX_POOLING1_OPERATOR_DESC pool = {&from, &to, NULL, 2, two, two, none, none};
  const DML_OPERATOR_DESC desc = {DML_OPERATOR_MAX_POOLING1, &pool};
  cudml_operator* op = NULL;
  cudml_compiled* compiled = NULL;
  unsigned char* values = malloc(kN * kN + kN * kN / 4);
  const void* inputs[] = {values};
  void* outputs[] = {values + kN * kN};
  cudml_execution e = {sizeof e, inputs, outputs, 1, 1, NULL, 0, NULL, 0, NULL};
  int greatest = 0;
  for (int i = 0; i < kN * kN; ++i) values[i] = (unsigned char)i;
  if (cudml_operator_create(&desc, DML_FEATURE_LEVEL_6_4, &op)) return -1;
  if (cudml_operator_compile(op, "cpu", &compiled)) return -2;
  if (cudml_execute(compiled, &e)) return -3;
  for (int i = 0; i < kN * kN / 4; ++i)
    if (values[kN * kN + i] > greatest) greatest = values[kN * kN + i];
  cudml_compiled_destroy(compiled);
  cudml_operator_destroy(op);
  free(values);
  return greatest;
}
"""
HOST = """
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
static int threads(void) { /* of this process; "." and ".." are listed as well */
  int n = -2;
  DIR* tasks = opendir("/proc/self/task");
  while (readdir(tasks)) ++n;
  closedir(tasks);
  return n;
}
static int work(const char* file) {
  void* plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!plugin) return -9;
  const int result = ((int (*)(void))dlsym(plugin, "work"))();
  dlclose(plugin);
  usleep(20000);
  return result;
}
int main(int argc, char** argv) {
  (void)argc;
  const int first = work(argv[1]);
  printf("%d %d ", first, threads());
  printf("%d\\n", work(argv[1]));
  return 0;
}
"""
