#include "exec/clock.h"

#include <pthread.h>
#include <sched.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

const char *const exec_clock_names[EXEC_CLOCK_COUNT] = {"nominal", "queue", "real"};

void exec_thread_make_punctual(bool real_time)
{
    // Linux lets timers of a thread be 50 us late, to wake several at once.
#ifdef PR_SET_TIMERSLACK
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
    if (!real_time) return;
    const struct sched_param parameters = {.sched_priority = sched_get_priority_min(SCHED_RR)};
    (void)pthread_setschedparam(pthread_self(), SCHED_RR, &parameters);
}
