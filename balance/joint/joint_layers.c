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

static status sum_all(const bal_layer_costs *costs, arena *memory, bal_joint_layers *layers,
                      error_message *err)
{
    const int count = costs->layer_count;
    const int columns = costs->microbatch_count;
    const int64_t *held = costs->activation_bytes;
    const int64_t *gradient = costs->gradient_bytes != NULL ? costs->gradient_bytes : held;
    TRY(sum_up(costs->forward_ns, count, columns, memory, &layers->forward_before, err));
    TRY(sum_up(costs->backward_input_ns, count, columns, memory, &layers->input_before, err));
    TRY(sum_up(costs->backward_weight_ns, count, columns, memory, &layers->weight_before, err));
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

bal_joint_cost bal_joint_cost_of(const bal_joint_layers *layers, int rank, int chunk, int begin,
                                 int end)
{
    if (begin == end) return (bal_joint_cost){0};
    bal_joint_cost cost = {
        .forward_ns =
            scaled(layers, rank, layers->forward_before[end] - layers->forward_before[begin]),
        .input_ns = scaled(layers, rank, layers->input_before[end] - layers->input_before[begin]),
        .weight_ns =
            scaled(layers, rank, layers->weight_before[end] - layers->weight_before[begin]),
        .state_bytes = layers->state_before[end] - layers->state_before[begin],
        .held_bytes = layers->held_before[end] - layers->held_before[begin],
        .gradient_bytes = layers->gradient_before[end] - layers->gradient_before[begin]};
    if (chunk == 0 && layers->fixed_ns != NULL) cost.forward_ns += layers->fixed_ns[rank];
    if (!layers->has_split || (layers->first_stage_whole && rank == 0 && chunk == 0)) {
        cost.input_ns += cost.weight_ns;
        cost.weight_ns = 0;
        cost.gradient_bytes = 0;
    }
    return cost;
}

void bal_joint_costs_init(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                          bal_stage_costs *costs)
{
    const size_t stages = (size_t)layers->rank_count * (size_t)shape.chunk_count;
    int64_t *rows = arena_array(memory, 8 * stages, sizeof *rows);
    *costs = (bal_stage_costs){.stage_count = (int)stages,
                               .microbatch_count = 1,
                               .forward_ns = rows,
                               .backward_input_ns = rows + stages,
                               .backward_weight_ns = rows + 2 * stages,
                               .send_forward_ns = rows + 3 * stages,
                               .send_backward_ns = rows + 4 * stages,
                               .memory_forward = rows + 5 * stages,
                               .memory_backward_input = rows + 6 * stages,
                               .memory_backward_weight = rows + 7 * stages};
}

void bal_joint_costs_fill(const bal_joint_layers *layers, bal_joint_shape shape,
                          const int *first_layer, bal_stage_costs *costs)
{
    const int stages = costs->stage_count;
    int64_t *rows = (int64_t *)costs->forward_ns; // the arrays are those of bal_joint_costs_init
    for (int stage = 0; stage < stages; stage++) {
        int chunk = 0;
        const int rank = bal_rank_of_stage(shape.placement, layers->rank_count, shape.chunk_count,
                                           stage, &chunk);
        const bal_joint_cost cost =
            bal_joint_cost_of(layers, rank, chunk, first_layer[stage], first_layer[stage + 1]);
        const bool is_last = stage + 1 == stages;
        const int64_t *transfer = layers->transfer_ns;
        rows[stage] = cost.forward_ns;
        rows[stages + stage] = cost.input_ns;
        rows[2 * stages + stage] = cost.weight_ns;
        rows[3 * stages + stage] =
            transfer != NULL && !is_last ? transfer[first_layer[stage + 1] - 1] : 0;
        rows[4 * stages + stage] =
            transfer != NULL && stage > 0 ? transfer[first_layer[stage] - 1] : 0;
        rows[5 * stages + stage] = cost.held_bytes;
        rows[6 * stages + stage] = cost.gradient_bytes - cost.held_bytes;
        rows[7 * stages + stage] = -cost.gradient_bytes;
    }
}

int64_t bal_joint_state_bytes(const bal_joint_layers *layers, bal_joint_shape shape,
                              const int *first_layer, int rank)
{
    int64_t bytes = 0;
    for (int chunk = 0; chunk < shape.chunk_count; chunk++) {
        const int stage =
            bal_stage_of(shape.placement, layers->rank_count, shape.chunk_count, rank, chunk);
        bytes +=
            layers->state_before[first_layer[stage + 1]] - layers->state_before[first_layer[stage]];
    }
    return bytes;
}
