/* Lets chosen allocations of a process fail, while a Python call runs and at no other time.

   malloc and its family are replaced, on which operator new and, with PYTHONMALLOC=malloc, Python
   and NumPy stand. */
#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stddef.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void* PyObject_Call(void*, void*, void*) __attribute__((weak));

static atomic_int is_armed;
static atomic_long seen, first, last;
static char *spared_from, *spared_to;
static __thread int is_asking __attribute__((tls_model("initial-exec")));

/* Whether code of the spared library is among the callers. */
static int is_spared(void) {
  void* frames[32];
  is_asking = 1; /* what this allocates is given */
  const int count = backtrace(frames, 32);
  is_asking = 0;
  for (int i = 0; i < count; ++i)
    if ((char*)frames[i] >= spared_from && (char*)frames[i] < spared_to) return 1;
  return 0;
}

/* Whether this allocation, counted from 1, is one of those that fail. */
static int fails(void) {
  if (!atomic_load(&is_armed) || is_asking) return 0;
  const long n = atomic_fetch_add(&seen, 1) + 1;
  return n >= atomic_load(&first) && n <= atomic_load(&last) && !is_spared();
}

static void* none(void) {
  errno = ENOMEM;
  return NULL;
}

void* malloc(size_t n) { return fails() ? none() : __libc_malloc(n); }
void* calloc(size_t n, size_t size) { return fails() ? none() : __libc_calloc(n, size); }
void* realloc(void* p, size_t n) { return fails() ? none() : __libc_realloc(p, n); }
void* memalign(size_t a, size_t n) { return fails() ? none() : __libc_memalign(a, n); }
void* aligned_alloc(size_t a, size_t n) { return fails() ? none() : __libc_memalign(a, n); }

int posix_memalign(void** p, size_t a, size_t n) {
  if (fails()) return ENOMEM;
  *p = __libc_memalign(a, n);
  return *p ? 0 : ENOMEM;
}

/* Calls f(*args, **kwargs) while allocations from the `from`-th to the `to`-th fail. */
void* faulty_call(void* f, void* args, void* kwargs, long from, long to) {
  atomic_store(&seen, 0);
  atomic_store(&first, from);
  atomic_store(&last, to);
  atomic_store(&is_armed, 1);
  void* result = PyObject_Call(f, args, kwargs);
  atomic_store(&is_armed, 0);
  return result;
}

/* What code between these addresses calls gets what it asks for: a library that has faults. */
void faulty_spare(void* from, void* to) {
  spared_from = from;
  spared_to = to;
}

/* Allocations that the last call asked for. */
long faulty_seen(void) { return atomic_load(&seen); }
