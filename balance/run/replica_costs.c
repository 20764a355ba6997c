#include "balance/run/replica_costs.h"

#include <math.h>

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

/// Saturates at a quarter of int64, as what is played may not exceed it.
static int64_t slowed(int64_t ns, double time_factor)
{
    if (time_factor == 1.0) return ns;
    const double scaled = round((double)ns * time_factor);
    return scaled < (double)(INT64_MAX / 4) ? (int64_t)scaled : INT64_MAX / 4;
}

typedef enum cost_pass { COST_FORWARD, COST_BACKWARD_INPUT, COST_BACKWARD_WEIGHT } cost_pass;

static const int64_t *times_of(const bal_layer_costs *layers, cost_pass pass)
{
    return pass == COST_FORWARD          ? layers->forward_ns
           : pass == COST_BACKWARD_INPUT ? layers->backward_input_ns
                                         : layers->backward_weight_ns;
}

static status not_summable(const bal_replica_costs *costs, int layer, error_message *err)
{
    return error_set(err, STATUS_INVALID,
                     "iteration %d: the times of layer %d are negative or do not fit 64 bits",
                     costs->iteration, layer);
}

/// One array of times: [layer_count][column_count].
static status merge_times(const bal_replica_costs *costs, cost_pass pass, arena *memory,
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
            const int64_t *own_row =
                times_of(&costs->replicas[replica], pass) + (int64_t)layer * own;
            for (int column = 0; column < columns; column++) {
                const int64_t ns = columns == own ? own_row[column] : mean_of(own_row, own);
                if (ns < 0) return not_summable(costs, layer, err);
                const int64_t slowed_ns = slowed(ns, factor);
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
        bal_layer_costs layers = costs->replicas[replica];
        const int64_t **arrays[BAL_COST_ARRAY_COUNT];
        bal_layer_costs_list(&layers, arrays);
        const int64_t *own = *arrays[array];
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
    const int64_t **arrays[BAL_COST_ARRAY_COUNT];
    made.microbatch_count = costs->column_count;
    TRY(merge_times(costs, COST_FORWARD, memory, &made.forward_ns, err));
    TRY(merge_times(costs, COST_BACKWARD_INPUT, memory, &made.backward_input_ns, err));
    TRY(merge_times(costs, COST_BACKWARD_WEIGHT, memory, &made.backward_weight_ns, err));
    bal_layer_costs_list(&made, arrays);
    for (int array = BAL_COST_TIMES_COUNT; array < BAL_COST_ARRAY_COUNT; array++) {
        merge_values(costs, array, memory, arrays[array]);
    }
    *merged = made;
    return STATUS_OK;
}
