#include "analysis/converge/load_verdict.h"

#include "analysis/converge/assignment_optimum.h"
#include "analysis/converge/converge_bounds.h"
#include "analysis/converge/layer_instance.h"
#include "analysis/converge/range_optimum.h"
#include "balance/bounds.h"
#include "balance/partition/balancer.h"
#include "balance/partition/partition.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 400, BRANCH_NODES_MAX = 1 << 20 };
static const double branch_work_max = 2e8; // nodes * stages^2
static const double range_work_max = 2e9;

/// What is worked with beside the verdict.
typedef struct judging {
    bal_problem problem; // weighed by time
    bal_chain chain;     // of it
    int64_t *weight;     // [layer_count]
    int64_t *load;       // [stage_count] scratch
    int64_t *sorted;     // [stage_count] scratch
    int *optimum_cuts;   // [stage_count + 1] a contiguous optimum
    arena *memory;
} judging;

static status judging_init(const bal_problem *problem, arena *memory, judging *out,
                           error_message *err)
{
    judging made = {.problem = *problem, .memory = memory};
    made.problem.weight = BAL_WEIGHT_TIME;
    made.problem.objective = BAL_OBJECTIVE_BOTTLENECK;
    made.problem.evaluator = NULL;
    TRY(bal_chain_of(&made.problem, memory, &made.chain, err));
    const size_t stages = (size_t)made.chain.stage_count;
    made.weight = arena_array(memory, (size_t)made.chain.layer_count, sizeof *made.weight);
    made.load = arena_array(memory, stages, sizeof *made.load);
    made.sorted = arena_array(memory, stages, sizeof *made.sorted);
    made.optimum_cuts = arena_array(memory, stages + 1, sizeof *made.optimum_cuts);
    for (int layer = 0; layer < made.chain.layer_count; layer++) {
        made.weight[layer] = made.chain.weight_before[layer + 1] - made.chain.weight_before[layer];
    }
    *out = made;
    return STATUS_OK;
}

static bool has_plan_in_force(const bal_problem *problem)
{
    return problem->current_first_layer != NULL &&
           (problem->current_stage_count == 0 ||
            problem->current_stage_count == problem->stage_count);
}

static status describe(judging *work, double gamma_ns, ana_load_verdict *verdict,
                       error_message *err)
{
    const bal_chain *chain = &work->chain;
    verdict->layer_count = chain->layer_count;
    verdict->stage_count = chain->stage_count;
    verdict->total_ns = chain->weight_before[chain->layer_count];
    verdict->starts_even = !has_plan_in_force(&work->problem);
    verdict->has_caps = chain->stage_memory_bytes != NULL;
    verdict->has_equal_ranks =
        chain->stage_time_factor_ppb == NULL && chain->stage_fixed_ns == NULL;
    for (int layer = 0; layer < chain->layer_count; layer++) {
        if (work->weight[layer] == 0) verdict->zero_layer_count++;
    }
    verdict->gamma_ns =
        gamma_ns > 0 ? gamma_ns : (double)verdict->total_ns / (double)chain->stage_count;
    verdict->round_bound =
        ana_paper_good_rounds(chain->stage_count, (double)verdict->total_ns, verdict->gamma_ns);
    verdict->assignment_low_ns = bal_assignment_lower_bound(chain);
    verdict->assignment_high_ns = -1;
    return bal_partition_bottleneck(chain, work->memory, work->optimum_cuts,
                                    &verdict->contiguous_optimum_ns, err);
}

/// The best assignment, as far as a search of bounded length finds it. Ranks must be equal.
static status bound_assignment(judging *work, ana_load_verdict *verdict, error_message *err)
{
    if (!verdict->has_equal_ranks) return STATUS_OK;
    const ana_layer_instance instance = {.layer_count = verdict->layer_count,
                                         .stage_count = verdict->stage_count,
                                         .weight = work->weight};
    const double squared = (double)verdict->stage_count * verdict->stage_count;
    const double nodes = fmin(BRANCH_NODES_MAX, branch_work_max / squared);
    ana_assignment_optimum optimum = {0};
    TRY(ana_assignment_search(&instance, (int64_t)nodes, work->memory, &optimum, err));
    if (optimum.low > verdict->assignment_low_ns) verdict->assignment_low_ns = optimum.low;
    verdict->assignment_high_ns = optimum.high;
    return STATUS_OK;
}

static void sum_owners(const judging *work, const int *owner, int64_t *load)
{
    const bal_chain *chain = &work->chain;
    int *layers = arena_array(work->memory, (size_t)chain->stage_count, sizeof *layers);
    memset(load, 0, (size_t)chain->stage_count * sizeof *load);
    for (int layer = 0; layer < chain->layer_count; layer++) {
        load[owner[layer]] += work->weight[layer];
        if (layers != NULL) layers[owner[layer]]++;
    }
    for (int stage = 0; stage < chain->stage_count; stage++) {
        const bool is_empty = layers != NULL && layers[stage] == 0;
        load[stage] = is_empty ? 0 : bal_chain_load_of_weight(chain, stage, load[stage]);
    }
}

static status judge_balancer(judging *work, const bal_balancer *balancer,
                             const ana_load_verdict *verdict, ana_load_row *row, error_message *err)
{
    const int stages = verdict->stage_count;
    error_message refusal = {0};
    bal_answer answer;
    bal_problem problem = work->problem;
    problem.weight = balancer->weight;
    row->balancer = balancer->name;
    const status result = balancer->evaluates
                              ? error_set(&refusal, STATUS_INVALID, "needs a schedule to play")
                              : bal_balance(balancer, &problem, work->memory, &answer, &refusal);
    if (result == STATUS_NO_MEMORY) return error_set(err, result, "%s", refusal.message);
    if (result != STATUS_OK) {
        row->refusal = arena_string(work->memory, refusal.message);
        return STATUS_OK;
    }
    if (answer.first_layer != NULL) {
        bal_chain_loads(&work->chain, answer.first_layer, work->load);
    } else {
        sum_owners(work, answer.owner, work->load);
    }
    memcpy(work->sorted, work->load, (size_t)stages * sizeof *work->load);
    row->phi = ana_phi(work->sorted, stages);
    row->load_max_ns = work->sorted[stages - 1];
    row->is_executable = answer.executable;
    row->contiguous_ratio = (double)row->load_max_ns / (double)verdict->contiguous_optimum_ns;
    row->assignment_ratio = (double)row->load_max_ns / (double)verdict->assignment_low_ns;
    row->transfer_count = balancer->owns_freely ? answer.transfer_count : -1;
    row->iteration_count = balancer->owns_freely ? answer.iteration_count : -1;
    return STATUS_OK;
}

static status judge_balancers(judging *work, ana_load_verdict *verdict, error_message *err)
{
    int count = 0;
    const bal_balancer *table = bal_balancers(&count);
    verdict->rows = arena_array(work->memory, (size_t)count, sizeof *verdict->rows);
    verdict->row_count = 0;
    for (int row = 0; row < count; row++) {
        if (table[row].needs_chunks) continue; // a verdict is on one stage per rank
        TRY(judge_balancer(work, &table[row], verdict, &verdict->rows[verdict->row_count++], err));
    }
    return STATUS_OK;
}

static const ana_load_row *row_of(const ana_load_verdict *verdict, const char *balancer)
{
    for (int row = 0; row < verdict->row_count; row++) {
        if (strcmp(verdict->rows[row].balancer, balancer) == 0) return &verdict->rows[row];
    }
    return NULL;
}

static status say(arena *memory, ana_load_claim *claim, const char *name, ana_load_answer answer,
                  error_message *err, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
static status say(arena *memory, ana_load_claim *claim, const char *name, ana_load_answer answer,
                  error_message *err, const char *format, ...)
{
    (void)err;
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    *claim = (ana_load_claim){name, answer, arena_string(memory, text)};
    return STATUS_OK;
}

/// Largest minus smallest load of the contiguous optimum at hand.
static int64_t optimum_range(judging *work)
{
    bal_chain_loads(&work->chain, work->optimum_cuts, work->load);
    memcpy(work->sorted, work->load, (size_t)work->chain.stage_count * sizeof *work->load);
    ana_phi(work->sorted, work->chain.stage_count);
    return work->sorted[work->chain.stage_count - 1] - work->sorted[0];
}

static status judge_range(judging *work, ana_load_verdict *verdict, error_message *err)
{
    static const char name[] = "lemma-1";
    ana_load_claim *claim = &verdict->claims[0];
    int64_t range = 0;
    int64_t load = 0;
    bool is_exact = false;
    if (verdict->has_caps || !verdict->has_equal_ranks || work->chain.allow_empty_stages) {
        return say(work->memory, claim, name, ANA_LOAD_UNDECIDED, err,
                   "it speaks of equal ranks without memory caps");
    }
    ana_range_smallest(work->weight, verdict->layer_count, verdict->stage_count,
                       optimum_range(work), range_work_max, work->memory, &range, &load, &is_exact);
    if (!is_exact) {
        return say(work->memory, claim, name, ANA_LOAD_UNDECIDED, err,
                   "too many plans of %d layers are near the smallest (max - min)",
                   verdict->layer_count);
    }
    const bool holds = load == verdict->contiguous_optimum_ns;
    return say(work->memory, claim, name, holds ? ANA_LOAD_HOLDS : ANA_LOAD_FAILS, err,
               "the smallest (max - min) of any contiguous plan is %" PRId64
               " ns, with a largest stage of %" PRId64 " ns; the smallest largest stage is %" PRId64
               " ns",
               range, load, verdict->contiguous_optimum_ns);
}

static status judge_potential(judging *work, ana_load_verdict *verdict, error_message *err)
{
    const ana_load_row *row = row_of(verdict, "diffusion-published");
    ana_load_claim *claim = &verdict->claims[1];
    if (row->refusal != NULL) {
        return say(work->memory, claim, "lemma-2", ANA_LOAD_UNDECIDED, err, "%s", row->refusal);
    }
    const bool holds =
        row->phi <= verdict->gamma_ns && row->iteration_count - 1 <= verdict->round_bound;
    return say(work->memory, claim, "lemma-2", holds ? ANA_LOAD_HOLDS : ANA_LOAD_FAILS, err,
               "Algorithm 3 ends at phi %.0f ns, gamma is %.0f ns; transfers %d, iterations %d, "
               "bound %.0f good rounds",
               row->phi, verdict->gamma_ns, row->transfer_count, row->iteration_count - 1,
               verdict->round_bound);
}

static status judge_termination(judging *work, ana_load_verdict *verdict, error_message *err)
{
    ana_load_claim *claim = &verdict->claims[2];
    const ana_load_row *row = row_of(verdict, "diffusion-published");
    if (row->refusal != NULL) {
        return say(work->memory, claim, "termination", ANA_LOAD_UNDECIDED, err, "%s", row->refusal);
    }
    bal_problem again = work->problem;
    bal_answer first;
    bal_answer second;
    const bal_balancer *published = bal_balancer_find("diffusion-published");
    TRY(bal_balance(published, &work->problem, work->memory, &first, err));
    again.current_first_layer = NULL;
    again.current_owner = first.owner;
    TRY(bal_balance(published, &again, work->memory, &second, err));
    const bool holds = second.transfer_count == 0;
    return say(work->memory, claim, "termination", holds ? ANA_LOAD_HOLDS : ANA_LOAD_FAILS, err,
               "further transfers from where Algorithm 3 ended: %d", second.transfer_count);
}

/// Whether load <= (2 - 2 / (P + 1)) bound, in whole numbers.
static bool is_within(int64_t load, int64_t bound, int stages)
{
    return (bal_wide)load * (stages + 1) <= (bal_wide)bound * 2 * stages;
}

static status judge_guarantee(judging *work, ana_load_verdict *verdict, error_message *err)
{
    const ana_load_row *row = row_of(verdict, "diffusion-published");
    ana_load_claim *claim = &verdict->claims[3];
    const int stages = verdict->stage_count;
    if (row->refusal != NULL) {
        return say(work->memory, claim, "guarantee", ANA_LOAD_UNDECIDED, err, "%s", row->refusal);
    }
    const bool is_promised =
        verdict->zero_layer_count == 0 && !verdict->has_caps && verdict->has_equal_ranks;
    // The loads of a search for the best assignment say nothing of what caps allow.
    const bool is_exact =
        !verdict->has_caps && verdict->assignment_high_ns == verdict->assignment_low_ns;
    ana_load_answer answer = is_promised ? ANA_LOAD_HOLDS : ANA_LOAD_UNDECIDED;
    if (is_within(row->load_max_ns, verdict->assignment_low_ns, stages)) {
        answer = ANA_LOAD_HOLDS;
    } else if (is_exact) {
        answer = is_promised ? ANA_LOAD_FAILS : ANA_LOAD_NOT_PROMISED;
    }
    char why[120] = "promised: every layer takes time, no caps, equal ranks";
    if (!is_promised) {
        snprintf(why, sizeof why, "not promised: %d layers without weight, %s, ranks %s",
                 verdict->zero_layer_count, verdict->has_caps ? "memory caps" : "no caps",
                 verdict->has_equal_ranks ? "equal" : "unequal");
    }
    return say(work->memory, claim, "guarantee", answer, err,
               "largest load %.4g times the lower bound of any assignment, 2 - 2/(P+1) = %.4g; %s",
               row->assignment_ratio, 2 - 2.0 / (stages + 1), why);
}

status ana_load_verdict_of(const bal_problem *problem, double gamma_ns, arena *memory,
                           ana_load_verdict *verdict, error_message *err)
{
    judging work = {0};
    ana_load_verdict made = {0};
    TRY(judging_init(problem, memory, &work, err));
    if (work.chain.weight_before[work.chain.layer_count] == 0) {
        return error_set(err, STATUS_INVALID, "the layers take no time at all: nothing to balance");
    }
    TRY(describe(&work, gamma_ns, &made, err));
    TRY(bound_assignment(&work, &made, err));
    TRY(judge_balancers(&work, &made, err));
    TRY(judge_range(&work, &made, err));
    TRY(judge_potential(&work, &made, err));
    TRY(judge_termination(&work, &made, err));
    TRY(judge_guarantee(&work, &made, err));
    *verdict = made;
    return STATUS_OK;
}
