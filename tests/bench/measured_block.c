#include "tests/bench/measured_block.h"

#include "base/arena.h"
#include "base/rng.h"
#include "tests/bench/bench.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 101 };

/// A backend's table with a stopwatch around products and attention. Stands in the backend's place
/// while parts are measured.
typedef struct stopwatch_table {
    exec_kernel_table table; // first member
    const exec_kernel_table *inner;
    int mlp_width; // a product with this many rows or columns of weights is of the MLP
    int expert_count;
    double part_ns[BLOCK_PART_COUNT];
} stopwatch_table;

static double now_ns(const exec_kernel_table *table)
{
    struct timespec now;
    clock_gettime(table->has_host_memory ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void finish(exec_kernels *kernels)
{
    error_message err = {0};
    bench_require(kernels->table->finish(kernels, &err), &err);
}

/// The stopwatch table in whose place the backend's stands for a moment.
static stopwatch_table *begin_part(exec_kernels *kernels, double *begin_ns)
{
    stopwatch_table *watch = (stopwatch_table *)kernels->table;
    kernels->table = watch->inner;
    finish(kernels);
    *begin_ns = now_ns(watch->inner);
    return watch;
}

static void end_part(exec_kernels *kernels, stopwatch_table *watch, int part, double begin_ns)
{
    finish(kernels);
    watch->part_ns[part] += now_ns(watch->inner) - begin_ns;
    kernels->table = &watch->table;
}

static bool is_of_mlp(const stopwatch_table *watch, const exec_matmul *shape)
{
    const int sizes[] = {shape->rows, shape->columns, shape->inner};
    for (int size = 0; size < 3; size++) {
        if (sizes[size] == watch->mlp_width) return true;
        if (watch->expert_count > 0 && sizes[size] == watch->expert_count) return true;
    }
    return false;
}

static void timed_matmul(exec_kernels *kernels, const exec_matmul *shape, const void *a,
                         const void *b, void *c)
{
    double begin_ns = 0;
    stopwatch_table *watch = begin_part(kernels, &begin_ns);
    watch->inner->matmul(kernels, shape, a, b, c);
    end_part(kernels, watch, is_of_mlp(watch, shape) ? BLOCK_MLP : BLOCK_PROJECTION, begin_ns);
}

static void timed_group_matmul(exec_kernels *kernels, const exec_matmul *shape,
                               const exec_groups *groups, const void *a, const void *b, void *c)
{
    double begin_ns = 0;
    stopwatch_table *watch = begin_part(kernels, &begin_ns);
    watch->inner->group_matmul(kernels, shape, groups, a, b, c);
    end_part(kernels, watch, BLOCK_MLP, begin_ns);
}

static void timed_attention(exec_kernels *kernels, const exec_attention *shape, const void *qkv,
                            void *output, float *log_sum)
{
    double begin_ns = 0;
    stopwatch_table *watch = begin_part(kernels, &begin_ns);
    watch->inner->attention(kernels, shape, qkv, output, log_sum);
    end_part(kernels, watch, BLOCK_ATTENTION, begin_ns);
}

static void timed_attention_input(exec_kernels *kernels, const exec_attention *shape,
                                  const void *qkv, const void *output, const float *log_sum,
                                  const void *output_gradient, void *qkv_gradient)
{
    double begin_ns = 0;
    stopwatch_table *watch = begin_part(kernels, &begin_ns);
    watch->inner->attention_input(kernels, shape, qkv, output, log_sum, output_gradient,
                                  qkv_gradient);
    end_part(kernels, watch, BLOCK_ATTENTION, begin_ns);
}

static stopwatch_table stopwatch_of(const measured_block *block)
{
    const exec_model *model = &block->model;
    const int hidden_width = exec_model_hidden_width(model);
    const bool has_experts = model->mechanism == EXEC_MOE;
    stopwatch_table watch = {
        .table = *block->kernels->table,
        .inner = block->kernels->table,
        .mlp_width = has_experts ? exec_model_expert_width(model) : hidden_width,
        .expert_count = has_experts ? model->moe.expert_count : 0,
    };
    watch.table.matmul = timed_matmul;
    watch.table.group_matmul = timed_group_matmul;
    watch.table.attention = timed_attention;
    watch.table.attention_input = timed_attention_input;
    return watch;
}

static void fill_uniform(float *values, size_t count, uint64_t purpose)
{
    rng random = rng_init(1, purpose);
    for (size_t at = 0; at < count; at++) {
        values[at] = (float)(2 * rng_unit(&random) - 1);
    }
}

static void *allocate(measured_block *block, size_t bytes)
{
    return block->kernels->table->allocate(block->kernels, bytes);
}

void measured_block_open(measured_block *block, exec_kernels *kernels, const exec_model *model,
                         int layer)
{
    error_message err = {0};
    const size_t rows = (size_t)exec_model_row_count(model);
    const size_t count = rows * (size_t)model->width;
    const size_t bytes = count * (size_t)kernels->table->value_bytes;
    *block = (measured_block){.model = *model, .kernels = kernels};
    bench_require(exec_model_check(&block->model, &err), &err);
    block->buffers = exec_buffers_create(kernels);
    block->layer = exec_layer_create(&block->model, block->buffers, layer);
    bench_require(exec_layer_initialise(block->layer, &err), &err);
    block->slot = exec_slot_create(block->layer);
    block->host_input = memory_array(count, sizeof(float));
    block->has_left = memory_array(1, rows);
    fill_uniform(block->host_input, count, 2);
    block->input = allocate(block, bytes);
    block->output_gradient = allocate(block, bytes);
    block->gradient = allocate(block, bytes);
    block->flow.values = allocate(block, bytes);
    block->target = allocate(block, rows * sizeof(int));
    block->loss = allocate(block, rows * sizeof(float));
    block->load = allocate(block, EXEC_EXPERT_COUNT_MAX * sizeof(int));
    block->device_left = allocate(block, rows);
    block->flow.target = block->target;
    block->flow.loss = block->loss;
    block->flow.load = block->load;
    block->flow.row_count = (int)rows;
    block->flow.has_left = block->device_left;
}

void measured_block_close(measured_block *block)
{
    exec_kernels *kernels = block->kernels;
    exec_slot_destroy(block->layer, block->slot);
    exec_layer_destroy(block->layer);
    exec_buffers_destroy(block->buffers);
    kernels->table->release(kernels, block->input);
    kernels->table->release(kernels, block->output_gradient);
    kernels->table->release(kernels, block->gradient);
    kernels->table->release(kernels, block->flow.values);
    kernels->table->release(kernels, block->target);
    kernels->table->release(kernels, block->loss);
    kernels->table->release(kernels, block->load);
    kernels->table->release(kernels, block->device_left);
    free(block->host_input);
    free(block->has_left);
}

/// Brings host numbers into values of the device.
static void put_values(measured_block *block, const float *from, void *values, size_t count)
{
    exec_kernels *kernels = block->kernels;
    void *floats = kernels->table->allocate(kernels, count * sizeof(float));
    kernels->table->to_device(kernels, floats, from, count * sizeof(float));
    kernels->table->to_values(kernels, floats, values, count);
    finish(kernels);
    kernels->table->release(kernels, floats);
}

static void play_pass(measured_block *block, int pass)
{
    error_message err = {0};
    status code = STATUS_OK;
    const exec_layer *layer = block->layer;
    if (layer->is_frozen && (pass == BLOCK_BACKWARD_WEIGHT ||
                             (pass == BLOCK_BACKWARD_INPUT && layer->passes_no_gradient))) {
        return; // as a device does
    }
    if (pass == BLOCK_FORWARD) {
        code = exec_layer_forward(block->layer, block->slot, &block->flow, &err);
    } else if (pass == BLOCK_BACKWARD_INPUT) {
        code = exec_layer_backward_input(block->layer, block->slot, block->gradient, &err);
    } else {
        exec_layer_backward_weight(block->layer, block->slot);
    }
    bench_require(code, &err);
    finish(block->kernels);
}

/// One F, B and W, each timed.
static void play_round(measured_block *block, double *pass_ns, stopwatch_table *watch,
                       double part_ns[BLOCK_PASS_COUNT][BLOCK_PART_COUNT])
{
    exec_kernels *kernels = block->kernels;
    const size_t rows = (size_t)block->flow.row_count;
    const size_t bytes = rows * (size_t)block->model.width * (size_t)kernels->table->value_bytes;
    kernels->table->to_device(kernels, block->device_left, block->has_left, rows);
    kernels->table->copy(kernels, block->flow.values, block->input, bytes);
    kernels->table->copy(kernels, block->gradient, block->output_gradient, bytes);
    finish(kernels);
    for (int pass = 0; pass < BLOCK_PASS_COUNT; pass++) {
        const double begin_ns = now_ns(kernels->table);
        if (watch != NULL) memset(watch->part_ns, 0, sizeof watch->part_ns);
        play_pass(block, pass);
        pass_ns[pass] = now_ns(kernels->table) - begin_ns;
        if (watch == NULL) continue;
        double left = pass_ns[pass];
        for (int part = 0; part < BLOCK_ELEMENTWISE; part++) {
            part_ns[pass][part] = watch->part_ns[part];
            left -= watch->part_ns[part];
        }
        part_ns[pass][BLOCK_ELEMENTWISE] = left > 0 ? left : 0;
    }
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *samples, int count)
{
    qsort(samples, (size_t)count, sizeof *samples, compare);
    return samples[count / 2];
}

static void measure_passes(measured_block *block, int round_count, block_figures *figures)
{
    double samples[BLOCK_PASS_COUNT][ROUNDS_MAX];
    for (int round = 0; round < round_count; round++) {
        double pass_ns[BLOCK_PASS_COUNT];
        play_round(block, pass_ns, NULL, NULL);
        for (int pass = 0; pass < BLOCK_PASS_COUNT; pass++) {
            samples[pass][round] = pass_ns[pass];
        }
    }
    for (int pass = 0; pass < BLOCK_PASS_COUNT; pass++) {
        figures->pass_ns[pass] = median(samples[pass], round_count);
    }
}

static void measure_parts(measured_block *block, int round_count, block_figures *figures)
{
    double samples[BLOCK_PASS_COUNT][BLOCK_PART_COUNT][ROUNDS_MAX];
    stopwatch_table watch = stopwatch_of(block);
    block->kernels->table = &watch.table;
    for (int round = 0; round < round_count; round++) {
        double pass_ns[BLOCK_PASS_COUNT];
        double part_ns[BLOCK_PASS_COUNT][BLOCK_PART_COUNT];
        play_round(block, pass_ns, &watch, part_ns);
        for (int pass = 0; pass < BLOCK_PASS_COUNT; pass++) {
            for (int part = 0; part < BLOCK_PART_COUNT; part++) {
                samples[pass][part][round] = part_ns[pass][part];
            }
        }
    }
    block->kernels->table = watch.inner;
    for (int pass = 0; pass < BLOCK_PASS_COUNT; pass++) {
        for (int part = 0; part < BLOCK_PART_COUNT; part++) {
            figures->part_ns[pass][part] = median(samples[pass][part], round_count);
        }
    }
}

/// Reads what the device has counted.
static void read_counts(measured_block *block, int columns, int64_t *load)
{
    int count[EXEC_EXPERT_COUNT_MAX];
    block->kernels->table->to_host(block->kernels, count, block->load,
                                   (size_t)columns * sizeof *count);
    for (int column = 0; column < columns; column++) {
        load[column] = count[column];
    }
}

block_figures measured_block_measure(measured_block *block, int round_count)
{
    block_figures figures = {0};
    const size_t count = (size_t)block->flow.row_count * (size_t)block->model.width;
    float *gradient = memory_array(count, sizeof *gradient);
    const exec_mechanism_table *mechanism = exec_mechanism_find(block->model.mechanism);
    assert(round_count <= ROUNDS_MAX);
    fill_uniform(gradient, count, 3);
    put_values(block, block->host_input, block->input, count);
    put_values(block, gradient, block->output_gradient, count);
    measure_passes(block, 1, &figures); // warms up
    measure_passes(block, round_count, &figures);
    measure_parts(block, round_count, &figures);
    figures.activation_bytes = block->slot->activation_bytes;
    figures.gradient_bytes = block->slot->gradient_bytes;
    figures.load_columns = exec_mechanism_load_columns(&block->model);
    if (mechanism->load != NULL) {
        mechanism->load(block->layer, block->slot, figures.load);
    } else if (figures.load_columns > 0) {
        read_counts(block, figures.load_columns, figures.load);
    }
    free(gradient);
    return figures;
}
