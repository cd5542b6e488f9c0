// A copy with non-temporal stores, which spare memory the read of what is overwritten; in equal
// parts on threads that are kept from call to call and sleep between calls.
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { kMostThreads = 256, kLine = 64 };

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static size_t stream_wide(char* to, const char* from, size_t n) {
  size_t i = 0;
  for (; i + 2 * kLine <= n; i += 2 * kLine) {
    const __m256i* s = (const __m256i*)(from + i);
    __m256i* d = (__m256i*)(to + i);
    const __m256i a = _mm256_loadu_si256(s), b = _mm256_loadu_si256(s + 1);
    const __m256i c = _mm256_loadu_si256(s + 2), e = _mm256_loadu_si256(s + 3);
    _mm256_stream_si256(d, a);
    _mm256_stream_si256(d + 1, b);
    _mm256_stream_si256(d + 2, c);
    _mm256_stream_si256(d + 3, e);
  }
  return i;
}

static size_t stream_base(char* to, const char* from, size_t n) {
  size_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    const __m128i* s = (const __m128i*)(from + i);
    __m128i* d = (__m128i*)(to + i);
    const __m128i a = _mm_loadu_si128(s), b = _mm_loadu_si128(s + 1);
    const __m128i c = _mm_loadu_si128(s + 2), e = _mm_loadu_si128(s + 3);
    _mm_stream_si128(d, a);
    _mm_stream_si128(d + 1, b);
    _mm_stream_si128(d + 2, c);
    _mm_stream_si128(d + 3, e);
  }
  return i;
}

static void copy_part(char* to, const char* from, size_t n) {
  size_t head = (kLine - (uintptr_t)to % kLine) % kLine;
  if (head > n) head = n;
  memcpy(to, from, head);
  to += head, from += head, n -= head;
  const int is_wide = __builtin_cpu_supports("avx2");
  const size_t done_bytes = is_wide ? stream_wide(to, from, n) : stream_base(to, from, n);
  _mm_sfence();
  memcpy(to + done_bytes, from + done_bytes, n - done_bytes);
}
#else
static void copy_part(char* to, const char* from, size_t n) { memcpy(to, from, n); }
#endif

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static char* to_all;
static const char* from_all;
static size_t size_all;
static int parts, workers, running;
static uint64_t ticket;

static size_t bound(int part) { return size_all / kLine * (size_t)part / (size_t)parts * kLine; }

static void run_part(int part) {
  const size_t begin = bound(part), end = part + 1 == parts ? size_all : bound(part + 1);
  copy_part(to_all + begin, from_all + begin, end - begin);
}

static void* work(void* number) {
  const int part = (int)(intptr_t)number;
  uint64_t seen = 0;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (ticket == seen || part >= parts) {
      seen = ticket;
      pthread_cond_wait(&posted, &mutex);
    }
    seen = ticket;
    pthread_mutex_unlock(&mutex);
    run_part(part);
    pthread_mutex_lock(&mutex);
    if (--running == 0) pthread_cond_signal(&done);
  }
  return NULL;
}

/// Copies n bytes; not to be called by two threads at once.
void stream_copy(char* to, const char* from, size_t n, int threads) {
  if (threads > kMostThreads) threads = kMostThreads;
  pthread_mutex_lock(&mutex);
  to_all = to, from_all = from, size_all = n;
  parts = 1;
  for (; workers < threads - 1; ++workers) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, (void*)(intptr_t)(workers + 1))) break;
    pthread_detach(thread);
  }
  parts = threads < workers + 1 ? threads : workers + 1;
  running = parts - 1;
  ++ticket;
  pthread_cond_broadcast(&posted);
  pthread_mutex_unlock(&mutex);
  run_part(0);
  pthread_mutex_lock(&mutex);
  while (running > 0) pthread_cond_wait(&done, &mutex);
  pthread_mutex_unlock(&mutex);
}
