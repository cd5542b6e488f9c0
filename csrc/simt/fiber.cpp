// Fibers: stacks with a guard page, and the switch from one to another.
#include "fiber.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "sanitizers.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace cudml::simt {
namespace {

constexpr size_t kStackBytes = 256 << 10, kGuardBytes = 4 << 10;

Fiber* previous = nullptr;  // where the switch under way came from

/// The first thing at the end of a switch: learns the bounds of the launching thread's stack.
void arrive(void* fake_stack) {
  if (!__sanitizer_finish_switch_fiber) return;
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
  previous->bottom = bottom;
  previous->bytes = bytes;
}

}  // namespace

#if defined(__x86_64__)
// Saves the registers that a called function keeps, and exchanges the stack pointers.
asm(R"(
  .text
  .local cudml_simt_switch
  .type cudml_simt_switch, @function
cudml_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size cudml_simt_switch, .-cudml_simt_switch
)");
extern "C" void cudml_simt_switch(void** saved, void* to);

namespace {
void jump(Fiber& from, Fiber& to) { cudml_simt_switch(&from.saved, to.saved); }
}  // namespace

void prepare(Fiber& fiber, void (*entry)()) {
  // Six registers, the address to return to, and one word that aligns the stack as at a call.
  void** top = reinterpret_cast<void**>(uintptr_t(fiber.bottom) + fiber.bytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber.saved = top;
}
#else
namespace {
void jump(Fiber& from, Fiber& to) {
  if (!from.saved) from.saved = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(from.saved), static_cast<ucontext_t*>(to.saved));
}
}  // namespace

void prepare(Fiber& fiber, void (*entry)()) {
  if (!fiber.saved) fiber.saved = new ucontext_t;
  ucontext_t* context = static_cast<ucontext_t*>(fiber.saved);
  getcontext(context);
  context->uc_stack.ss_sp = const_cast<void*>(fiber.bottom);
  context->uc_stack.ss_size = fiber.bytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
}
#endif

void switch_fiber(Fiber& from, Fiber& to, bool is_last) {
  previous = &from;
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(is_last ? nullptr : &from.fake_stack, to.bottom, to.bytes);
  if (is_tsan()) __tsan_switch_to_fiber(to.tsan, 1);  // 1: this switch orders nothing
  jump(from, to);
  arrive(from.fake_stack);
}

void enter_fiber() { arrive(nullptr); }

void FiberPool::reserve(size_t count) {
  if (is_tsan()) count *= 2;
  in_turn_ = count;  // no more than needed: each order costs time in proportion
  if (fibers_.size() >= count) return;
  free_.clear();
  const size_t old = fibers_.size();
  fibers_.resize(count);
  for (size_t i = old; i < count; ++i) {
    const size_t bytes = kStackBytes + kGuardBytes;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE)) throw std::bad_alloc();
    fibers_[i].bottom = static_cast<char*>(memory) + kGuardBytes;
    fibers_[i].bytes = kStackBytes;
    if (is_tsan()) fibers_[i].tsan = __tsan_create_fiber(0);
  }
  for (Fiber& fiber : fibers_) free_.push_back(&fiber);
}

Fiber* FiberPool::take() {
  if (is_tsan()) return &fibers_[next_++ % in_turn_];
  Fiber* fiber = free_.back();
  free_.pop_back();
  return fiber;
}

void FiberPool::give(Fiber* fiber) {
  if (!is_tsan()) free_.push_back(fiber);
}

void FiberPool::reset() {
  free_.clear();
  for (Fiber& fiber : fibers_) {
    unpoison(fiber.bottom, fiber.bytes);
    if (is_tsan()) {
      __tsan_destroy_fiber(fiber.tsan);
      fiber.tsan = __tsan_create_fiber(0);
    }
    free_.push_back(&fiber);
  }
}

}  // namespace cudml::simt
