#include "exec/transport/distributed_diffusion.h"

#include "balance/partition/balancer_diffusion.h"
#include "balance/partition/bounds.h"

#include <assert.h>
#include <inttypes.h>

/// What travels of a layer.
typedef struct layer_cost {
    int64_t weight;
    int64_t state_bytes;
    int64_t activation_bytes;
    int64_t transfer_ns;
} layer_cost;

static int64_t value_at(const int64_t *values, int index)
{
    return values != NULL ? values[index] : 0;
}

/// Passes costs on along the chain of ranks: takes layers [taken_begin, taken_end) from the rank on
/// one side, if there is one, and gives [given_begin, given_end) to the one on the other.
typedef struct wave {
    int from, to; // in the group; outside of it: nobody
    int taken_begin, taken_end;
    int given_begin, given_end;
} wave;

static status run_wave(const exec_group *group, const wave *of, uint64_t key, layer_cost *cost,
                       error_message *err)
{
    exec_endpoint *endpoint = group->endpoint;
    const exec_transport *transport = endpoint->transport;
    const size_t taken = (size_t)(of->taken_end - of->taken_begin) * sizeof *cost;
    const exec_message head = {
        .key = key, .payload_bytes = (of->given_end - of->given_begin) * (int64_t)sizeof *cost};
    if (of->from >= 0 && of->from < group->rank_count) {
        TRY(transport->receive(endpoint, group->rank[of->from], key, NULL, cost + of->taken_begin,
                               (int64_t)taken, err));
    }
    if (of->to < 0 || of->to >= group->rank_count) return STATUS_OK;
    return transport->send(endpoint, group->rank[of->to], &head, cost + of->given_begin, err);
}

/// Learns the costs of all layers: those in front come from the rank in front, those after from the
/// rank after.
static status learn_costs(const exec_group *group, const exec_diffusion_layers *own,
                          int layer_count, layer_cost *cost, error_message *err)
{
    const int stage = group->self, sequence = (*group->sequence)++;
    const wave waves[2] = {
        {stage - 1, stage + 1, 0, own->first_layer, 0, own->end_layer},
        {stage + 1, stage - 1, own->end_layer, layer_count, own->first_layer, layer_count}};
    for (int layer = own->first_layer; layer < own->end_layer; layer++) {
        const int index = layer - own->first_layer;
        cost[layer] = (layer_cost){.weight = own->weight[index],
                                   .state_bytes = value_at(own->state_bytes, index),
                                   .activation_bytes = value_at(own->activation_bytes, index),
                                   .transfer_ns = value_at(own->transfer_ns, index)};
    }
    for (int way = 0; way < 2; way++) {
        const uint64_t key = exec_message_key(EXEC_MESSAGE_GROUP, sequence, group->channel, way);
        TRY(run_wave(group, &waves[way], key, cost, err));
    }
    return STATUS_OK;
}

/// Sums in front of every boundary.
static status sum_up(const layer_cost *cost, int layer_count, int64_t *weight, int64_t *state,
                     int64_t *activation, int64_t *transfer, error_message *err)
{
    for (int layer = 0; layer < layer_count; layer++) {
        const layer_cost *of = &cost[layer];
        if (of->weight < 0 || of->weight > INT64_MAX - weight[layer] || of->state_bytes < 0 ||
            of->state_bytes > INT64_MAX - state[layer] || of->activation_bytes < 0 ||
            of->activation_bytes > INT64_MAX - activation[layer] || of->transfer_ns < 0) {
            return error_set(
                err, STATUS_INVALID,
                "layer %d: weight %" PRId64 ", %" PRId64 " and %" PRId64 " bytes, transfer %" PRId64
                " ns: negative, or sums that do not fit 64 bits",
                layer, of->weight, of->state_bytes, of->activation_bytes, of->transfer_ns);
        }
        weight[layer + 1] = weight[layer] + of->weight;
        state[layer + 1] = state[layer] + of->state_bytes;
        activation[layer + 1] = activation[layer] + of->activation_bytes;
        transfer[layer] = of->transfer_ns;
    }
    return STATUS_OK;
}

status exec_distributed_diffusion(const exec_group *group, const exec_diffusion_rules *rules,
                                  const exec_diffusion_layers *own, arena *memory,
                                  exec_diffusion_answer *answer, error_message *err)
{
    const size_t layers = (size_t)rules->layer_count;
    layer_cost *cost = arena_array(memory, layers, sizeof *cost);
    int *first = arena_array(memory, (size_t)group->rank_count + 1, sizeof *first);
    int64_t *sums[4];
    assert(0 <= own->first_layer && own->first_layer <= own->end_layer &&
           own->end_layer <= rules->layer_count);
    for (int array = 0; array < 4; array++) {
        sums[array] = arena_array(memory, layers + 1, sizeof *sums[array]);
    }
    TRY(learn_costs(group, own, rules->layer_count, cost, err));
    TRY(sum_up(cost, rules->layer_count, sums[0], sums[1], sums[2], sums[3], err));
    bal_chain chain = {.layer_count = rules->layer_count,
                       .stage_count = group->rank_count,
                       .chunk_count = 1,
                       .allow_empty_stages = rules->allow_empty_stages,
                       .embedding = rules->embedding,
                       .head = rules->head,
                       .weight_before = sums[0],
                       .state_before = sums[1],
                       .activation_before = sums[2],
                       .transfer_ns = rules->by_transfer ? sums[3] : NULL,
                       .stage_memory_bytes = rules->stage_memory_bytes,
                       .stage_inflight = rules->stage_inflight,
                       .stage_time_factor_ppb = rules->stage_time_factor_ppb,
                       .stage_fixed_ns = rules->stage_fixed_ns};
    TRY(bal_chain_bound_load_sum(&chain, err));
    TRY(bal_diffusion_cuts(&chain, memory, first, err));
    *answer = (exec_diffusion_answer){first[group->self], first[group->self + 1]};
    return STATUS_OK;
}
