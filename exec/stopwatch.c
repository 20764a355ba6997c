#include "exec/stopwatch.h"

#include <assert.h>
#include <stdlib.h>

status exec_stopwatch_init(exec_stopwatch *watch, exec_kernels *kernels, clockid_t clock,
                           int lap_max, error_message *err)
{
    *watch = (exec_stopwatch){.kernels = kernels, .clock = clock, .lap_max = lap_max};
    watch->lap_ns = calloc((size_t)lap_max, sizeof *watch->lap_ns);
    if (watch->lap_ns == NULL) {
        *watch = (exec_stopwatch){0};
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d laps", lap_max);
    }
    return STATUS_OK;
}

void exec_stopwatch_reset(exec_stopwatch *watch)
{
    free(watch->lap_ns);
    *watch = (exec_stopwatch){0};
}

status exec_stopwatch_start(exec_stopwatch *watch, error_message *err)
{
    watch->lap_count = 0;
    return exec_stopwatch_lap(watch, err);
}

status exec_stopwatch_lap(exec_stopwatch *watch, error_message *err)
{
    assert(watch->lap_count < watch->lap_max);
    const int lap = watch->lap_count++;
    const exec_kernel_table *table = watch->kernels->table;
    if (table->mark != NULL) {
        const status result = table->mark(watch->kernels, lap);
        if (result == STATUS_OK) return STATUS_OK;
        return error_set(err, result, "%s: cannot note the time", table->name);
    }
    struct timespec time;
    clock_gettime(watch->clock, &time);
    watch->lap_ns[lap] = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    return STATUS_OK;
}

status exec_stopwatch_stop(exec_stopwatch *watch, error_message *err)
{
    const exec_kernel_table *table = watch->kernels->table;
    TRY(table->finish(watch->kernels, err));
    if (table->mark == NULL) return STATUS_OK;
    for (int lap = 0; lap < watch->lap_count; lap++) {
        watch->lap_ns[lap] = table->mark_ns(watch->kernels, lap);
    }
    return STATUS_OK;
}
