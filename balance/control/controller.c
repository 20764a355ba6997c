#include "balance/control/controller.h"

#include "balance/control/iteration_estimate.h"
#include "balance/control/shadow.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"

#include <assert.h>
#include <string.h>

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

struct bal_controller {
    bal_controller_options options;
    const bal_schedule_family *family;
    int chunk_count;
    arena *decision_memory; // of one call
    bal_change_detector detector;
    bal_shadow shadow;     // in use with BAL_POLICY_SHADOW
    bal_layer_times times; // of the loads that a decision looks at
    bal_layer_sums sums;   // of times
    bool is_started;

    int rank_count;       // places of the plan in force
    int microbatch_count; // of a replica under the plan in force
    int *first_layer;     // [stage_count + 1]
    int *machine_rank;    // [rank_count]
    int *owner;           // [layer_count]; in use where the balancer owns freely
    int64_t *inflight;    // [stage_count] microbatches whose activations a stage holds
    arena *peak_memory;   // of peaks
    bal_rank_peaks peaks; // what the chunks of each rank hold at once
    int64_t *memory_cap;  // [rank_count] or NULL: not limited
    int64_t *transfer_ns; // [layer_count] over the slower of the links between neighbours
    int64_t bottleneck_ns;
    int64_t bottleneck_lower_bound_ns;

    int64_t start_load_ns;          // time of all layers at the start
    int64_t start_rank_state_bytes; // of the rank that held the most then
    int64_t packed_load_ns;         // time of all layers when re-packing was last thought about
};

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

/// The plan in force with other cuts.
static bal_placed_partition placed(const bal_controller *controller, const int *first_layer)
{
    return (bal_placed_partition){
        .first_layer = first_layer,
        .rank_count = controller->rank_count,
        .chunk_count = controller->chunk_count,
        .placement = controller->family->placement,
        .machine_rank = controller->machine_rank,
    };
}

/// A decision that leaves everything as it is now.
static bal_decision as_is(const bal_controller *controller)
{
    const bool owns_freely = controller->options.balancer->owns_freely;
    bal_decision decision = {
        .owner = owns_freely ? controller->owner : NULL,
        .bottleneck_ns = controller->bottleneck_ns,
        .bottleneck_lower_bound_ns = controller->bottleneck_lower_bound_ns,
        .microbatch_count = controller->microbatch_count,
    };
    if (!owns_freely) {
        decision.plan = placed(controller, controller->first_layer);
    }
    return decision;
}

/// What the balancer is asked about the plan in force. Borrows layers.
static bal_problem problem_of(bal_controller *controller, const bal_layer_costs *layers)
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
        .plan_book = options->plan_book,
        .skips_bound = options->skips_bound,
        .current_first_layer =
            controller->is_started && !owns_freely ? controller->first_layer : NULL,
        .current_owner = controller->is_started && owns_freely ? controller->owner : NULL,
        .evaluator = options->evaluator,
        .diffuser = options->diffuser,
    };
}

/// Takes cuts on the places in force into force.
static void adopt_cuts(bal_controller *controller, const int *first_layer)
{
    const size_t stages = (size_t)controller->rank_count * (size_t)controller->chunk_count;
    memcpy(controller->first_layer, first_layer, (stages + 1) * sizeof *controller->first_layer);
}

static void adopt_owners(bal_controller *controller, const int *owner)
{
    memcpy(controller->owner, owner,
           (size_t)controller->options.layer_count * sizeof *controller->owner);
}

/// Fills inflight and peaks for so many places and microbatches.
static status count_peaks(bal_controller *controller, int rank_count, int microbatch_count,
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
        TRY(count_peaks(controller, plan->rank_count, microbatch_count, err));
        bal_shadow_restart(&controller->shadow);
    }
    controller->rank_count = plan->rank_count;
    controller->microbatch_count = microbatch_count;
    memcpy(controller->machine_rank, plan->machine_rank,
           (size_t)plan->rank_count * sizeof *controller->machine_rank);
    adopt_cuts(controller, plan->first_layer);
    return STATUS_OK;
}

/// Where a decision would go.
typedef struct target_plan {
    const bal_problem
        *problem;           // as the balancer was asked: its stage_count may be another than now
    const int *first_layer; // [problem->stage_count + 1]
    bal_reason reason;      // where layers move and the number of ranks stays
    double gain_ratio;      // share of the iteration that a move must save; 0: no such rule
} target_plan;

/// A plan, and what moves on the way to it.
typedef struct way {
    bal_placed_partition plan;
    bal_migration migration;
    int64_t exposed_ns;
    bool is_blocked; // no order of the moves keeps every rank within its memory
} way;

/// Whether the cheapest of several ways is to be looked for, or a gain to be seen first.
static bool has_choice(const bal_controller *controller, const target_plan *target)
{
    const bal_migration_options *options = &controller->options.migration;
    return options->slack_ratio > 0 || options->relabels || target->gain_ratio > 0 ||
           controller->options.repack.kind != BAL_REPACK_NONE ||
           target->problem->stage_count != controller->rank_count * controller->chunk_count;
}

static status find_plan(bal_controller *controller, const target_plan *target, way *out,
                        error_message *err)
{
    const bal_controller_options *options = &controller->options;
    const bal_placed_partition before = placed(controller, controller->first_layer);
    if (!has_choice(controller, target)) {
        out->plan = placed(controller, target->first_layer);
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
    const bal_placed_partition before = placed(controller, controller->first_layer);
    bal_migration moves;
    error_message why = {0};
    const status ordered = bal_migration_order(&before, &out->migration, layers, &options->machine,
                                               controller->decision_memory, &moves, &why);
    out->is_blocked = ordered == STATUS_INFEASIBLE;
    if (out->is_blocked) return STATUS_OK;
    if (ordered != STATUS_OK) return error_set(err, ordered, "%s", why.message);
    int64_t finish_ns = 0;
    TRY(bal_migration_finish_ns(&moves, layers, &options->machine,
                                overlaps ? profile->rank_end_ns : NULL, controller->decision_memory,
                                &finish_ns, err));
    if (overlaps) finish_ns -= profile->makespan_ns;
    out->exposed_ns = (finish_ns > 0 ? finish_ns : 0) + options->machine.relaunch_ns;
    return STATUS_OK;
}

/// Finds the way to the target, and takes it into force unless it gains too little or there is no
/// room to move. Fills the decision.
static status move_to(bal_controller *controller, const bal_profile *profile,
                      const target_plan *target, bal_decision *decision, error_message *err)
{
    way found = {0};
    const bal_problem *problem = target->problem;
    TRY(find_plan(controller, target, &found, err));
    TRY(find_order(controller, profile, &problem->layers, &found, err));
    const int before = controller->rank_count;
    const bool repacks = found.plan.rank_count != before;
    const bool moves = !found.is_blocked && (found.migration.layer_count > 0 || repacks);
    if (moves) TRY(adopt(controller, &found.plan, problem->microbatch_count, err));
    *decision = as_is(controller);
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

/// Re-packing must fit the machine, and what needs stages is refused with balancers that have none.
static status check_options(const bal_controller_options *options, error_message *err)
{
    const bal_policy_kind kind = options->policy.kind;
    const bool repacks = options->repack.kind != BAL_REPACK_NONE;
    assert(options->balancer != NULL && options->schedule != NULL && options->change_ratio >= 0);
    if (repacks) TRY(bal_repack_options_check(&options->repack, &options->machine, err));
    if (!options->balancer->owns_freely) return STATUS_OK;
    if (kind == BAL_POLICY_THRESHOLD || kind == BAL_POLICY_SHADOW) {
        return error_set(err, STATUS_INVALID,
                         "%s predicts iterations, which the plans of %s, having no stages, do not "
                         "allow",
                         bal_policy_name(options->policy).text, options->balancer->name);
    }
    if (!repacks) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "the plans of %s have no stages to re-pack",
                     options->balancer->name);
}

static void allocate(bal_controller *made, arena *memory)
{
    const bal_controller_options *options = &made->options;
    const size_t layers = (size_t)options->layer_count;
    const size_t ranks = (size_t)options->machine.rank_count;
    const size_t stages = ranks * (size_t)made->chunk_count;
    made->decision_memory = arena_within(memory, 1 << 18);
    made->first_layer = arena_array(memory, stages + 1, sizeof *made->first_layer);
    made->machine_rank = arena_array(memory, ranks, sizeof *made->machine_rank);
    made->owner = arena_array(memory, layers, sizeof *made->owner);
    made->inflight = arena_array(memory, stages, sizeof *made->inflight);
    made->peak_memory = arena_within(memory, 1 << 12);
    made->transfer_ns = arena_array(memory, layers, sizeof *made->transfer_ns);
    if (options->machine.rank_memory_bytes > 0) {
        made->memory_cap = arena_array(memory, ranks, sizeof *made->memory_cap);
        for (size_t rank = 0; rank < ranks; rank++) {
            made->memory_cap[rank] = options->machine.rank_memory_bytes;
        }
    }
    bal_layer_times_init(&made->times, options->layer_count, memory);
    bal_layer_sums_init(&made->sums, options->layer_count, memory);
    bal_shadow_init(&made->shadow, options, made->family, (int)stages, memory);
    bal_change_detector_init(&made->detector, options->layer_count, options->change_ratio, memory);
}

/// The places of the start: place p is rank p of the machine.
static status take_places(bal_controller *made, error_message *err)
{
    made->rank_count = made->options.machine.rank_count;
    made->microbatch_count = made->options.microbatch_count;
    for (int place = 0; place < made->rank_count; place++) {
        made->machine_rank[place] = place;
    }
    return count_peaks(made, made->rank_count, made->options.microbatch_count, err);
}

status bal_controller_create(const bal_controller_options *options, arena *memory,
                             bal_controller **out, error_message *err)
{
    *out = NULL;
    TRY(check_options(options, err));
    bal_controller *made = arena_array(memory, 1, sizeof *made);
    made->options = *options;
    made->family = bal_schedule_family_find(options->schedule);
    made->chunk_count = bal_schedule_chunk_count(made->family, options->chunk_count);
    allocate(made, memory);
    TRY(take_places(made, err));
    *out = made;
    return STATUS_OK;
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

status bal_controller_start(bal_controller *controller, const bal_layer_costs *layers,
                            bal_decision *decision, error_message *err)
{
    assert(!controller->is_started && layers->layer_count == controller->options.layer_count);
    bal_answer answer;
    arena_reset(controller->decision_memory);
    const bal_problem problem = problem_of(controller, layers);
    TRY(ask(controller, &problem, &answer, err));
    if (answer.executable) {
        adopt_cuts(controller, answer.first_layer);
        const bal_placed_partition plan = placed(controller, answer.first_layer);
        for (int place = 0; place < plan.rank_count; place++) { // halving packs up to the most
            const int64_t bytes = bal_placed_sum(&plan, place, layers->state_bytes);
            if (bytes > controller->start_rank_state_bytes) {
                controller->start_rank_state_bytes = bytes;
            }
        }
    } else {
        adopt_owners(controller, answer.owner);
    }
    TRY(bal_layer_times_fill(&controller->times, layers, err));
    bal_layer_sums_fill(&controller->sums, &controller->times);
    controller->start_load_ns = controller->sums.time_before[layers->layer_count];
    controller->is_started = true;
    // What changes are seen from.
    (void)bal_change_detector_observe(&controller->detector, &controller->times);
    *decision = as_is(controller);
    decision->reason = BAL_REASON_START;
    return STATUS_OK;
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

/// Asks a balancer that has stages, and takes its answer where it moves a layer for enough gain.
static status rebalance(bal_controller *controller, const bal_profile *profile,
                        const bal_layer_costs *layers, bal_decision *decision, error_message *err)
{
    bal_answer answer;
    const bal_problem problem = problem_of(controller, layers);
    TRY(ask(controller, &problem, &answer, err));
    const target_plan target = {
        .problem = &problem,
        .first_layer = answer.first_layer,
        .reason = reason_of(controller->options.policy.kind),
        .gain_ratio = least_gain(&controller->options),
    };
    return move_to(controller, profile, &target, decision, err);
}

/// Asks how many ranks to go on with, and for their plan. With the present number it is a
/// rebalance like any other, but for shadows, which have their own reasons to move.
static status repack(bal_controller *controller, const bal_profile *profile,
                     const bal_layer_costs *layers, bal_decision *decision, error_message *err)
{
    const bal_controller_options *options = &controller->options;
    const bal_placed_partition before = placed(controller, controller->first_layer);
    const bal_problem problem = problem_of(controller, layers);
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
    const target_plan target = {
        .problem = &choice.problem,
        .first_layer = choice.answer.first_layer,
        .reason = reason_of(options->policy.kind),
        .gain_ratio = stays ? least_gain(options) : 0,
    };
    return move_to(controller, profile, &target, decision, err);
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
    const bal_problem problem = problem_of(controller, layers);
    TRY(ask(controller, &problem, &answer, err));
    const bal_migration migration = owner_moves(controller, layers, answer.owner);
    const bool moves = migration.layer_count > 0;
    adopt_owners(controller, answer.owner);
    *decision = as_is(controller);
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
    const bal_problem problem = problem_of(controller, layers);
    const bal_shadow_view view = {
        .times = &controller->times, .sums = &controller->sums, .problem = &problem};
    target_plan target = {.problem = &problem, .reason = BAL_REASON_REGRET};
    TRY(bal_shadow_observe(&controller->shadow, &view, controller->decision_memory,
                           &target.first_layer, err));
    if (target.first_layer == NULL) return STATUS_OK;
    return move_to(controller, profile, &target, decision, err);
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

/// The decision at the end of an iteration; decision is as_is and is left so where
/// nobody is asked.
static status choose_action(bal_controller *controller, const bal_profile *profile,
                            bal_decision *decision, error_message *err)
{
    const bal_policy policy = controller->options.policy;
    // Shadows learn from every iteration, not only from those that a decision looks at.
    const bool learns =
        !controller->options.balancer->is_static && policy.kind == BAL_POLICY_SHADOW;
    // The plan of the start was made for the first iteration.
    const bool may_differ = profile->iteration > 0 && profile->changed;
    const bool measures = learns || (may_differ && !controller->options.announces_changes);
    if (measures) TRY(bal_layer_times_fill(&controller->times, profile->layers, err));
    const bool changed =
        may_differ && (controller->options.announces_changes ||
                       bal_change_detector_observe(&controller->detector, &controller->times));
    decision->changed = changed;
    if (controller->options.balancer->is_static) return STATUS_OK;
    if (policy.kind != BAL_POLICY_SHADOW && !bal_policy_asks(policy, profile->iteration, changed)) {
        return STATUS_OK;
    }
    if (!measures) TRY(bal_layer_times_fill(&controller->times, profile->layers, err));
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
    bal_decision made = as_is(controller);
    const status decided = choose_action(controller, profile, &made, err);
    if (decided != STATUS_OK) {
        return error_prefix(err, decided, "iteration %d", profile->iteration);
    }
    *decision = made;
    return STATUS_OK;
}
