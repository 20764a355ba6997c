/// Reads the samples of a source, thinned out where they do not fit.
#include "analysis/diagnosis/diagnosis.h"

#include "balance/costs/layer_costs.h"

#include <string.h>

/// Costs that are kept together: 256 MiB of int64.
enum { NUMBERS_MAX = 1 << 25 };

/// A series while it is read. Slots keep their memory when samples are thinned out.
typedef struct reading {
    ana_series series;
    int capacity;
    int64_t **slots;       // [capacity] -> [slot_numbers], or NULL: not used yet
    size_t slot_numbers;   // of one sample
    bal_layer_times times; // means over the microbatches of the sample at hand
    arena *memory;
} reading;

/// Decides from the first sample what is kept of every one.
static void begin(reading *made, const bal_layer_costs *costs, int iteration_count, int count_max)
{
    ana_series *series = &made->series;
    const int layers = costs->layer_count;
    const int arrays = BAL_COST_TIMES_COUNT * costs->microbatch_count + BAL_COST_ARRAY_COUNT -
                       BAL_COST_TIMES_COUNT;
    series->layer_count = layers;
    series->stride = 1;
    made->slot_numbers = (size_t)layers * (size_t)arrays;
    made->capacity = (int)(NUMBERS_MAX / (made->slot_numbers > 0 ? made->slot_numbers : 1));
    if (made->capacity > count_max) made->capacity = count_max;
    if (made->capacity < 2) made->capacity = 2;
    if (made->capacity > iteration_count) made->capacity = iteration_count;
    const size_t capacity = (size_t)made->capacity;
    made->slots = arena_array(made->memory, capacity, sizeof *made->slots);
    series->iteration = arena_array(made->memory, capacity, sizeof *series->iteration);
    series->costs = arena_array(made->memory, capacity, sizeof *series->costs);
    series->before_ns = arena_array(made->memory, capacity * ((size_t)layers + 1), sizeof(int64_t));
    bal_layer_times_init(&made->times, layers, made->memory);
}

/// Every second kept sample goes; the first one stays.
static void thin_out(reading *made)
{
    ana_series *series = &made->series;
    const size_t entries = (size_t)series->layer_count + 1;
    const int kept = (series->count + 1) / 2;
    for (int index = 1; index < kept; index++) {
        int64_t *const freed = made->slots[index];
        made->slots[index] = made->slots[2 * index];
        made->slots[2 * index] = freed;
        series->iteration[index] = series->iteration[2 * index];
        series->costs[index] = series->costs[2 * index];
        memcpy(series->before_ns + (size_t)index * entries,
               series->before_ns + 2 * (size_t)index * entries, entries * sizeof(int64_t));
    }
    series->count = kept;
    series->stride *= 2;
}

/// Copies the arrays that costs have into numbers.
static bal_layer_costs copy_costs(const bal_layer_costs *costs, int64_t *numbers)
{
    bal_layer_costs copied = *costs;
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (costs->arrays[array] == NULL) continue;
        const size_t bytes = bal_layer_costs_array_bytes(costs, array);
        copied.arrays[array] = memcpy(numbers, costs->arrays[array], bytes);
        numbers += bytes / sizeof *numbers;
    }
    return copied;
}

static void sum_layers(reading *made, int index)
{
    const int layers = made->series.layer_count;
    int64_t *before = made->series.before_ns + (size_t)index * ((size_t)layers + 1);
    before[0] = 0;
    for (int layer = 0; layer < layers; layer++) {
        before[layer + 1] = before[layer] + bal_layer_time_ns(&made->times, layer);
    }
}

static status keep(reading *made, int iteration, const bal_layer_costs *costs, error_message *err)
{
    ana_series *series = &made->series;
    const int index = series->count;
    if (made->slots[index] == NULL) {
        made->slots[index] = arena_array(made->memory, made->slot_numbers, sizeof(int64_t));
    }
    TRY(bal_layer_times_fill(&made->times, costs, err));
    series->iteration[index] = iteration;
    series->costs[index] = copy_costs(costs, made->slots[index]);
    sum_layers(made, index);
    series->count++;
    return STATUS_OK;
}

static status check_alike(const reading *made, int iteration, const bal_layer_costs *costs,
                          error_message *err)
{
    const ana_series *series = &made->series;
    const bal_layer_costs *first = &series->costs[0];
    if (costs->layer_count == series->layer_count &&
        (series->count == 0 || costs->microbatch_count <= first->microbatch_count)) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "iteration %d has %d layers x %d microbatches, the first one %d x %d",
                     iteration, costs->layer_count, costs->microbatch_count, series->layer_count,
                     first->microbatch_count);
}

static status add_sample(reading *made, int iteration, const bal_layer_costs *costs,
                         error_message *err)
{
    ana_series *series = &made->series;
    TRY(check_alike(made, iteration, costs, err));
    series->last = iteration;
    if (series->sample_count++ % series->stride != 0) return STATUS_OK;
    if (series->count == made->capacity) {
        thin_out(made);
        if ((series->sample_count - 1) % series->stride != 0) return STATUS_OK;
    }
    return keep(made, iteration, costs, err);
}

status ana_series_read(const bal_cost_source *source, int iteration_count, int count_max,
                       arena *memory, ana_series *series, error_message *err)
{
    reading made = {.memory = memory};
    for (int iteration = 0; iteration < iteration_count; iteration++) {
        bal_layer_costs costs;
        bool changed = false;
        TRY(source->costs_at(source->context, iteration, &costs, &changed, err));
        if (iteration > 0 && !changed) continue;
        if (iteration == 0) begin(&made, &costs, iteration_count, count_max);
        TRY(add_sample(&made, iteration, &costs, err));
    }
    made.series.announces_changes = source->announces_changes;
    *series = made.series;
    return STATUS_OK;
}

double ana_series_spacing(const ana_series *series)
{
    if (series->count < 2) return 1;
    const double span = series->iteration[series->count - 1] - series->iteration[0];
    return span / (series->count - 1);
}

const int64_t *ana_series_before(const ana_series *series, int index)
{
    return series->before_ns + (size_t)index * ((size_t)series->layer_count + 1);
}

int64_t ana_series_load_ns(const ana_series *series, int index, int layer)
{
    const int64_t *before = ana_series_before(series, index);
    return before[layer + 1] - before[layer];
}

static status costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                       error_message *err)
{
    (void)err;
    const ana_series *series = context;
    *costs = series->costs[iteration < series->count ? iteration : series->count - 1];
    *changed = iteration < series->count;
    return STATUS_OK;
}

bal_cost_source ana_series_source(const ana_series *series)
{
    return (bal_cost_source){.context = (void *)series,
                             .layer_count = series->layer_count,
                             .iteration_count = series->count,
                             .announces_changes = series->announces_changes,
                             .costs_at = costs_at};
}
