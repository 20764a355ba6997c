#include "balance/control/controller.h"

#include "balance/control/controller_state.h"
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

static void allocate(bal_controller *made)
{
    const bal_controller_options *options = &made->options;
    const size_t layers = (size_t)options->layer_count;
    const size_t ranks = (size_t)options->machine.rank_count;
    const size_t stages = ranks * (size_t)made->chunk_count;
    made->memory = arena_create(1 << 16);
    made->decision_memory = arena_create(1 << 18);
    made->first_layer = arena_array(made->memory, stages + 1, sizeof *made->first_layer);
    made->machine_rank = arena_array(made->memory, ranks, sizeof *made->machine_rank);
    made->owner = arena_array(made->memory, layers, sizeof *made->owner);
    made->rank_of_layer = arena_array(made->memory, layers, sizeof *made->rank_of_layer);
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
    allocate(made);
    const status created = take_places(made, err);
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

/// Whether the model has changed before the iteration. The plan of the start was made for the
/// first.
static bool has_changed(bal_controller *controller, const bal_profile *profile,
                        const bal_layer_costs *layers)
{
    if (profile->iteration == 0 || !profile->changed) return false;
    if (controller->options.announces_changes) return profile->changed;
    return bal_change_detector_observe(&controller->detector, layers);
}

/// Fills times and sums of the loads that a decision looks at, and the costs for the balancer.
/// Needs times of the profile.
static status look(bal_controller *controller, const bal_profile *profile, bal_layer_costs *layers,
                   error_message *err)
{
    const bal_information information = controller->options.information;
    const bool looks_ahead = information == BAL_INFORMATION_FORESIGHT && profile->next != NULL;
    const bal_layer_costs *seen = looks_ahead ? profile->next : profile->layers;
    if (looks_ahead) TRY(bal_layer_times_fill(&controller->times, seen, err));
    bal_layer_sums_fill(&controller->sums, &controller->times);
    // An evaluator plays every microbatch as it was seen; all others weigh means, and those are at
    // hand.
    *layers = controller->options.balancer->evaluates
                  ? *seen
                  : bal_layer_times_costs(&controller->times, seen);
    return STATUS_OK;
}

/// The share of an iteration that a move must save.
static double least_gain(const bal_controller_options *options)
{
    const double hysteresis = options->migration.hysteresis_ratio;
    if (options->policy.kind != BAL_POLICY_THRESHOLD) return hysteresis;
    const double any = 1e-12; // threshold:0: some gain, however small
    const double threshold =
        options->policy.threshold_ratio > any ? options->policy.threshold_ratio : any;
    return threshold > hysteresis ? threshold : hysteresis;
}

static bal_reason reason_of(bal_policy_kind kind)
{
    switch (kind) {
    case BAL_POLICY_EVERY:
        return BAL_REASON_PERIOD;
    case BAL_POLICY_THRESHOLD:
        return BAL_REASON_THRESHOLD;
    case BAL_POLICY_SHADOW:
        return BAL_REASON_REGRET;
    default:
        return BAL_REASON_CHANGE;
    }
}

static void note_bottleneck(bal_controller *controller, const bal_answer *answer)
{
    controller->bottleneck_ns = answer->bottleneck_ns;
    controller->bottleneck_lower_bound_ns = answer->bottleneck_lower_bound_ns;
}

/// Asks the balancer for the ranks in force.
static status ask(bal_controller *controller, const bal_problem *problem, bal_answer *answer,
                  error_message *err)
{
    TRY(bal_balance(controller->options.balancer, problem, controller->decision_memory, answer,
                    err));
    note_bottleneck(controller, answer);
    return STATUS_OK;
}

/// The prediction for the plan in force after a decision: the balancer's own where it is its plan.
static void predict(const bal_controller *controller, const bal_answer *answer,
                    bal_decision *decision)
{
    const bool is_answer = decision->action != BAL_ACTION_KEEP && answer->iteration_ns >= 0;
    decision->predicted_ns =
        is_answer ? answer->iteration_ns : bal_controller_estimate_ns(controller, &decision->plan);
}

/// Asks a balancer that has stages, and takes its answer where it moves a layer for enough gain.
static status rebalance(bal_controller *controller, const bal_profile *profile,
                        const bal_layer_costs *layers, bal_decision *decision, error_message *err)
{
    bal_answer answer;
    const bal_problem problem = bal_controller_problem(controller, layers);
    TRY(ask(controller, &problem, &answer, err));
    const bal_controller_target target = {
        .problem = &problem,
        .first_layer = answer.first_layer,
        .reason = reason_of(controller->options.policy.kind),
        .gain_ratio = least_gain(&controller->options),
    };
    TRY(bal_controller_move(controller, profile, &target, decision, err));
    predict(controller, &answer, decision);
    return STATUS_OK;
}

/// Asks how many ranks to go on with, and for their plan. With the present number it is a
/// rebalance like any other, but for shadows, which have their own reasons to move.
static status repack(bal_controller *controller, const bal_profile *profile,
                     const bal_layer_costs *layers, bal_decision *decision, error_message *err)
{
    const bal_controller_options *options = &controller->options;
    const bal_placed_partition before = bal_controller_placed(controller, controller->first_layer);
    const bal_problem problem = bal_controller_problem(controller, layers);
    const bal_repack_question question = {
        .problem = &problem,
        .machine = &options->machine,
        .schedule = options->schedule,
        .balancer = options->balancer,
        .before = &before,
        .replica_count = options->replica_count,
        .start_load_ns = controller->start_load_ns,
        .start_rank_state_bytes = controller->start_rank_state_bytes,
    };
    bal_repack_choice choice;
    controller->packed_load_ns = controller->sums.time_before[layers->layer_count];
    TRY(bal_repack_choose(&question, &options->repack, controller->decision_memory, &choice, err));
    note_bottleneck(controller, &choice.answer);
    const bool stays = choice.rank_count == controller->rank_count;
    if (stays && options->policy.kind == BAL_POLICY_SHADOW) return STATUS_OK;
    const bal_controller_target target = {
        .problem = &choice.problem,
        .first_layer = choice.answer.first_layer,
        .reason = reason_of(options->policy.kind),
        .gain_ratio = stays ? least_gain(options) : 0,
    };
    TRY(bal_controller_move(controller, profile, &target, decision, err));
    decision->predicted_ns = decision->action != BAL_ACTION_KEEP
                                 ? choice.iteration_ns
                                 : bal_controller_estimate_ns(controller, &decision->plan);
    return STATUS_OK;
}

/// Layers that change their owner, and their bytes. Owners are not executed, so no time is charged.
static bal_migration owner_moves(const bal_controller *controller, const bal_layer_costs *layers,
                                 const int *owner)
{
    bal_migration migration = {0};
    for (int layer = 0; layer < layers->layer_count; layer++) {
        if (owner[layer] == controller->owner[layer]) continue;
        migration.layer_count++;
        if (layers->state_bytes != NULL) migration.bytes += layers->state_bytes[layer];
    }
    return migration;
}

/// Asks a balancer without stages.
static status reassign(bal_controller *controller, const bal_layer_costs *layers,
                       bal_decision *decision, error_message *err)
{
    bal_answer answer;
    const bal_problem problem = bal_controller_problem(controller, layers);
    TRY(ask(controller, &problem, &answer, err));
    const bal_migration migration = owner_moves(controller, layers, answer.owner);
    const bool moves = migration.layer_count > 0;
    bal_controller_adopt_owners(controller, answer.owner);
    *decision = bal_controller_as_is(controller);
    decision->was_asked = true;
    decision->migration = migration;
    decision->action = moves ? BAL_ACTION_REBALANCE : BAL_ACTION_KEEP;
    decision->reason = moves ? reason_of(controller->options.policy.kind) : BAL_REASON_SAME;
    return STATUS_OK;
}

/// Whether all layers together have become so much lighter or heavier that another number of ranks
/// could do.
static bool has_other_load(const bal_controller *controller)
{
    const double load = (double)controller->sums.time_before[controller->options.layer_count];
    const double packed = (double)controller->packed_load_ns;
    const double share = 0.02; // of all loads; one rank of 50
    return load < packed * (1 - share) || load > packed * (1 + share);
}

/// Lets the shadows look on, and takes the plan of one that is due. They keep to the number of
/// ranks in force: re-packing is thought about when the load is another.
static status follow_shadows(bal_controller *controller, const bal_profile *profile,
                             const bal_layer_costs *layers, bal_decision *decision,
                             error_message *err)
{
    if (controller->options.repack.kind != BAL_REPACK_NONE && has_other_load(controller)) {
        TRY(repack(controller, profile, layers, decision, err));
        if (decision->was_asked) return STATUS_OK;
    }
    const bal_problem problem = bal_controller_problem(controller, layers);
    const bal_shadow_view view = {
        .times = &controller->times, .sums = &controller->sums, .problem = &problem};
    bal_controller_target target = {.problem = &problem, .reason = BAL_REASON_REGRET};
    TRY(bal_shadow_observe(&controller->shadow, &view, controller->decision_memory,
                           &target.first_layer, err));
    if (target.first_layer == NULL) return STATUS_OK;
    TRY(bal_controller_move(controller, profile, &target, decision, err));
    decision->predicted_ns = bal_controller_estimate_ns(controller, &decision->plan);
    return STATUS_OK;
}

/// Whether every iteration is learned from, not only those that a decision looks at.
static bool learns_always(const bal_controller *controller)
{
    return controller->options.policy.kind == BAL_POLICY_SHADOW;
}

/// The decision itself, by the loads that times hold.
static status decide(bal_controller *controller, const bal_profile *profile, bal_decision *decision,
                     error_message *err)
{
    const bal_controller_options *options = &controller->options;
    bal_layer_costs layers;
    TRY(look(controller, profile, &layers, err));
    if (options->balancer->owns_freely) return reassign(controller, &layers, decision, err);
    if (options->policy.kind == BAL_POLICY_SHADOW) {
        return follow_shadows(controller, profile, &layers, decision, err);
    }
    if (options->repack.kind != BAL_REPACK_NONE) {
        return repack(controller, profile, &layers, decision, err);
    }
    return rebalance(controller, profile, &layers, decision, err);
}

/// The decision at the end of an iteration; decision is bal_controller_as_is and is left so where
/// nobody is asked.
static status choose_action(bal_controller *controller, const bal_profile *profile,
                            bal_decision *decision, error_message *err)
{
    const bal_policy policy = controller->options.policy;
    bal_layer_costs layers = *profile->layers;
    const bool learns = !controller->options.balancer->is_static && learns_always(controller);
    if (learns) {
        TRY(bal_layer_times_fill(&controller->times, profile->layers, err));
        layers = bal_layer_times_costs(&controller->times, profile->layers);
    }
    const bool changed = has_changed(controller, profile, &layers);
    decision->changed = changed;
    if (controller->options.balancer->is_static) return STATUS_OK;
    if (policy.kind != BAL_POLICY_SHADOW && !bal_policy_asks(policy, profile->iteration, changed)) {
        return STATUS_OK;
    }
    if (!learns) TRY(bal_layer_times_fill(&controller->times, profile->layers, err));
    TRY(decide(controller, profile, decision, err));
    decision->changed = changed;
    return STATUS_OK;
}

status bal_controller_observe(bal_controller *controller, const bal_profile *profile,
                              bal_decision *decision, error_message *err)
{
    assert(controller->is_started);
    assert(profile->layers->layer_count == controller->options.layer_count);
    arena_reset(controller->decision_memory);
    bal_decision made = bal_controller_as_is(controller);
    const status decided = choose_action(controller, profile, &made, err);
    if (decided != STATUS_OK) {
        return error_prefix(err, decided, "iteration %d", profile->iteration);
    }
    *decision = made;
    return STATUS_OK;
}
