#include "balance/repack/repack_trial.h"

#include "balance/bounds.h"
#include "balance/partition/partition.h"
#include "balance/schedule/schedule.h"
#include "balance/stage_inflight.h"

#include <string.h>

/// The largest time factor of a unit's ranks.
static int64_t slowness(const bal_repack_search *at, int group)
{
    const int64_t *factor = at->question->rank_time_factor_ppb;
    int64_t largest = 0;
    for (int index = 0; factor != NULL && index < at->unit; index++) {
        const int64_t value = factor[group * at->unit + index];
        if (value > largest) largest = value;
    }
    return largest;
}

/// Ranks of a unit that the plan in force does not use.
static int idle_ranks(const bal_repack_search *at, int group)
{
    const bal_placed_partition *before = at->question->before;
    int idle = at->unit;
    for (int place = 0; place < before->rank_count; place++) {
        const int rank = before->machine_rank != NULL ? before->machine_rank[place] : place;
        idle -= rank / at->unit == group;
    }
    return idle;
}

status bal_repack_order_units(bal_repack_search *at)
{
    const int groups = at->question->machine->rank_count / at->unit;
    at->unit_order = arena_array(at->memory, (size_t)groups, sizeof *at->unit_order);
    int64_t *slow = arena_array(at->memory, (size_t)groups, sizeof *slow);
    int *idle = arena_array(at->memory, (size_t)groups, sizeof *idle);
    for (int group = 0; group < groups; group++) {
        slow[group] = slowness(at, group);
        idle[group] = idle_ranks(at, group);
        int place = group;
        for (; place > 0; place--) {
            const int other = at->unit_order[place - 1];
            const bool is_before =
                slow[group] != slow[other] ? slow[group] < slow[other] : idle[group] < idle[other];
            if (!is_before) break;
            at->unit_order[place] = other;
        }
        at->unit_order[place] = group;
    }
    return STATUS_OK;
}

void bal_repack_mark_available(const bal_repack_search *at, int rank_count, bool *is_available)
{
    const int unit = at->unit;
    const int ranks = at->question->machine->rank_count;
    if (at->question->rank_time_factor_ppb == NULL) {
        memset(is_available, true, (size_t)ranks * sizeof *is_available);
        return;
    }
    const int groups = ranks / unit;
    const int wanted = rank_count / unit;
    const int64_t limit = slowness(at, at->unit_order[wanted - 1]);
    for (int index = 0; index < groups; index++) {
        const int group = at->unit_order[index];
        if (slowness(at, group) > limit) break;
        memset(&is_available[group * unit], true, (size_t)unit * sizeof *is_available);
    }
}

/// The ranks that a plan of so many is tried on: those in force where the number is the same and
/// all are alike, else the first units, by number.
static status tried_ranks(const bal_repack_search *at, int rank_count, arena *memory,
                          const int **out)
{
    const bal_placed_partition *before = at->question->before;
    if (rank_count == before->rank_count && at->question->rank_time_factor_ppb == NULL) {
        *out = before->machine_rank;
        return STATUS_OK;
    }
    const int unit = at->unit;
    const int ranks = at->question->machine->rank_count;
    int *rank = arena_array(memory, (size_t)rank_count, sizeof *rank);
    bool *is_used = arena_array(memory, (size_t)ranks, sizeof *is_used);
    for (int index = 0; index < rank_count; index++) {
        is_used[at->unit_order[index / unit] * unit + index % unit] = true;
    }
    int place = 0;
    for (int candidate = 0; candidate < ranks; candidate++) {
        if (is_used[candidate]) rank[place++] = candidate;
    }
    *out = rank;
    return STATUS_OK;
}

static status fill_stage_factors(const bal_repack_search *at, arena *memory, bal_problem *problem)
{
    const int64_t *rank_factor = at->question->rank_time_factor_ppb;
    if (rank_factor == NULL) return STATUS_OK;
    int64_t *factor = arena_array(memory, (size_t)problem->stage_count, sizeof *factor);
    for (int stage = 0; stage < problem->stage_count; stage++) {
        const int place =
            bal_rank_of_stage(problem->placement, problem->stage_count / at->chunk_count,
                              at->chunk_count, stage, NULL);
        factor[stage] = rank_factor[problem->machine_rank[place]];
    }
    problem->stage_time_factor_ppb = factor;
    return STATUS_OK;
}

/// The caps of the ranks, and what their stages hold.
static status fill_memory(const bal_repack_search *at, arena *memory, bal_problem *problem)
{
    const int64_t cap_bytes = at->question->machine->rank_memory_bytes;
    if (cap_bytes == 0) return STATUS_OK;
    const int ranks = problem->stage_count / at->chunk_count;
    int64_t *inflight = arena_array(memory, (size_t)problem->stage_count, sizeof *inflight);
    int64_t *cap = arena_array(memory, (size_t)ranks, sizeof *cap);
    bal_rank_peaks *peaks = arena_array(memory, 1, sizeof *peaks);
    bal_rank_peaks found;
    TRY(bal_rank_peaks_of(at->question->schedule, ranks, at->chunk_count, problem->microbatch_count,
                          at->scratch, &found, at->err));
    TRY(bal_rank_peaks_copy(&found, memory, peaks));
    bal_stage_inflight_of(peaks, problem->placement, inflight);
    for (int rank = 0; rank < ranks; rank++) {
        cap[rank] = cap_bytes;
    }
    problem->stage_inflight = inflight;
    problem->rank_peaks = peaks;
    problem->stage_memory_bytes = at->chunk_count == 1 ? cap : NULL;
    problem->rank_memory_bytes = at->chunk_count > 1 ? cap : NULL;
    return STATUS_OK;
}

/// The replicas that there are if all keep so many ranks, and the microbatches of the one that has
/// most of them.
static void share_batch(const bal_repack_search *at, int rank_count, int microbatch_count,
                        int *replicas, int *played)
{
    const int64_t ranks = (int64_t)at->question->machine->rank_count * at->question->replica_count;
    const int64_t batch = (int64_t)microbatch_count * at->question->replica_count;
    const int64_t most = ranks / rank_count < batch ? ranks / rank_count : batch;
    *replicas = (int)most;
    *played = (int)((batch + most - 1) / most);
}

/// Reductions among more replicas.
static status scale_reductions(const bal_repack_search *at, int replicas, arena *memory,
                               bal_layer_costs *layers)
{
    if (layers->reduction_ns == NULL) return STATUS_OK;
    int64_t *scaled = arena_array(memory, (size_t)layers->layer_count, sizeof *scaled);
    for (int layer = 0; layer < layers->layer_count; layer++) {
        scaled[layer] = bal_repack_reduction_ns(layers->reduction_ns[layer],
                                                at->question->replica_count, replicas);
    }
    layers->reduction_ns = scaled;
    return STATUS_OK;
}

/// The question that the balancer is asked for a number of ranks and microbatches, less the caps.
static status make_problem(const bal_repack_search *at, int rank_count, int microbatch_count,
                           arena *memory, bal_problem *problem)
{
    const bal_placed_partition *before = at->question->before;
    bal_problem made = at->asked;
    if (microbatch_count != made.microbatch_count) {
        TRY(bal_repack_scale_layers(&made.layers, made.microbatch_count, microbatch_count,
                                    at->options->op_fixed_ratio, memory, &made.layers, at->err));
    }
    made.microbatch_count = microbatch_count;
    if (at->replicates) {
        int replicas = 0;
        share_batch(at, rank_count, microbatch_count, &replicas, &made.microbatch_count);
        TRY(scale_reductions(at, replicas, memory, &made.layers));
    }
    made.stage_count = rank_count * at->chunk_count;
    made.chunk_count = at->chunk_count;
    made.stage_memory_bytes = NULL;
    made.stage_inflight = NULL;
    made.rank_memory_bytes = NULL;
    made.rank_peaks = NULL;
    made.stage_time_factor_ppb = NULL;
    made.stage_fixed_ns = NULL;
    made.current_first_layer = before->first_layer;
    made.current_stage_count = bal_placed_stage_count(before);
    made.current_owner = NULL;
    TRY(tried_ranks(at, rank_count, memory, &made.machine_rank));
    TRY(fill_stage_factors(at, memory, &made));
    *problem = made;
    return STATUS_OK;
}

/// M times the smallest bottleneck: what the busiest rank alone takes. False if no cuts fit the
/// memory.
static status bound_of(const bal_repack_search *at, const bal_problem *problem, int64_t *bound,
                       bool *has_plan)
{
    bal_problem by_time = *problem;
    by_time.weight = BAL_WEIGHT_TIME;
    by_time.transfer_ns = NULL;
    by_time.current_first_layer = NULL;
    bal_chain chain;
    int64_t bottleneck = 0;
    int *first = arena_array(at->scratch, (size_t)problem->stage_count + 1, sizeof *first);
    TRY(bal_chain_of(&by_time, at->scratch, &chain, at->err));
    error_message why = {0};
    status cut = STATUS_OK;
    if (chain.chunk_count == 1) {
        cut = bal_partition_bottleneck(&chain, at->scratch, first, &bottleneck, &why);
    } else { // cheap, since every trial asks for it
        bottleneck = bal_assignment_lower_bound(&chain);
    }
    *has_plan = cut == STATUS_OK;
    if (cut == STATUS_INFEASIBLE) return STATUS_OK;
    if (cut != STATUS_OK) return error_set(at->err, cut, "%s", why.message);
    // Layers whose microbatches differ count by their means, each up to half a nanosecond too long.
    const bool is_mean = problem->layers.microbatch_count > 1;
    const int64_t least = is_mean ? bottleneck - problem->layers.layer_count : bottleneck;
    const bal_wide all = (bal_wide)(least > 0 ? least : 0) * problem->microbatch_count;
    *bound = all > INT64_MAX ? INT64_MAX : (int64_t)all;
    return STATUS_OK;
}

status bal_repack_problem_of(const bal_repack_search *at, int rank_count, int microbatch_count,
                             arena *memory, bal_problem *problem)
{
    TRY(make_problem(at, rank_count, microbatch_count, memory, problem));
    return fill_memory(at, memory, problem);
}

status bal_repack_cut(const bal_repack_search *at, const bal_problem *problem, arena *memory,
                      bal_answer *answer, bool *has_plan)
{
    error_message why = {0};
    const status balanced = bal_balance(at->question->balancer, problem, memory, answer, &why);
    *has_plan = false;
    if (balanced == STATUS_INFEASIBLE) return STATUS_OK;
    if (balanced != STATUS_OK) return error_set(at->err, balanced, "%s", why.message);
    *has_plan = true;
    return STATUS_OK;
}

static status play(const bal_repack_search *at, const bal_problem *problem, bal_repack_trial *out)
{
    bal_answer answer;
    TRY(bal_repack_cut(at, problem, at->scratch, &answer, &out->has_plan));
    if (!out->has_plan) return STATUS_OK;
    const bal_placed_partition plan = bal_problem_placed(problem, answer.first_layer);
    return bal_problem_predict(problem, &plan, &out->iteration_ns, at->err);
}

status bal_repack_try(const bal_repack_search *at, bal_repack_trial tried, int64_t limit_ns,
                      bal_repack_point *point, bal_repack_trial *best)
{
    bal_problem problem;
    int64_t bound = 0;
    bool may_have_plan = false;
    const bal_schedule_family *family = bal_schedule_family_find(at->question->schedule);
    int played = tried.microbatch_count;
    int replicas = 0;
    if (at->replicates) share_batch(at, tried.rank_count, played, &replicas, &played);
    if (family != NULL && !bal_schedule_takes(family, tried.rank_count, played)) return STATUS_OK;
    arena_reset(at->scratch);
    TRY(make_problem(at, tried.rank_count, tried.microbatch_count, at->scratch, &problem));
    TRY(bound_of(at, &problem, &bound, &may_have_plan));
    if (may_have_plan && bound <= limit_ns) { // what stages hold takes a schedule to find out
        TRY(fill_memory(at, at->scratch, &problem));
        TRY(bound_of(at, &problem, &bound, &may_have_plan));
    }
    if (!may_have_plan) return STATUS_OK;
    if (point->lower_bound_ns == BAL_REPACK_UNKNOWN || bound < point->lower_bound_ns) {
        point->lower_bound_ns = bound;
    }
    if (bound > limit_ns) return STATUS_OK;
    TRY(play(at, &problem, &tried));
    if (!tried.has_plan) return STATUS_OK;
    if (best->has_plan && tried.iteration_ns >= best->iteration_ns) return STATUS_OK;
    *best = tried;
    point->iteration_ns = tried.iteration_ns;
    return STATUS_OK;
}

status bal_repack_try_ranks(bal_repack_search *at, int rank_count, int64_t limit_ns,
                            bal_repack_trial *best)
{
    const int held = at->question->problem->microbatch_count;
    bal_repack_point *point = &at->curve[rank_count / at->unit];
    *point = (bal_repack_point){rank_count, BAL_REPACK_UNKNOWN, BAL_REPACK_UNKNOWN};
    *best = (bal_repack_trial){.rank_count = rank_count, .microbatch_count = held};
    TRY(bal_repack_try(at, *best, limit_ns, point, best));
    if (!at->options->chooses_microbatches || rank_count == at->now) return STATUS_OK;
    const int choices = at->options->microbatch_choice_count;
    for (int index = 0; index < (choices > 0 ? choices : held - 1); index++) {
        const int count = choices > 0 ? at->options->microbatch_counts[index] : index + 1;
        const bal_repack_trial tried = {.rank_count = rank_count, .microbatch_count = count};
        if (count == held || (choices == 0 && held % count != 0)) continue;
        TRY(bal_repack_try(at, tried, limit_ns, point, best));
    }
    return STATUS_OK;
}
