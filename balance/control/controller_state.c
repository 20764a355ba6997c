/// The plan in force, what is asked about it, and the way to another one.
#include "balance/control/controller_state.h"

#include <string.h>

/// Time to move a layer's output to another rank, for weights that count it: the slowest link that
/// two neighbouring ranks of this machine use.
static void fill_transfers(bal_controller *controller, const bal_layer_costs *layers)
{
    const bal_machine *machine = &controller->options.machine;
    const bool crosses = machine->rank_count > machine->ranks_per_node;
    const bal_link link = crosses ? machine->inter_node : machine->intra_node;
    for (int layer = 0; layer < layers->layer_count; layer++) {
        const int64_t bytes = layers->message_bytes != NULL ? layers->message_bytes[layer] : 0;
        controller->transfer_ns[layer] = bal_link_transfer_ns(link, bytes);
    }
}

bal_placed_partition bal_controller_placed(const bal_controller *controller, const int *first_layer)
{
    return (bal_placed_partition){
        .first_layer = first_layer,
        .rank_count = controller->rank_count,
        .chunk_count = controller->chunk_count,
        .placement = controller->family->placement,
        .machine_rank = controller->machine_rank,
    };
}

bal_decision bal_controller_as_is(const bal_controller *controller)
{
    const bool owns_freely = controller->options.balancer->owns_freely;
    bal_decision decision = {
        .owner = owns_freely ? controller->owner : NULL,
        .predicted_ns = -1,
        .bottleneck_ns = controller->bottleneck_ns,
        .bottleneck_lower_bound_ns = controller->bottleneck_lower_bound_ns,
        .microbatch_count = controller->microbatch_count,
    };
    if (!owns_freely) {
        decision.plan = bal_controller_placed(controller, controller->first_layer);
    }
    return decision;
}

bal_problem bal_controller_problem(bal_controller *controller, const bal_layer_costs *layers)
{
    const bal_controller_options *options = &controller->options;
    const bool owns_freely = options->balancer->owns_freely;
    if (options->weight == BAL_WEIGHT_TIME_TRANSFER) fill_transfers(controller, layers);
    return (bal_problem){
        .layers = *layers,
        .stage_count = controller->rank_count * controller->chunk_count,
        .chunk_count = controller->chunk_count,
        .placement = controller->family->placement,
        .machine_rank = controller->machine_rank,
        .weight = options->weight,
        .objective = BAL_OBJECTIVE_BOTTLENECK,
        .microbatch_count = controller->microbatch_count,
        .transfer_ns = controller->transfer_ns,
        .stage_memory_bytes = controller->chunk_count == 1 ? controller->memory_cap : NULL,
        .stage_inflight = controller->inflight,
        .rank_memory_bytes = controller->chunk_count > 1 ? controller->memory_cap : NULL,
        .rank_peaks = &controller->peaks,
        .given_first_layer = options->given_first_layer,
        .current_first_layer =
            controller->is_started && !owns_freely ? controller->first_layer : NULL,
        .current_owner = controller->is_started && owns_freely ? controller->owner : NULL,
        .evaluator = options->evaluator,
        .diffuser = options->diffuser,
    };
}

int64_t bal_controller_estimate_ns(const bal_controller *controller,
                                   const bal_placed_partition *plan)
{
    return bal_iteration_estimate_ns(&controller->sums, plan, controller->family,
                                     controller->microbatch_count);
}

void bal_controller_adopt_cuts(bal_controller *controller, const int *first_layer)
{
    const size_t stages = (size_t)controller->rank_count * (size_t)controller->chunk_count;
    memcpy(controller->first_layer, first_layer, (stages + 1) * sizeof *controller->first_layer);
    const bal_placed_partition plan = bal_controller_placed(controller, first_layer);
    for (int stage = 0; stage < (int)stages; stage++) {
        const int rank = bal_placed_machine_rank(&plan, stage);
        for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
            controller->rank_of_layer[layer] = rank;
        }
    }
}

void bal_controller_adopt_owners(bal_controller *controller, const int *owner)
{
    memcpy(controller->owner, owner,
           (size_t)controller->options.layer_count * sizeof *controller->owner);
}

status bal_controller_count_peaks(bal_controller *controller, int rank_count, int microbatch_count,
                                  error_message *err)
{
    arena_reset(controller->peak_memory);
    TRY(bal_peak_book_find(controller->options.peak_book, controller->options.schedule, rank_count,
                           controller->chunk_count, microbatch_count, controller->peak_memory,
                           &controller->peaks, err));
    bal_stage_inflight_of(&controller->peaks, controller->family->placement, controller->inflight);
    return STATUS_OK;
}

/// Takes places, cuts and number of microbatches into force.
static status adopt(bal_controller *controller, const bal_placed_partition *plan,
                    int microbatch_count, error_message *err)
{
    const bool has_counts = plan->rank_count == controller->rank_count &&
                            microbatch_count == controller->microbatch_count;
    if (!has_counts) {
        TRY(bal_controller_count_peaks(controller, plan->rank_count, microbatch_count, err));
        bal_shadow_restart(&controller->shadow);
    }
    controller->rank_count = plan->rank_count;
    controller->microbatch_count = microbatch_count;
    memcpy(controller->machine_rank, plan->machine_rank,
           (size_t)plan->rank_count * sizeof *controller->machine_rank);
    bal_controller_adopt_cuts(controller, plan->first_layer);
    return STATUS_OK;
}

/// A plan, and what moves on the way to it.
typedef struct way {
    bal_placed_partition plan;
    bal_migration migration;
    int64_t exposed_ns;
    bool is_blocked; // no order of the moves keeps every rank within its memory
} way;

/// Whether the cheapest of several ways is to be looked for, or a gain to be seen first.
static bool has_choice(const bal_controller *controller, const bal_controller_target *target)
{
    const bal_migration_options *options = &controller->options.migration;
    return options->slack_ratio > 0 || options->relabels || target->gain_ratio > 0 ||
           controller->options.repack.kind != BAL_REPACK_NONE ||
           target->problem->stage_count != controller->rank_count * controller->chunk_count;
}

static status find_plan(bal_controller *controller, const bal_controller_target *target, way *out,
                        error_message *err)
{
    const bal_controller_options *options = &controller->options;
    const bal_placed_partition before = bal_controller_placed(controller, controller->first_layer);
    if (!has_choice(controller, target)) {
        out->plan = bal_controller_placed(controller, target->first_layer);
        return bal_migration_between(&before, &out->plan, &target->problem->layers,
                                     &options->machine, controller->decision_memory,
                                     &out->migration, err);
    }
    const bal_migration_question question = {
        .problem = target->problem,
        .first_layer = target->first_layer,
        .before = &before,
        .machine = &options->machine,
        .rank_unit = bal_repack_unit(&options->repack),
    };
    bal_migration_options migration = options->migration;
    migration.hysteresis_ratio = target->gain_ratio;
    bal_migration_choice choice;
    TRY(bal_migration_plan(&question, &migration, controller->decision_memory, &choice, err));
    out->plan = choice.plan;
    out->migration = choice.migration;
    return STATUS_OK;
}

/// Orders the moves where order matters: so that memory suffices, and within the backward sweep.
static status find_order(bal_controller *controller, const bal_profile *profile,
                         const bal_layer_costs *layers, way *out, error_message *err)
{
    const bal_controller_options *options = &controller->options;
    const bool overlaps = options->migration.overlaps && profile->rank_end_ns != NULL;
    out->exposed_ns = out->migration.time_ns;
    if (out->migration.layer_count == 0) return STATUS_OK;
    if (options->machine.rank_memory_bytes == 0 && !overlaps) return STATUS_OK;
    const bal_placed_partition before = bal_controller_placed(controller, controller->first_layer);
    bal_migration_steps steps;
    error_message why = {0};
    const status ordered = bal_migration_order(&before, &out->migration, layers, &options->machine,
                                               controller->decision_memory, &steps, &why);
    out->is_blocked = ordered == STATUS_INFEASIBLE;
    if (out->is_blocked) return STATUS_OK;
    if (ordered != STATUS_OK) return error_set(err, ordered, "%s", why.message);
    int64_t finish_ns = 0;
    TRY(bal_migration_finish_ns(&steps, layers, &options->machine,
                                overlaps ? profile->rank_end_ns : NULL, controller->decision_memory,
                                &finish_ns, err));
    if (overlaps) finish_ns -= profile->makespan_ns;
    out->exposed_ns = (finish_ns > 0 ? finish_ns : 0) + options->machine.relaunch_ns;
    return STATUS_OK;
}

status bal_controller_move(bal_controller *controller, const bal_profile *profile,
                           const bal_controller_target *target, bal_decision *decision,
                           error_message *err)
{
    way found = {0};
    const bal_problem *problem = target->problem;
    TRY(find_plan(controller, target, &found, err));
    TRY(find_order(controller, profile, &problem->layers, &found, err));
    const int before = controller->rank_count;
    const bool repacks = found.plan.rank_count != before;
    const bool moves = !found.is_blocked && (found.migration.layer_count > 0 || repacks);
    if (moves) TRY(adopt(controller, &found.plan, problem->microbatch_count, err));
    *decision = bal_controller_as_is(controller);
    decision->was_asked = true;
    decision->reason = found.is_blocked ? BAL_REASON_NO_ROOM : BAL_REASON_SAME;
    if (!moves) return STATUS_OK;
    decision->action = repacks ? BAL_ACTION_REPACK : BAL_ACTION_REBALANCE;
    decision->reason = target->reason;
    if (controller->rank_count < before) decision->reason = BAL_REASON_SHRINK;
    if (controller->rank_count > before) decision->reason = BAL_REASON_GROW;
    decision->migration = found.migration;
    decision->migration_ns = found.exposed_ns;
    return STATUS_OK;
}
