/// `dynmo export`: plans, orders of ops, timelines and recorded runs for other programs.
#include "cli/commands.h"
#include "cli/export/exported_plan.h"
#include "cli/plan/plan_play.h"

#include "analysis/export/frameworks.h"
#include "analysis/report/recorded.h"
#include "analysis/report/timeline_file.h"
#include "balance/metrics.h"
#include "cli/schedule/schedule_costs.h"
#include "sim/pipeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SPECS_MAX = 1 << 20, ROWS_MAX = 64, FORMAT_OPTIONS_MAX = 12, SHOWN_STAGES = 32 };

/// Appends what the file of the format holds.
typedef status (*exporter)(const cli_arguments *arguments, arena *memory, text_buffer *out,
                           error_message *err);

static const char *path_of(const cli_arguments *arguments)
{
    return cli_operand(arguments, 1);
}

static status read_plan(const cli_arguments *arguments, arena *memory, cli_exported_plan *exported,
                        ana_export_how *how, error_message *err)
{
    TRY(cli_exported_plan_read(arguments, path_of(arguments), false, memory, exported, err));
    *how = (ana_export_how){.as_json = cli_has(arguments, "--json"),
                            .is_split_only = cli_has(arguments, "--split-only"),
                            .launch = exported->launch.is_known ? &exported->launch : NULL};
    return STATUS_OK;
}

/// What is refused in a plan is refused with its path in front.
static status in_plan(const cli_arguments *arguments, status made, error_message *err)
{
    return made == STATUS_OK ? STATUS_OK : error_prefix(err, made, "%s", path_of(arguments));
}

/// What one iteration of an order takes by --costs.
static status play_order(const cli_arguments *arguments, const bal_schedule *schedule,
                         bool is_whole, arena *memory, int64_t *makespan_ns, error_message *err)
{
    const cli_schedule_shape shape = {.rank_count = schedule->rank_count,
                                      .microbatch_count = bal_iteration_microbatch_count(schedule),
                                      .chunk_count = schedule->chunk_count,
                                      .placement = schedule->placement,
                                      .first_stage_whole = is_whole};
    cli_schedule_costs costs;
    sim_order order;
    bal_timeline timeline;
    TRY(cli_schedule_costs_read(cli_value(arguments, "--costs"), &shape, memory, &costs, err));
    TRY(sim_order_compile(schedule, memory, &order, err));
    sim_timeline_init(schedule, memory, &timeline);
    sim_order_play(&order, &costs.stages, NULL, &timeline);
    *makespan_ns = bal_metrics_of(&timeline).makespan_ns;
    return STATUS_OK;
}

/// Says what is predicted of the order as it was planned, and as it was written, read back.
static status print_prediction(const cli_arguments *arguments, const bal_schedule *planned,
                               bool is_whole, const text_buffer *csv, arena *memory,
                               error_message *err)
{
    bal_schedule written;
    int64_t makespan_ns[2] = {0};
    TRY(cli_schedule_order_parse("CSV", csv->bytes, csv->length, memory, &written, err));
    TRY(play_order(arguments, planned, is_whole, memory, &makespan_ns[0], err));
    TRY(play_order(arguments, &written, is_whole, memory, &makespan_ns[1], err));
    fprintf(stderr, "predicted makespan: %s as planned, %s as written\n",
            text_duration(makespan_ns[0]).text, text_duration(makespan_ns[1]).text);
    return STATUS_OK;
}

static status export_pytorch(const cli_arguments *arguments, arena *memory, text_buffer *out,
                             error_message *err)
{
    bal_schedule schedule;
    bool is_whole = false;
    TRY(cli_exported_order_read(arguments, path_of(arguments), memory, &schedule, &is_whole, err));
    if (is_whole && cli_has(arguments, "--exact")) {
        return error_set(err, STATUS_INVALID,
                         "--exact: %s is planned for a first stage whose backward is whole",
                         path_of(arguments));
    }
    TRY(ana_export_pytorch(&schedule, cli_has(arguments, "--exact"), out, err));
    if (!cli_has(arguments, "--costs")) return STATUS_OK;
    return print_prediction(arguments, &schedule, is_whole, out, memory, err);
}

/// Adds to a refusal the best that Megatron can play, where --loads or --trace say what layers
/// cost.
static status name_best(const cli_arguments *arguments, const bal_plan *plan, status made,
                        arena *memory, error_message *err)
{
    if (made != STATUS_UNSUPPORTED) return made;
    if (!cli_has(arguments, "--loads") && !cli_has(arguments, "--trace")) return made;
    if (cli_has(arguments, "--loads") && cli_has(arguments, "--trace")) {
        return error_set(err, STATUS_INVALID, "give one of --loads and --trace");
    }
    const error_message refusal = *err;
    text_buffer split = {.memory = memory};
    cli_plan_best best;
    TRY(cli_plan_best_of(arguments, plan, ana_megatron_schedule, memory, &best, err));
    for (int stage = 0; stage < best.stage_count && stage < SHOWN_STAGES; stage++) {
        text_format(&split, " %d", best.first_layer[stage + 1] - best.first_layer[stage]);
    }
    if (best.schedule == NULL)
        return error_set(err, made, "%s; it plays no split", refusal.message);
    return error_set(err, made,
                     "%.300s; Megatron's best is %s with %s and layers%s%s, %s beside %s of this "
                     "plan (--balancer makespan)",
                     refusal.message, best.schedule, text_count(best.chunk_count, "chunk").text,
                     split.bytes, best.stage_count > SHOWN_STAGES ? " ..." : "",
                     text_duration(best.makespan_ns).text, text_duration(best.plan_ns).text);
}

/// Says what is predicted of the dispatcher of tokens that is written, where the prediction is of
/// none.
static void print_dispatch(const cli_exported_plan *exported)
{
    const bool is_once = ana_launch_sends_once(&exported->launch);
    const double written = is_once ? exported->once_ratio : exported->copied_ratio;
    const double other = is_once ? exported->copied_ratio : exported->once_ratio;
    if (written <= 0 || other <= 0) return;
    fprintf(stderr,
            "dynmo: the prediction lies between two dispatchers of tokens: %s, which is written, "
            "takes %+.1f %%, %s %+.1f %% (training.expert_deduplication %d and %d)\n",
            is_once ? "deepep" : "alltoall", 100 * (written - 1), is_once ? "alltoall" : "deepep",
            100 * (other - 1), is_once, !is_once);
}

static status export_options(const cli_arguments *arguments, arena *memory, text_buffer *out,
                             error_message *err)
{
    const bool is_bridge = strcmp(cli_operand(arguments, 0), "megatron-bridge") == 0;
    cli_exported_plan exported;
    ana_export_how how;
    TRY(read_plan(arguments, memory, &exported, &how, err));
    const status made = is_bridge ? ana_export_bridge(&exported.plan, &how, memory, out, err)
                                  : ana_export_megatron(&exported.plan, &how, memory, out, err);
    if (made == STATUS_OK) print_dispatch(&exported);
    return in_plan(arguments, name_best(arguments, &exported.plan, made, memory, err), err);
}

static status export_deepspeed(const cli_arguments *arguments, arena *memory, text_buffer *out,
                               error_message *err)
{
    int before = 0;
    int after = 0;
    cli_exported_plan exported;
    ana_export_how how;
    TRY(cli_int(arguments, "--specs-before", 0, SPECS_MAX, 0, &before, err));
    TRY(cli_int(arguments, "--specs-after", 0, SPECS_MAX, 0, &after, err));
    TRY(read_plan(arguments, memory, &exported, &how, err));
    return in_plan(arguments,
                   ana_export_deepspeed(&exported.plan, before, after, &how, memory, out, err),
                   err);
}

static status export_torchtitan(const cli_arguments *arguments, arena *memory, text_buffer *out,
                                error_message *err)
{
    const char *csv = cli_value(arguments, "--csv");
    cli_exported_plan exported;
    ana_export_how how;
    TRY(read_plan(arguments, memory, &exported, &how, err));
    if (csv == NULL) csv = ANA_TORCHTITAN_CSV_DEFAULT;
    return in_plan(arguments, ana_export_torchtitan(&exported.plan, csv, &how, memory, out, err),
                   err);
}

/// The timelines of one or two stores.
typedef struct chosen_timelines {
    int count;
    const ana_timeline *timelines[2 * ROWS_MAX];
    int row_count; // of the first store
    const char *rows[ROWS_MAX];
} chosen_timelines;

/// The rows that the options name; else before and after, of a second store those of the first.
static int choose_rows(const cli_arguments *arguments, const ana_recorded *recorded,
                       const chosen_timelines *chosen, const char *labels[ROWS_MAX])
{
    int count = 0;
    for (const char *label; count < ROWS_MAX; count++) {
        label = cli_value_at(arguments, "--row", count);
        if (label == NULL) break;
        labels[count] = label;
    }
    if (count > 0) return count;
    if (chosen->row_count > 0) memcpy(labels, chosen->rows, sizeof chosen->rows);
    if (chosen->row_count > 0) return chosen->row_count;
    const char *before = NULL;
    const char *after = NULL;
    ana_recorded_before_after(recorded, &before, &after);
    if (before != NULL) labels[count++] = before;
    if (after != NULL) labels[count++] = after;
    return count;
}

/// Adds the rows of a run, each with the store in its name.
static status add_rows(const cli_arguments *arguments, trace_store *store,
                       const ana_recorded *recorded, arena *memory, chosen_timelines *chosen,
                       error_message *err)
{
    const char *labels[ROWS_MAX] = {0};
    int iteration = -1;
    TRY(cli_int(arguments, "--iteration", 0, INT32_MAX, -1, &iteration, err));
    if (json_is_missing(recorded->comparison)) {
        return error_set(err, STATUS_INVALID, "%s: run %" PRId64 " holds no comparison",
                         trace_store_path(store), recorded->info.run_id);
    }
    const int count = choose_rows(arguments, recorded, chosen, labels);
    ana_timeline *timelines = arena_array(memory, ROWS_MAX, sizeof *timelines);
    if (count == 0) return error_set(err, STATUS_INVALID, "the run holds no timeline");
    for (int row = 0; row < count; row++) {
        labels[row] = arena_string(memory, labels[row]);
        TRY(ana_recorded_timeline(store, recorded, labels[row], iteration, memory, &timelines[row],
                                  err));
        if (cli_has(arguments, "--beside")) {
            timelines[row].label =
                arena_format(memory, "%s, %s", labels[row], trace_store_path(store));
        }
        chosen->timelines[chosen->count++] = &timelines[row];
    }
    memcpy(chosen->rows, labels, sizeof labels);
    chosen->row_count = count;
    return STATUS_OK;
}

static status add_store(const cli_arguments *arguments, const char *path, const char *run,
                        arena *memory, chosen_timelines *chosen, error_message *err)
{
    trace_store *store = NULL;
    ana_recorded recorded;
    TRY(trace_store_open_within(path, TRACE_READ, memory, &store, err));
    TRY(ana_recorded_open(store, run, memory, &recorded, err));
    return add_rows(arguments, store, &recorded, memory, chosen, err);
}

static status export_perfetto(const cli_arguments *arguments, arena *memory, text_buffer *out,
                              error_message *err)
{
    chosen_timelines chosen = {.count = 0};
    const char *beside = cli_value(arguments, "--beside");
    TRY(add_store(arguments, path_of(arguments), cli_value(arguments, "--run"), memory, &chosen,
                  err));
    if (beside != NULL) TRY(add_store(arguments, beside, NULL, memory, &chosen, err));
    ana_perfetto_write(chosen.timelines, chosen.count, memory, out);
    return STATUS_OK;
}

static status export_recipe(const cli_arguments *arguments, arena *memory, text_buffer *out,
                            error_message *err)
{
    trace_store *store = NULL;
    TRY(trace_store_open_within(path_of(arguments), TRACE_READ, memory, &store, err));
    return cli_write_recipe(arguments, store, memory, out, err);
}

/// Of a plan that is in a run store or a study.
#define PLAN_OPTIONS "--run", "--row", "--iteration", "--point"

static const struct {
    const char *name;
    exporter write;
    const char *options[FORMAT_OPTIONS_MAX]; // that it takes besides --output
} formats[] = {
    {"perfetto", export_perfetto, {"--run", "--row", "--iteration", "--beside"}},
    {"pytorch", export_pytorch, {"--costs", "--exact", PLAN_OPTIONS}},
    {"megatron", export_options, {"--json", "--split-only", "--loads", "--trace", PLAN_OPTIONS}},
    {"megatron-bridge", export_options, {"--split-only", "--loads", "--trace", PLAN_OPTIONS}},
    {"deepspeed",
     export_deepspeed,
     {"--specs-before", "--specs-after", "--json", "--split-only", PLAN_OPTIONS}},
    {"torchtitan", export_torchtitan, {"--csv", "--json", PLAN_OPTIONS}},
    {"slurm-shrink", export_recipe, {"--run", "--row", "--gpus-per-node", "--gpus-per-rank"}},
    {"kubernetes-jobs", export_recipe, {"--run", "--row", "--gpus-per-node", "--gpus-per-rank"}},
    {"mig", export_recipe, {"--run", "--row"}},
};
enum { FORMAT_COUNT = (int)(sizeof formats / sizeof formats[0]) };

static bool takes(int format, const char *option)
{
    if (strcmp(option, "--output") == 0) return true;
    for (int known = 0; known < FORMAT_OPTIONS_MAX; known++) {
        const char *name = formats[format].options[known];
        if (name != NULL && strcmp(name, option) == 0) return true;
    }
    return false;
}

static status find_format(const cli_arguments *arguments, int *format, error_message *err)
{
    const char *wanted = cli_operand(arguments, 0);
    const char *names[FORMAT_COUNT];
    *format = -1;
    for (int index = 0; index < FORMAT_COUNT; index++) {
        names[index] = formats[index].name;
        if (strcmp(wanted, names[index]) == 0) *format = index;
    }
    if (*format < 0) {
        char suggestion[TEXT_SUGGESTION_BYTES];
        return error_set(err, STATUS_INVALID, "dynmo export: unknown format '%.40s'%s", wanted,
                         text_suggestion(wanted, names, FORMAT_COUNT, suggestion));
    }
    for (const cli_option *option = cli_command_export.options; option->name != NULL; option++) {
        if (!cli_has(arguments, option->name) || takes(*format, option->name)) continue;
        return error_set(err, STATUS_INVALID, "dynmo export %s: takes no %s", wanted, option->name);
    }
    return STATUS_OK;
}

static status run(const cli_arguments *arguments, arena *memory, text_buffer *out,
                  error_message *err)
{
    int format = 0;
    TRY(find_format(arguments, &format, err));
    TRY(formats[format].write(arguments, memory, out, err));
    return cli_write_output(arguments, out, err);
}

const cli_command cli_command_export = {
    .name = "export",
    .synopsis = "FORMAT PLAN.json|STUDY.json|RUN.db|ORDER [OPTION]... [-o FILE]",
    .summary = "writes plans, schedules and recorded runs for other programs",
    .description =
        "megatron: an array of bash with --num-layers, --pipeline-model-parallel-size and "
        "--pipeline-model-parallel-layout (core since 0.13): E is the embedding, t*<n> are n "
        "transformer layers, L is the loss, | stands between stages in model order. Megatron runs "
        "1f1b, with chunks interleaved-1f1b: another schedule or an order is refused but for "
        "--split-only, placement v always. megatron-bridge: the same as overrides of a recipe."
        "\n\n"
        "These, deepspeed, torchtitan and pytorch take a plan, a row of a recorded run with the "
        "plan that it ended with, or a point of a study: what its balancer decides, and with it "
        "degrees, batch, precision and recomputation."
        "\n\n"
        "deepspeed: a subclass of PipelineModule with the plan's stages. DeepSpeed counts every "
        "LayerSpec, also those that are no layer of the plan: say how many. torchtitan: "
        "module_fqns_per_model_part and what belongs to it, with the path of the CSV of the order."
        "\n\n"
        "pytorch: that CSV (compute_only): a row per rank, a cell per op, as 0F3: the stage in "
        "model order, F, I (input gradient), W (weight gradient) or B (both), and the microbatch; "
        "overlapped pairs as (0F7;7B3)OVERLAP_F_B. Reads a plan, or an order alone, as `dynmo "
        "schedule --json` prints it."
        "\n\n"
        "perfetto: timelines of a run that `dynmo simulate --store` or `dynmo run --store` "
        "recorded, as a Chrome trace: a process per row, a thread per rank.",
    .details =
        "slurm-shrink: a script that gives nodes of a running Slurm job back as re-packing "
        "releases them, and runs the training command once per size of the job, from checkpoint to "
        "checkpoint; its head says how. kubernetes-jobs: the same as one Indexed Job per size: "
        "bash RECIPE.sh NAME IMAGE COMMAND [ARGUMENT]... mig: the same on one node whose ranks are "
        "MIG instances. A study whose re-packing has \"unit\": \"node\" releases whole nodes.",
    .options =
        {
            {"--json",
             .help = "megatron, deepspeed, torchtitan: writes the settings as an object instead."},
            {"--split-only",
             .help = "megatron, megatron-bridge, deepspeed: the layers of the stages of a plan "
                     "whose schedule or order the framework does not run."},
            {"--loads", "FILE.json",
             .help = "megatron, megatron-bridge: what layers cost, as of `dynmo plan`. The refusal "
                     "of a plan that Megatron cannot play then names the best that it can."},
            {"--trace", "RUN.db", .help = "The same, of a recorded trace."},
            {"--point", "N",
             .help = "Of a study: the point, as `dynmo study` numbers it. Default: the only one."},
            {"--exact",
             .help = "pytorch: writes I and W of the first stage as they are. PyTorch skips I "
                     "there and does the whole backward in W; by default B stands in I's place."},
            {"--costs", "FILE",
             .help = "pytorch: costs as of `dynmo schedule`, by which the makespan is predicted on "
                     "standard error, as planned and as PyTorch runs it; a plan with a searched "
                     "schedule and no order needs them."},
            {"--specs-before", "N",
             .help = "deepspeed: LayerSpecs in front of the plan's first layer; they go to stage "
                     "0. Default: 0."},
            {"--specs-after", "N",
             .help = "deepspeed: LayerSpecs after the plan's last layer; they go to the last "
                     "stage. Default: 0."},
            {"--csv", "PATH",
             .help = "torchtitan: where the training finds the CSV. "
                     "Default: " ANA_TORCHTITAN_CSV_DEFAULT "."},
            {"--beside", "RUN.db",
             .help = "perfetto: adds the same rows of the newest complete run of another store, as "
                     "what was predicted beside what was measured."},
            {"--run", "NAME",
             .help = "Of a run store: the run by its name or number. Default: the newest complete "
                     "one."},
            {"--row", "LABEL",
             .help = "A row of the comparison. Default: the only one. perfetto: may be given "
                     "several times; default: 'even' and the fastest.",
             .may_repeat = true},
            {"--iteration", "N", .help = "Of a run store: the iteration. Default: the last."},
            {"--gpus-per-node", "N",
             .help = "slurm-shrink, kubernetes-jobs: GPUs of a node. Default: as the run was "
                     "simulated."},
            {"--gpus-per-rank", "G",
             .help = "slurm-shrink, kubernetes-jobs: GPUs of a rank of the pipeline. Default: as "
                     "the run was simulated, else 1."},
            {"--output", "FILE", .is_output = true, .letter = 'o',
             .help = "Where to write. Default: standard output."},
        },
    .operand_min = 2,
    .operand_max = 2,
    .run = run,
};
