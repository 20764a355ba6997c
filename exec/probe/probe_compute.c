#include "exec/probe/probe_compute.h"

#include "base/arena.h"
#include "exec/monotonic_clock.h"

#include <stdlib.h>

enum { BLOCK_ROWS = 64, OPERAND_PERIOD = 7 };
static const int64_t capacity_step_bytes = INT64_C(64) << 20;

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

/// One sample. Places 0 and 1 stand before and after the work.
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

exec_probe_options exec_probe_options_default(void)
{
    return (exec_probe_options){.clock = exec_probe_clock_default(),
                                .budget_ns = 200000000,
                                .stream_bytes = INT64_C(256) << 20};
}

int64_t exec_probe_product_flop(const exec_matmul *shape)
{
    return 2 * (int64_t)shape->rows * shape->columns * shape->inner;
}

double exec_probe_rate(int64_t flop, int64_t ns)
{
    return ns > 0 ? (double)flop / ((double)ns / 1e9) : 0;
}

/// Memory of the device for one measurement.
typedef struct operands {
    exec_kernels *kernels;
    void *region[6];
    int count;
} operands;

static void release(operands *of)
{
    for (int region = 0; region < of->count; region++) {
        of->kernels->table->release(of->kernels, of->region[region]);
    }
    of->count = 0;
}

/// Takes a region; zeroed.
static status take(operands *of, size_t bytes, void **region, error_message *err)
{
    TRY(of->kernels->table->allocate(of->kernels, bytes, region, err));
    of->region[of->count++] = *region;
    return STATUS_OK;
}

/// Takes a region of values that are not all alike: some hardware is faster on zeros.
static status take_values(operands *of, size_t count, void **region, error_message *err)
{
    const exec_kernel_table *table = of->kernels->table;
    float *host = memory_array((count > 0 ? count : 1), sizeof *host);
    void *floats = NULL;
    for (size_t value = 0; value < count; value++) {
        host[value] = (float)((int)(value % OPERAND_PERIOD) - OPERAND_PERIOD / 2) / OPERAND_PERIOD;
    }
    status result = table->allocate(of->kernels, count * sizeof *host, &floats, err);
    if (result == STATUS_OK) {
        table->to_device(of->kernels, floats, host, count * sizeof *host);
        result = take(of, count * (size_t)table->value_bytes, region, err);
    }
    if (result == STATUS_OK) {
        table->to_values(of->kernels, floats, *region, count);
        result = table->finish(of->kernels, err);
    }
    table->release(of->kernels, floats);
    free(host);
    return result;
}

/// A product with its operands.
typedef struct product {
    const exec_matmul *shape;
    void *a, *b, *c;
} product;

static void multiply(void *context, exec_kernels *kernels)
{
    const product *of = context;
    kernels->table->matmul(kernels, of->shape, of->a, of->b, of->c);
}

static status measure_product(operands *memory, const exec_probe_options *options,
                              exec_probe_product *measured, error_message *err)
{
    const exec_matmul *shape = &measured->shape;
    const size_t rows = (size_t)shape->rows;
    const size_t columns = (size_t)shape->columns;
    const size_t inner = (size_t)shape->inner;
    product of = {.shape = shape};
    TRY(take_values(memory, rows * inner, &of.a, err));
    TRY(take_values(memory, inner * columns, &of.b, err));
    TRY(take(memory, rows * columns * sizeof(float), &of.c, err));
    const exec_probe_work work = {&of, multiply};
    return exec_probe_measure(memory->kernels, options->clock, options->budget_ns, &work,
                              &measured->times, err);
}

status exec_probe_products(exec_kernels *kernels, const exec_probe_options *options,
                           exec_probe_product *products, int count, error_message *err)
{
    status result = STATUS_OK;
    for (int index = 0; index < count && result == STATUS_OK; index++) {
        operands memory = {.kernels = kernels};
        result = measure_product(&memory, options, &products[index], err);
        release(&memory);
    }
    return result;
}

/// Attention with its arrays.
typedef struct attention_arrays {
    exec_attention shape;
    int first_row[2];
    void *qkv, *output, *output_gradient, *qkv_gradient;
    float *log_sum;
} attention_arrays;

static void attend(void *context, exec_kernels *kernels)
{
    const attention_arrays *of = context;
    kernels->table->attention(kernels, &of->shape, of->qkv, of->output, of->log_sum);
}

static void attend_backward(void *context, exec_kernels *kernels)
{
    const attention_arrays *of = context;
    kernels->table->attention_input(kernels, &of->shape, of->qkv, of->output, of->log_sum,
                                    of->output_gradient, of->qkv_gradient);
}

static status measure_attention(operands *memory, const exec_probe_options *options,
                                exec_probe_attention *measured, error_message *err)
{
    const size_t rows = (size_t)measured->sequence_length;
    const size_t width = (size_t)measured->head_count * (size_t)measured->head_width;
    const size_t value_bytes = (size_t)memory->kernels->table->value_bytes;
    attention_arrays of = {.first_row = {0, measured->sequence_length}};
    void *log_sum = NULL;
    of.shape =
        (exec_attention){.head_count = measured->head_count,
                         .head_width = measured->head_width,
                         .sequence_count = 1,
                         .first_row = of.first_row,
                         .block_rows = BLOCK_ROWS,
                         .block_count = (measured->sequence_length + BLOCK_ROWS - 1) / BLOCK_ROWS};
    TRY(take_values(memory, rows * 3 * width, &of.qkv, err));
    TRY(take_values(memory, rows * width, &of.output_gradient, err));
    TRY(take(memory, rows * width * value_bytes, &of.output, err));
    TRY(take(memory, rows * (size_t)measured->head_count * sizeof(float), &log_sum, err));
    TRY(take(memory, rows * 3 * width * value_bytes, &of.qkv_gradient, err));
    of.log_sum = log_sum;
    const exec_probe_work forward = {&of, attend};
    const exec_probe_work backward = {&of, attend_backward};
    TRY(exec_probe_measure(memory->kernels, options->clock, options->budget_ns, &forward,
                           &measured->forward, err));
    return exec_probe_measure(memory->kernels, options->clock, options->budget_ns, &backward,
                              &measured->backward, err);
}

status exec_probe_attention_measure(exec_kernels *kernels, const exec_probe_options *options,
                                    exec_probe_attention *attention, error_message *err)
{
    operands memory = {.kernels = kernels};
    const status result = measure_attention(&memory, options, attention, err);
    release(&memory);
    return result;
}

/// Two arrays, of bytes for the copy and of values for kernels.
typedef struct streams {
    void *from, *to;
    size_t bytes;
    size_t count;
} streams;

static void copy(void *context, exec_kernels *kernels)
{
    const streams *of = context;
    kernels->table->copy(kernels, of->to, of->from, of->bytes);
}

static void pass_elements(void *context, exec_kernels *kernels)
{
    const streams *of = context;
    kernels->table->add(kernels, of->to, of->from, of->count);
    kernels->table->gelu(kernels, of->from, of->to, of->count);
}

static status measure_streams(operands *memory, const exec_probe_options *options,
                              exec_probe_memory *measured, error_message *err)
{
    const int64_t value_bytes = memory->kernels->table->value_bytes;
    streams of = {.bytes = (size_t)options->stream_bytes, .count = (size_t)measured->value_count};
    TRY(take_values(memory, of.bytes / (size_t)value_bytes, &of.from, err));
    TRY(take(memory, of.bytes, &of.to, err));
    const exec_probe_work copying = {&of, copy};
    const exec_probe_work kernels = {&of, pass_elements};
    measured->copy_bytes = 2 * options->stream_bytes;
    TRY(exec_probe_measure(memory->kernels, options->clock, options->budget_ns, &copying,
                           &measured->copy, err));
    release(memory);
    TRY(take_values(memory, of.count, &of.from, err));
    TRY(take_values(memory, of.count, &of.to, err));
    measured->kernel_bytes = (3 + 2) * measured->value_count * value_bytes;
    return exec_probe_measure(memory->kernels, options->clock, options->budget_ns, &kernels,
                              &measured->kernels, err);
}

status exec_probe_memory_measure(exec_kernels *kernels, const exec_probe_options *options,
                                 exec_probe_memory *memory, error_message *err)
{
    operands taken = {.kernels = kernels};
    const status result = measure_streams(&taken, options, memory, err);
    release(&taken);
    return result;
}

static bool gives_out(exec_kernels *kernels, int64_t bytes)
{
    void *region = NULL;
    const status result = kernels->table->allocate(kernels, (size_t)bytes, &region, NULL);
    if (result != STATUS_OK) return false;
    kernels->table->release(kernels, region);
    return kernels->table->finish(kernels, NULL) == STATUS_OK;
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
