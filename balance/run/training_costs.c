/// Fetches, checks and merges the costs of every replica.
#include "balance/run/training_costs.h"

#include "balance/schedule/schedule.h"

#include <string.h>

/// Mean of a row, rounded to the nearest; -1 if a time is negative or the sum does not fit int64.
static int64_t mean_of(const int64_t *restrict row, int count)
{
    uint64_t sum = 0;
    int64_t bits = 0; // all that are set in some time: at least the largest, negative if one is
    for (int column = 0; column < count; column++) {
        sum += (uint64_t)row[column];
        bits |= row[column];
    }
    if (bits < 0 || bits >= INT64_MAX / count) return -1;
    return (int64_t)(sum + (uint64_t)count / 2) / count;
}

static status not_summable(const bal_replica_costs *costs, int layer, error_message *err)
{
    return error_set(err, STATUS_INVALID,
                     "iteration %d: the times of layer %d are negative or do not fit 64 bits",
                     costs->iteration, layer);
}

/// One array of times: [layer_count][column_count].
static status merge_times(const bal_replica_costs *costs, int array, arena *memory,
                          const int64_t **out, error_message *err)
{
    const int layer_count = costs->replicas[0].layer_count;
    const int columns = costs->column_count;
    const int *rank_of_layer = costs->rank_of_layer;
    const size_t cells = (size_t)layer_count * (size_t)columns;
    int64_t *merged = arena_array(memory, cells, sizeof *merged);
    for (int layer = 0; layer < layer_count; layer++) {
        const double factor = costs->rank_time_factor != NULL && rank_of_layer != NULL
                                  ? costs->rank_time_factor[rank_of_layer[layer]]
                                  : 1.0;
        int64_t *row = merged + (int64_t)layer * columns;
        for (int replica = 0; replica < costs->replica_count; replica++) {
            const int own = costs->replicas[replica].microbatch_count;
            const int64_t *own_row = costs->replicas[replica].arrays[array] + (int64_t)layer * own;
            for (int column = 0; column < columns; column++) {
                const int64_t ns = columns == own ? own_row[column] : mean_of(own_row, own);
                if (ns < 0) return not_summable(costs, layer, err);
                const int64_t slowed_ns = bal_scaled_ns(ns, factor);
                if (slowed_ns > row[column]) row[column] = slowed_ns;
            }
        }
    }
    *out = merged;
    return STATUS_OK;
}

/// The largest over the replicas of an array that has one number per layer; NULL if no replica
/// knows.
static void merge_values(const bal_replica_costs *costs, int array, arena *memory,
                         const int64_t **out)
{
    const int layer_count = costs->replicas[0].layer_count;
    int64_t *largest = NULL;
    for (int replica = 0; replica < costs->replica_count; replica++) {
        const int64_t *own = costs->replicas[replica].arrays[array];
        if (own == NULL) continue;
        if (largest == NULL) {
            largest = arena_array(memory, (size_t)layer_count, sizeof *largest);
        }
        for (int layer = 0; layer < layer_count; layer++) {
            if (own[layer] > largest[layer]) largest[layer] = own[layer];
        }
    }
    *out = largest;
}

status bal_replica_costs_merge(const bal_replica_costs *costs, arena *memory,
                               bal_layer_costs *merged, error_message *err)
{
    bal_layer_costs made = costs->replicas[0];
    made.microbatch_count = costs->column_count;
    for (int array = 0; array < BAL_COST_TIMES_COUNT; array++) {
        TRY(merge_times(costs, array, memory, &made.arrays[array], err));
    }
    for (int array = BAL_COST_TIMES_COUNT; array < BAL_COST_ARRAY_COUNT; array++) {
        merge_values(costs, array, memory, &made.arrays[array]);
    }
    *merged = made;
    return STATUS_OK;
}

void bal_training_costs_init(bal_training_costs *costs, const bal_training *training, arena *memory)
{
    const size_t replicas = (size_t)training->source_count;
    const size_t ranks = (size_t)training->machine.rank_count;
    bal_training_costs made = {
        .training = training,
        .layer_count = training->sources[0].layer_count,
        .replica_count = training->source_count,
        .replicas = arena_array(memory, replicas, sizeof *made.replicas),
        .fetched = arena_array(memory, replicas, sizeof *made.fetched),
        .copies = arena_array(memory, replicas, sizeof *made.copies),
        .differing = arena_array(memory, replicas, sizeof *made.differing),
        .column_memory = arena_within(memory, 1 << 20),
        .measured_memory = {arena_within(memory, 1 << 16), arena_within(memory, 1 << 16)},
        .iteration = -1,
    };
    const bool has_slow = bal_training_has_slow_ranks(training);
    if (has_slow) {
        made.rank_time_factor = arena_array(memory, ranks, sizeof *made.rank_time_factor);
        made.time_factor_before = arena_array(memory, ranks, sizeof *made.time_factor_before);
    }
    *costs = made;
    for (int replica = 0; replica < training->source_count; replica++) {
        made.copies[replica].memory = arena_within(memory, 1 << 16);
    }
    for (int rank = 0; rank < training->machine.rank_count && made.rank_time_factor; rank++) {
        made.rank_time_factor[rank] = 1.0;
    }
}

/// Refuses negative values and those whose sum over the layers is above a quarter of int64: a
/// rank's are then added without looking, and activations of the same size on top.
static status check_sum(const int64_t *values, const bal_training_costs *costs, const char *what,
                        error_message *err)
{
    int64_t sum = 0;
    for (int layer = 0; values != NULL && layer < costs->layer_count; layer++) {
        if (values[layer] < 0 || values[layer] > INT64_MAX / 4 - sum) {
            return error_set(err, STATUS_INVALID,
                             "iteration %d: the %s of all layers do not fit 64 bits",
                             costs->iteration, what);
        }
        sum += values[layer];
    }
    return STATUS_OK;
}

static status check_layers(const bal_training_costs *costs, const bal_layer_costs *layers,
                           error_message *err)
{
    const char *schedule = costs->training->schedule;
    if (layers->layer_count != costs->layer_count) {
        return error_set(err, STATUS_INVALID,
                         "a replica of %d layers beside one of %d: one plan is for all",
                         layers->layer_count, costs->layer_count);
    }
    if (bal_schedule_family_find(schedule)->has_split && !layers->has_split) {
        return error_set(err, STATUS_INVALID,
                         "schedule %s needs the backward split into B and W, and the costs hold "
                         "only full backwards; import them with --backward-split or choose gpipe, "
                         "1f1b or interleaved-1f1b",
                         schedule);
    }
    TRY(check_sum(layers->state_bytes, costs, "state_bytes", err));
    TRY(check_sum(layers->parameters, costs, "parameters", err));
    return check_sum(layers->reduction_ns, costs, "ns of the gradient reduction", err);
}

/// Repeats the columns of the times until there are as many as wanted, or takes the first of them.
static void cycle_microbatches(bal_training_costs *costs, bal_layer_costs *layers, int wanted)
{
    const int columns = layers->microbatch_count;
    const size_t cells = (size_t)costs->layer_count * (size_t)wanted;
    if (columns == 1 || columns == wanted) return;
    for (int pass = 0; pass < BAL_COST_TIMES_COUNT; pass++) {
        int64_t *cycled = arena_array(costs->column_memory, cells, sizeof *cycled);
        for (int layer = 0; layer < costs->layer_count; layer++) {
            const int64_t *row = layers->arrays[pass] + (int64_t)layer * columns;
            for (int microbatch = 0; microbatch < wanted; microbatch++) {
                cycled[(int64_t)layer * wanted + microbatch] = row[microbatch % columns];
            }
        }
        layers->arrays[pass] = cycled;
    }
    layers->microbatch_count = wanted;
}

/// Takes what a source has given, in as many columns as are played; of costs that are not new, the
/// columns that were made of them are as good.
static void take_layers(bal_training_costs *costs, int replica, bool is_new)
{
    bal_layer_costs *layers = &costs->replicas[replica];
    const bal_layer_costs *given = &costs->fetched[replica];
    const int columns = given->microbatch_count;
    if (is_new || columns == 1 || columns == costs->batch.played_count) {
        *layers = *given;
        cycle_microbatches(costs, layers, costs->batch.played_count);
        return;
    }
    for (int array = BAL_COST_TIMES_COUNT; array < BAL_COST_ARRAY_COUNT; array++) {
        layers->arrays[array] = given->arrays[array];
    }
}

/// Sets the speeds of the ranks in this iteration. True if one is other than before.
static bool update_speeds(bal_training_costs *costs)
{
    const size_t bytes =
        (size_t)costs->training->machine.rank_count * sizeof *costs->rank_time_factor;
    if (costs->rank_time_factor == NULL) return false;
    memcpy(costs->time_factor_before, costs->rank_time_factor, bytes);
    bal_training_speeds(costs->training, costs->iteration, costs->rank_time_factor);
    return memcmp(costs->time_factor_before, costs->rank_time_factor, bytes) != 0;
}

/// Whether the numbers of a source may be others than before. What a source announces is a change
/// of the model; between two of them its numbers are compared, which takes a copy of the first: not
/// of costs that change in every iteration, and of those that have kept differing only now and
/// then.
static bool differs_from_before(bal_training_costs *costs, int replica, bool changed)
{
    enum { PATIENCE = 4, PAUSE = 64 };
    bal_costs_copy *copy = &costs->copies[replica];
    const bal_layer_costs *layers = &costs->fetched[replica];
    int *differing = &costs->differing[replica];
    if (!costs->training->sources[replica].announces_changes) return changed;
    if (!changed && bal_costs_copy_equals(copy, layers)) {
        *differing = 0;
        return false;
    }
    copy->is_taken = false;
    *differing = changed ? 0 : *differing + 1;
    const bool is_quiet = !changed && (*differing <= PATIENCE || costs->iteration % PAUSE == 0);
    if (costs->iteration == 0 || is_quiet) bal_costs_copy_take(copy, layers);
    return true;
}

/// Asks every source for its costs of the iteration.
///
/// @param has_changed out: some source's are others than before
static status ask_sources(bal_training_costs *costs, bool *has_changed, error_message *err)
{
    // At the start a source may have been asked before, by an earlier replay.
    const bool is_start = costs->iteration == 0;
    *has_changed = is_start;
    for (int replica = 0; replica < costs->replica_count; replica++) {
        const bal_cost_source *source = &costs->training->sources[replica];
        bool changed = false;
        TRY(source->costs_at(source->context, costs->iteration, &costs->fetched[replica], &changed,
                             err));
        if (differs_from_before(costs, replica, changed)) *has_changed = true;
        if (changed && source->announces_changes && !is_start) costs->is_announced = true;
    }
    return STATUS_OK;
}

status bal_training_costs_fetch(bal_training_costs *costs, int iteration, bal_batch batch,
                                error_message *err)
{
    const bool is_again = iteration == costs->iteration;
    const bool has_new_columns = batch.microbatch_count != costs->batch.microbatch_count ||
                                 batch.played_count != costs->batch.played_count;
    if (is_again && !has_new_columns) return STATUS_OK;
    bool has_changed = false;
    if (!is_again) costs->is_new = costs->is_announced = false;
    costs->iteration = iteration;
    costs->batch = batch;
    TRY(ask_sources(costs, &has_changed, err));
    const bool has_new_costs = has_changed || has_new_columns;
    if (has_new_costs) arena_reset(costs->column_memory);
    for (int replica = 0; replica < costs->replica_count; replica++) {
        if (has_new_costs) TRY(check_layers(costs, &costs->fetched[replica], err));
        take_layers(costs, replica, has_new_costs);
    }
    const bool has_new_speeds = update_speeds(costs);
    costs->is_new = costs->is_new || has_new_costs || has_new_speeds;
    return STATUS_OK;
}

/// Whether replicas have other loads or other microbatches.
static bool has_unlike_replicas(const bal_training_costs *costs)
{
    return costs->replica_count > 1 || costs->batch.played_count != costs->batch.microbatch_count;
}

bool bal_training_costs_borrow(const bal_training_costs *costs)
{
    return !has_unlike_replicas(costs) && !bal_training_has_slow_ranks(costs->training) &&
           costs->training->information != BAL_INFORMATION_FORESIGHT;
}

status bal_training_costs_measure(bal_training_costs *costs, const int *rank_of_layer,
                                  bal_layer_costs *measured, error_message *err)
{
    if (bal_training_costs_borrow(costs)) {
        *measured = costs->replicas[0];
        return STATUS_OK;
    }
    const bal_replica_costs all = {
        .iteration = costs->iteration,
        .replicas = costs->replicas,
        .replica_count = costs->replica_count,
        .column_count = has_unlike_replicas(costs) ? 1 : costs->replicas[0].microbatch_count,
        .rank_time_factor = costs->rank_time_factor,
        .rank_of_layer = rank_of_layer,
    };
    arena *memory = costs->measured_memory[costs->measured_count++ % 2];
    arena_reset(memory);
    return bal_replica_costs_merge(&all, memory, measured, err);
}

status bal_training_costs_look_ahead(bal_training_costs *costs, bal_batch batch,
                                     const int *rank_of_layer, const bal_layer_costs *profile,
                                     bal_layer_costs *ahead, const bal_layer_costs **next,
                                     error_message *err)
{
    const bal_training *training = costs->training;
    *next = NULL;
    if (training->information != BAL_INFORMATION_FORESIGHT ||
        costs->iteration + 1 == training->iteration_count) {
        return STATUS_OK;
    }
    TRY(bal_training_costs_fetch(costs, costs->iteration + 1, batch, err));
    *next = profile;
    if (!costs->is_new) return STATUS_OK;
    *next = ahead;
    return bal_training_costs_measure(costs, rank_of_layer, ahead, err);
}
