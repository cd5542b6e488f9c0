// Finding an OpenMP runtime without linking to one, and ending its team before a fork.
#include "cpu/threads/openmp.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <locale>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/environment.h"
#include "core/first_thread.h"
#include "cpu/threads/openmp_members.h"

namespace cudml::cpu {
namespace {

/// GNU's names, which LLVM's and Intel's runtimes have too.
struct Runtime {
  void (*parallel)(void (*)(void*), void*, unsigned threads, unsigned flags) = nullptr;
  int (*in_parallel)() = nullptr;
  int (*max_threads)() = nullptr;
  int (*pause_all)(int kind) = nullptr;

  bool is_whole() const { return parallel && in_parallel && max_threads && pause_all; }
};

constexpr int kPauseHard = 2;  // omp_pause_hard: threads end

std::atomic<const Runtime*> found{nullptr};
std::atomic<bool> is_forked{false};

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

/// The runtime of a library that is loaded, and is then kept loaded; nothing where it has none.
Runtime runtime_of(const char* path) {
  Runtime r;
  void* const library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return r;
  look_up(library, "GOMP_parallel", r.parallel);
  look_up(library, "omp_in_parallel", r.in_parallel);
  look_up(library, "omp_get_max_threads", r.max_threads);
  look_up(library, "omp_pause_resource_all", r.pause_all);
  if (!r.is_whole()) dlclose(library);
  return r;
}

bool is_named_like_openmp(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libgomp") || name.starts_with("libomp") || name.starts_with("libiomp");
}

/// How many libraries the process has loaded so far.
unsigned long long loaded_libraries() {
  unsigned long long n = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        *static_cast<unsigned long long*>(to) = info->dlpi_adds;
        return 1;
      },
      &n);
  return n;
}

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        if (info->dlpi_name && is_named_like_openmp(info->dlpi_name))
          static_cast<std::vector<std::string>*>(to)->push_back(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

/// A child that inherits a team without its threads would wait for them for ever, in any library.
void before_fork() {
  const Runtime* const r = found;
  if (r && !is_forked && is_first_thread() && !r->in_parallel()) r->pause_all(kPauseHard);
}

/// Whether this process has forked from another and is still its copy, or cannot tell. A team that
/// went lost then may be from before this library was there.
bool is_copy_of_another() {
  constexpr unsigned long kForkedWithoutExec = 0x40;  // PF_FORKNOEXEC
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return true;
  std::istringstream fields(text.substr(name_end + 1));
  fields.imbue(std::locale::classic());  // where a space ends a number
  std::string skipped;
  for (int i = 3; i < 9; ++i) fields >> skipped;
  unsigned long flags = 0;
  return !(fields >> flags) || (flags & kForkedWithoutExec);
}

/// The first runtime in the order of loading. Looked for again whenever libraries were loaded.
const Runtime* runtime() {
  static std::mutex mutex;
  static unsigned long long seen = 0;
  static Runtime kept;
  if (const Runtime* const r = found.load(std::memory_order_acquire)) return r;
  const std::unique_lock lock(mutex, std::try_to_lock);
  const unsigned long long loaded = loaded_libraries();
  if (!lock || loaded == seen) return nullptr;
  seen = loaded;
  if (is_copy_of_another()) return nullptr;
  for (const std::string& path : candidates()) {
    kept = runtime_of(path.c_str());
    if (!kept.is_whole()) continue;
    if (pthread_atfork(before_fork, nullptr, [] { is_forked = true; })) return nullptr;
    found.store(&kept, std::memory_order_release);
    return &kept;
  }
  return nullptr;
}

using Clock = std::chrono::steady_clock;

/// The team of the process's first thread.
class Team {
 public:
  bool run(const Runtime& runtime, void (*work)(void*), void* context, int threads) {
    if (Clock::now() < rests_until_ || !members_.are_awake()) return false;
    members_.begin();
    work_ = work;
    context_ = context;
    caller_ = pthread_self();
    if (_setjmp(outside_) == 0)
      runtime.parallel([](void* team) { static_cast<Team*>(team)->take_part(); }, this,
                       unsigned(threads), 0);
    members_.end();
    note_lateness(Clock::now());
    return true;
  }

 private:
  /// By which others may end after the caller: more, and they did not have processors.
  static constexpr auto kLate = std::chrono::microseconds(500);
  static constexpr auto kShortRest = std::chrono::milliseconds(20);
  static constexpr auto kLongRest = std::chrono::milliseconds(320);

  void take_part() {
    const bool is_caller = pthread_equal(pthread_self(), caller_);
    if (!is_caller) members_.note();
    work_(context_);
    if (!is_caller) return;
    caller_end_ = Clock::now();
    // A handler of a signal has forked in here: the others, for whom the runtime would wait, are
    // not in this process, and what comes after finds itself in a parallel region.
    if (is_forked) longjmp(outside_, 1);
  }

  /// A runtime waits for every member, however long that is withheld from its processor by threads
  /// of a third library; so it is left alone for a while, and longer when that happens again.
  void note_lateness(Clock::time_point end) {
    if (end - caller_end_ < kLate) return;
    rest_ = end - rests_until_ < 2 * rest_ ? std::min<Clock::duration>(2 * rest_, kLongRest)
                                           : kShortRest;
    rests_until_ = end + rest_;
  }

  void (*work_)(void*) = nullptr;
  void* context_ = nullptr;
  pthread_t caller_{};
  jmp_buf outside_;  // where the call is made
  OpenMpMembers members_;
  Clock::time_point caller_end_, rests_until_;
  Clock::duration rest_ = kShortRest;
};

}  // namespace

bool run_on_openmp(void (*work)(void*), void* context, int threads) {
  if (environment().has_own_threads || is_forked.load(std::memory_order_relaxed) ||
      !is_first_thread())
    return false;
  const Runtime* const r = runtime();
  if (!r || r->max_threads() != threads || r->in_parallel()) return false;
  static Team team;
  return team.run(*r, work, context, threads);
}

}  // namespace cudml::cpu
