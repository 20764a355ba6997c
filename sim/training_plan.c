#include "sim/training_plan.h"

#include "balance/run/training.h"
#include "base/arena.h"
#include "sim/training_play.h"

#include <string.h>

/// The order of a partition: looked up, or of a searched schedule searched from what its stages
/// cost.
///
/// @param held of a searched schedule: an order that must stay; NULL: none need
static status find_order(sim_training_plan *plan, const bal_placed_partition *placed,
                         int microbatch_count, const bal_layer_costs *layers,
                         const sim_compiled_order *held, sim_compiled_order **order,
                         error_message *err)
{
    bal_schedule_request request;
    TRY(bal_training_order_request(plan->training, placed, layers, microbatch_count,
                                   plan->trial_memory, &request, err));
    return plan->family->is_searched
               ? sim_order_book_search(plan->orders, &request, held, order, err)
               : sim_order_book_find(plan->orders, &request, order, err);
}

static status predict(void *context, const bal_layer_costs *layers,
                      const bal_placed_partition *placed, int microbatch_count,
                      int64_t *iteration_ns, error_message *err)
{
    sim_training_plan *plan = context;
    const bal_training *training = plan->training;
    sim_compiled_order *order = NULL;
    sim_play play;
    arena_reset(plan->trial_memory);
    TRY(find_order(plan, placed, microbatch_count, layers, plan->searched, &order, err));
    const sim_play_request request = {
        .played = {.plan = placed,
                   .replicas = layers,
                   .replica_count = 1,
                   .post_validation = training->post_validation,
                   .reduction_overlap = training->reduction_overlap},
        .machine = &training->machine,
        .order = order,
        .round_count = training->round_count,
    };
    TRY(sim_play_replicas(&request, plan->trial_memory, &play, err));
    *iteration_ns = play.times.pipeline_ns + play.times.reduction_ns;
    return STATUS_OK;
}

void sim_training_plan_init(sim_training_plan *plan, const bal_training *training,
                            sim_order_book *orders, arena *memory)
{
    const bal_schedule_family *family = bal_schedule_family_find(training->schedule);
    const int chunks = bal_schedule_chunk_count(family, training->chunk_count);
    const size_t ranks = (size_t)training->machine.rank_count;
    const size_t layers = (size_t)training->sources[0].layer_count;
    *plan = (sim_training_plan){
        .training = training,
        .family = family,
        .orders = orders != NULL ? orders : sim_order_book_create(memory),
        .first_layer = arena_array(memory, ranks * (size_t)chunks + 1, sizeof *plan->first_layer),
        .machine_rank = arena_array(memory, ranks, sizeof *plan->machine_rank),
        .rank_of_layer = arena_array(memory, layers, sizeof *plan->rank_of_layer),
        .batch = {training->microbatch_count, training->microbatch_count},
        .trial_memory = arena_within(memory, 1 << 18),
        .evaluator = {plan, predict},
    };
}

static void take_owners(sim_training_plan *plan, const int *owner)
{
    const size_t layers = (size_t)plan->training->sources[0].layer_count;
    memcpy(plan->rank_of_layer, owner, layers * sizeof *owner);
    plan->owner = plan->rank_of_layer;
}

static void take_partition(sim_training_plan *plan, const bal_placed_partition *placed)
{
    const int stages = bal_placed_stage_count(placed);
    memcpy(plan->first_layer, placed->first_layer,
           ((size_t)stages + 1) * sizeof *plan->first_layer);
    for (int place = 0; place < placed->rank_count; place++) {
        plan->machine_rank[place] =
            placed->machine_rank != NULL ? placed->machine_rank[place] : place;
    }
    plan->placed = *placed;
    plan->placed.first_layer = plan->first_layer;
    plan->placed.machine_rank = plan->machine_rank;
    bal_placed_owners(placed, plan->rank_of_layer);
}

sim_gpu_use sim_training_plan_gpus(sim_training_plan *plan, const bal_decision *decision)
{
    const bal_training *training = plan->training;
    const bal_gpu_layout layout = bal_training_gpu_layout(training);
    const bal_placed_partition all = {.rank_count = layout.rank_count};
    const bal_placed_partition *placed = decision->owner != NULL ? &all : &decision->plan;
    arena_reset(plan->trial_memory);
    sim_gpu_use gpus = sim_gpu_use_of(&layout, training->repack.use, placed,
                                      decision->microbatch_count, plan->trial_memory);
    const int taken =
        bal_schedule_microbatch_count(plan->family, placed->rank_count, gpus.played_count);
    if (taken > 0) gpus.played_count = taken; // else bal_schedule_build names the rule
    return gpus;
}

status sim_training_plan_enact(sim_training_plan *plan, const bal_decision *decision,
                               const bal_layer_costs *layers, error_message *err)
{
    plan->gpus = sim_training_plan_gpus(plan, decision);
    plan->batch = (bal_batch){decision->microbatch_count, plan->gpus.played_count};
    if (decision->owner != NULL) {
        take_owners(plan, decision->owner);
        return STATUS_OK;
    }
    take_partition(plan, &decision->plan);
    if (!plan->family->is_searched) return STATUS_OK;
    return find_order(plan, &plan->placed, plan->batch.played_count, layers, NULL, &plan->searched,
                      err);
}

status sim_training_plan_order(sim_training_plan *plan, sim_compiled_order **order,
                               error_message *err)
{
    if (plan->family->is_searched) {
        *order = plan->searched;
        return STATUS_OK;
    }
    return find_order(plan, &plan->placed, plan->batch.played_count, NULL, NULL, order, err);
}

sim_gpu_use sim_gpu_use_of(const bal_gpu_layout *layout, bal_released_use use,
                           const bal_placed_partition *plan, int microbatch_count, arena *scratch)
{
    sim_gpu_use made = {.replica_count = layout->replica_count, .played_count = microbatch_count};
    bal_gpu_account_of(layout, plan->machine_rank, plan->rank_count, scratch, &made.account);
    if (use != BAL_RELEASED_REPLICATE) return made;
    const bal_batch_share share = bal_batch_share_of(layout->rank_count, plan->rank_count,
                                                     layout->replica_count, microbatch_count);
    made.replica_count = share.replica_count;
    made.played_count = share.played_count;
    made.account.idle_gpu_count = (int64_t)share.idle_rank_count * layout->gpus_per_rank;
    made.account.released_rank_count = share.idle_rank_count;
    made.account.released_node_count = 0;
    return made;
}

int64_t sim_replication_ns(const bal_machine *machine, const bal_layer_costs *layers,
                           const bal_placed_partition *plan, int replica_count, int further)
{
    const int64_t ns_max = INT64_MAX / 4;
    int64_t longest_ns = 0;
    const int64_t rounds = (further + replica_count - 1) / replica_count;
    for (int place = 0; place < plan->rank_count && rounds > 0; place++) {
        int64_t ns = 0;
        for (int chunk = 0; chunk < plan->chunk_count; chunk++) {
            const int stage = bal_placed_stage(plan, place, chunk);
            for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1];
                 layer++) {
                const int64_t bytes = layers->state_bytes != NULL ? layers->state_bytes[layer] : 0;
                const int64_t layer_ns = bal_link_transfer_ns(machine->inter_node, bytes);
                ns = layer_ns > ns_max - ns ? ns_max : ns + layer_ns;
            }
        }
        if (ns > longest_ns) longest_ns = ns;
    }
    return longest_ns > ns_max / (rounds > 0 ? rounds : 1) ? ns_max : longest_ns * rounds;
}

status sim_predictor_create(const bal_training *training, arena *memory,
                            const bal_evaluator **predictor, error_message *err)
{
    TRY(bal_training_check(training, err));
    sim_training_plan *plan = arena_array(memory, 1, sizeof *plan);
    sim_training_plan_init(plan, training, NULL, memory);
    *predictor = &plan->evaluator;
    return STATUS_OK;
}
