/// `dynmo plan`: one decision.
#include "cli/commands.h"

#include "balance/migration/migration.h"
#include "balance/partition/balancer.h"
#include "balance/plan.h"
#include "balance/schedule/schedule.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/option_values.h"
#include "cli/plan/plan_loads.h"
#include "cli/plan/plan_play.h"
#include "traces/store/writer.h"

#include <inttypes.h>
#include <string.h>

/// The question as given, and the answer.
typedef struct plan_run {
    const bal_balancer *balancer;
    const char *schedule; // NULL if not given
    const char *trace;    // NULL: the loads are of a file
    int sample_count;     // of the trace
    bal_problem problem;
    bool is_joint;   // --schedule any
    int chunk_count; // 0 if not given
    bal_answer answer;
    bal_migration migration; // from current_first_layer; empty without one
} plan_run;

static const char *const any_schedule = "any";

static const char *const objective_names[] = {"bottleneck", "1f1b-bound", "moved-bytes"};
_Static_assert(sizeof objective_names / sizeof objective_names[0] == BAL_OBJECTIVE_COUNT,
               "a name each");

static status find_balancer(const char *name, const bal_balancer **found, error_message *err)
{
    *found = bal_balancer_find(name);
    if (*found != NULL) return STATUS_OK;
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(err, STATUS_INVALID, "--balancer: unknown '%.40s'%s", name,
                     bal_balancer_suggestion(name, suggestion));
}

static status find_schedule(const char *name, const bal_schedule_family **found, error_message *err)
{
    *found = NULL;
    if (name == NULL) return STATUS_OK;
    *found = bal_schedule_family_find(name);
    if (*found != NULL) return STATUS_OK;
    char suggestion[TEXT_SUGGESTION_BYTES];
    return error_set(err, STATUS_INVALID, "--schedule: unknown '%.40s'%s", name,
                     bal_schedule_suggestion(name, suggestion));
}

/// The chunks of a rank and where they stand: as --chunks says, else as the schedule has them, else
/// as the balancer needs them, else one. V where one of them does.
static status find_shape(const cli_arguments *arguments, plan_run *run, cli_plan_shape *shape,
                         error_message *err)
{
    const bal_schedule_family *family = NULL;
    TRY(cli_int(arguments, "--stages", 1, BAL_RANKS_MAX, 0, &shape->rank_count, err));
    TRY(cli_int(arguments, "--chunks", 1, BAL_CHUNKS_MAX, 0, &run->chunk_count, err));
    const int chunks = run->chunk_count;
    shape->chunk_count = 1;
    if (run->is_joint) return STATUS_OK; // it decides itself
    TRY(find_schedule(run->schedule, &family, err));
    shape->placement = run->balancer->placement;
    if (family == NULL) {
        shape->chunk_count = chunks != 0 ? chunks : run->balancer->needs_chunks ? 2 : 1;
        return STATUS_OK;
    }
    if (family->placement == BAL_PLACEMENT_BIDIRECTIONAL) {
        return error_set(err, STATUS_INVALID,
                         "--schedule %s keeps two copies of the weights; a plan has one",
                         family->name);
    }
    shape->chunk_count = bal_schedule_chunk_count(family, chunks);
    shape->placement = family->placement;
    if (family->chunk_count != 0 && chunks != 0 && chunks != family->chunk_count) {
        return error_set(err, STATUS_INVALID, "--chunks %d: schedule %s has %d per rank", chunks,
                         family->name, family->chunk_count);
    }
    return STATUS_OK;
}

static status read_loads(const cli_arguments *arguments, cli_plan_shape shape, arena *memory,
                         plan_run *run, error_message *err)
{
    int first = 0;
    int last = TRACE_ITERATIONS_MAX;
    const char *range = cli_value(arguments, "--iterations");
    run->trace = cli_value(arguments, "--trace");
    if ((run->trace != NULL) == cli_has(arguments, "--loads")) {
        return error_set(err, STATUS_INVALID, "give one of --loads and --trace");
    }
    if (range != NULL && run->trace == NULL) {
        return error_set(err, STATUS_INVALID, "--iterations are of a --trace");
    }
    if (run->trace == NULL) {
        return cli_plan_loads_read(cli_value(arguments, "--loads"), shape, memory, &run->problem,
                                   err);
    }
    if (range != NULL) TRY(cli_iteration_range(range, &first, &last, err));
    return cli_plan_loads_of_trace(run->trace, first, last, shape, memory, &run->problem,
                                   &run->sample_count, err);
}

static status read_options(const cli_arguments *arguments, arena *memory, plan_run *run,
                           error_message *err)
{
    static const char *const required[] = {"--stages", "--balancer"};
    for (size_t index = 0; index < sizeof required / sizeof required[0]; index++) {
        TRY(cli_require(arguments, required[index], err));
    }
    cli_plan_shape shape = {0};
    int microbatches = 0;
    int weight = 0;
    int objective = 0;
    TRY(cli_int(arguments, "--microbatches", 1, BAL_MICROBATCHES_MAX, 0, &microbatches, err));
    TRY(find_balancer(cli_value(arguments, "--balancer"), &run->balancer, err));
    TRY(cli_choice(arguments, "--by", bal_weight_names, BAL_WEIGHT_COUNT,
                   (int)run->balancer->weight, &weight, err));
    TRY(cli_choice(arguments, "--objective", objective_names, BAL_OBJECTIVE_COUNT,
                   BAL_OBJECTIVE_BOTTLENECK, &objective, err));
    run->schedule = cli_value(arguments, "--schedule");
    run->is_joint = run->schedule != NULL && strcmp(run->schedule, any_schedule) == 0;
    TRY(find_shape(arguments, run, &shape, err));
    TRY(read_loads(arguments, shape, memory, run, err));
    bal_problem *problem = &run->problem;
    TRY(cli_first_stage(arguments, &problem->layers.first_stage_whole, err));
    problem->weight = (bal_weight)weight;
    problem->objective = (bal_objective)objective;
    problem->microbatch_count = microbatches;
    problem->allow_empty_stages = cli_has(arguments, "--allow-empty-stages");
    TRY(cli_int(arguments, "--max-iterations", 1, INT32_MAX, 0, &problem->diffusion_iteration_max,
                err));
    return STATUS_OK;
}

/// What one option or balancer needs of another option.
static status check_options(const cli_arguments *arguments, const plan_run *run, error_message *err)
{
    const bal_problem *problem = &run->problem;
    if (problem->objective == BAL_OBJECTIVE_1F1B_BOUND && problem->microbatch_count == 0) {
        return error_set(err, STATUS_INVALID, "--objective 1f1b-bound needs --microbatches");
    }
    if (problem->objective == BAL_OBJECTIVE_MOVED_BYTES && problem->load_cap_ns < 0) {
        return error_set(err, STATUS_INVALID, "%s: --objective moved-bytes needs load_cap_ns",
                         cli_value(arguments, "--loads"));
    }
    if (problem->diffusion_iteration_max > 0 &&
        strcmp(run->balancer->name, "diffusion-published") != 0) {
        return error_set(err, STATUS_INVALID,
                         "--max-iterations belongs to --balancer diffusion-published, not to %s",
                         run->balancer->name);
    }
    const bool plays = run->balancer->evaluates;
    const char *path = cli_value(arguments, "--output");
    if ((plays || path != NULL) && (run->schedule == NULL || problem->microbatch_count == 0)) {
        return error_set(err, STATUS_INVALID, "%s needs --schedule and --microbatches",
                         plays ? "--balancer makespan" : "--output");
    }
    if (path != NULL && strcmp(path, "-") == 0) {
        return error_set(err, STATUS_INVALID, "--output -: standard output has the answer already");
    }
    if (path != NULL && run->balancer->owns_freely) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "--output: %s gives layers to ranks in any order; nothing can play that",
                         run->balancer->name);
    }
    return STATUS_OK;
}

/// What only the joint search reads, and what it needs.
static status check_joint(const cli_arguments *arguments, const plan_run *run, error_message *err)
{
    static const char *const own[] = {"--budget", "--seed"};
    for (size_t index = 0; index < sizeof own / sizeof own[0]; index++) {
        if (run->is_joint || !cli_has(arguments, own[index])) continue;
        return error_set(err, STATUS_INVALID, "%s is for --schedule any", own[index]);
    }
    if (run->is_joint && !run->balancer->evaluates) {
        return error_set(err, STATUS_INVALID, "--schedule any is for --balancer makespan, not %s",
                         run->balancer->name);
    }
    return STATUS_OK;
}

/// Lists the layers whose rank differs from the one that owns them now.
static void find_moves(arena *memory, plan_run *run)
{
    const bal_problem *problem = &run->problem;
    const int layers = problem->layers.layer_count;
    const bal_placed_partition before = {.first_layer = problem->current_first_layer,
                                         .rank_count =
                                             problem->current_stage_count / problem->chunk_count,
                                         .chunk_count = problem->chunk_count,
                                         .placement = problem->placement};
    if (problem->current_first_layer == NULL) return;
    int *layer_moved = arena_array(memory, (size_t)layers, sizeof *layer_moved);
    int *from = arena_array(memory, (size_t)layers, sizeof *from);
    int *to = arena_array(memory, (size_t)layers, sizeof *to);
    bal_placed_owners(&before, from);
    if (run->answer.owner != NULL) {
        memcpy(to, run->answer.owner, (size_t)layers * sizeof *to);
    } else {
        const bal_placed_partition after = bal_problem_placed(problem, run->answer.first_layer);
        bal_placed_owners(&after, to);
    }
    int count = 0;
    for (int layer = 0; layer < layers; layer++) {
        if (from[layer] == to[layer]) continue;
        layer_moved[count] = layer;
        from[count] = from[layer];
        to[count++] = to[layer];
    }
    run->migration =
        (bal_migration){.layer_count = count, .layer = layer_moved, .from = from, .to = to};
}

static void write_json(const plan_run *run, text_buffer *out)
{
    const bal_problem *problem = &run->problem;
    const bal_answer *answer = &run->answer;
    json_writer writer = json_line_begin(out);
    json_put_int_array(&writer, "first_layer", answer->first_layer, problem->stage_count + 1);
    json_put_int_array(&writer, "owner", answer->owner, problem->layers.layer_count);
    json_put_int64(&writer, "bottleneck_ns", answer->bottleneck_ns);
    json_put_int64(&writer, "bottleneck_lower_bound_ns", answer->bottleneck_lower_bound_ns);
    json_put_double(&writer, "imbalance_ratio", answer->imbalance_ratio);
    json_put_double(&writer, "load_spread_ratio", answer->load_spread_ratio);
    json_put_int64(&writer, "moved_bytes", answer->moved_bytes);
    json_put_array(&writer, "migration");
    for (int move = 0; move < run->migration.layer_count; move++) {
        json_begin_object(&writer);
        json_put_int64(&writer, "layer", run->migration.layer[move]);
        json_put_int64(&writer, "from", run->migration.from[move]);
        json_put_int64(&writer, "to", run->migration.to[move]);
        json_end_object(&writer);
    }
    json_end_array(&writer);
    if (answer->iteration_ns >= 0) json_put_int64(&writer, "makespan_ns", answer->iteration_ns);
    if (run->trace != NULL) json_put_int64(&writer, "trace_samples", run->sample_count);
    json_put_bool(&writer, "optimal", answer->optimal);
    json_put_bool(&writer, "executable", answer->executable);
    json_line_end(&writer);
}

/// A load in its unit: a duration, or a count of parameters or layers.
static text_words load_text(const plan_run *run, int64_t load)
{
    const bal_weight weight = run->problem.weight;
    const bool is_count = weight == BAL_WEIGHT_PARAMETERS || weight == BAL_WEIGHT_LAYERS;
    return is_count ? text_wording("%" PRId64, load) : text_duration(load);
}

/// The layers of a rank: "4-7", of every chunk; for owners "0 3 6".
static void append_layers(const plan_run *run, int rank, text_buffer *out)
{
    const bal_problem *problem = &run->problem;
    const bal_answer *answer = &run->answer;
    for (int chunk = 0; answer->first_layer != NULL && chunk < problem->chunk_count; chunk++) {
        const int stage =
            bal_stage_of(problem->placement, answer->rank_count, problem->chunk_count, rank, chunk);
        const int begin = answer->first_layer[stage];
        const int end = answer->first_layer[stage + 1];
        if (chunk > 0) text_append(out, ", ");
        if (begin == end) {
            text_append(out, "none");
        } else {
            text_format(out, "%d-%d", begin, end - 1);
        }
    }
    if (answer->first_layer != NULL) return;
    const char *blank = "";
    for (int layer = 0; layer < run->problem.layers.layer_count; layer++) {
        if (answer->owner[layer] != rank) continue;
        text_format(out, "%s%d", blank, layer);
        blank = " ";
    }
    if (*blank == '\0') text_append(out, "none");
}

static void write_text(const plan_run *run, text_buffer *out)
{
    const bal_problem *problem = &run->problem;
    const bal_answer *answer = &run->answer;
    const bool has_chunks = problem->chunk_count > 1;
    if (run->trace != NULL) {
        text_format(out, "mean of %d sampled iteration%s of %s\n", run->sample_count,
                    run->sample_count == 1 ? "" : "s", run->trace);
    }
    text_format(out, "%s by %s, %d layers on %d ", run->balancer->name,
                bal_weight_names[problem->weight], problem->layers.layer_count, answer->rank_count);
    if (has_chunks) {
        text_format(out, "ranks of %d chunks (%s)", problem->chunk_count,
                    bal_placement_name(problem->placement));
    } else {
        text_append(out, "stages");
    }
    text_format(out, ", minimising %s\n\n",
                answer->iteration_ns >= 0 ? "the iteration" : objective_names[problem->objective]);
    text_format(out, "%5s  %12s  %s\n", answer->owner != NULL || has_chunks ? "rank" : "stage",
                "load", "layers");
    for (int rank = 0; rank < answer->rank_count; rank++) {
        text_format(out, "%5d  %12s  ", rank, load_text(run, answer->rank_load[rank]).text);
        append_layers(run, rank, out);
        text_append(out, "\n");
    }
    text_format(out, "\n%-18s %12s   no plan is below %s%s\n",
                problem->objective == BAL_OBJECTIVE_1F1B_BOUND ? "1f1b bound" : "bottleneck",
                load_text(run, answer->bottleneck_ns).text,
                load_text(run, answer->bottleneck_lower_bound_ns).text,
                answer->optimal ? "; this one is optimal" : "");
    text_format(out, "%-18s %12.3f   largest load / mean\n", "imbalance ratio",
                answer->imbalance_ratio);
    text_format(out, "%-18s %12.3f   (largest - smallest) / mean\n", "load spread ratio",
                answer->load_spread_ratio);
    if (answer->iteration_ns >= 0) {
        text_format(out, "%-18s %12s   played under %s, %d microbatches\n", "makespan",
                    text_duration(answer->iteration_ns).text, run->schedule,
                    problem->microbatch_count);
    }
    if (problem->current_first_layer != NULL) {
        text_format(out, "%-18s %12s   %d layer%s %s\n", "moved",
                    text_size(answer->moved_bytes).text, run->migration.layer_count,
                    run->migration.layer_count == 1 ? " changes its" : "s change their",
                    has_chunks ? "rank" : "stage");
    }
    if (!answer->executable) {
        text_append(out, "\nLayers leave the model order: loads only, not executable.\n");
    }
}

static bal_plan plan_of(const plan_run *run)
{
    const bal_problem *problem = &run->problem;
    return (bal_plan){.first_layer = run->answer.first_layer,
                      .rank_count = run->answer.rank_count,
                      .chunk_count = problem->chunk_count,
                      .placement = problem->placement,
                      .schedule = run->schedule,
                      .microbatch_count = problem->microbatch_count,
                      .data_parallel = 1,
                      .embedding = problem->layers.embedding,
                      .head = problem->layers.head,
                      .first_stage_whole = problem->layers.first_stage_whole};
}

static status write_plan(const bal_plan *plan, const char *path, arena *memory, error_message *err)
{
    text_buffer out = {.memory = memory};
    json_writer writer = json_writer_init(&out);
    bal_plan_write(plan, &writer);
    text_append(&out, "\n");
    return file_write(path, out.bytes, out.length, err);
}

/// Programs that asked for JSON learn the reason there too.
static void write_infeasible(const char *reason, text_buffer *out)
{
    json_writer writer = json_line_begin(out);
    json_put_string(&writer, "error", reason);
    json_line_end(&writer);
}

static status answer(const cli_arguments *arguments, arena *memory, text_buffer *out,
                     error_message *err)
{
    plan_run run = {0};
    error_message reason = {0};
    TRY(read_options(arguments, memory, &run, err));
    TRY(check_options(arguments, &run, err));
    TRY(check_joint(arguments, &run, err));
    bal_plan plan = {0};
    const status decided = run.is_joint ? cli_plan_joint(arguments, &run.problem, run.chunk_count,
                                                         memory, out, &plan, &reason)
                                        : cli_plan_decide(run.balancer, run.schedule, &run.problem,
                                                          memory, &run.answer, &reason);
    if (decided != STATUS_OK) error_set(err, decided, "%s", reason.message);
    if (decided == STATUS_INFEASIBLE && cli_has(arguments, "--json")) {
        write_infeasible(reason.message, out);
    }
    if (decided != STATUS_OK) return decided;
    if (!run.is_joint) {
        find_moves(memory, &run);
        plan = plan_of(&run);
    }
    const char *path = cli_value(arguments, "--output");
    if (path != NULL) TRY(write_plan(&plan, path, memory, err));
    if (run.is_joint) return STATUS_OK;
    (cli_has(arguments, "--json") ? write_json : write_text)(&run, out);
    return STATUS_OK;
}

const cli_command cli_command_plan = {
    .name = "plan",
    .synopsis = "--loads FILE.json|--trace RUN.db --stages P --balancer NAME [OPTION]...",
    .summary = "decides once which stage owns which layers",
    .description =
        "Reads what layers cost, asks one balancer, and prints the stages, the value of the "
        "objective beside a proven lower bound, and what moves from the plan in force.\n\n"
        "Balancers: even, parameters, parameters-legacy, tuned, partition, diffusion-published, "
        "diffusion-coded, diffusion, makespan, v-partition, interleaved-partition; "
        "balance/partition/DECISION.md says what each does.\n\n"
        "The loads file: {\"forward_ns\":[L], \"backward_input_ns\":[L], "
        "\"backward_weight_ns\":[L], \"parameters\":[L], \"state_bytes\":[L], "
        "\"activation_bytes\":[L], \"gradient_bytes\":[L], \"transfer_ns\":[L], "
        "\"embedding\":bool, \"head\":bool, \"stage_memory_bytes\":[P], \"stage_inflight\":[P], "
        "\"stage_time_factor\":[P], \"stage_fixed_ns\":[P], \"load_cap_ns\":n, "
        "\"current_first_layer\":[P+1]}; only forward_ns is needed always. Times are of one "
        "microbatch in whole ns. The load of a stage is stage_time_factor * sum of its layers + "
        "stage_fixed_ns, 0 if it owns none; its memory is sum of state_bytes + stage_inflight * "
        "sum of activation_bytes. With V chunks per rank P counts ranks, whose load and memory are "
        "the sums over their stages; first_layer and current_first_layer have P*V+1 entries.",
    .options =
        {
            {"--loads", "FILE.json",
             .help = "What layers and stages cost, or the output of dynmo model --json; - is "
                     "standard input."},
            {"--trace", "RUN.db",
             .help = "What the layers of a recorded trace cost: means over its samples, gaps of "
                     "the host included as replays charge them."},
            {"--iterations", "A:B",
             .help = "The iterations of --trace, both included. Default: all."},
            {"--stages", "P", .help = "Number of stages; with several chunks per rank, of ranks."},
            {"--balancer", "NAME", .help = "Who decides; see above."},
            {"--by", "WEIGHT",
             .help = "time, parameters, time+transfer (time, and the wait for the messages over "
                     "both cuts) or layers (1 each, 0 for embedding and head). Default: the "
                     "balancer's own."},
            {"--objective", "NAME",
             .help =
                 "bottleneck (the largest load; default), 1f1b-bound (largest of the loads before "
                 "a stage + M * its own) or moved-bytes (with every load within load_cap_ns). "
                 "partition and tuned minimise it, the others are measured by it."},
            {"--chunks", "V",
             .help = "Chunks per rank. Default: the schedule's own, or 2 where the balancer needs "
                     "several, else 1; with --schedule any 1 or 2, by default whichever is better. "
                     "In order (rank r owns stages r, P+r, ...) unless the schedule or v-partition "
                     "fold them (r and 2P-1-r)."},
            {"--schedule", "NAME",
             .help = "Schedule for --output and for makespan; any: makespan searches placement, "
                     "schedule and order of ops, too."},
            {"--microbatches", "M", .help = "Microbatches of an iteration."},
            {"--first-stage-backward", "HOW",
             .help = "split (default), or whole: the first stage, which sends no gradient, does B "
                     "and W at once, as PyTorch's pipelining does. The plan file says so."},
            {"--budget", "N",
             .help = "Work of --schedule any, in plays of an order. Default: 50000, fewer where an "
                     "order has more than 20000 ops."},
            {"--seed", "S", .help = "Seed of --schedule any. Default: 1."},
            {"--allow-empty-stages", .help = "Lets stages own no layer."},
            {"--max-iterations", "N",
             .help = "diffusion-published: the paper's max_iters. Default: until nothing moves."},
            {"--output", "PLAN.json", .is_output = true, .letter = 'o',
             .help = "Also writes the plan as dynmo-plan/1."},
            {"--json", .help = "Prints one line of JSON."},
        },
    .run = answer,
};
