#include "balance/controller.h"

#include "balance/change_detector.h"
#include "balance/iteration_estimate.h"
#include "balance/layer_times.h"
#include "balance/schedule.h"
#include "balance/shadow.h"
#include "balance/stage_inflight.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
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
    [BAL_REASON_SAME] = "same",
};

struct bal_controller {
    bal_controller_options options;
    const bal_schedule_family *family;
    int chunk_count;
    arena *memory;          // of the controller
    arena *decision_memory; // of one call
    bal_change_detector detector;
    bal_shadow shadow;     // in use with BAL_POLICY_SHADOW
    bal_layer_times times; // of the loads that a decision looks at
    bal_layer_sums sums;   // of times
    bool is_started;

    int rank_count;       // places of the plan in force
    int *first_layer;     // [stage_count + 1]
    int *machine_rank;    // [rank_count]
    int *owner;           // [layer_count]; in use where the balancer owns freely
    int64_t *inflight;    // [stage_count] microbatches whose activations a stage holds
    int64_t *memory_cap;  // [stage_count] or NULL: not limited
    int64_t *transfer_ns; // [layer_count] over the slower of the links between neighbours
    int64_t bottleneck_ns;
    int64_t bottleneck_lower_bound_ns;
};

static status no_memory(const bal_controller_options *options, error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory for %d layers on %d ranks",
                     options->layer_count, options->machine.rank_count);
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
    const bool weighs =
        options->policy.kind == BAL_POLICY_THRESHOLD || options->policy.kind == BAL_POLICY_SHADOW;
    if (weighs && options->balancer->owns_freely) {
        char policy[BAL_POLICY_NAME_BYTES];
        bal_policy_name(options->policy, policy);
        return error_set(err, STATUS_INVALID,
                         "%s predicts iterations, which the plans of %s, having no stages, do not "
                         "allow",
                         policy, options->balancer->name);
    }
    return STATUS_OK;
}

static status allocate(bal_controller *made, error_message *err)
{
    const bal_controller_options *options = &made->options;
    const size_t layers = (size_t)options->layer_count;
    const size_t ranks = (size_t)options->machine.rank_count;
    const size_t stages = ranks * (size_t)made->chunk_count;
    made->memory = arena_create(1 << 16);
    made->decision_memory = arena_create(1 << 18);
    if (made->memory == NULL || made->decision_memory == NULL) return no_memory(options, err);
    made->first_layer = arena_array(made->memory, stages + 1, sizeof *made->first_layer);
    made->machine_rank = arena_array(made->memory, ranks, sizeof *made->machine_rank);
    made->owner = arena_array(made->memory, layers, sizeof *made->owner);
    made->inflight = arena_array(made->memory, stages, sizeof *made->inflight);
    made->transfer_ns = arena_array(made->memory, layers, sizeof *made->transfer_ns);
    if (made->first_layer == NULL || made->machine_rank == NULL || made->owner == NULL ||
        made->inflight == NULL || made->transfer_ns == NULL) {
        return no_memory(options, err);
    }
    // With several chunks per rank a cap per stage would not be a cap per rank.
    if (options->machine.rank_memory_bytes > 0 && made->chunk_count == 1) {
        made->memory_cap = arena_array(made->memory, stages, sizeof *made->memory_cap);
        if (made->memory_cap == NULL) return no_memory(options, err);
        for (size_t stage = 0; stage < stages; stage++) {
            made->memory_cap[stage] = options->machine.rank_memory_bytes;
        }
    }
    TRY(bal_layer_times_init(&made->times, options->layer_count, made->memory, err));
    TRY(bal_layer_sums_init(&made->sums, options->layer_count, made->memory, err));
    const bal_shadow_options shadow = {
        .balancer = options->balancer,
        .family = made->family,
        .machine = &made->options.machine,
        .layer_count = options->layer_count,
        .stage_count_max = (int)stages,
        .microbatch_count = options->microbatch_count,
        .decision_ns = options->decision_ns,
    };
    TRY(bal_shadow_init(&made->shadow, &shadow, made->memory, err));
    return bal_change_detector_init(&made->detector, options->layer_count, options->change_ratio,
                                    made->memory, err);
}

/// The places of the start: place p is rank p of the machine.
static status take_places(bal_controller *made, error_message *err)
{
    made->rank_count = made->options.machine.rank_count;
    for (int place = 0; place < made->rank_count; place++) {
        made->machine_rank[place] = place;
    }
    const status filled = bal_stage_inflight(made->options.schedule, made->rank_count,
                                             made->chunk_count, made->options.microbatch_count,
                                             made->decision_memory, made->inflight, err);
    arena_reset(made->decision_memory);
    return filled;
}

status bal_controller_create(const bal_controller_options *options, bal_controller **out,
                             error_message *err)
{
    *out = NULL;
    TRY(check_options(options, err));
    bal_controller *made = calloc(1, sizeof *made);
    if (made == NULL) return no_memory(options, err);
    made->options = *options;
    made->family = bal_schedule_family_find(options->schedule);
    made->chunk_count = bal_schedule_chunk_count(made->family, options->chunk_count);
    status created = allocate(made, err);
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
    free(controller);
}

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

/// The question of a decision: what the balancer is asked about the plan in force.
static bal_problem question(bal_controller *controller, const bal_layer_costs *layers)
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
        .microbatch_count = options->microbatch_count,
        .transfer_ns = controller->transfer_ns,
        .stage_memory_bytes = controller->memory_cap,
        .stage_inflight = controller->inflight,
        .current_first_layer =
            controller->is_started && !owns_freely ? controller->first_layer : NULL,
        .current_owner = controller->is_started && owns_freely ? controller->owner : NULL,
        .evaluator = options->evaluator,
    };
}

/// Asks the balancer.
static status ask(bal_controller *controller, const bal_layer_costs *layers, bal_answer *answer,
                  error_message *err)
{
    const bal_problem problem = question(controller, layers);
    TRY(bal_balance(controller->options.balancer, &problem, controller->decision_memory, answer,
                    err));
    controller->bottleneck_ns = answer->bottleneck_ns;
    controller->bottleneck_lower_bound_ns = answer->bottleneck_lower_bound_ns;
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

static status migration_to(bal_controller *controller, const bal_layer_costs *layers,
                           const int *first_layer, bal_migration *migration, error_message *err)
{
    const bal_placed_partition before = placed(controller, controller->first_layer);
    const bal_placed_partition after = placed(controller, first_layer);
    return bal_migration_between(&before, &after, layers, &controller->options.machine,
                                 controller->decision_memory, migration, err);
}

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

/// A decision that leaves everything as it is now.
static bal_decision decision_as_is(const bal_controller *controller)
{
    const bool owns_freely = controller->options.balancer->owns_freely;
    bal_decision decision = {
        .owner = owns_freely ? controller->owner : NULL,
        .predicted_ns = -1,
        .bottleneck_ns = controller->bottleneck_ns,
        .bottleneck_lower_bound_ns = controller->bottleneck_lower_bound_ns,
        .microbatch_count = controller->options.microbatch_count,
    };
    if (!owns_freely) decision.plan = placed(controller, controller->first_layer);
    return decision;
}

status bal_controller_start(bal_controller *controller, const bal_layer_costs *layers,
                            bal_decision *decision, error_message *err)
{
    assert(!controller->is_started && layers->layer_count == controller->options.layer_count);
    bal_answer answer;
    arena_reset(controller->decision_memory);
    TRY(ask(controller, layers, &answer, err));
    if (answer.executable) {
        adopt_cuts(controller, answer.first_layer);
    } else {
        adopt_owners(controller, answer.owner);
    }
    controller->is_started = true;
    (void)bal_change_detector_observe(&controller->detector, layers); // what changes are seen from
    *decision = decision_as_is(controller);
    decision->reason = BAL_REASON_START;
    decision->predicted_ns = answer.iteration_ns;
    return STATUS_OK;
}

/// Whether the model has changed before the iteration. The plan of the start was made for the
/// first.
static bool has_changed(bal_controller *controller, const bal_profile *profile)
{
    if (profile->iteration == 0 || !profile->changed) return false;
    return controller->options.announces_changes ||
           bal_change_detector_observe(&controller->detector, profile->layers);
}

/// Fills times and sums of the loads that a decision looks at, and the costs for the balancer.
static status look(bal_controller *controller, const bal_profile *profile, bal_layer_costs *layers,
                   error_message *err)
{
    const bool looks_ahead =
        controller->options.information == BAL_INFORMATION_FORESIGHT && profile->next != NULL;
    const bal_layer_costs *seen = looks_ahead ? profile->next : profile->layers;
    TRY(bal_layer_times_fill(&controller->times, seen, err));
    bal_layer_sums_fill(&controller->sums, &controller->times);
    // An evaluator plays every microbatch; all others weigh means, and those are at hand.
    const bool plays = controller->options.balancer->evaluates;
    *layers = plays ? *seen : bal_layer_times_costs(&controller->times, seen);
    return STATUS_OK;
}

static int64_t estimate(const bal_controller *controller, const int *first_layer)
{
    const bal_placed_partition plan = placed(controller, first_layer);
    return bal_iteration_estimate_ns(&controller->sums, &plan, controller->family,
                                     controller->options.microbatch_count, NULL);
}

/// Length of an iteration under the plan in force, told as the balancer tells that of its answer.
static status predict_now(bal_controller *controller, const bal_layer_costs *layers,
                          const bal_answer *answer, int64_t *ns, error_message *err)
{
    *ns = estimate(controller, controller->first_layer);
    if (answer->iteration_ns < 0) return STATUS_OK;
    const bal_evaluator *evaluator = controller->options.evaluator;
    const bal_placed_partition plan = placed(controller, controller->first_layer);
    return evaluator->iteration_ns(evaluator->context, layers, &plan, ns, err);
}

/// The share of an iteration that a move must save.
static double least_gain(const bal_controller_options *options)
{
    const double hysteresis = options->migration.hysteresis_ratio;
    if (options->policy.kind != BAL_POLICY_THRESHOLD) return hysteresis;
    const double threshold = options->policy.threshold_ratio;
    return threshold > hysteresis ? threshold : hysteresis;
}

/// Moves to the cuts and says so.
static status move_to(bal_controller *controller, const bal_layer_costs *layers,
                      const int *first_layer, bal_reason reason, bal_decision *decision,
                      error_message *err)
{
    bal_migration migration;
    TRY(migration_to(controller, layers, first_layer, &migration, err));
    const bool moves = migration.layer_count > 0;
    if (moves) adopt_cuts(controller, first_layer);
    *decision = decision_as_is(controller);
    decision->was_asked = true;
    decision->migration = migration;
    decision->migration_ns = migration.time_ns;
    decision->action = moves ? BAL_ACTION_REBALANCE : BAL_ACTION_KEEP;
    decision->reason = moves ? reason : BAL_REASON_SAME;
    return STATUS_OK;
}

static bal_reason reason_of(bal_policy_kind kind)
{
    if (kind == BAL_POLICY_EVERY) return BAL_REASON_PERIOD;
    return kind == BAL_POLICY_THRESHOLD ? BAL_REASON_THRESHOLD : BAL_REASON_CHANGE;
}

/// Asks a balancer that has stages, and takes its answer where it moves a layer for enough gain.
static status rebalance(bal_controller *controller, const bal_layer_costs *layers,
                        bal_decision *decision, error_message *err)
{
    bal_answer answer;
    TRY(ask(controller, layers, &answer, err));
    const int64_t after_ns =
        answer.iteration_ns >= 0 ? answer.iteration_ns : estimate(controller, answer.first_layer);
    const double gain = least_gain(&controller->options);
    int64_t now_ns = after_ns;
    const int *first_layer = answer.first_layer;
    if (gain > 0 || controller->options.policy.kind == BAL_POLICY_THRESHOLD) {
        TRY(predict_now(controller, layers, &answer, &now_ns, err));
        if ((double)(now_ns - after_ns) <= gain * (double)now_ns) {
            first_layer = controller->first_layer;
        }
    }
    TRY(move_to(controller, layers, first_layer, reason_of(controller->options.policy.kind),
                decision, err));
    decision->predicted_ns = first_layer == answer.first_layer ? after_ns : now_ns;
    return STATUS_OK;
}

/// Asks a balancer without stages.
static status reassign(bal_controller *controller, const bal_layer_costs *layers,
                       bal_decision *decision, error_message *err)
{
    bal_answer answer;
    TRY(ask(controller, layers, &answer, err));
    const bal_migration migration = owner_moves(controller, layers, answer.owner);
    const bool moves = migration.layer_count > 0;
    adopt_owners(controller, answer.owner);
    *decision = decision_as_is(controller);
    decision->was_asked = true;
    decision->migration = migration;
    decision->action = moves ? BAL_ACTION_REBALANCE : BAL_ACTION_KEEP;
    decision->reason = moves ? reason_of(controller->options.policy.kind) : BAL_REASON_SAME;
    return STATUS_OK;
}

/// Lets the shadows look on, and takes the plan of one that is due.
static status follow_shadows(bal_controller *controller, const bal_layer_costs *layers,
                             bal_decision *decision, error_message *err)
{
    const bal_problem problem = question(controller, layers);
    const bal_shadow_view view = {
        .times = &controller->times, .sums = &controller->sums, .problem = &problem};
    const int *first_layer = NULL;
    TRY(bal_shadow_observe(&controller->shadow, &view, controller->decision_memory, &first_layer,
                           err));
    if (first_layer == NULL) return STATUS_OK;
    TRY(move_to(controller, layers, first_layer, BAL_REASON_REGRET, decision, err));
    decision->predicted_ns = estimate(controller, first_layer);
    return STATUS_OK;
}

/// One decision, where the policy makes one.
static status decide(bal_controller *controller, const bal_profile *profile, bool changed,
                     bal_decision *decision, error_message *err)
{
    const bal_policy policy = controller->options.policy;
    const bal_balancer *balancer = controller->options.balancer;
    const bool follows = policy.kind == BAL_POLICY_SHADOW;
    if (balancer->is_static) return STATUS_OK;
    if (!follows && !bal_policy_asks(policy, profile->iteration, changed)) return STATUS_OK;
    bal_layer_costs layers;
    TRY(look(controller, profile, &layers, err));
    if (follows) return follow_shadows(controller, &layers, decision, err);
    if (balancer->owns_freely) return reassign(controller, &layers, decision, err);
    return rebalance(controller, &layers, decision, err);
}

status bal_controller_observe(bal_controller *controller, const bal_profile *profile,
                              bal_decision *decision, error_message *err)
{
    assert(controller->is_started);
    assert(profile->layers->layer_count == controller->options.layer_count);
    arena_reset(controller->decision_memory);
    const bool changed = has_changed(controller, profile);
    bal_decision made = decision_as_is(controller);
    const status decided = decide(controller, profile, changed, &made, err);
    if (decided != STATUS_OK) {
        return error_prefix(err, decided, "iteration %d", profile->iteration);
    }
    made.changed = changed;
    *decision = made;
    return STATUS_OK;
}
