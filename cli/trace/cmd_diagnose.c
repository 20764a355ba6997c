/// `dynmo diagnose`: whether dynamic balancing is worth anything for the run in a trace.
#include "cli/commands.h"
#include "cli/option_values.h"
#include "cli/progress.h"

#include "analysis/diagnosis/diagnosis.h"
#include "base/json.h"
#include "models/cost/config.h"
#include "traces/store/catalog.h"

enum { ITERATION_MAX = 2000000000, STAGES_MAX = BAL_RANKS_MAX };

static status write_trace(json_writer *writer, const cli_arguments *arguments, error_message *err)
{
    int first = 0;
    TRY(cli_int(arguments, "--first", 0, ITERATION_MAX, -1, &first, err));
    json_put_object(writer, "trace");
    json_put_string(writer, "store", cli_operand(arguments, 0));
    if (cli_has(arguments, "--trace")) {
        json_put_string(writer, "name", cli_value(arguments, "--trace"));
    }
    if (first >= 0) json_put_int64(writer, "first_iteration", first);
    json_end_object(writer);
    return STATUS_OK;
}

static void write_dynamism(json_writer *writer, const ana_counted_run *counts)
{
    json_put_object(writer, "dynamism");
    json_put_string(writer, "case", "moe");
    json_put_object(writer, "counts");
    json_put_array(writer, "megatron");
    for (int stage = 0; stage < counts->stage_count; stage++) {
        json_begin_object(writer);
        json_put_int64(writer, "first_layer", counts->first_layer[stage]);
        json_put_array(writer, "files");
        for (int rank = 0; rank < counts->expert_parallel; rank++) {
            json_put_string(writer, NULL, counts->files[stage * counts->expert_parallel + rank]);
        }
        json_end_array(writer);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
    json_end_object(writer);
}

static status write_training(json_writer *writer, const cli_arguments *arguments,
                             const ana_counted_run *counts, error_message *err)
{
    int microbatches = counts != NULL ? counts->microbatch_count : 0;
    TRY(cli_int(arguments, "--microbatches", 1, BAL_MICROBATCHES_MAX, microbatches, &microbatches,
                err));
    json_put_object(writer, "training");
    if (counts != NULL) {
        json_put_int64(writer, "iterations", (int64_t)counts->last_iteration + 1);
        json_put_int64(writer, "data_parallel", counts->expert_parallel);
        json_put_int64(writer, "expert_parallel", counts->expert_parallel);
    }
    if (microbatches > 0) json_put_int64(writer, "microbatches", microbatches);
    json_end_object(writer);
    return STATUS_OK;
}

/// Ranks of a replica that ran the ops of the trace's first iteration; 0: it has no timeline.
static status recorded_ranks(trace_store *store, const char *name, arena *memory, int *ranks,
                             error_message *err)
{
    trace_info info;
    trace_op *ops = NULL;
    int count = 0;
    TRY(trace_find(store, name, memory, &info, err));
    TRY(trace_ops(store, info.trace_id, (int)info.first_iteration, memory, &ops, &count, err));
    *ranks = 0;
    for (int op = 0; op < count && ops[op].replica == 0; op++) {
        *ranks = ops[op].rank + 1; // those of the other replicas run the same stages
    }
    return STATUS_OK;
}

/// --stages, or as many as the trace was recorded on.
static status find_stages(const cli_arguments *arguments, bool is_counts, arena *memory,
                          int *stages, error_message *err)
{
    trace_store *store = NULL;
    TRY(cli_int(arguments, "--stages", 1, STAGES_MAX, 0, stages, err));
    if (*stages > 0) return STATUS_OK;
    if (is_counts) return cli_require(arguments, "--stages", err);
    TRY(trace_store_open(cli_operand(arguments, 0), TRACE_READ, &store, err));
    const status result =
        recorded_ranks(store, cli_value(arguments, "--trace"), memory, stages, err);
    trace_store_close(store);
    TRY(result);
    if (*stages > 1) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "--stages is needed: the trace does not say on how many ranks its layers ran");
}

/// What only counts need, or only traces have.
static status check_options(const cli_arguments *arguments, bool is_counts, error_message *err)
{
    static const char *const of_traces[] = {"--trace", "--first"};
    const char *of_trace = cli_first_given(arguments, of_traces, 2);
    if (is_counts && of_trace != NULL) {
        return error_set(err, STATUS_INVALID, "%s: counts of tokens (--model) are not in a store",
                         of_trace);
    }
    if (is_counts || !cli_has(arguments, "--trace-stages")) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "--trace-stages needs --model, and counts of tokens");
}

static status find_counts(const cli_arguments *arguments, arena *memory, ana_counted_run *counts,
                          error_message *err)
{
    model_config config;
    ana_counted_layout layout = {.stage_count = 1};
    TRY(model_config_open(cli_value(arguments, "--model"), NULL, memory, &config, err));
    if (config.expert_count == 0) {
        return error_set(err, STATUS_INVALID, "--model: %s has no experts",
                         cli_value(arguments, "--model"));
    }
    layout.layer_count = config.layer_count;
    layout.expert_count = config.expert_count;
    TRY(cli_int(arguments, "--trace-stages", 1, STAGES_MAX, 1, &layout.stage_count, err));
    return ana_counted_run_find(cli_operand(arguments, 0), &layout, memory, counts, err);
}

/// The study that the diagnosis is made of, on one line. The rows are JSON already; they take the
/// place of the closing brace.
///
/// @param counts NULL: a trace
static status write_study(const cli_arguments *arguments, const ana_counted_run *counts,
                          arena *memory, text_buffer *out, error_message *err)
{
    static const char *const endings[] = {".gz", ".db", ".jsonl"};
    char name[CLI_TRACE_NAME_BYTES];
    int stages = 0;
    json_writer of_study = json_writer_init(out);
    json_writer *writer = &of_study;
    const char *hardware =
        cli_value_or(arguments, "--hardware", counts != NULL ? "h100-sxm" : NULL);
    cli_trace_name(cli_operand(arguments, 0), endings, 3, name);
    json_begin_object(writer);
    json_put_string(writer, "schema", "dynmo-study/1");
    json_put_string(writer, "name", name);
    if (counts != NULL) {
        json_put_string(writer, "model", cli_value(arguments, "--model"));
        write_dynamism(writer, counts);
    } else {
        TRY(write_trace(writer, arguments, err));
    }
    if (hardware != NULL) json_put_string(writer, "hardware", hardware);
    TRY(write_training(writer, arguments, counts, err));
    TRY(find_stages(arguments, counts != NULL, memory, &stages, err));
    json_put_object(writer, "pipeline");
    json_put_int64(writer, "stages", stages);
    json_put_string(writer, "schedule", cli_value_or(arguments, "--schedule", "1f1b"));
    json_end_object(writer);
    text_format(out, ",\"balancing\":%s}", ana_diagnosis_rows);
    return STATUS_OK;
}

static status read_options(const cli_arguments *arguments, ana_diagnosis_options *options,
                           error_message *err)
{
    *options = ana_diagnosis_options_default();
    TRY(cli_share(arguments, "--worthwhile", 0, 100, &options->threshold_ratio, err));
    return cli_int64(arguments, "--layer-state", 1, INT64_C(1) << 50, &options->layer_state_bytes,
                     err);
}

/// What slowed the run, if its trace has the ops that it takes to say so, and they fit together;
/// otherwise *known is NULL.
static status find_stragglers(const cli_arguments *arguments, arena *memory,
                              const ana_stragglers **known, error_message *err)
{
    ana_stragglers *found = arena_array(memory, 1, sizeof *found);
    const status result = ana_stragglers_read(
        cli_operand(arguments, 0), cli_value(arguments, "--trace"), NULL, 0, memory, found, err);
    *known = result == STATUS_OK ? found : NULL;
    return result == STATUS_INVALID ? STATUS_OK : result;
}

static status diagnose_setup(const cli_arguments *arguments, bool is_counts, ana_setup *setup,
                             arena *memory, text_buffer *out, error_message *err)
{
    const char *store_path = is_counts ? NULL : cli_operand(arguments, 0);
    ana_diagnosis_options options;
    ana_diagnosis diagnosis;
    TRY(read_options(arguments, &options, err));
    if (!is_counts) TRY(find_stragglers(arguments, memory, &options.stragglers, err));
    cli_progress progress = cli_progress_begin(
        "iterations", (int64_t)setup->study->balancing_count * setup->iteration_count);
    const status result =
        ana_diagnose(setup, &options, cli_progress_step, &progress, memory, &diagnosis, err);
    cli_progress_end(&progress);
    TRY(result);
    if (cli_has(arguments, "--json")) {
        ana_diagnosis_write(&diagnosis, out);
    } else {
        ana_diagnosis_print(&diagnosis, store_path != NULL, out);
    }
    return STATUS_OK;
}

static status print_diagnosis(const cli_arguments *arguments, arena *memory, text_buffer *out,
                              error_message *err)
{
    const bool is_counts = cli_has(arguments, "--model");
    ana_counted_run counts;
    ana_study study;
    ana_setup setup;
    text_buffer text = {.memory = memory};
    TRY(check_options(arguments, is_counts, err));
    if (is_counts) TRY(find_counts(arguments, memory, &counts, err));
    TRY(write_study(arguments, is_counts ? &counts : NULL, memory, &text, err));
    TRY(ana_study_open_text("diagnose", text.bytes, "{}", memory, &study, err));
    if (!cli_has(arguments, "--schedule")) {
        model_assume(
            &study.inputs, "pipeline.schedule", MODEL_ORIGIN_ASSUMED, NULL,
            "1f1b, which every framework runs; that of simulate is zb-h1 where B and W are "
            "known");
    }
    TRY(ana_setup_open(&study, NULL, memory, &setup, err));
    return diagnose_setup(arguments, is_counts, &setup, memory, out, err);
}

const cli_command cli_command_diagnose = {
    .name = "diagnose",
    .synopsis = "TRACE [--stages P] [--schedule NAME] [--microbatches M] [--hardware NAME] "
                "[--model CONFIG] [--worthwhile X] [--json]",
    .summary = "says whether dynamic balancing is worth anything for a run",
    .description =
        "Reads how long the layers of a run took, iteration by iteration, and answers: worthwhile, "
        "not worthwhile, or undecidable from this trace and why. TRACE is a store (`dynmo import`, "
        "`dynmo run --record`) or, with --model, counts of tokens per expert: the folder that "
        "Megatron-LM's --save-tokens-per-expert-interval writes, or one of its files. The exit "
        "status is 0 for all three answers."
        "\n\n"
        "Below the verdict the page has the gains of policies that are replayed with their "
        "migrations paid, over the better of `even` and `tuned`, and of the best split that is "
        "kept; what is proven to be the most; whether data, layers or machines (where ops tell "
        "of them) are to be mended first; and the splits, with the commands that set one."
        "\n\n"
        "Worthwhile: the low end of the best policy's interval exceeds --worthwhile. Not "
        "worthwhile: the high end of the proven bound is below it, or that of the best policy, or "
        "of its gain over the best split that is kept. Undecidable: neither, fewer than 20 "
        "iterations, all layers alike to the ns, stages in place of layers, no gain with fewer "
        "than 4 recorded layers per stage, or a gain that hangs on bytes of state which the trace "
        "does not say.",
    .details =
        "Samples that are not of every iteration are taken for iterations of their own, a "
        "migration being paid once in as many iterations of the run as lie between two."
        "\n\n"
        "Counts need --model for the times of the layers and --stages for the pipeline that is "
        "asked about. Megatron's files are taken in the order of its ranks: those of a pipeline "
        "stage (--trace-stages of the run that wrote them) follow each other, and so do ranks that "
        "share experts.",
    .options =
        {
            {"--stages", "P",
             .help = "Pipeline stages. Default: the ranks that the trace was recorded on, if it "
                     "says so."},
            {"--schedule", "NAME",
             .help = "Schedule with one stage per rank, as in `dynmo schedule`. Default: 1f1b."},
            {"--microbatches", "M", .help = "Microbatches per iteration. Default: the trace's."},
            {"--hardware", "NAME",
             .help = "Hardware file or shipped preset, for links and memory. Default: the links of "
                     "h100-sxm and no memory limit; with counts h100-sxm."},
            {"--model", "CONFIG",
             .help = "Model of the counts, which TRACE then holds: a Hugging Face config.json or a "
                     "shipped one."},
            {"--trace", "NAME", .help = "Trace in the store. Default: the only or the newest one."},
            {"--first", "N",
             .help = "First iteration that counts; those before it are left out, as warm-up. "
                     "Default: the trace's first, or the second where most layers take 1.5 times "
                     "as long in the first."},
            {"--layer-state", "BYTES",
             .help = "Bytes of weights, gradients and optimizer of a layer, where the trace does "
                     "not say."},
            {"--trace-stages", "P",
             .help = "Pipeline stages of the run that wrote Megatron's files. Default: 1."},
            {"--worthwhile", "X",
             .help = "Gain in throughput over the better of `even` and `tuned` from which it is "
                     "worth the trouble, as a share or with %. Default: 1%."},
            {"--json", .help = "Prints one line of JSON (dynmo-diagnosis/1)."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = print_diagnosis,
};
