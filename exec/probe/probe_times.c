#include "exec/probe/probe_times.h"

#include "exec/monotonic_clock.h"

#include <stdlib.h>

static int64_t monotonic_ns(void *context)
{
    (void)context;
    return exec_monotonic_ns();
}

exec_probe_clock exec_probe_clock_default(void)
{
    return (exec_probe_clock){.now_ns = monotonic_ns};
}

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

exec_probe_times exec_probe_times_of(int64_t *samples, int count)
{
    qsort(samples, (size_t)count, sizeof *samples, compare);
    return (exec_probe_times){
        .median_ns = samples[(count - 1) / 2], .min_ns = samples[0], .count = count};
}

/// One sample. Places 0 and 1 stand before and behind the work.
static status take_sample(exec_kernels *kernels, exec_probe_clock clock,
                          const exec_probe_work *work, int64_t *taken_ns, error_message *err)
{
    const exec_kernel_table *table = kernels->table;
    const int64_t begin_ns = clock.now_ns(clock.context);
    if (table->mark == NULL) {
        work->enqueue(work->context, kernels);
        TRY(table->finish(kernels, err));
        *taken_ns = clock.now_ns(clock.context) - begin_ns;
        return STATUS_OK;
    }
    status marked = table->mark(kernels, 0);
    work->enqueue(work->context, kernels);
    if (marked == STATUS_OK) marked = table->mark(kernels, 1);
    TRY(table->finish(kernels, err));
    if (marked != STATUS_OK) return error_set(err, marked, "the device's clock cannot be read");
    *taken_ns = table->mark_ns(kernels, 1);
    return STATUS_OK;
}

status exec_probe_measure(exec_kernels *kernels, exec_probe_clock clock, int64_t budget_ns,
                          const exec_probe_work *work, exec_probe_times *times, error_message *err)
{
    int64_t samples[EXEC_PROBE_SAMPLES_MAX];
    int count = 0;
    TRY(take_sample(kernels, clock, work, &samples[0], err));
    const int64_t begin_ns = clock.now_ns(clock.context);
    while (count < EXEC_PROBE_SAMPLES_MAX &&
           (count < EXEC_PROBE_SAMPLES_MIN || clock.now_ns(clock.context) - begin_ns < budget_ns)) {
        TRY(take_sample(kernels, clock, work, &samples[count], err));
        if (samples[count] < 1) samples[count] = 1; // shorter than the clock can tell
        count++;
    }
    *times = exec_probe_times_of(samples, count);
    return STATUS_OK;
}
