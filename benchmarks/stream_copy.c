// Moves memory and does nothing else: a copy with non-temporal stores, which spare memory the read
// of what is overwritten, and reads beside writes of other sizes. In equal parts on threads that
// are kept from call to call and sleep between calls.
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { kMostThreads = 256, kLine = 64, kTurn = 4096, kAhead = 4096 };

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
    _mm_prefetch(from + i + kAhead, _MM_HINT_T0);
    a = _mm256_xor_si256(a, _mm256_loadu_si256(s));
    b = _mm256_xor_si256(b, _mm256_loadu_si256(s + 1));
  }
  uint64_t four[4];
  _mm256_storeu_si256((__m256i*)four, _mm256_xor_si256(a, b));
  return sum ^ four[0] ^ four[1] ^ four[2] ^ four[3];
}

__attribute__((target("avx2"))) static void write_wide(char* to, size_t n, uint64_t value,
                                                       int is_streamed) {
  const __m256i v = _mm256_set1_epi64x((long long)value);
  for (size_t i = 0; is_streamed && i + kLine <= n; i += kLine) {
    _mm256_stream_si256((__m256i*)(to + i), v);
    _mm256_stream_si256((__m256i*)(to + i) + 1, v);
  }
  for (size_t i = 0; !is_streamed && i + kLine <= n; i += kLine) {
    _mm256_store_si256((__m256i*)(to + i), v);
    _mm256_store_si256((__m256i*)(to + i) + 1, v);
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

static uint64_t read_part(const char* from, size_t n, uint64_t sum) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return read_wide(from, n, sum);
#endif
  return read_base(from, n, sum);
}

static void write_part(char* to, size_t n, uint64_t value, int is_streamed) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return write_wide(to, n, value, is_streamed);
#endif
  write_base(to, n, value);
}

/// What is moved: sizes are multiples of kLine. A piece of `run` bytes of each of so many `rows` is
/// read at once, and read again while it is written; or a run of 0 bytes says that nothing is.
struct moves {
  size_t written, read;
  size_t run, rows, stride;  // bytes, rows of a block, bytes from one to the next
  int is_streamed;
};

/// Where share number `i` of `count` equal ones begins, in whole lines.
static size_t bound(size_t size, size_t i, size_t count) {
  return i == count ? size : size / kLine * i / count * kLine;
}

/// Reads and writes in turns, each turn its share of both; `to` begins a line. Returns the
/// exclusive or of `sum` and all words read; that of those so far is written, or `value` if it is
/// not 0.
static uint64_t move_piece(char* to, const char* from, struct moves m, uint64_t sum,
                           uint64_t value) {
  const size_t turns = (m.read > m.written ? m.read : m.written) / kTurn + 1;
  for (size_t turn = 0; turn < turns; ++turn) {
    const size_t r = bound(m.read, turn, turns), w = bound(m.written, turn, turns);
    sum = read_part(from + r, bound(m.read, turn + 1, turns) - r, sum);
    write_part(to + w, bound(m.written, turn + 1, turns) - w, value ? value : sum, m.is_streamed);
  }
  return sum;
}

/// Reads n bytes of each of m.rows, then reads them again and writes as many of each. Returns the
/// exclusive or of `sum` and what it read the second time; that of the first time is written.
static uint64_t move_twice(char* to, const char* from, size_t n, struct moves m, uint64_t sum) {
  uint64_t first = 0;
  for (size_t row = 0; row < m.rows; ++row) first = read_part(from + row * m.stride, n, first);
  m.read = m.written = n;
  for (size_t row = 0; row < m.rows; ++row)
    sum = move_piece(to + row * m.stride, from + row * m.stride, m, sum, first);
  return sum;
}

/// Share number `i` of `count` of everything.
static uint64_t move_share(char* to, const char* from, struct moves m, size_t i, size_t count) {
  uint64_t sum = 0;
  if (m.run == 0) {
    const size_t r = bound(m.read, i, count), w = bound(m.written, i, count);
    struct moves mine = m;
    mine.read = bound(m.read, i + 1, count) - r;
    mine.written = bound(m.written, i + 1, count) - w;
    sum = move_piece(to + w, from + r, mine, 0, 0);
  } else {
    const size_t across = (m.stride + m.run - 1) / m.run;  // pieces of a block
    const size_t pieces = m.read / (m.rows * m.stride) * across;
    for (size_t piece = pieces * i / count; piece < pieces * (i + 1) / count; ++piece) {
      const size_t column = piece % across * m.run;
      const size_t at = piece / across * m.rows * m.stride + column;
      const size_t n = m.stride - column < m.run ? m.stride - column : m.run;
      sum = move_twice(to + at, from + at, n, m, sum);
    }
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
static struct moves all;  // of a copy only the size
static int is_copy, parts, workers, running;
static uint64_t ticket, sums[kMostThreads];

static void run_part(int part) {
  const size_t i = (size_t)part, count = (size_t)parts;
  const size_t at = bound(all.read, i, count);
  if (is_copy)
    copy_part(to_all + at, from_all + at, bound(all.read, i + 1, count) - at);
  else
    sums[part] = move_share(to_all, from_all, all, i, count);
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
  to_all = to, from_all = from, is_copy = 1;
  all = (struct moves){.read = n};
  run(threads);
}

/// Reads and writes as `moves` says; `to` is a multiple of 64. Returns the exclusive or of all
/// 64-bit words read.
uint64_t traffic(char* to, const char* from, struct moves moves, int threads) {
  to_all = to, from_all = from, all = moves, is_copy = 0;
  run(threads);
  uint64_t sum = 0;
  for (int part = 0; part < parts; ++part) sum ^= sums[part];
  return sum;
}
