// Affinities of workers.
#include "cpu/threads/placement.h"

#include <sched.h>

namespace cudml::cpu {

void Placement::keep_off_caller() {
  const int here = sched_getcpu();
  if ((here == caller_ && !is_confined_) || here < 0 || count_ > kMost) return;
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus)) return;
  const int others = CPU_COUNT(&cpus) - (CPU_ISSET(here, &cpus) ? 1 : 0);
  if (here == caller_ && others == 0) return;
  caller_ = here;
  is_confined_ = others == 0;
  // Where there are more workers than processors, all of them are shared.
  if (count_ <= others) CPU_CLR(here, &cpus);
  for (int i = 0; i < count_; ++i) pthread_setaffinity_np(worker_[i], sizeof cpus, &cpus);
}

}  // namespace cudml::cpu
