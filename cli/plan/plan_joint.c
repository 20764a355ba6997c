#include "cli/plan/plan_loads.h"

#include "balance/joint/joint.h"
#include "balance/metrics.h"
#include "balance/migration/migration.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "sim/pipeline.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

/// What was found, and what the engine says of it.
typedef struct joint_run {
    const bal_problem *problem;
    bal_joint_question question;
    bal_joint_answer answer;
    sim_summary played;
    bal_metrics metrics;
    int64_t *load_ns; // [rank_count] of one microbatch
    bal_migration migration;
} joint_run;

static int stage_count(const joint_run *run)
{
    return run->problem->stage_count * run->answer.shape.chunk_count;
}

static double gap_ratio(const bal_joint_answer *answer)
{
    if (answer->lower_bound_ns == 0) return 0;
    return (double)(answer->makespan_ns - answer->lower_bound_ns) / (double)answer->lower_bound_ns;
}

static status read_question(const cli_arguments *arguments, joint_run *run, error_message *err)
{
    static const char *const unused[] = {"--by", "--objective", "--allow-empty-stages"};
    for (size_t index = 0; index < sizeof unused / sizeof unused[0]; index++) {
        if (!cli_has(arguments, unused[index])) continue;
        return error_set(err, STATUS_INVALID,
                         "%s: --schedule any minimises the makespan of stages that all own layers",
                         unused[index]);
    }
    const bal_problem *problem = run->problem;
    if (problem->current_first_layer != NULL && problem->stage_count > 0 &&
        problem->current_stage_count == 2 * problem->stage_count) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "current_first_layer: %d entries; --schedule any takes the plan in force "
                         "as one chunk per rank, %d",
                         problem->current_stage_count + 1, problem->stage_count + 1);
    }
    if (run->question.chunk_count > 2) {
        return error_set(err, STATUS_UNSUPPORTED, "--chunks %d: --schedule any has 1 or 2",
                         run->question.chunk_count);
    }
    int64_t budget =
        bal_joint_budget_default(run->problem->stage_count, run->problem->microbatch_count);
    int64_t seed = 1;
    TRY(cli_int64(arguments, "--budget", 1, INT64_MAX, &budget, err));
    TRY(cli_int64(arguments, "--seed", 0, INT64_C(1) << 53, &seed, err));
    run->question.problem = run->problem;
    run->question.play_budget = budget;
    run->question.seed = (uint64_t)seed;
    return STATUS_OK;
}

/// Who looks on: a line on the terminal, and Ctrl-C.
typedef struct watch {
    cli_progress progress;
    const atomic_bool *interrupt;
} watch;

static bool go_on(void *context, int64_t play_count)
{
    watch *own = context;
    cli_progress_reach(&own->progress, play_count);
    return !atomic_load(own->interrupt);
}

static status find_plan(joint_run *run, arena *memory, error_message *err)
{
    watch own = {.progress = cli_progress_begin("plays", run->question.play_budget),
                 .interrupt = cli_interrupt_catch()};
    const bal_joint_listener listener = {.context = &own, .go_on = go_on};
    run->question.listener = &listener;
    const status found = bal_joint_search(&run->question, memory, &run->answer, err);
    run->question.listener = NULL;
    cli_progress_end(&own.progress);
    return found;
}

/// The static engine has the last word.
static status play(joint_run *run, arena *memory, error_message *err)
{
    const bal_joint_answer *answer = &run->answer;
    sim_order order;
    TRY(sim_order_compile(&answer->order, memory, &order, err));
    TRY(sim_costs_check(&answer->order, &answer->costs, err));
    sim_summary_init(&order, memory, &run->played);
    sim_order_summarise(&order, &answer->costs, NULL, &run->played);
    assert(run->played.makespan_ns == answer->makespan_ns);
    run->metrics = bal_metrics_of_ranks(run->played.first_begin_ns, run->played.last_end_ns,
                                        run->played.busy_ns, run->problem->stage_count);
    return STATUS_OK;
}

static void find_loads(joint_run *run, arena *memory)
{
    const int ranks = run->problem->stage_count;
    run->load_ns = arena_array(memory, (size_t)ranks, sizeof *run->load_ns);
    for (int rank = 0; rank < ranks; rank++) {
        run->load_ns[rank] = run->played.busy_ns[rank] / run->problem->microbatch_count;
    }
}

static status find_moves(joint_run *run, arena *memory, error_message *err)
{
    const bal_problem *problem = run->problem;
    if (problem->current_first_layer == NULL) return STATUS_OK;
    const bal_placed_partition from = {.first_layer = problem->current_first_layer,
                                       .rank_count = problem->current_stage_count,
                                       .chunk_count = 1};
    const bal_placed_partition to = {.first_layer = run->answer.first_layer,
                                     .rank_count = problem->stage_count,
                                     .chunk_count = run->answer.shape.chunk_count,
                                     .placement = run->answer.shape.placement};
    return bal_migration_between(&from, &to, &problem->layers, NULL, memory, &run->migration, err);
}

static void write_json(const joint_run *run, text_buffer *out)
{
    const bal_joint_answer *answer = &run->answer;
    const int ranks = run->problem->stage_count;
    json_writer writer = json_line_begin(out);
    json_put_int_array(&writer, "first_layer", answer->first_layer, stage_count(run) + 1);
    json_put_int64(&writer, "chunks", answer->shape.chunk_count);
    json_put_string(&writer, "placement", bal_placement_name(answer->shape.placement));
    json_put_string(&writer, "schedule", answer->order.name);
    json_put_string(&writer, "source", answer->source);
    json_put_int64(&writer, "makespan_ns", answer->makespan_ns);
    json_put_int64(&writer, "makespan_lower_bound_ns", answer->lower_bound_ns);
    json_put_int64(&writer, "partition_lower_bound_ns", answer->partition_bound_ns);
    json_put_double(&writer, "gap_ratio", gap_ratio(answer));
    json_put_int64(&writer, "span_ns", run->played.span_ns);
    json_put_double(&writer, "bubble_ratio", run->metrics.bubble_ratio);
    json_put_double(&writer, "imbalance_ratio", bal_imbalance_ratio(run->load_ns, ranks));
    json_put_int64_array(&writer, "peak_memory_bytes", answer->peak_bytes, ranks);
    json_put_int64(&writer, "moved_bytes", run->migration.bytes);
    json_put_int64(&writer, "plays", answer->play_count);
    json_put_bool(&writer, "optimal", answer->optimal);
    json_line_end(&writer);
}

static void write_ranks(const joint_run *run, text_buffer *out)
{
    const bal_joint_answer *answer = &run->answer;
    text_format(out, "%5s  %12s  %12s  %s\n", "rank", "load", "peak memory", "layers");
    for (int rank = 0; rank < run->problem->stage_count; rank++) {
        text_format(out, "%5d  %12s  %12s ", rank, text_duration(run->load_ns[rank]).text,
                    text_size(answer->peak_bytes[rank]).text);
        for (int chunk = 0; chunk < answer->shape.chunk_count; chunk++) {
            const int stage = bal_stage_of(answer->shape.placement, run->problem->stage_count,
                                           answer->shape.chunk_count, rank, chunk);
            text_format(out, " %d-%d", answer->first_layer[stage],
                        answer->first_layer[stage + 1] - 1);
        }
        text_append(out, "\n");
    }
}

static void write_text(const joint_run *run, text_buffer *out)
{
    const bal_joint_answer *answer = &run->answer;
    text_format(out,
                "makespan with any schedule, %d layers on %d ranks, %d microbatches, minimising "
                "the makespan\n\n",
                run->problem->layers.layer_count, run->problem->stage_count,
                run->problem->microbatch_count);
    write_ranks(run, out);
    text_format(out, "\n%-18s %12d%s%s\n", "chunks per rank", answer->shape.chunk_count,
                answer->shape.chunk_count == 1 ? "" : "   ",
                answer->shape.chunk_count == 1 ? "" : bal_placement_name(answer->shape.placement));
    text_format(out, "%-18s %12s   no partition and no order is below %s%s\n", "makespan",
                text_duration(answer->makespan_ns).text, text_duration(answer->lower_bound_ns).text,
                answer->optimal ? "; this one is optimal" : "");
    text_format(out, "%-18s %10.2f %%   above that bound; no order of this partition is below %s\n",
                "gap", 100 * gap_ratio(answer), text_duration(answer->partition_bound_ns).text);
    text_format(out, "%-18s %12s\n", "span", text_duration(run->played.span_ns).text);
    text_format(out, "%-18s %12.4f\n", "bubble ratio", run->metrics.bubble_ratio);
    if (run->problem->current_first_layer != NULL) {
        text_format(out, "%-18s %12s   %d layer%s rank\n", "moved",
                    text_size(run->migration.bytes).text, run->migration.layer_count,
                    run->migration.layer_count == 1 ? " changes its" : "s change their");
    }
    text_format(out, "%-18s %12s\n", "found by", answer->source);
}

static bal_plan plan_of(const joint_run *run)
{
    const bal_problem *problem = run->problem;
    return (bal_plan){.first_layer = run->answer.first_layer,
                      .rank_count = problem->stage_count,
                      .chunk_count = run->answer.shape.chunk_count,
                      .placement = run->answer.shape.placement,
                      .schedule = run->answer.order.name,
                      .microbatch_count = problem->microbatch_count,
                      .data_parallel = 1,
                      .embedding = problem->layers.embedding,
                      .head = problem->layers.head,
                      .first_stage_whole = problem->layers.first_stage_whole,
                      .order = &run->answer.order};
}

status cli_plan_joint(const cli_arguments *arguments, const bal_problem *problem, int chunks,
                      arena *memory, text_buffer *out, bal_plan *plan, error_message *err)
{
    joint_run *run = arena_array(memory, 1, sizeof *run);
    *run = (joint_run){.problem = problem, .question = {.chunk_count = chunks}};
    TRY(read_question(arguments, run, err));
    TRY(find_plan(run, memory, err));
    TRY(play(run, memory, err));
    find_loads(run, memory);
    TRY(find_moves(run, memory, err));
    *plan = plan_of(run);
    (cli_has(arguments, "--json") ? write_json : write_text)(run, out);
    return STATUS_OK;
}
