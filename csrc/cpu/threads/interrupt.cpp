// Which watch a thread's work stands under.
#include "cpu/threads/interrupt.h"

namespace cudml::cpu {
namespace {

thread_local Watch* watch = nullptr;
thread_local bool is_asking = false;  // this thread made the watch

}  // namespace

Watch::Watch(Ask ask, void* context) : ask_(ask), context_(context), before_(watch) {
  watch = this;
  is_asking = true;
}

Watch::~Watch() {
  watch = before_;
  is_asking = before_ != nullptr;
}

Watch* Watch::current() { return watch; }

Watch::Member::Member(Watch* of) : before_(watch) {
  if (of == before_) return;
  watch = of;
  is_asking = false;
}

Watch::Member::~Member() { watch = before_; }

void Watch::check() {
  if (has_ended_.load(std::memory_order_relaxed)) throw Interrupted{};
  if (!is_asking || Clock::now() < next_) return;
  if (ask()) {
    has_ended_.store(true, std::memory_order_relaxed);
    throw Interrupted{};
  }
  next_ = Clock::now() + kPeriod;
}

/// What is called while it asks is other work, which must not ask again.
bool Watch::ask() {
  watch = nullptr;
  const bool is_to_end = ask_(context_);
  watch = this;
  is_asking = true;
  return is_to_end;
}

void checkpoint() {
  if (Watch* const here = watch) here->check();
}

}  // namespace cudml::cpu
