#include "balance/joint/joint_layers.h"

#include "balance/partition/chain.h"
#include "balance/schedule/schedule.h"

#include <inttypes.h>

enum { PPB = 1000000000 };
static const int64_t unlimited = INT64_MAX / 4;

/// Prefix sums of an array of the layers, the mean over its columns; of zeros where it is NULL.
static status sum_up(const int64_t *values, int layer_count, int columns, arena *memory,
                     const int64_t **before, error_message *err)
{
    int64_t *sums = arena_array(memory, (size_t)layer_count + 1, sizeof *sums);
    for (int layer = 0; layer < layer_count; layer++) {
        bal_wide sum = columns / 2;
        for (int column = 0; column < columns && values != NULL; column++) {
            sum += values[(int64_t)layer * columns + column];
        }
        sum /= columns;
        if (sum < 0 || sum > unlimited - sums[layer]) {
            return error_set(err, STATUS_INVALID,
                             "layer %d: a cost is negative or makes the sum of the layers larger "
                             "than %" PRId64,
                             layer, unlimited);
        }
        sums[layer + 1] = sums[layer] + (int64_t)sum;
    }
    *before = sums;
    return STATUS_OK;
}

/// Sums up what the layers cost. Without a split there is no W, and nothing is held for it.
static status sum_all(const bal_layer_costs *costs, arena *memory, bal_joint_layers *layers,
                      error_message *err)
{
    const int count = costs->layer_count;
    const int columns = costs->microbatch_count;
    const int64_t *held = costs->activation_bytes;
    const int64_t *gradient = costs->gradient_bytes != NULL ? costs->gradient_bytes : held;
    const int64_t *weight_ns = costs->has_split ? costs->backward_weight_ns : NULL;
    if (!costs->has_split) gradient = NULL;
    TRY(sum_up(costs->forward_ns, count, columns, memory, &layers->forward_before, err));
    TRY(sum_up(costs->backward_input_ns, count, columns, memory, &layers->input_before, err));
    TRY(sum_up(weight_ns, count, columns, memory, &layers->weight_before, err));
    TRY(sum_up(costs->state_bytes, count, 1, memory, &layers->state_before, err));
    TRY(sum_up(held, count, 1, memory, &layers->held_before, err));
    return sum_up(gradient, count, 1, memory, &layers->gradient_before, err);
}

static void fill_caps(const bal_problem *problem, arena *memory, bal_joint_layers *layers)
{
    int64_t *caps = arena_array(memory, (size_t)layers->rank_count, sizeof *caps);
    for (int rank = 0; rank < layers->rank_count; rank++) {
        const int64_t given =
            problem->stage_memory_bytes != NULL ? problem->stage_memory_bytes[rank] : unlimited;
        caps[rank] = given < unlimited ? given : unlimited;
    }
    layers->memory_bytes = caps;
}

static void find_least(bal_joint_layers *layers)
{
    layers->time_factor_min_ppb = PPB;
    for (int rank = 0; rank < layers->rank_count && layers->time_factor_ppb != NULL; rank++) {
        const int64_t factor = layers->time_factor_ppb[rank];
        if (rank == 0 || factor < layers->time_factor_min_ppb) layers->time_factor_min_ppb = factor;
    }
    layers->transfer_min_ns = 0;
    for (int layer = 0; layer + 1 < layers->layer_count && layers->transfer_ns != NULL; layer++) {
        if (layers->rank_count == 1) break; // no message leaves the rank
        const int64_t transfer = layers->transfer_ns[layer];
        if (layer == 0 || transfer < layers->transfer_min_ns) layers->transfer_min_ns = transfer;
    }
}

/// No order takes longer than all its ops and messages one after another.
static status check_length(const bal_joint_layers *layers, const bal_chain *chain,
                           error_message *err)
{
    int64_t transfer_max = 0;
    for (int layer = 0; layer < layers->layer_count && layers->transfer_ns != NULL; layer++) {
        if (layers->transfer_ns[layer] > transfer_max) transfer_max = layers->transfer_ns[layer];
    }
    // Three roundings per stage, and with two chunks per rank twice the stages and messages.
    const bal_wide messages = (bal_wide)transfer_max * 4 * layers->rank_count;
    const bal_wide one = (bal_wide)chain->load_sum_max + messages + 6 * layers->rank_count;
    if (one * layers->microbatch_count > unlimited) {
        return error_set(err, STATUS_INVALID,
                         "all ops and messages of %d microbatches may together take longer than "
                         "%" PRId64 " ns",
                         layers->microbatch_count, unlimited);
    }
    const bal_wide bytes = (bal_wide)layers->held_before[layers->layer_count] +
                           layers->gradient_before[layers->layer_count];
    if (bytes * layers->microbatch_count > unlimited) {
        return error_set(err, STATUS_INVALID,
                         "the activations of %d microbatches add up to more than %" PRId64 " bytes",
                         layers->microbatch_count, unlimited);
    }
    return STATUS_OK;
}

static status check_problem(const bal_problem *problem, error_message *err)
{
    if (problem->microbatch_count < 1) {
        return error_set(err, STATUS_INVALID, "the joint search needs microbatch_count >= 1");
    }
    const bal_wide order_ops = (bal_wide)6 * problem->stage_count * problem->microbatch_count;
    if (order_ops > BAL_OPS_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%d ranks of %d microbatches and 2 chunks are %lld ops; the limit is %d",
                         problem->stage_count, problem->microbatch_count, (long long)order_ops,
                         BAL_OPS_MAX);
    }
    if (problem->allow_empty_stages) {
        return error_set(err, STATUS_INVALID,
                         "the joint search gives every stage a layer: no empty stages");
    }
    if (problem->stage_inflight != NULL) {
        return error_set(err, STATUS_INVALID,
                         "stage_inflight: the joint search decides itself what is in flight");
    }
    return STATUS_OK;
}

status bal_joint_layers_of(const bal_problem *problem, arena *memory, bal_joint_layers *layers,
                           error_message *err)
{
    TRY(check_problem(problem, err));
    bal_problem by_time = *problem;
    by_time.weight = BAL_WEIGHT_TIME;
    by_time.objective = BAL_OBJECTIVE_BOTTLENECK;
    bal_chain chain;
    TRY(bal_chain_of(&by_time, memory, &chain, err));
    bal_joint_layers made = {.layer_count = problem->layers.layer_count,
                             .rank_count = problem->stage_count,
                             .microbatch_count = problem->microbatch_count,
                             .has_split = problem->layers.has_split,
                             .first_stage_whole = problem->layers.first_stage_whole,
                             .transfer_ns = problem->transfer_ns,
                             .time_factor_ppb = problem->stage_time_factor_ppb,
                             .fixed_ns = problem->stage_fixed_ns};
    TRY(sum_all(&problem->layers, memory, &made, err));
    fill_caps(problem, memory, &made);
    find_least(&made);
    TRY(check_length(&made, &chain, err));
    *layers = made;
    return STATUS_OK;
}

/// A time on a rank, rounded half up.
static int64_t scaled(const bal_joint_layers *layers, int rank, int64_t ns)
{
    if (layers->time_factor_ppb == NULL) return ns;
    return (int64_t)(((bal_wide)ns * layers->time_factor_ppb[rank] + PPB / 2) / PPB);
}

/// Layers [begin, end) of prefix sums.
static int64_t sum_of(const int64_t *before, int begin, int end)
{
    return before[end] - before[begin];
}

bal_joint_cost bal_joint_cost_of(const bal_joint_layers *layers, int rank, int chunk, int begin,
                                 int end)
{
    if (begin == end) return (bal_joint_cost){0};
    bal_joint_cost cost = {
        .forward_ns = scaled(layers, rank, sum_of(layers->forward_before, begin, end)),
        .input_ns = scaled(layers, rank, sum_of(layers->input_before, begin, end)),
        .weight_ns = scaled(layers, rank, sum_of(layers->weight_before, begin, end)),
        .state_bytes = sum_of(layers->state_before, begin, end),
        .held_bytes = sum_of(layers->held_before, begin, end),
        .gradient_bytes = sum_of(layers->gradient_before, begin, end)};
    if (chunk == 0 && layers->fixed_ns != NULL) cost.forward_ns += layers->fixed_ns[rank];
    if (layers->first_stage_whole && rank == 0 && chunk == 0) {
        cost.input_ns += cost.weight_ns;
        cost.weight_ns = 0;
        cost.gradient_bytes = 0;
    }
    return cost;
}
