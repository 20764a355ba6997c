/// What one device computes and moves.
#include "exec/probe/probe.h"

#include "base/rng.h"

#include "exec/clock.h"

#include <stdlib.h>

enum { BLOCK_ROWS = 64, REGIONS_MAX = 5 };
static const int64_t capacity_step_bytes = INT64_C(64) << 20;

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

void exec_probe_tell(int64_t *samples, int count, exec_measurement *measured)
{
    qsort(samples, (size_t)count, sizeof *samples, compare);
    measured->median_ns = samples[(count - 1) / 2];
    measured->min_ns = samples[0];
    measured->count = count;
}

/// A measurement with its operands, memory of the device.
typedef struct work {
    exec_kernels *kernels;
    const exec_measurement *of;
    void *region[REGIONS_MAX];
    int region_count;
    int first_row[2]; // of attention
} work;

/// Takes a region; zeroed.
static void *take(work *at, size_t bytes)
{
    return at->region[at->region_count++] = at->kernels->table->allocate(at->kernels, bytes);
}

/// Takes a region of random values in [-0.5, 0.5]: a GPU draws less power on others, and is faster.
static status take_values(work *at, size_t count, error_message *err)
{
    const exec_kernel_table *table = at->kernels->table;
    float *host = memory_array(count, sizeof *host);
    rng random = rng_init(1, 0);
    for (size_t value = 0; value < count; value++) {
        host[value] = (float)(rng_unit(&random) - 0.5);
    }
    float *floats = table->allocate(at->kernels, count * sizeof *host);
    table->to_device(at->kernels, floats, host, count * sizeof *host);
    table->to_values(at->kernels, floats, take(at, count * (size_t)table->value_bytes), count);
    const status result = table->finish(at->kernels, err);
    table->release(at->kernels, floats);
    free(host);
    return result;
}

static exec_attention attention_of(const work *at)
{
    const exec_matmul *shape = &at->of->shape;
    return (exec_attention){.head_count = shape->inner,
                            .head_width = shape->columns,
                            .sequence_count = 1,
                            .first_row = at->first_row,
                            .block_rows = BLOCK_ROWS,
                            .block_count = (shape->rows + BLOCK_ROWS - 1) / BLOCK_ROWS};
}

static void attend(const work *at)
{
    const exec_attention shape = attention_of(at);
    at->kernels->table->attention(at->kernels, &shape, at->region[0], at->region[2], at->region[3]);
}

static status take_attention(work *at, error_message *err)
{
    const size_t rows = (size_t)at->of->shape.rows;
    const size_t heads = (size_t)at->of->shape.inner;
    const size_t width = heads * (size_t)at->of->shape.columns;
    const size_t value_bytes = (size_t)at->kernels->table->value_bytes;
    at->first_row[1] = at->of->shape.rows;
    TRY(take_values(at, rows * 3 * width, err));                   // queries, keys, values
    TRY(take_values(at, rows * width, err));                       // gradient of the output
    take(at, rows * width * value_bytes);                          // output
    take(at, rows * heads * sizeof(float));                        // logarithms of sums
    take(at, rows * 3 * width * value_bytes);                      // gradient of region 0
    if (at->of->kind == EXEC_PROBE_ATTENTION_BACKWARD) attend(at); // whose results it needs
    return STATUS_OK;
}

static status take_operands(work *at, error_message *err)
{
    const exec_matmul *shape = &at->of->shape;
    const size_t rows = (size_t)shape->rows;
    const size_t columns = (size_t)shape->columns;
    switch (at->of->kind) {
    case EXEC_PROBE_PRODUCT:
        TRY(take_values(at, rows * (size_t)shape->inner, err));
        TRY(take_values(at, (size_t)shape->inner * columns, err));
        take(at, rows * columns * sizeof(float));
        return STATUS_OK;
    case EXEC_PROBE_COPY:
        TRY(take_values(at, (size_t)at->of->amount / 2 / (size_t)at->kernels->table->value_bytes,
                        err));
        take(at, (size_t)at->of->amount / 2);
        return STATUS_OK;
    case EXEC_PROBE_ELEMENTS:
        TRY(take_values(at, rows * columns, err));
        return take_values(at, rows * columns, err);
    default:
        return take_attention(at, err);
    }
}

static void enqueue(const work *at)
{
    exec_kernels *kernels = at->kernels;
    const exec_kernel_table *table = kernels->table;
    const exec_matmul *shape = &at->of->shape;
    const size_t count = (size_t)shape->rows * (size_t)shape->columns;
    void *const *region = at->region;
    const exec_attention attention = attention_of(at);
    switch (at->of->kind) {
    case EXEC_PROBE_PRODUCT:
        table->matmul(kernels, shape, region[0], region[1], region[2]);
        return;
    case EXEC_PROBE_COPY:
        table->copy(kernels, region[1], region[0], (size_t)at->of->amount / 2);
        return;
    case EXEC_PROBE_ELEMENTS:
        // The array that is added stays as it is, so that sums do not grow beyond all bounds.
        table->add(kernels, region[0], region[1], count);
        table->gelu(kernels, region[0], region[0], count);
        return;
    case EXEC_PROBE_ATTENTION:
        attend(at);
        return;
    default:
        table->attention_input(kernels, &attention, region[0], region[2], region[3], region[1],
                               region[4]);
    }
}

/// By the backend's marks 0 and 1. They stand between the work and the same work before it: while
/// that is done, the host enqueues what is measured, and its time for that is not.
static status take_marked_sample(const work *at, int64_t *taken_ns, error_message *err)
{
    exec_kernels *kernels = at->kernels;
    enqueue(at);
    kernels->table->mark(kernels, 0);
    enqueue(at);
    kernels->table->mark(kernels, 1);
    TRY(kernels->table->finish(kernels, err));
    *taken_ns = kernels->table->mark_ns(kernels, 1);
    return STATUS_OK;
}

/// One sample.
static status take_sample(const work *at, int64_t *taken_ns, error_message *err)
{
    const int64_t begin_ns = exec_monotonic_ns();
    if (at->kernels->table->mark != NULL) {
        TRY(take_marked_sample(at, taken_ns, err));
    } else {
        enqueue(at);
        TRY(at->kernels->table->finish(at->kernels, err));
        *taken_ns = exec_monotonic_ns() - begin_ns;
    }
    if (*taken_ns < 1) *taken_ns = 1; // shorter than the clock can tell
    return STATUS_OK;
}

static status take_samples(const work *at, int64_t budget_ns, exec_measurement *measured,
                           error_message *err)
{
    int64_t samples[EXEC_PROBE_SAMPLES_MAX];
    int count = 0;
    TRY(take_sample(at, &samples[0], err));
    const int64_t begin_ns = exec_monotonic_ns();
    while (count < EXEC_PROBE_SAMPLES_MAX &&
           (count < EXEC_PROBE_SAMPLES_MIN || exec_monotonic_ns() - begin_ns < budget_ns)) {
        TRY(take_sample(at, &samples[count], err));
        count++;
    }
    exec_probe_tell(samples, count, measured);
    return STATUS_OK;
}

status exec_probe_measure(exec_kernels *kernels, int64_t budget_ns, exec_measurement *measured,
                          error_message *err)
{
    work at = {.kernels = kernels, .of = measured};
    status result = take_operands(&at, err);
    if (result == STATUS_OK) result = take_samples(&at, budget_ns, measured, err);
    for (int region = 0; region < at.region_count; region++) {
        kernels->table->release(kernels, at.region[region]);
    }
    return result;
}

static bool gives_out(exec_kernels *kernels, int64_t bytes)
{
    void *region = kernels->table->allocate(kernels, (size_t)bytes);
    kernels->table->release(kernels, region);
    return kernels->table->finish(kernels, NULL) == STATUS_OK && region != NULL;
}

int64_t exec_probe_capacity(exec_kernels *kernels, int64_t limit_bytes)
{
    int64_t fits = 0;
    int64_t too_large = limit_bytes / capacity_step_bytes + 1;
    while (too_large - fits > 1) {
        const int64_t middle = fits + (too_large - fits) / 2;
        if (gives_out(kernels, middle * capacity_step_bytes)) {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    return fits * capacity_step_bytes;
}
