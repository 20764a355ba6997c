/// Reads the samples of a source, thinned out where they do not fit.
#include "analysis/diagnosis/diagnosis.h"

#include "balance/costs/layer_costs.h"

/// Costs that are kept together: 256 MiB of int64.
enum { NUMBERS_MAX = 1 << 25 };

/// How many samples like this one are kept.
static int capacity_of(const bal_layer_costs *costs, int count_max)
{
    const int arrays = BAL_COST_TIMES_COUNT * costs->microbatch_count + BAL_COST_ARRAY_COUNT -
                       BAL_COST_TIMES_COUNT;
    const int64_t fitting = NUMBERS_MAX / ((int64_t)costs->layer_count * arrays);
    if (fitting < 2) return 2;
    return fitting < count_max ? (int)fitting : count_max;
}

/// Goes on to the next sample. @param iteration -1: to the first; out: iteration_count after the
/// last
static status next_sample(const bal_cost_source *source, int iteration_count, int *iteration,
                          bal_layer_costs *costs, error_message *err)
{
    for (bool changed = false; ++*iteration < iteration_count;) {
        TRY(source->costs_at(source->context, *iteration, costs, &changed, err));
        if (changed || *iteration == 0) break;
    }
    return STATUS_OK;
}

/// Counts the samples, whose sizes are alike, and finds of how many one is kept.
static status count_samples(const bal_cost_source *source, int iteration_count, int count_max,
                            ana_series *made, error_message *err)
{
    bal_layer_costs costs = {0};
    int iteration = -1;
    TRY(next_sample(source, iteration_count, &iteration, &costs, err));
    const int columns = costs.microbatch_count;
    const int capacity = capacity_of(&costs, count_max);
    made->layer_count = costs.layer_count;
    while (iteration < iteration_count) {
        if (costs.layer_count != made->layer_count || costs.microbatch_count > columns) {
            return error_set(err, STATUS_INVALID,
                             "iteration %d has %d layers x %d microbatches, the first one %d x %d",
                             iteration, costs.layer_count, costs.microbatch_count,
                             made->layer_count, columns);
        }
        made->last = iteration;
        made->sample_count++;
        TRY(next_sample(source, iteration_count, &iteration, &costs, err));
    }
    made->stride = 1;
    while ((made->sample_count - 1) / made->stride >= capacity) {
        made->stride *= 2;
    }
    return STATUS_OK;
}

static status keep(int iteration, const bal_layer_costs *costs, bal_layer_times *times,
                   arena *memory, ana_series *made, error_message *err)
{
    bal_costs_copy copy = {.memory = arena_within(memory, 1 << 12)};
    int64_t *before = made->before_ns + (size_t)made->count * ((size_t)made->layer_count + 1);
    TRY(bal_layer_times_fill(times, costs, err));
    bal_costs_copy_take(&copy, costs);
    for (int layer = 0; layer < made->layer_count; layer++) {
        before[layer + 1] = before[layer] + bal_layer_time_ns(times, layer);
    }
    made->iteration[made->count] = iteration;
    made->costs[made->count++] = copy.layers;
    return STATUS_OK;
}

status ana_series_read(const bal_cost_source *source, int iteration_count, int count_max,
                       arena *memory, ana_series *series, error_message *err)
{
    ana_series made = {.announces_changes = source->announces_changes};
    bal_layer_costs costs = {0};
    bal_layer_times times;
    int iteration = -1;
    TRY(count_samples(source, iteration_count, count_max, &made, err));
    const size_t count = (size_t)(made.sample_count - 1) / (size_t)made.stride + 1;
    made.iteration = arena_array(memory, count, sizeof *made.iteration);
    made.costs = arena_array(memory, count, sizeof *made.costs);
    made.before_ns = arena_array(memory, count * ((size_t)made.layer_count + 1), sizeof(int64_t));
    bal_layer_times_init(&times, made.layer_count, memory);
    for (int sample = 0; sample < made.sample_count; sample++) {
        TRY(next_sample(source, iteration_count, &iteration, &costs, err));
        if (sample % made.stride == 0) TRY(keep(iteration, &costs, &times, memory, &made, err));
    }
    *series = made;
    return STATUS_OK;
}

double ana_series_cold_factor(const ana_series *series, arena *memory)
{
    const size_t cells = (size_t)series->layer_count * BAL_COST_TIMES_COUNT;
    double *factors = arena_array(memory, cells, sizeof *factors);
    bal_layer_times times[2];
    int count = 0;
    if (series->count < 3 || series->iteration[1] != series->iteration[0] + 1) return 0;
    for (int index = 0; index < 2; index++) {
        bal_layer_times_init(&times[index], series->layer_count, memory);
        if (bal_layer_times_fill(&times[index], &series->costs[index], NULL) != STATUS_OK) return 0;
    }
    for (size_t cell = 0; cell < cells; cell++) {
        const size_t pass = cell % BAL_COST_TIMES_COUNT;
        const size_t layer = cell / BAL_COST_TIMES_COUNT;
        const int64_t first_ns = times[0].passes[pass][layer];
        const int64_t next_ns = times[1].passes[pass][layer];
        if (first_ns > 0 && next_ns > 0) factors[count++] = (double)first_ns / (double)next_ns;
    }
    const double factor = ana_lower_median(factors, count);
    return factor >= ANA_COLD_FACTOR_MIN ? factor : 0;
}

ana_series ana_series_after_first(const ana_series *series)
{
    ana_series after = *series;
    after.count--;
    after.iteration++;
    after.costs++;
    after.before_ns += series->layer_count + 1;
    return after;
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
