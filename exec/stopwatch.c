#include "exec/stopwatch.h"

#include <assert.h>

exec_stopwatch exec_stopwatch_of(exec_kernels *kernels, clockid_t clock, int lap_max, int op_max,
                                 arena *memory)
{
    return (exec_stopwatch){.kernels = kernels,
                            .clock = clock,
                            .time_factor = 1,
                            .lap_max = lap_max,
                            .op_max = op_max,
                            .lap_ns = arena_array(memory, (size_t)lap_max, sizeof(int64_t)),
                            .cell = arena_array(memory, (size_t)lap_max, sizeof(int64_t *)),
                            .wait_cell = arena_array(memory, (size_t)lap_max, sizeof(int64_t *)),
                            .wait_end = arena_array(memory, (size_t)lap_max, sizeof(int)),
                            .first_lap = arena_array(memory, (size_t)op_max, sizeof(int)),
                            .last_lap = arena_array(memory, (size_t)op_max, sizeof(int))};
}

status exec_stopwatch_begin(exec_stopwatch *watch, error_message *err)
{
    watch->lap_count = 0;
    watch->op_count = 0;
    watch->wait_count = 0;
    watch->ahead_ns = 0;
    exec_stopwatch_lap(watch, NULL, NULL);
    // The first mark is where the host's clock and the backend's meet: nothing queued before it may
    // make it late.
    const exec_kernel_table *table = watch->kernels->table;
    return table->mark != NULL ? table->finish(watch->kernels, err) : STATUS_OK;
}

void exec_stopwatch_begin_op(exec_stopwatch *watch)
{
    assert(watch->op_count < watch->op_max);
    watch->first_lap[watch->op_count] = watch->lap_count;
    exec_stopwatch_lap(watch, NULL, NULL);
}

static int64_t clock_ns(const exec_stopwatch *watch)
{
    struct timespec time;
    clock_gettime(watch->clock, &time);
    return watch->ahead_ns + (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// The time at which a part of an op has ended: now, or when it has lasted time_factor times as
/// long. Spins, since a clock of computing time stands still while its thread sleeps.
static int64_t end_of_part_ns(const exec_stopwatch *watch, int lap)
{
    int64_t now_ns = clock_ns(watch);
    const bool is_in_op =
        watch->op_count < watch->op_max && lap > watch->first_lap[watch->op_count];
    if (!is_in_op || watch->time_factor <= 1) return now_ns;
    const int64_t busy_ns = now_ns - watch->lap_ns[lap - 1] - watch->waited_ns;
    const int64_t end_ns = now_ns + (int64_t)((double)busy_ns * (watch->time_factor - 1));
    while (now_ns < end_ns) {
        now_ns = clock_ns(watch);
    }
    return now_ns;
}

void exec_stopwatch_lap(exec_stopwatch *watch, int64_t *cell, int64_t *wait_cell)
{
    assert(watch->lap_count < watch->lap_max);
    const int lap = watch->lap_count++;
    const exec_kernel_table *table = watch->kernels->table;
    watch->cell[lap] = cell;
    watch->wait_cell[lap] = wait_cell;
    watch->wait_end[lap] = watch->wait_count;
    if (wait_cell != NULL) *wait_cell = watch->waited_ns;
    if (table->mark != NULL) table->mark(watch->kernels, lap);
    watch->lap_ns[lap] = table->mark != NULL ? watch->ahead_ns : end_of_part_ns(watch, lap);
    watch->waited_ns = 0;
}

int64_t exec_stopwatch_op_ns(const exec_stopwatch *watch)
{
    return clock_ns(watch) - watch->lap_ns[watch->first_lap[watch->op_count]];
}

/// The mark at which the wait at hand begins; the next one ends it.
static int wait_mark(const exec_stopwatch *watch, int wait)
{
    return watch->lap_max + 2 * wait;
}

static int64_t wait_ns(const exec_stopwatch *watch, int wait)
{
    const exec_kernel_table *table = watch->kernels->table;
    return table->mark_ns(watch->kernels, wait_mark(watch, wait) + 1) -
           table->mark_ns(watch->kernels, wait_mark(watch, wait));
}

status exec_stopwatch_begin_wait(exec_stopwatch *watch, bool composes, int64_t *op_ns,
                                 error_message *err)
{
    const exec_kernel_table *table = watch->kernels->table;
    const int mark = wait_mark(watch, watch->wait_count);
    const int first = watch->first_lap[watch->op_count];
    if (table->mark == NULL) {
        *op_ns = watch->wait_since_ns = exec_stopwatch_op_ns(watch);
        return STATUS_OK;
    }
    *op_ns = 0;
    table->mark(watch->kernels, mark);
    if (!composes) return STATUS_OK;
    TRY(table->finish(watch->kernels, err));
    *op_ns = watch->ahead_ns + table->mark_ns(watch->kernels, mark) - watch->lap_ns[first] -
             table->mark_ns(watch->kernels, first);
    return STATUS_OK;
}

status exec_stopwatch_end_wait(exec_stopwatch *watch, bool composes, int64_t composed_ns,
                               error_message *err)
{
    const exec_kernel_table *table = watch->kernels->table;
    if (table->mark == NULL) {
        if (composes) watch->ahead_ns += composed_ns;
        watch->waited_ns += exec_stopwatch_op_ns(watch) - watch->wait_since_ns;
        return STATUS_OK;
    }
    table->mark(watch->kernels, wait_mark(watch, watch->wait_count) + 1);
    if (!composes) {
        watch->wait_count++;
        return STATUS_OK;
    }
    TRY(table->finish(watch->kernels, err));
    watch->ahead_ns += composed_ns - wait_ns(watch, watch->wait_count);
    watch->waited_ns += composed_ns;
    return STATUS_OK;
}

void exec_stopwatch_end_op(exec_stopwatch *watch)
{
    watch->last_lap[watch->op_count++] = watch->lap_count - 1;
}

status exec_stopwatch_settle(exec_stopwatch *watch, int first_op, error_message *err)
{
    const exec_kernel_table *table = watch->kernels->table;
    TRY(table->finish(watch->kernels, err));
    const int first = first_op < watch->op_count ? watch->first_lap[first_op] : watch->lap_count;
    if (table->mark != NULL) {
        watch->lap_ns[0] = 0;
        for (int lap = first; lap < watch->lap_count; lap++) {
            watch->lap_ns[lap] += table->mark_ns(watch->kernels, lap);
        }
    }
    for (int lap = first; lap < watch->lap_count; lap++) {
        if (watch->cell[lap] == NULL) continue;
        *watch->cell[lap] = watch->lap_ns[lap] - watch->lap_ns[lap - 1];
        if (watch->wait_cell[lap] == NULL) continue;
        for (int wait = watch->wait_end[lap - 1]; wait < watch->wait_end[lap]; wait++) {
            *watch->wait_cell[lap] += wait_ns(watch, wait);
        }
    }
    return STATUS_OK;
}

int64_t exec_stopwatch_op_begin_ns(const exec_stopwatch *watch, int op)
{
    return watch->lap_ns[watch->first_lap[op]] - watch->lap_ns[0];
}

int64_t exec_stopwatch_op_end_ns(const exec_stopwatch *watch, int op)
{
    return watch->lap_ns[watch->last_lap[op]] - watch->lap_ns[0];
}
