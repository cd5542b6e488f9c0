// Moves memory and does nothing else: a copy with non-temporal stores, which spare memory the read
// of what is overwritten, and reads beside writes of other sizes. In equal parts on threads that
// are kept from call to call and sleep between calls.
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { kMostThreads = 256, kLine = 64, kTurn = 4096 };

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

__attribute__((target("avx2"))) static uint64_t read_wide(const char* from, size_t n,
                                                          uint64_t sum) {
  __m256i a = _mm256_setzero_si256(), b = a;
  for (size_t i = 0; i + kLine <= n; i += kLine) {
    const __m256i* s = (const __m256i*)(from + i);
    a = _mm256_xor_si256(a, _mm256_loadu_si256(s));
    b = _mm256_xor_si256(b, _mm256_loadu_si256(s + 1));
  }
  uint64_t four[4];
  _mm256_storeu_si256((__m256i*)four, _mm256_xor_si256(a, b));
  return sum ^ four[0] ^ four[1] ^ four[2] ^ four[3];
}

__attribute__((target("avx2"))) static void write_wide(char* to, size_t n, uint64_t value) {
  const __m256i v = _mm256_set1_epi64x((long long)value);
  for (size_t i = 0; i + kLine <= n; i += kLine) {
    _mm256_stream_si256((__m256i*)(to + i), v);
    _mm256_stream_si256((__m256i*)(to + i) + 1, v);
  }
}
#else
static void copy_part(char* to, const char* from, size_t n) { memcpy(to, from, n); }
#endif

static uint64_t read_base(const char* from, size_t n, uint64_t sum) {
  for (size_t i = 0; i + kLine <= n; i += kLine) {
    uint64_t line[kLine / 8];
    memcpy(line, from + i, kLine);
    for (int k = 0; k < kLine / 8; ++k) sum ^= line[k];
  }
  return sum;
}

static void write_base(char* to, size_t n, uint64_t value) {
  for (size_t i = 0; i + 8 <= n; i += 8) memcpy(to + i, &value, 8);
}

/// Reads and writes in turns, each turn its share of both; sizes are multiples of kLine and `to`
/// begins a line. Returns the exclusive or of all words read; that of those so far is written.
static uint64_t move_part(char* to, size_t written, const char* from, size_t read) {
  const size_t turns = (read > written ? read : written) / kTurn + 1;
#if defined(__x86_64__)
  const int is_wide = __builtin_cpu_supports("avx2");
#else
  const int is_wide = 0;
#define read_wide read_base
#define write_wide write_base
#endif
  uint64_t sum = 0;
  for (size_t turn = 0, r = 0, w = 0; turn < turns; ++turn) {
    const size_t r_end = read / kLine * (turn + 1) / turns * kLine;
    const size_t w_end = written / kLine * (turn + 1) / turns * kLine;
    sum = (is_wide ? read_wide : read_base)(from + r, r_end - r, sum);
    (is_wide ? write_wide : write_base)(to + w, w_end - w, sum);
    r = r_end, w = w_end;
  }
#if defined(__x86_64__)
  _mm_sfence();
#endif
  return sum;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static char* to_all;
static const char* from_all;
static size_t written_all, read_all;  // equal for a copy
static int is_copy, parts, workers, running;
static uint64_t ticket, sums[kMostThreads];

static size_t bound(size_t size, int part) {
  return part == parts ? size : size / kLine * (size_t)part / (size_t)parts * kLine;
}

static void run_part(int part) {
  const size_t w = bound(written_all, part), w_end = bound(written_all, part + 1);
  const size_t r = bound(read_all, part), r_end = bound(read_all, part + 1);
  if (is_copy)
    copy_part(to_all + w, from_all + r, r_end - r);
  else
    sums[part] = move_part(to_all + w, w_end - w, from_all + r, r_end - r);
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

static void run(int threads) {
  if (threads > kMostThreads) threads = kMostThreads;
  pthread_mutex_lock(&mutex);
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

/// Copies n bytes; not to be called by two threads at once, like all here.
void stream_copy(char* to, const char* from, size_t n, int threads) {
  to_all = to, from_all = from, written_all = read_all = n, is_copy = 1;
  run(threads);
}

/// Reads `read` bytes and meanwhile writes `written` bytes; both are multiples of 64, and so is
/// `to`. Returns the exclusive or of all 64-bit words read.
uint64_t stream_traffic(char* to, size_t written, const char* from, size_t read, int threads) {
  to_all = to, from_all = from, written_all = written, read_all = read, is_copy = 0;
  run(threads);
  uint64_t sum = 0;
  for (int part = 0; part < parts; ++part) sum ^= sums[part];
  return sum;
}
