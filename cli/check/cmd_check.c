/// `dynmo check`: a plan's prediction against a run, or a run against another. Each side is a run
/// or a trace in a store, or a plan or study whose run is predicted first.
#include "cli/commands.h"
#include "cli/option_values.h"
#include "cli/run/run.h"
#include "cli/version.h"

#include "analysis/check/check.h"
#include "analysis/check/observed.h"
#include "analysis/report/recording.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/training_replay.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/// Which run of which file.
typedef struct check_side {
    const char *option;      // "--plan" or "--measured", for messages
    cli_run_request request; // path: STORE.db, STORE.db:NAME, PLAN.json or STUDY.json
} check_side;

/// What a side names: the file, and the run in it.
typedef struct place {
    const char *path;
    const char *run; // NULL: the newest
    bool is_store;
    trace_store *store;
    bool is_trace; // of the store: one that is recorded
} place;

/// A store without runs, or without one of the name that is given, is read for its trace.
static status holds_trace(trace_store *store, const char *name, arena *memory, bool *is_trace,
                          error_message *err)
{
    trace_run_info *runs = NULL;
    trace_info *traces = NULL;
    trace_run_info run;
    trace_info trace;
    int run_count = 0;
    int trace_count = 0;
    TRY(trace_run_list(store, memory, &runs, &run_count, err));
    TRY(trace_list(store, memory, &traces, &trace_count, err));
    *is_trace = trace_count > 0 && run_count == 0;
    if (name != NULL && run_count > 0) {
        *is_trace = trace_run_find(store, name, memory, &run, NULL) != STATUS_OK &&
                    trace_find(store, name, memory, &trace, NULL) == STATUS_OK;
    }
    return STATUS_OK;
}

/// A file of the whole name, else of what stands before its last colon.
static status find_file(const check_side *side, arena *memory, place *found, error_message *err)
{
    *found = (place){.path = side->request.path};
    if (cli_is_store(side->request.path, &found->is_store, NULL) == STATUS_OK) return STATUS_OK;
    char *path = arena_string(memory, side->request.path);
    char *colon = strrchr(path, ':');
    if (colon != NULL) {
        *colon = '\0';
        if (cli_is_store(path, &found->is_store, NULL) == STATUS_OK && found->is_store) {
            found->path = path;
            found->run = colon + 1;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_IO, "%s %s: No such file", side->option, side->request.path);
}

static status find_place(const check_side *side, arena *memory, place *found, error_message *err)
{
    TRY(find_file(side, memory, found, err));
    if (!found->is_store) return STATUS_OK;
    TRY(trace_store_open_within(found->path, TRACE_READ, memory, &found->store, err));
    return holds_trace(found->store, found->run, memory, &found->is_trace, err);
}

/// Simulates the study with its decisions. @param peak_bytes [machine.rank_count] out
static status play_study(const cli_run_study *opened, bal_record_sink sink, arena *memory,
                         int64_t *peak_bytes, error_message *err)
{
    const bal_training training = ana_setup_training(&opened->setup, opened->row, sink);
    bal_training_result result;
    if (opened->has_plan) {
        return ana_plan_predict(&training, &opened->plan, memory, peak_bytes, err);
    }
    TRY(sim_training_replay(&training, NULL, memory, &result, err));
    memcpy(peak_bytes, result.peak_memory_bytes,
           (size_t)training.machine.rank_count * sizeof *peak_bytes);
    return STATUS_OK;
}

/// Plays it into a store.
static status record(const cli_run_study *opened, trace_store *store, arena *memory,
                     int64_t *peak_bytes, error_message *err)
{
    ana_recording *recording = NULL;
    TRY(ana_recording_begin(store, TRACE_RUN_SIM, &opened->setup, "dynmo check", DYNMO_VERSION,
                            memory, &recording, err));
    const ana_listener listener = ana_recording_listener(recording);
    status played = listener.begin_row(listener.sink.context, opened->row, err);
    if (played == STATUS_OK) played = play_study(opened, listener.sink, memory, peak_bytes, err);
    return ana_recording_finish(recording, NULL, played, err);
}

static status predict_opened(const check_side *side, const cli_run_study *opened, arena *memory,
                             ana_observed *observed, error_message *err)
{
    trace_store *store = NULL;
    int64_t *peak_bytes =
        arena_array(memory, (size_t)opened->setup.machine.rank_count, sizeof *peak_bytes);
    TRY(trace_store_open_memory(&store, err));
    status result = record(opened, store, memory, peak_bytes, err);
    if (result == STATUS_OK) result = ana_observed_read(store, NULL, NULL, memory, observed, err);
    trace_store_close(store);
    TRY(result);
    observed->peak_bytes = peak_bytes;
    observed->source =
        opened->has_plan ? arena_format(memory, "%.250s, the plan as simulated", side->request.path)
                         : arena_format(memory, "%.250s, predicted, row '%.80s'",
                                        side->request.path, observed->label);
    return STATUS_OK;
}

/// Simulates a plan or a study: of a study the row that is named (else what `dynmo run` would
/// execute) with its decisions; of a plan every iteration under that plan.
static status predict_side(const check_side *side, arena *memory, ana_observed *observed,
                           error_message *err)
{
    cli_run_study *opened = arena_array(memory, 1, sizeof *opened);
    TRY(cli_run_study_open(&side->request, memory, opened, err));
    return predict_opened(side, opened, memory, observed, err);
}

/// @param plan of the other side, for a trace: see ana_observed_read_trace
static status read_side(const check_side *side, const place *at, const bal_plan *plan,
                        arena *memory, ana_observed *observed, error_message *err)
{
    if (!at->is_store) return predict_side(side, memory, observed, err);
    return at->is_trace
               ? ana_observed_read_trace(at->store, at->run, plan, memory, observed, err)
               : ana_observed_read(at->store, at->run, side->request.row, memory, observed, err);
}

static status read_ignored(const cli_arguments *arguments, ana_check_options *options,
                           error_message *err)
{
    char name[40];
    char suggestion[TEXT_SUGGESTION_BYTES];
    for (const char *list = cli_value(arguments, "--ignore"); list != NULL && *list != '\0';) {
        const int length = (int)strcspn(list, ",");
        snprintf(name, sizeof name, "%.*s", length, list);
        const int group = text_find(name, ana_check_group_names, ANA_CHECK_GROUP_COUNT);
        if (group == ANA_CHECK_GROUP_COUNT) {
            return error_set(
                err, STATUS_INVALID, "--ignore: unknown '%s'%s", name,
                text_suggestion(name, ana_check_group_names, ANA_CHECK_GROUP_COUNT, suggestion));
        }
        options->ignores[group] = true;
        list += length + (list[length] == ',');
    }
    return STATUS_OK;
}

static status read_options(const cli_arguments *arguments, ana_check_options *options,
                           error_message *err)
{
    *options = ana_check_options_default();
    options->only_slower = cli_has(arguments, "--only-slower");
    TRY(cli_share(arguments, "--tolerance", 0, 1, &options->tolerance, err));
    TRY(cli_share(arguments, "--confidence", 0.5, 1, &options->confidence, err));
    TRY(cli_int(arguments, "--warmup", 0, 100000000, -1, &options->warmup, err));
    return read_ignored(arguments, options, err);
}

static status read_sides(const cli_arguments *arguments, check_side *plan, check_side *measured,
                         error_message *err)
{
    int iterations = 0;
    TRY(cli_require(arguments, "--plan", err));
    TRY(cli_require(arguments, "--measured", err));
    TRY(cli_int(arguments, "--iterations", 1, 100000000, 0, &iterations, err));
    // As `dynmo run` would open it on the device that is told how long ops take.
    *plan = (check_side){.option = "--plan",
                         .request = {.path = cli_value(arguments, "--plan"),
                                     .device = "timed",
                                     .transport = "local",
                                     .row = cli_value(arguments, "--row"),
                                     .trace = cli_value(arguments, "--trace"),
                                     .model = cli_value(arguments, "--model"),
                                     .hardware = cli_value(arguments, "--hardware"),
                                     .iteration_count = iterations}};
    *measured = *plan;
    measured->option = "--measured";
    measured->request.path = cli_value(arguments, "--measured");
    return STATUS_OK;
}

/// --row has to be a row of at least one side; the other may have a single one of another name.
static status check_row(const check_side *side, const ana_observed *planned,
                        const ana_observed *found, error_message *err)
{
    if (side->request.row == NULL || strcmp(side->request.row, planned->label) == 0 ||
        strcmp(side->request.row, found->label) == 0) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "--row: no row '%.60s'; --plan has '%.60s', --measured has '%.60s'",
                     side->request.row, planned->label, found->label);
}

/// The layers of a trace are summed up to the stages of the other side, which is read first.
static status read_both(const check_side *plan, const check_side *measured, arena *memory,
                        ana_observed *planned, ana_observed *found, error_message *err)
{
    place at_plan;
    place at;
    TRY(find_place(plan, memory, &at_plan, err));
    TRY(find_place(measured, memory, &at, err));
    if (at_plan.is_trace && !at.is_trace) {
        TRY(read_side(measured, &at, NULL, memory, found, err));
        TRY(read_side(plan, &at_plan, found->plans, memory, planned, err));
    } else {
        TRY(read_side(plan, &at_plan, NULL, memory, planned, err));
        TRY(read_side(measured, &at, at_plan.is_trace ? NULL : planned->plans, memory, found, err));
    }
    return check_row(plan, planned, found, err);
}

/// The report is out; what is left is the exit code. Only of what is undecided there is more to
/// say.
static status outcome_of(const ana_check *check, error_message *err)
{
    if (check->verdict == ANA_CHECK_AGREES) return STATUS_OK;
    if (check->verdict == ANA_CHECK_UNDECIDED) {
        return error_set(err, STATUS_UNDECIDED,
                         "undecided: these iterations do not tell whether the run departs");
    }
    if (err != NULL) err->message[0] = '\0';
    return STATUS_EXCEEDED;
}

static status run(const cli_arguments *arguments, arena *memory, text_buffer *out,
                  error_message *err)
{
    ana_check_options options;
    check_side plan;
    check_side measured;
    ana_observed planned;
    ana_observed found;
    ana_check *check = arena_array(memory, 1, sizeof *check);
    TRY(read_options(arguments, &options, err));
    TRY(read_sides(arguments, &plan, &measured, err));
    TRY(read_both(&plan, &measured, memory, &planned, &found, err));
    TRY(ana_check_compare(&planned, &found, &options, memory, check, err));
    (cli_has(arguments, "--json") ? ana_check_write : ana_check_print)(check, out);
    return outcome_of(check, err);
}

const cli_command cli_command_check = {
    .name = "check",
    .synopsis = "--plan P --measured RUN [--tolerance 5%] [--json] [OPTION...]",
    .summary = "checks a run against a plan's prediction or against another run",
    .description =
        "P and RUN are each a store with a run (STORE.db, or STORE.db:RUN by its number or name), "
        "simulated or executed; a store with a recorded trace, alone or named likewise; a study; "
        "or a plan file, whose costs --trace, or --model with --hardware, say. So a plan is "
        "checked against a run, a run against another, or a plan against another. Two traces are "
        "compared layer by layer; beside a run or plan a trace's layers are summed up to its "
        "stages; if they ran on other ranks only op times are compared."
        "\n\n"
        "Every quantity (iterations, ops, messages, ranks, order, memory, decisions) has an "
        "interval of its median change that supposes no distribution; it departs if the whole "
        "interval is beyond the tolerance. Says which departed first, and the most likely cause."
        "\n\n"
        "Exit code 0: nothing departs; 4: something does; 5: undecided, where the iterations' "
        "length "
        "is, with too few of them or too much noise, or where the run was interrupted; 2: wrong "
        "input. Runs of different layers, microbatches, stages, replicas "
        "or schedules are refused.",
    .options =
        {
            {"--plan", "P", .help = "What is expected: STORE.db[:RUN], PLAN.json or STUDY.json."},
            {"--measured", "RUN",
             .help = "What is checked: likewise. The newest complete run of a store, else the "
                     "newest."},
            {"--tolerance", "X",
             .help = "Largest change that agrees, in (0 %, 100 %): 5% or 0.05. Default: 5%."},
            {"--confidence", "X",
             .help = "That no quantity is wrongly said to depart, in [50 %, 100 %). Default: 95%."},
            {"--warmup", "N",
             .help = "Iterations to leave out at the begin. Default: until they are no longer "
                     "slower than the rest, at most 10 or a tenth."},
            {"--only-slower", .help = "What is faster, shorter or smaller than planned agrees."},
            {"--ignore", "LIST",
             .help = "Kinds that do not count, with commas: plan, order, op, message, outside, "
                     "busy, idle, iteration, decisions, memory."},
            {"--row", "LABEL", .help = "The row, where a side has several."},
            {"--trace", "TRACE.db",
             .help = "The trace that says how long the ops of a plan or study take."},
            {"--model", "CONFIG", .help = "Or the model, with --hardware."},
            {"--hardware", "NAME", .help = "Hardware file or preset."},
            {"--iterations", "N", .help = "Of a plan or study, instead of its own number."},
            {"--json",
             .help = "Prints one JSON object, dynmo-check/1, with all quantities, also those that "
                     "agree."},
        },
    .operand_min = 0,
    .operand_max = 0,
    .run = run,
};
