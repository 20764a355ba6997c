#include "balance/repack/repack.h"

#include "balance/layer_times.h"
#include "balance/repack/repack_published.h"
#include "balance/repack/repack_trial.h"

#include <assert.h>
#include <inttypes.h>

/// All ranks with the M in force, or as many as have a plan.
static status find_reference(bal_repack_search *at, bal_repack_trial *reference)
{
    const int unit = at->unit;
    const int held = at->question->problem->microbatch_count;
    reference->has_plan = false;
    for (int ranks = at->most; ranks >= at->least && !reference->has_plan; ranks -= unit) {
        bal_repack_point point = {ranks, BAL_REPACK_UNKNOWN, BAL_REPACK_UNKNOWN};
        *reference = (bal_repack_trial){.rank_count = ranks, .microbatch_count = held};
        TRY(bal_repack_try(at, *reference, INT64_MAX, &point, reference));
        at->curve[ranks / unit] = point;
        at->most = ranks;
    }
    if (reference->has_plan) return STATUS_OK;
    return error_set(at->err, STATUS_INFEASIBLE,
                     "no number of ranks in [%d, %d] has a plan within %" PRId64
                     " bytes of memory per rank",
                     at->least, at->most, at->question->machine->rank_memory_bytes);
}

/// value * (1 + ratio), at most INT64_MAX.
static int64_t grown(int64_t value, double ratio)
{
    const double more = (double)value * ratio;
    if (more >= (double)(INT64_MAX - value)) return INT64_MAX;
    return value + (int64_t)more;
}

/// The largest time at which so many ranks still cost less than the best so far.
static int64_t cheaper_limit(const bal_repack_trial *best, int rank_count)
{
    if (!best->has_plan) return INT64_MAX;
    const bal_wide gpu_time = (bal_wide)best->iteration_ns * best->rank_count - 1;
    const bal_wide limit = gpu_time / rank_count;
    return limit > INT64_MAX ? INT64_MAX : (int64_t)limit;
}

/// The best number of ranks up to most within the deadline; best->has_plan false: none.
static status search(bal_repack_search *at, int most, int64_t deadline_ns, bal_repack_trial *best)
{
    best->has_plan = false;
    for (int ranks = at->least; ranks <= most; ranks += at->unit) {
        int64_t limit = deadline_ns;
        if (at->options->kind == BAL_REPACK_GPU_TIME) {
            const int64_t cheaper = cheaper_limit(best, ranks);
            if (cheaper < limit) limit = cheaper;
        }
        bal_repack_trial tried;
        TRY(bal_repack_try_ranks(at, ranks, limit, &tried));
        if (!tried.has_plan || tried.iteration_ns > limit) continue;
        *best = tried;
        if (at->options->kind == BAL_REPACK_THROUGHPUT) return STATUS_OK;
    }
    return STATUS_OK;
}

/// Chooses the shortest iteration of all replicas, those included that released ranks make. The
/// ranks in force stay if they miss it by no more than the tolerance.
static status choose_replicated(bal_repack_search *at, bal_repack_trial *best)
{
    bal_repack_trial now = {0};
    TRY(bal_repack_try_ranks(at, at->now, INT64_MAX, &now));
    *best = now;
    for (int ranks = at->least; ranks <= at->most; ranks += at->unit) {
        const int64_t limit = best->has_plan ? best->iteration_ns - 1 : INT64_MAX;
        bal_repack_trial tried;
        if (ranks == at->now) continue;
        TRY(bal_repack_try_ranks(at, ranks, limit, &tried));
        if (tried.has_plan && tried.iteration_ns <= limit) *best = tried;
    }
    const int64_t patience = grown(best->iteration_ns, at->options->tolerance_ratio);
    if (now.has_plan && now.iteration_ns <= patience) *best = now;
    return STATUS_OK;
}

/// Chooses by what the evaluator predicts.
static status choose_predicted(bal_repack_search *at, const bal_repack_trial *reference,
                               bal_repack_trial *best)
{
    const int64_t deadline = grown(reference->iteration_ns, at->options->tolerance_ratio);
    const int64_t patience =
        grown(deadline, at->options->grow_ratio / (1 + at->options->tolerance_ratio));
    bal_repack_trial now = *reference;
    if (at->now != reference->rank_count) TRY(bal_repack_try_ranks(at, at->now, INT64_MAX, &now));
    const bool may_stay = now.has_plan && now.iteration_ns <= patience;
    TRY(search(at, may_stay ? at->now : at->most, deadline, best));
    if (!best->has_plan) *best = may_stay ? now : *reference;
    return STATUS_OK;
}

/// Bytes that the places of the plan in force hold.
static void fill_place_memory(const bal_repack_search *at, const bal_chain *chain, int64_t *bytes)
{
    const bal_placed_partition *before = at->question->before;
    for (int place = 0; place < before->rank_count; place++) {
        bytes[place] = bal_chain_memory_bytes(chain, place, before->first_layer[place],
                                              before->first_layer[place + 1]);
    }
}

/// As many ranks as a historical algorithm would keep of those in force.
static status count_historical(bal_repack_search *at, int64_t cap_bytes, int *rank_count)
{
    const bal_repack_question *question = at->question;
    const bal_repack_options *options = at->options;
    const bal_placed_partition *before = question->before;
    bal_problem problem;
    bal_chain chain;
    *rank_count = at->now;
    arena_reset(at->scratch);
    TRY(bal_repack_problem_of(at, at->now, question->problem->microbatch_count, at->scratch,
                              &problem));
    problem.weight = BAL_WEIGHT_TIME;
    problem.transfer_ns = NULL;
    problem.current_first_layer = NULL;
    TRY(bal_chain_of(&problem, at->scratch, &chain, at->err));
    const int target = options->target_rank_count > 0 ? options->target_rank_count : 1;
    if (!bal_repack_published_triggers(chain.weight_before[chain.layer_count],
                                       question->start_load_ns, options->load_threshold_ratio,
                                       at->now, target)) {
        return STATUS_OK;
    }
    if (options->kind == BAL_REPACK_HALVING) {
        const int64_t *state = problem.layers.state_bytes;
        if (state == NULL) {
            return error_set(at->err, STATUS_INVALID, "re-packing by halving needs state_bytes");
        }
        const int64_t start = question->start_rank_state_bytes;
        return bal_repack_halving(state, chain.layer_count, at->now, start > 0 ? start : cap_bytes,
                                  at->scratch, rank_count, at->err);
    }
    int64_t *bytes = arena_array(at->scratch, (size_t)at->now, sizeof *bytes);
    fill_place_memory(at, &chain, bytes);
    const bal_pack_question ask = {.kind = options->kind,
                                   .rank_count = at->now,
                                   .first_layer = before->first_layer,
                                   .memory_bytes = bytes,
                                   .cap_bytes = cap_bytes,
                                   .target_rank_count = target};
    bal_pack_result packed;
    TRY(bal_repack_published(&ask, at->scratch, &packed, at->err));
    if (!packed.is_dropped) *rank_count = packed.active_count;
    return STATUS_OK;
}

/// Chooses the number that a historical algorithm would keep, or the next that has a plan.
static status choose_historical(bal_repack_search *at, bal_repack_trial *best)
{
    const int64_t cap = at->question->machine->rank_memory_bytes;
    int ranks = 0;
    TRY(count_historical(at, cap > 0 ? cap : INT64_MAX / 4, &ranks));
    ranks = (ranks + at->unit - 1) / at->unit * at->unit;
    if (ranks < at->least) ranks = at->least;
    if (ranks > at->most) ranks = at->most;
    best->has_plan = false;
    for (; !best->has_plan && ranks <= at->most; ranks += at->unit) {
        TRY(bal_repack_try_ranks(at, ranks, INT64_MAX, best));
    }
    assert(best->has_plan); // that of the reference
    return STATUS_OK;
}

static status check_question(const bal_repack_search *at)
{
    const bal_repack_question *question = at->question;
    const bal_evaluator *evaluator = question->problem->evaluator;
    const int unit = at->unit;
    if (evaluator == NULL) {
        return error_set(at->err, STATUS_INVALID,
                         "re-packing needs an evaluator that plays plans of fewer ranks");
    }
    if (question->balancer->owns_freely) {
        return error_set(at->err, STATUS_INVALID, "re-packing needs a balancer of stages, not %s",
                         question->balancer->name);
    }
    if (at->options->chooses_microbatches && evaluator->iteration_ns_of == NULL) {
        return error_set(at->err, STATUS_INVALID,
                         "the evaluator plays one number of microbatches only: it cannot be chosen "
                         "anew");
    }
    TRY(bal_placed_check(question->before, question->problem->layers.layer_count,
                         question->machine->rank_count, "the plan in force", at->err));
    if (question->before->rank_count % unit != 0) {
        return error_set(at->err, STATUS_INVALID,
                         "the plan in force has %d ranks, no multiple of rank_unit %d",
                         question->before->rank_count, unit);
    }
    if (at->options->kind <= BAL_REPACK_NONE || at->options->kind >= BAL_REPACK_COUNT) {
        return error_set(at->err, STATUS_INVALID, "no kind of re-packing is chosen");
    }
    if (at->options->kind > BAL_REPACK_GPU_TIME && at->chunk_count > 1) {
        return error_set(at->err, STATUS_INVALID, "'%s' knows one chunk per rank, not %d",
                         bal_repack_names[at->options->kind], at->chunk_count);
    }
    if (at->replicates && evaluator->iteration_ns_of == NULL) {
        return error_set(at->err, STATUS_INVALID,
                         "the evaluator plays one number of microbatches only: released ranks "
                         "cannot share them");
    }
    if (at->least <= at->most) return STATUS_OK;
    return error_set(at->err, STATUS_INFEASIBLE,
                     "%d layers are enough for %d ranks of %d chunks, and rank_count_min is %d",
                     question->problem->layers.layer_count, at->most, at->chunk_count,
                     at->options->rank_count_min);
}

/// Costs of one column: replicas that share a batch have other microbatches each.
static status take_means(bal_repack_search *at)
{
    bal_layer_times times;
    const bal_layer_costs *layers = &at->question->problem->layers;
    if (layers->microbatch_count == 1) return STATUS_OK;
    bal_layer_times_init(&times, layers->layer_count, at->memory);
    TRY(bal_layer_times_fill(&times, layers, at->err));
    at->asked.layers = bal_layer_times_costs(&times, layers);
    return STATUS_OK;
}

static status search_init(bal_repack_search *at)
{
    const bal_repack_question *question = at->question;
    const bal_problem *problem = question->problem;
    const int ranks = question->machine->rank_count;
    TRY(bal_repack_options_check(at->options, question->machine, at->err));
    const int unit = bal_repack_unit(at->options);
    at->unit = unit;
    at->chunk_count = problem->chunk_count > 0 ? problem->chunk_count : 1;
    at->now = question->before->rank_count;
    const int held = problem->layers.layer_count / at->chunk_count;
    at->most = (problem->allow_empty_stages || ranks < held ? ranks : held) / unit * unit;
    at->least = at->options->rank_count_min <= unit
                    ? unit
                    : (at->options->rank_count_min + unit - 1) / unit * unit;
    at->asked = *problem;
    at->replicates = at->options->use == BAL_RELEASED_REPLICATE &&
                     at->options->kind <= BAL_REPACK_GPU_TIME && question->replica_count > 1;
    TRY(check_question(at));
    if (at->replicates) TRY(take_means(at));
    at->curve = arena_array(at->memory, (size_t)(ranks / unit) + 1, sizeof *at->curve);
    return bal_repack_order_units(at);
}

/// Writes the choice: its problem and its answer are made once more, to stay.
static status finish(bal_repack_search *at, const bal_repack_trial *reference,
                     const bal_repack_trial *best, bal_repack_choice *choice)
{
    const int ranks = at->question->machine->rank_count;
    bal_repack_choice made = {.rank_count = best->rank_count,
                              .microbatch_count = best->microbatch_count,
                              .iteration_ns = best->iteration_ns,
                              .reference_ns = reference->iteration_ns};
    bool has_plan = false;
    arena_reset(at->scratch);
    TRY(bal_repack_problem_of(at, best->rank_count, best->microbatch_count, at->memory,
                              &made.problem));
    TRY(bal_repack_cut(at, &made.problem, at->memory, &made.answer, &has_plan));
    assert(has_plan);
    made.problem.microbatch_count = best->microbatch_count; // shared or not
    bool *is_available = arena_array(at->memory, (size_t)ranks, sizeof *is_available);
    bal_repack_mark_available(at, best->rank_count, is_available);
    made.is_available = is_available;
    for (int group = 0; group <= ranks / at->unit; group++) {
        if (at->curve[group].rank_count == 0) continue;
        at->curve[made.curve_count++] = at->curve[group];
    }
    made.curve = at->curve;
    *choice = made;
    return STATUS_OK;
}

static status choose(bal_repack_search *at, bal_repack_choice *choice)
{
    bal_repack_trial reference = {0};
    bal_repack_trial best = {0};
    const bool is_predicted = at->options->kind <= BAL_REPACK_GPU_TIME;
    TRY(search_init(at));
    TRY(find_reference(at, &reference));
    if (at->replicates) {
        TRY(choose_replicated(at, &best));
    } else if (is_predicted) {
        TRY(choose_predicted(at, &reference, &best));
    } else {
        TRY(choose_historical(at, &best));
    }
    return finish(at, &reference, &best, choice);
}

status bal_repack_choose(const bal_repack_question *question, const bal_repack_options *options,
                         arena *memory, bal_repack_choice *choice, error_message *err)
{
    bal_repack_search at = {.question = question, .options = options, .memory = memory, .err = err};
    at.scratch = arena_create(1 << 16);
    const status chosen = choose(&at, choice);
    arena_destroy(at.scratch);
    return chosen;
}
