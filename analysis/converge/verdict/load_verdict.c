#include "analysis/converge/verdict/load_verdict.h"

#include "analysis/converge/converge_bounds.h"
#include "analysis/converge/verdict/optimum.h"
#include "balance/partition/balancer.h"
#include "balance/partition/bounds.h"
#include "balance/partition/partition.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 9, TEXT_BYTES = 400, BRANCH_NODES_MAX = 1 << 20 };
static const double branch_work_max = 2e8; // nodes * stages^2
static const double range_work_max = 2e9;

/// What is worked with beside the verdict.
typedef struct judging {
    bal_problem problem; // weighed by time
    bal_chain chain;     // of it
    int64_t *weight;     // [layer_count]
    int64_t *load;       // [stage_count] scratch
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
    made.weight = arena_array(memory, (size_t)made.chain.layer_count, sizeof *made.weight);
    made.load = arena_array(memory, (size_t)made.chain.stage_count, sizeof *made.load);
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
    int *cuts = arena_array(work->memory, (size_t)chain->stage_count + 1, sizeof *cuts);
    return bal_partition_bottleneck(chain, work->memory, cuts, &verdict->contiguous_optimum_ns,
                                    err);
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

/// Loads of the stages, in time, of an answer in whatever form.
static void find_loads(const judging *work, const bal_answer *answer)
{
    const bal_chain *chain = &work->chain;
    if (answer->first_layer != NULL) {
        bal_chain_loads(chain, answer->first_layer, work->load);
        return;
    }
    int *layers = arena_array(work->memory, (size_t)chain->stage_count, sizeof *layers);
    memset(work->load, 0, (size_t)chain->stage_count * sizeof *work->load);
    for (int layer = 0; layer < chain->layer_count; layer++) {
        work->load[answer->owner[layer]] += work->weight[layer];
        layers[answer->owner[layer]]++;
    }
    for (int stage = 0; stage < chain->stage_count; stage++) {
        work->load[stage] =
            layers[stage] == 0 ? 0 : bal_chain_load_of_weight(chain, stage, work->load[stage]);
    }
}

static void judge_balancer(judging *work, const bal_balancer *balancer,
                           const ana_load_verdict *verdict, ana_load_row *row)
{
    error_message refusal = {0};
    bal_answer answer;
    bal_problem problem = work->problem;
    problem.weight = balancer->weight;
    row->balancer = balancer->name;
    const status result = balancer->evaluates
                              ? error_set(&refusal, STATUS_INVALID, "needs a schedule to play")
                              : bal_balance(balancer, &problem, work->memory, &answer, &refusal);
    if (result != STATUS_OK) {
        row->refusal = arena_string(work->memory, refusal.message);
        return;
    }
    find_loads(work, &answer);
    row->phi = ana_phi(work->load, verdict->stage_count); // sorts
    row->load_max_ns = work->load[verdict->stage_count - 1];
    row->is_executable = answer.executable;
    row->owner = answer.owner;
    row->contiguous_ratio = (double)row->load_max_ns / (double)verdict->contiguous_optimum_ns;
    row->assignment_ratio = (double)row->load_max_ns / (double)verdict->assignment_low_ns;
    row->transfer_count = balancer->owns_freely ? answer.transfer_count : -1;
    row->iteration_count = balancer->owns_freely ? answer.iteration_count : -1;
}

static void judge_balancers(judging *work, ana_load_verdict *verdict)
{
    int count = 0;
    const bal_balancer *table = bal_balancers(&count);
    verdict->rows = arena_array(work->memory, (size_t)count, sizeof *verdict->rows);
    for (int row = 0; row < count; row++) {
        if (table[row].needs_chunks) continue; // a verdict is on one stage per rank
        judge_balancer(work, &table[row], verdict, &verdict->rows[verdict->row_count++]);
    }
}

static void say(const judging *work, ana_load_claim *claim, ana_load_answer answer,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
static void say(const judging *work, ana_load_claim *claim, ana_load_answer answer,
                const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    claim->answer = answer;
    claim->text = arena_string(work->memory, text);
}

static void judge_range(const judging *work, const ana_load_verdict *verdict, ana_load_claim *claim)
{
    const int layers = verdict->layer_count;
    const int stages = verdict->stage_count;
    int first[ANA_RANGE_STAGES_MAX + 1];
    if (verdict->has_caps || !verdict->has_equal_ranks || work->chain.allow_empty_stages) {
        say(work, claim, ANA_LOAD_UNDECIDED, "it speaks of equal ranks without memory caps");
        return;
    }
    if (stages > ANA_RANGE_STAGES_MAX || ana_range_work(layers, stages) > range_work_max) {
        say(work, claim, ANA_LOAD_UNDECIDED,
            "there are too many plans of %d layers on %d stages to try all", layers, stages);
        return;
    }
    const ana_range_plans plans = ana_range_enumerate(work->weight, layers, stages, first);
    const bool holds = plans.range_load_min == verdict->contiguous_optimum_ns;
    say(work, claim, holds ? ANA_LOAD_HOLDS : ANA_LOAD_FAILS,
        "the smallest (max - min) of any contiguous plan is %" PRId64
        " ns, with a largest stage of %" PRId64 " ns; the smallest largest stage is %" PRId64 " ns",
        plans.range, plans.range_load_min, verdict->contiguous_optimum_ns);
}

static void judge_potential(const judging *work, const ana_load_verdict *verdict,
                            const ana_load_row *row, ana_load_claim *claim)
{
    const bool holds =
        row->phi <= verdict->gamma_ns && row->iteration_count - 1 <= verdict->round_bound;
    say(work, claim, holds ? ANA_LOAD_HOLDS : ANA_LOAD_FAILS,
        "Algorithm 3 ends at phi %.0f ns, gamma is %.0f ns; transfers %d, iterations %d, bound "
        "%.0f good rounds",
        row->phi, verdict->gamma_ns, row->transfer_count, row->iteration_count - 1,
        verdict->round_bound);
}

static status judge_termination(const judging *work, const ana_load_row *row, ana_load_claim *claim,
                                error_message *err)
{
    bal_problem again = work->problem;
    bal_answer answer;
    again.current_first_layer = NULL;
    again.current_owner = row->owner;
    TRY(bal_balance(bal_balancer_find(row->balancer), &again, work->memory, &answer, err));
    say(work, claim, answer.transfer_count == 0 ? ANA_LOAD_HOLDS : ANA_LOAD_FAILS,
        "further transfers from where Algorithm 3 ended: %d", answer.transfer_count);
    return STATUS_OK;
}

static void judge_guarantee(const judging *work, const ana_load_verdict *verdict,
                            const ana_load_row *row, ana_load_claim *claim)
{
    const int stages = verdict->stage_count;
    const bool is_promised =
        verdict->zero_layer_count == 0 && !verdict->has_caps && verdict->has_equal_ranks;
    // The loads of a search for the best assignment say nothing of what caps allow.
    const bool is_exact =
        !verdict->has_caps && verdict->assignment_high_ns == verdict->assignment_low_ns;
    // load <= (2 - 2 / (P + 1)) bound, in whole numbers
    const bool is_within = (bal_wide)row->load_max_ns * (stages + 1) <=
                           (bal_wide)verdict->assignment_low_ns * 2 * stages;
    ana_load_answer answer = is_promised ? ANA_LOAD_HOLDS : ANA_LOAD_UNDECIDED;
    if (is_within) {
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
    say(work, claim, answer,
        "largest load %.4g times the lower bound of any assignment, 2 - 2/(P+1) = %.4g; %s",
        row->assignment_ratio, 2 - 2.0 / (stages + 1), why);
}

static status judge_claims(judging *work, ana_load_verdict *verdict, error_message *err)
{
    static const char *const names[] = {"lemma-1", "lemma-2", "termination", "guarantee"};
    ana_load_claim *claims = verdict->claims;
    const ana_load_row *row = verdict->rows;
    while (strcmp(row->balancer, "diffusion-published") != 0) {
        row++;
    }
    for (int claim = 0; claim < ANA_LOAD_CLAIMS; claim++) {
        claims[claim].name = names[claim];
    }
    judge_range(work, verdict, &claims[0]);
    for (int claim = 1; claim < ANA_LOAD_CLAIMS && row->refusal != NULL; claim++) {
        say(work, &claims[claim], ANA_LOAD_UNDECIDED, "%s", row->refusal);
    }
    if (row->refusal != NULL) return STATUS_OK;
    judge_potential(work, verdict, row, &claims[1]);
    judge_guarantee(work, verdict, row, &claims[3]);
    return judge_termination(work, row, &claims[2], err);
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
    judge_balancers(&work, &made);
    TRY(judge_claims(&work, &made, err));
    *verdict = made;
    return STATUS_OK;
}

static const char *const answer_names[] = {"holds", "fails", "fails, and is not promised",
                                           "undecided"};

static void append_row(const ana_load_row *row, double gamma_ns, text_buffer *out)
{
    char load[32];
    text_format(out, "  %-20s", row->balancer);
    if (row->refusal != NULL) {
        text_format(out, "  %s\n", row->refusal);
        return;
    }
    text_duration(row->load_max_ns, load);
    text_format(out, "  %10s  %12.4f  %11.4f", load, row->contiguous_ratio, row->assignment_ratio);
    if (row->transfer_count >= 0) {
        text_format(out, "  %9d  %10d", row->transfer_count, row->iteration_count);
    } else {
        text_format(out, "  %9s  %10s", "-", "-");
    }
    text_format(out, "  %11.4g%s\n", row->phi / gamma_ns,
                row->is_executable ? "" : "  out of order: loads only");
}

void ana_load_verdict_append(const ana_load_verdict *verdict, text_buffer *out)
{
    char total[32];
    char gamma[32];
    char optimum[32];
    char low[32];
    text_duration(verdict->total_ns, total);
    text_duration((int64_t)(verdict->gamma_ns + 0.5), gamma);
    text_duration(verdict->contiguous_optimum_ns, optimum);
    text_duration(verdict->assignment_low_ns, low);
    text_format(out, "%d layers of together %s on %d stages, from %s\n", verdict->layer_count,
                total, verdict->stage_count,
                verdict->starts_even ? "the even split" : "the plan in force");
    text_format(
        out, "contiguous optimum %s; no assignment in any order is below %s%s; gamma %s\n\n",
        optimum, low,
        verdict->assignment_high_ns == verdict->assignment_low_ns ? " (attained)" : "", gamma);
    text_format(out, "  %-20s  %10s  %12s  %11s  %9s  %10s  %11s\n", "balancer", "largest",
                "/ contiguous", "/ any order", "transfers", "iterations", "phi / gamma");
    for (int row = 0; row < verdict->row_count; row++) {
        append_row(&verdict->rows[row], verdict->gamma_ns, out);
    }
    text_append(out, "\n");
    for (int claim = 0; claim < ANA_LOAD_CLAIMS; claim++) {
        text_format(out, "%s: %s\n", verdict->claims[claim].name,
                    answer_names[verdict->claims[claim].answer]);
        text_append_wrapped(out, verdict->claims[claim].text, 2, 100);
    }
}

/// A count, null below 0.
static void put_count(json_writer *writer, const char *key, int64_t count)
{
    if (count >= 0) {
        json_put_int64(writer, key, count);
        return;
    }
    json_write_key(writer, key);
    json_write_null(writer);
}

static void write_row(const ana_load_row *row, double gamma_ns, json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "balancer", row->balancer);
    json_put_string(writer, "refusal", row->refusal);
    if (row->refusal == NULL) {
        json_put_bool(writer, "executable", row->is_executable);
        json_put_int64(writer, "load_max_ns", row->load_max_ns);
        json_put_rounded(writer, "contiguous_ratio", row->contiguous_ratio, DIGITS);
        json_put_rounded(writer, "assignment_ratio", row->assignment_ratio, DIGITS);
        put_count(writer, "transfers", row->transfer_count);
        put_count(writer, "iterations", row->iteration_count);
        json_put_rounded(writer, "phi_ns", row->phi, DIGITS);
        json_put_bool(writer, "within_gamma", row->phi <= gamma_ns);
    }
    json_end_object(writer);
}

void ana_load_verdict_write(const ana_load_verdict *verdict, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "layers", verdict->layer_count);
    json_put_int64(writer, "stages", verdict->stage_count);
    json_put_int64(writer, "total_ns", verdict->total_ns);
    json_put_string(writer, "start", verdict->starts_even ? "even" : "current");
    json_put_int64(writer, "zero_layers", verdict->zero_layer_count);
    json_put_bool(writer, "memory_caps", verdict->has_caps);
    json_put_bool(writer, "equal_ranks", verdict->has_equal_ranks);
    json_put_int64(writer, "contiguous_optimum_ns", verdict->contiguous_optimum_ns);
    json_put_int64(writer, "assignment_lower_bound_ns", verdict->assignment_low_ns);
    put_count(writer, "assignment_best_found_ns", verdict->assignment_high_ns);
    json_put_rounded(writer, "gamma_ns", verdict->gamma_ns, DIGITS);
    json_put_rounded(writer, "bound_paper_rounds", verdict->round_bound, DIGITS);
    json_put_array(writer, "balancers");
    for (int row = 0; row < verdict->row_count; row++) {
        write_row(&verdict->rows[row], verdict->gamma_ns, writer);
    }
    json_end_array(writer);
    json_put_array(writer, "claims");
    for (int claim = 0; claim < ANA_LOAD_CLAIMS; claim++) {
        json_begin_object(writer);
        json_put_string(writer, "name", verdict->claims[claim].name);
        json_put_string(writer, "answer", answer_names[verdict->claims[claim].answer]);
        json_put_string(writer, "text", verdict->claims[claim].text);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}
