/// Tries numbers of ranks one by one, and chooses.
#include "balance/costs/layer_costs.h"
#include "balance/partition/chain.h"
#include "balance/partition/partition.h"
#include "balance/rank_peaks.h"
#include "balance/repack/repack.h"
#include "balance/schedule/schedule.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/// A number of ranks.
typedef struct repack_trial {
    int rank_count;
    int64_t iteration_ns;
    bool has_plan; // some cuts keep the rules, and the bounds did not rule it out
} repack_trial;

/// What is tried. Arrays are carved from memory, those of a single trial from scratch.
typedef struct repack_search {
    const bal_repack_question *question;
    const bal_repack_options *options;
    arena *memory;
    arena *scratch;
    error_message *err;
    bal_problem asked; // the question's; one cost for all microbatches where replicas share them
    bool replicates;   // released ranks make further replicas
    int chunk_count;
    int unit;  // ranks that come and go together
    int now;   // ranks in force
    int least; // ranks that the options allow
    int most;  // ranks that there are layers for
} repack_search;

/// The ranks that a plan of so many is tried on, by number: those in force where the number is the
/// same, else the first units in use and then the first others.
static const int *tried_ranks(const repack_search *at, int rank_count, arena *memory)
{
    const bal_placed_partition *before = at->question->before;
    const int ranks = at->question->machine->rank_count;
    if (rank_count == before->rank_count) return before->machine_rank;
    bool *is_used = arena_array(memory, (size_t)ranks, sizeof *is_used);
    bool *is_tried = arena_array(memory, (size_t)ranks, sizeof *is_tried);
    int *rank = arena_array(memory, (size_t)rank_count, sizeof *rank);
    for (int place = 0; place < before->rank_count; place++) {
        is_used[before->machine_rank != NULL ? before->machine_rank[place] : place] = true;
    }
    int count = 0;
    for (int index = 0; index < 2 * ranks && count < rank_count; index++) {
        const int unit = index % ranks / at->unit * at->unit;
        if (is_used[unit] != (index < ranks)) continue;
        is_tried[index % ranks] = true;
        count++;
    }
    count = 0;
    for (int candidate = 0; candidate < ranks; candidate++) {
        if (is_tried[candidate]) rank[count++] = candidate;
    }
    return rank;
}

/// The caps of the ranks, and what their stages hold.
static status fill_memory(const repack_search *at, arena *memory, bal_problem *problem)
{
    const int64_t cap_bytes = at->question->machine->rank_memory_bytes;
    if (cap_bytes == 0) return STATUS_OK;
    const int ranks = problem->stage_count / at->chunk_count;
    int64_t *inflight = arena_array(memory, (size_t)problem->stage_count, sizeof *inflight);
    int64_t *cap = arena_array(memory, (size_t)ranks, sizeof *cap);
    bal_rank_peaks *peaks = arena_array(memory, 1, sizeof *peaks);
    TRY(bal_rank_peaks_of(at->question->schedule, ranks, at->chunk_count, problem->microbatch_count,
                          memory, peaks, at->err));
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

static bal_batch_share share_of(const repack_search *at, int rank_count)
{
    return bal_batch_share_of(at->question->machine->rank_count, rank_count,
                              at->question->replica_count, at->asked.microbatch_count);
}

/// Reductions among more replicas.
static void scale_reductions(const repack_search *at, int replicas, arena *memory,
                             bal_layer_costs *layers)
{
    if (layers->reduction_ns == NULL) return;
    int64_t *scaled = arena_array(memory, (size_t)layers->layer_count, sizeof *scaled);
    for (int layer = 0; layer < layers->layer_count; layer++) {
        scaled[layer] = bal_repack_reduction_ns(layers->reduction_ns[layer],
                                                at->question->replica_count, replicas);
    }
    layers->reduction_ns = scaled;
}

/// The question that the balancer is asked for a number of ranks, less the caps.
static void make_problem(const repack_search *at, int rank_count, arena *memory,
                         bal_problem *problem)
{
    const bal_placed_partition *before = at->question->before;
    bal_problem made = at->asked;
    if (at->replicates) {
        const bal_batch_share share = share_of(at, rank_count);
        made.microbatch_count = share.played_count;
        scale_reductions(at, share.replica_count, memory, &made.layers);
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
    made.machine_rank = tried_ranks(at, rank_count, memory);
    *problem = made;
}

/// M times the smallest bottleneck: what the busiest rank alone takes. False if no cuts fit the
/// memory.
static status bound_of(const repack_search *at, const bal_problem *problem, int64_t *bound,
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

/// The question that the balancer is asked for a number of ranks, caps included.
static status problem_of(const repack_search *at, int rank_count, arena *memory,
                         bal_problem *problem)
{
    make_problem(at, rank_count, memory, problem);
    return fill_memory(at, memory, problem);
}

/// Lets the balancer cut.
static status cut_layers(const repack_search *at, const bal_problem *problem, arena *memory,
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

static status play(const repack_search *at, const bal_problem *problem, repack_trial *out)
{
    bal_answer answer;
    TRY(cut_layers(at, problem, at->scratch, &answer, &out->has_plan));
    if (!out->has_plan) return STATUS_OK;
    const bal_placed_partition plan = bal_problem_placed(problem, answer.first_layer);
    return bal_problem_predict(problem, &plan, &out->iteration_ns, at->err);
}

/// Plays a number of ranks unless its bound exceeds limit_ns. What the schedule has no order for
/// has no plan.
static status try_ranks(const repack_search *at, int rank_count, int64_t limit_ns,
                        repack_trial *tried)
{
    bal_problem problem;
    int64_t bound = 0;
    bool may_have_plan = false;
    const bal_schedule_family *family = bal_schedule_family_find(at->question->schedule);
    const int played =
        at->replicates ? share_of(at, rank_count).played_count : at->asked.microbatch_count;
    *tried = (repack_trial){.rank_count = rank_count};
    if (family != NULL && !bal_schedule_takes(family, rank_count, played)) return STATUS_OK;
    arena_reset(at->scratch);
    make_problem(at, rank_count, at->scratch, &problem);
    TRY(bound_of(at, &problem, &bound, &may_have_plan));
    if (may_have_plan && bound <= limit_ns) { // what stages hold takes a schedule to find out
        TRY(fill_memory(at, at->scratch, &problem));
        TRY(bound_of(at, &problem, &bound, &may_have_plan));
    }
    if (!may_have_plan || bound > limit_ns) return STATUS_OK;
    return play(at, &problem, tried);
}

/// All ranks, or as many as have a plan.
static status find_reference(repack_search *at, repack_trial *reference)
{
    reference->has_plan = false;
    for (int ranks = at->most; ranks >= at->least && !reference->has_plan; ranks -= at->unit) {
        TRY(try_ranks(at, ranks, INT64_MAX, reference));
        at->most = ranks;
    }
    if (reference->has_plan) return STATUS_OK;
    return error_set(at->err, STATUS_INFEASIBLE,
                     "no number of ranks in [%d, %d] has a plan within %" PRId64
                     " bytes of memory per rank",
                     at->least, at->most, at->question->machine->rank_memory_bytes);
}

/// The largest time at which so many ranks still cost less than the best so far.
static int64_t cheaper_limit(const repack_trial *best, int rank_count)
{
    if (!best->has_plan) return INT64_MAX;
    const bal_wide gpu_time = (bal_wide)best->iteration_ns * best->rank_count - 1;
    const bal_wide limit = gpu_time / rank_count;
    return limit > INT64_MAX ? INT64_MAX : (int64_t)limit;
}

/// The best number of ranks up to most within the deadline; best->has_plan false: none.
static status search(repack_search *at, int most, int64_t deadline_ns, repack_trial *best)
{
    best->has_plan = false;
    for (int ranks = at->least; ranks <= most; ranks += at->unit) {
        int64_t limit = deadline_ns;
        if (at->options->kind == BAL_REPACK_GPU_TIME) {
            const int64_t cheaper = cheaper_limit(best, ranks);
            if (cheaper < limit) limit = cheaper;
        }
        repack_trial tried;
        TRY(try_ranks(at, ranks, limit, &tried));
        if (!tried.has_plan || tried.iteration_ns > limit) continue;
        *best = tried;
        if (at->options->kind == BAL_REPACK_THROUGHPUT) return STATUS_OK;
    }
    return STATUS_OK;
}

/// Chooses the shortest iteration of all replicas, those included that released ranks make. The
/// ranks in force stay if they miss it by no more than the tolerance.
static status choose_replicated(repack_search *at, repack_trial *best)
{
    repack_trial now = {0};
    TRY(try_ranks(at, at->now, INT64_MAX, &now));
    *best = now;
    for (int ranks = at->least; ranks <= at->most; ranks += at->unit) {
        const int64_t limit = best->has_plan ? best->iteration_ns - 1 : INT64_MAX;
        repack_trial tried;
        if (ranks == at->now) continue;
        TRY(try_ranks(at, ranks, limit, &tried));
        if (tried.has_plan && tried.iteration_ns <= limit) *best = tried;
    }
    const int64_t patience = bal_grown(best->iteration_ns, at->options->tolerance_ratio);
    if (now.has_plan && now.iteration_ns <= patience) *best = now;
    return STATUS_OK;
}

/// Chooses by what the evaluator predicts.
static status choose_predicted(repack_search *at, const repack_trial *reference, repack_trial *best)
{
    const int64_t deadline = bal_grown(reference->iteration_ns, at->options->tolerance_ratio);
    const int64_t patience =
        bal_grown(deadline, at->options->grow_ratio / (1 + at->options->tolerance_ratio));
    repack_trial now = *reference;
    if (at->now != reference->rank_count) TRY(try_ranks(at, at->now, INT64_MAX, &now));
    const bool may_stay = now.has_plan && now.iteration_ns <= patience;
    TRY(search(at, may_stay ? at->now : at->most, deadline, best));
    if (!best->has_plan) *best = may_stay ? now : *reference;
    return STATUS_OK;
}

/// Bytes that the places of the plan in force hold.
static void fill_place_memory(const repack_search *at, const bal_chain *chain, int64_t *bytes)
{
    const bal_placed_partition *before = at->question->before;
    for (int place = 0; place < before->rank_count; place++) {
        bytes[place] = bal_chain_memory_bytes(chain, place, before->first_layer[place],
                                              before->first_layer[place + 1]);
    }
}

/// As many ranks as a historical algorithm would keep of those in force.
static status count_historical(repack_search *at, int64_t cap_bytes, int *rank_count)
{
    const bal_repack_question *question = at->question;
    const bal_repack_options *options = at->options;
    bal_problem problem;
    bal_chain chain;
    *rank_count = at->now;
    arena_reset(at->scratch);
    TRY(problem_of(at, at->now, at->scratch, &problem));
    problem.weight = BAL_WEIGHT_TIME;
    problem.transfer_ns = NULL;
    problem.current_first_layer = NULL;
    TRY(bal_chain_of(&problem, at->scratch, &chain, at->err));
    const int target = options->target_rank_count > 0 ? options->target_rank_count : 1;
    const double load_ns = (double)chain.weight_before[chain.layer_count];
    if (load_ns >= options->load_threshold_ratio * (double)question->start_load_ns ||
        at->now <= target) {
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
    bool *is_active = arena_array(at->scratch, (size_t)at->now, sizeof *is_active);
    const int active =
        bal_repack_merge(options->kind, at->now, cap_bytes, target, bytes, is_active);
    if (options->kind != BAL_REPACK_CODED || active == target) *rank_count = active;
    return STATUS_OK;
}

/// Chooses the number that a historical algorithm would keep, or the next that has a plan.
static status choose_historical(repack_search *at, repack_trial *best)
{
    const int64_t cap = at->question->machine->rank_memory_bytes;
    int ranks = 0;
    TRY(count_historical(at, cap > 0 ? cap : INT64_MAX / 4, &ranks));
    ranks = (ranks + at->unit - 1) / at->unit * at->unit;
    if (ranks < at->least) ranks = at->least;
    if (ranks > at->most) ranks = at->most;
    best->has_plan = false;
    for (; !best->has_plan && ranks <= at->most; ranks += at->unit) {
        TRY(try_ranks(at, ranks, INT64_MAX, best));
    }
    assert(best->has_plan); // that of the reference
    return STATUS_OK;
}

static status check_question(const repack_search *at)
{
    const bal_repack_question *question = at->question;
    if (question->problem->evaluator == NULL) {
        return error_set(at->err, STATUS_INVALID,
                         "re-packing needs an evaluator that plays plans of fewer ranks");
    }
    assert(!question->balancer->owns_freely && question->before->rank_count % at->unit == 0);
    assert(at->options->kind > BAL_REPACK_NONE && at->options->kind < BAL_REPACK_COUNT);
    if (at->options->kind > BAL_REPACK_GPU_TIME && at->chunk_count > 1) {
        return error_set(at->err, STATUS_INVALID, "'%s' knows one chunk per rank, not %d",
                         bal_repack_names[at->options->kind], at->chunk_count);
    }
    if (at->least <= at->most) return STATUS_OK;
    return error_set(at->err, STATUS_INFEASIBLE,
                     "%d layers are enough for %d ranks of %d chunks, and rank_count_min is %d",
                     question->problem->layers.layer_count, at->most, at->chunk_count,
                     at->options->rank_count_min);
}

static status search_init(repack_search *at)
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
    if (!at->replicates || problem->layers.microbatch_count == 1) return STATUS_OK;
    // Replicas that share a batch have other microbatches each.
    return bal_layer_costs_mean(&problem->layers, at->memory, &at->asked.layers, at->err);
}

/// Writes the choice: its problem and its answer are made once more, to stay.
static status finish(repack_search *at, const repack_trial *reference, const repack_trial *best,
                     bal_repack_choice *choice)
{
    bal_repack_choice made = {.rank_count = best->rank_count,
                              .iteration_ns = best->iteration_ns,
                              .reference_ns = reference->iteration_ns};
    bool has_plan = false;
    arena_reset(at->scratch);
    TRY(problem_of(at, best->rank_count, at->memory, &made.problem));
    TRY(cut_layers(at, &made.problem, at->memory, &made.answer, &has_plan));
    assert(has_plan);
    made.problem.microbatch_count = at->asked.microbatch_count; // shared or not
    *choice = made;
    return STATUS_OK;
}

static status choose(repack_search *at, bal_repack_choice *choice)
{
    repack_trial reference = {0};
    repack_trial best = {0};
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
    repack_search at = {.question = question, .options = options, .memory = memory, .err = err};
    at.scratch = arena_create(1 << 16);
    const status chosen = choose(&at, choice);
    arena_destroy(at.scratch);
    return chosen;
}
