/// What the controller makes of an iteration: what it looks at, whom it asks, and when.
#include "balance/control/controller_parts.h"

#include <assert.h>

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

static void fill_stage_factors(bal_controller *controller, const int64_t *rank_factor_ppb)
{
    const bal_placed_partition plan = bal_controller_placed(controller, controller->first_layer);
    for (int stage = 0; stage < bal_placed_stage_count(&plan); stage++) {
        controller->stage_factor_ppb[stage] =
            rank_factor_ppb[bal_placed_machine_rank(&plan, stage)];
    }
}

/// The evaluator for problems of ranks with these factors, or the options' own.
static const bal_evaluator *evaluator_at(bal_controller *controller, const int64_t *rank_factor_ppb)
{
    const bal_evaluator *inner = controller->options.evaluator;
    if (inner == NULL || rank_factor_ppb == NULL) return inner;
    controller->slowed = (bal_speed_evaluator){
        .inner = inner, .rank_factor_ppb = rank_factor_ppb, .memory = controller->trial_memory};
    controller->evaluator = bal_speed_evaluator_of(&controller->slowed);
    return &controller->evaluator;
}

bal_problem bal_controller_problem(bal_controller *controller, const bal_layer_costs *layers)
{
    const bal_controller_options *options = &controller->options;
    const bool owns_freely = options->balancer->owns_freely;
    const int64_t *rank_factor_ppb = bal_controller_rank_factors(controller);
    if (rank_factor_ppb != NULL) fill_stage_factors(controller, rank_factor_ppb);
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
        .stage_time_factor_ppb = rank_factor_ppb != NULL ? controller->stage_factor_ppb : NULL,
        .current_first_layer =
            controller->is_started && !owns_freely ? controller->first_layer : NULL,
        .current_owner = controller->is_started && owns_freely ? controller->owner : NULL,
        .evaluator = evaluator_at(controller, rank_factor_ppb),
        .diffuser = options->diffuser,
    };
}

const int64_t *bal_controller_rank_factors(const bal_controller *controller)
{
    return bal_controller_estimates_speed(controller)
               ? bal_rank_speed_factors_ppb(&controller->speed)
               : NULL;
}

bool bal_controller_estimates_speed(const bal_controller *controller)
{
    // Balancers without stages weigh layers alone, whatever the ranks do.
    return controller->options.estimates_speed && !controller->options.balancer->owns_freely;
}

int64_t bal_controller_estimate_ns(const bal_controller *controller,
                                   const bal_placed_partition *plan)
{
    return bal_iteration_estimate_ns(&controller->sums, plan, controller->family,
                                     controller->microbatch_count,
                                     bal_controller_rank_factors(controller));
}

/// Whether the model has changed before the iteration. The plan of the start was made for the
/// first.
///
/// @param layers as far as ranks are told from layers, at the speed of a rank of factor 1
static bool has_changed(bal_controller *controller, const bal_profile *profile,
                        const bal_layer_costs *layers)
{
    // What was learned of the ranks may have changed the layers where the source has not.
    const bool differs = profile->changed || bal_controller_estimates_speed(controller);
    if (profile->iteration == 0 || !differs) return false;
    if (controller->options.announces_changes) return profile->changed;
    return bal_change_detector_observe(&controller->detector, layers);
}

/// Shadows keep means of their own and judge plans by what was measured.
static bool has_forecast(const bal_controller *controller)
{
    return controller->options.information == BAL_INFORMATION_FORECAST &&
           controller->options.policy.kind != BAL_POLICY_SHADOW;
}

/// Fills times with a profile, without the speeds of the ranks that measured it.
static status fill_times(bal_controller *controller, const bal_layer_costs *layers,
                         error_message *err)
{
    TRY(bal_layer_times_fill(&controller->times, layers, err));
    if (bal_controller_estimates_speed(controller)) {
        bal_rank_speed_correct(&controller->speed, controller->rank_of_layer, &controller->times);
    }
    return STATUS_OK;
}

/// Learns from an iteration what later decisions need, and fills times with it.
static status learn(bal_controller *controller, const bal_profile *profile, error_message *err)
{
    if (bal_controller_estimates_speed(controller)) {
        TRY(bal_layer_times_fill(&controller->times, profile->layers, err));
        bal_rank_speed_observe(&controller->speed, &controller->times, controller->rank_of_layer);
    }
    TRY(fill_times(controller, profile->layers, err));
    if (has_forecast(controller)) {
        bal_forecast_observe(&controller->forecast, &controller->times);
    }
    return STATUS_OK;
}

/// Fills times and sums of the loads that a decision looks at, and the costs for the balancer.
/// Needs times as learn leaves them.
static status look(bal_controller *controller, const bal_profile *profile, bal_layer_costs *layers,
                   error_message *err)
{
    const bal_information information = controller->options.information;
    const bool looks_ahead = information == BAL_INFORMATION_FORESIGHT && profile->next != NULL;
    const bal_layer_costs *seen = looks_ahead ? profile->next : profile->layers;
    if (looks_ahead) TRY(fill_times(controller, seen, err));
    if (has_forecast(controller)) {
        bal_forecast_fill(&controller->forecast, &controller->times, &controller->times);
    }
    bal_layer_sums_fill(&controller->sums, &controller->times);
    // An evaluator plays every microbatch as it was seen; all others weigh means, and those are at
    // hand.
    const bool plays = controller->options.balancer->evaluates && !has_forecast(controller) &&
                       bal_controller_rank_factors(controller) == NULL;
    *layers = plays ? *seen : bal_layer_times_costs(&controller->times, seen);
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
        .rank_time_factor_ppb = bal_controller_rank_factors(controller),
        .replica_count = options->replica_count,
        .start_load_ns = controller->start_load_ns,
        .start_rank_state_bytes = controller->start_rank_state_bytes,
    };
    bal_repack_choice choice;
    controller->packed_load_ns = controller->sums.time_before[layers->layer_count];
    TRY(bal_repack_choose(&question, &options->repack, controller->decision_memory, &choice, err));
    note_bottleneck(controller, &choice.answer);
    const bool stays = choice.rank_count == controller->rank_count &&
                       choice.microbatch_count == controller->microbatch_count;
    if (stays && options->policy.kind == BAL_POLICY_SHADOW) return STATUS_OK;
    const bal_controller_target target = {
        .problem = &choice.problem,
        .first_layer = choice.answer.first_layer,
        .is_available = choice.is_available,
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
    const bal_shadow_view view = {.times = &controller->times,
                                  .sums = &controller->sums,
                                  .rank_factor_ppb = bal_controller_rank_factors(controller),
                                  .problem = &problem};
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
    const bal_controller_options *options = &controller->options;
    if (options->policy.kind == BAL_POLICY_NEVER) return false;
    return options->policy.kind == BAL_POLICY_SHADOW ||
           options->information == BAL_INFORMATION_FORECAST ||
           bal_controller_estimates_speed(controller);
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

status bal_controller_decide(bal_controller *controller, const bal_profile *profile,
                             bal_decision *decision, error_message *err)
{
    const bal_policy policy = controller->options.policy;
    bal_layer_costs layers = *profile->layers;
    const bool learns = !controller->options.balancer->is_static && learns_always(controller);
    if (learns) {
        TRY(learn(controller, profile, err));
        layers = bal_layer_times_costs(&controller->times, profile->layers);
    }
    const bool changed = has_changed(controller, profile, &layers);
    decision->changed = changed;
    if (controller->options.balancer->is_static) return STATUS_OK;
    if (policy.kind != BAL_POLICY_SHADOW && !bal_policy_asks(policy, profile->iteration, changed)) {
        return STATUS_OK;
    }
    if (!learns) TRY(fill_times(controller, profile->layers, err));
    TRY(decide(controller, profile, decision, err));
    decision->changed = changed;
    return STATUS_OK;
}
