#include "balance/control/controller.h"

#include "balance/control/controller_parts.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>

const char *const bal_action_names[BAL_ACTION_COUNT] = {
    [BAL_ACTION_KEEP] = "keep",
    [BAL_ACTION_REBALANCE] = "rebalance",
    [BAL_ACTION_REPACK] = "repack",
};

const char *const bal_reason_names[BAL_REASON_COUNT] = {
    [BAL_REASON_NONE] = "none",           [BAL_REASON_START] = "start",
    [BAL_REASON_PERIOD] = "period",       [BAL_REASON_CHANGE] = "change",
    [BAL_REASON_THRESHOLD] = "threshold", [BAL_REASON_REGRET] = "regret",
    [BAL_REASON_SHRINK] = "shrink",       [BAL_REASON_GROW] = "grow",
    [BAL_REASON_SAME] = "same",           [BAL_REASON_NO_ROOM] = "no-room",
};

/// What needs stages is refused with balancers that have none.
static status check_balancer(const bal_controller_options *options, error_message *err)
{
    const bal_policy_kind kind = options->policy.kind;
    if (!options->balancer->owns_freely) return STATUS_OK;
    if (kind == BAL_POLICY_THRESHOLD || kind == BAL_POLICY_SHADOW) {
        char policy[BAL_POLICY_NAME_BYTES];
        bal_policy_name(options->policy, policy);
        return error_set(err, STATUS_INVALID,
                         "%s predicts iterations, which the plans of %s, having no stages, do not "
                         "allow",
                         policy, options->balancer->name);
    }
    if (options->repack.kind == BAL_REPACK_NONE) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "the plans of %s have no stages to re-pack",
                     options->balancer->name);
}

static status check_options(const bal_controller_options *options, error_message *err)
{
    const int ranks = options->machine.rank_count;
    assert(options->balancer != NULL && options->schedule != NULL);
    if (ranks < 1 || ranks > BAL_RANKS_MAX) {
        return error_set(err, STATUS_INVALID, "%d ranks are outside [1, %d]", ranks, BAL_RANKS_MAX);
    }
    if (options->layer_count < 1 || options->layer_count > BAL_LAYERS_MAX) {
        return error_set(err, STATUS_INVALID, "layer_count %d is outside [1, %d]",
                         options->layer_count, BAL_LAYERS_MAX);
    }
    if (bal_schedule_family_find(options->schedule) == NULL) {
        return error_set(err, STATUS_INVALID, "unknown schedule '%.40s'", options->schedule);
    }
    if (bal_schedule_family_find(options->schedule)->placement == BAL_PLACEMENT_BIDIRECTIONAL) {
        return error_set(err, STATUS_INVALID,
                         "schedule %s keeps two copies of the weights; training runs have one",
                         options->schedule);
    }
    if (options->change_ratio < 0) {
        return error_set(err, STATUS_INVALID, "change_ratio %g is negative", options->change_ratio);
    }
    TRY(bal_migration_options_check(&options->migration, err));
    if (options->repack.kind != BAL_REPACK_NONE) {
        TRY(bal_repack_options_check(&options->repack, &options->machine, err));
    }
    return check_balancer(options, err);
}

static status allocate(bal_controller *made)
{
    const bal_controller_options *options = &made->options;
    const size_t layers = (size_t)options->layer_count;
    const size_t ranks = (size_t)options->machine.rank_count;
    const size_t stages = ranks * (size_t)made->chunk_count;
    made->memory = arena_create(1 << 16);
    made->decision_memory = arena_create(1 << 18);
    made->trial_memory = arena_create(1 << 16);
    made->first_layer = arena_array(made->memory, stages + 1, sizeof *made->first_layer);
    made->machine_rank = arena_array(made->memory, ranks, sizeof *made->machine_rank);
    made->owner = arena_array(made->memory, layers, sizeof *made->owner);
    made->rank_of_layer = arena_array(made->memory, layers, sizeof *made->rank_of_layer);
    made->stage_factor_ppb = arena_array(made->memory, stages, sizeof *made->stage_factor_ppb);
    made->inflight = arena_array(made->memory, stages, sizeof *made->inflight);
    made->peak_memory = arena_create(1 << 12);
    made->transfer_ns = arena_array(made->memory, layers, sizeof *made->transfer_ns);
    if (options->machine.rank_memory_bytes > 0) {
        made->memory_cap = arena_array(made->memory, ranks, sizeof *made->memory_cap);
        for (size_t rank = 0; rank < ranks; rank++) {
            made->memory_cap[rank] = options->machine.rank_memory_bytes;
        }
    }
    bal_layer_times_init(&made->times, options->layer_count, made->memory);
    bal_layer_sums_init(&made->sums, options->layer_count, made->memory);
    bal_rank_speed_init(&made->speed, options->machine.rank_count, options->layer_count,
                        made->memory);
    bal_forecast_init(&made->forecast, options->layer_count, made->memory);
    const bal_shadow_options shadow = {
        .balancer = options->balancer,
        .family = made->family,
        .machine = &made->options.machine,
        .layer_count = options->layer_count,
        .stage_count_max = (int)stages,
        .decision_ns = options->decision_ns,
    };
    bal_shadow_init(&made->shadow, &shadow, made->memory);
    bal_change_detector_init(&made->detector, options->layer_count, options->change_ratio,
                             made->memory);
    return STATUS_OK;
}

/// The places of the start: place p is rank p of the machine.
static status take_places(bal_controller *made, error_message *err)
{
    made->rank_count = made->options.machine.rank_count;
    made->microbatch_count = made->options.microbatch_count;
    for (int place = 0; place < made->rank_count; place++) {
        made->machine_rank[place] = place;
    }
    return bal_controller_count_peaks(made, made->rank_count, made->options.microbatch_count, err);
}

status bal_controller_create(const bal_controller_options *options, bal_controller **out,
                             error_message *err)
{
    *out = NULL;
    TRY(check_options(options, err));
    bal_controller *made = memory_array(1, sizeof *made);
    made->options = *options;
    made->family = bal_schedule_family_find(options->schedule);
    made->chunk_count = bal_schedule_chunk_count(made->family, options->chunk_count);
    status created = allocate(made);
    if (created == STATUS_OK) created = take_places(made, err);
    if (created != STATUS_OK) {
        bal_controller_destroy(made);
        return created;
    }
    *out = made;
    return STATUS_OK;
}

void bal_controller_destroy(bal_controller *controller)
{
    if (controller == NULL) return;
    arena_destroy(controller->memory);
    arena_destroy(controller->decision_memory);
    arena_destroy(controller->trial_memory);
    arena_destroy(controller->peak_memory);
    free(controller);
}

/// State of the rank that holds the most at the start: halving packs up to it.
static status note_memory(bal_controller *controller, const bal_problem *problem,
                          error_message *err)
{
    bal_chain chain;
    TRY(bal_chain_of(problem, controller->decision_memory, &chain, err));
    for (int place = 0; place < controller->rank_count; place++) {
        int64_t bytes = 0; // the sum over all layers fits
        for (int chunk = 0; chunk < controller->chunk_count; chunk++) {
            const int stage = bal_stage_of(problem->placement, controller->rank_count,
                                           controller->chunk_count, place, chunk);
            bytes += chain.state_before[controller->first_layer[stage + 1]] -
                     chain.state_before[controller->first_layer[stage]];
        }
        if (bytes > controller->start_rank_state_bytes) controller->start_rank_state_bytes = bytes;
    }
    return STATUS_OK;
}

status bal_controller_start(bal_controller *controller, const bal_layer_costs *layers,
                            bal_decision *decision, error_message *err)
{
    assert(!controller->is_started && layers->layer_count == controller->options.layer_count);
    bal_answer answer;
    arena_reset(controller->decision_memory);
    const bal_problem problem = bal_controller_problem(controller, layers);
    TRY(bal_balance(controller->options.balancer, &problem, controller->decision_memory, &answer,
                    err));
    if (answer.executable) {
        bal_controller_adopt_cuts(controller, answer.first_layer);
        TRY(note_memory(controller, &problem, err));
    } else {
        bal_controller_adopt_owners(controller, answer.owner);
    }
    TRY(bal_layer_times_fill(&controller->times, layers, err));
    bal_layer_sums_fill(&controller->sums, &controller->times);
    controller->start_load_ns = controller->sums.time_before[layers->layer_count];
    controller->bottleneck_ns = answer.bottleneck_ns;
    controller->bottleneck_lower_bound_ns = answer.bottleneck_lower_bound_ns;
    controller->is_started = true;
    (void)bal_change_detector_observe(&controller->detector, layers); // what changes are seen from
    *decision = bal_controller_as_is(controller);
    decision->reason = BAL_REASON_START;
    decision->predicted_ns = answer.iteration_ns;
    return STATUS_OK;
}

status bal_controller_observe(bal_controller *controller, const bal_profile *profile,
                              bal_decision *decision, error_message *err)
{
    assert(controller->is_started);
    assert(profile->layers->layer_count == controller->options.layer_count);
    arena_reset(controller->decision_memory);
    bal_decision made = bal_controller_as_is(controller);
    const status decided = bal_controller_decide(controller, profile, &made, err);
    if (decided != STATUS_OK) {
        return error_prefix(err, decided, "iteration %d", profile->iteration);
    }
    *decision = made;
    return STATUS_OK;
}
