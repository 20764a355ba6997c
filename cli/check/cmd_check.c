/// `dynmo check`: a plan's prediction against a run, or a run against another.
#include "cli/check/check_side.h"
#include "cli/commands.h"
#include "cli/output.h"

#include "analysis/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// A share as people write it: "5%" or "0.05".
static status read_share(const cli_arguments *arguments, const char *option, double low,
                         double high, double *share, error_message *err)
{
    const char *given = cli_value(arguments, option);
    char number[64];
    double value = 0;
    if (given == NULL) return STATUS_OK;
    const size_t length = strlen(given);
    const bool is_percent = length > 0 && given[length - 1] == '%';
    if (length >= sizeof number) {
        return error_set(err, STATUS_INVALID, "%s: '%.60s...' is no number", option, given);
    }
    memcpy(number, given, length + 1);
    if (is_percent) number[length - 1] = '\0';
    TRY(text_parse_double(number, option, -1e9, 1e9, &value, err));
    if (is_percent) value /= 100;
    if (!(value >= low && value < high) || value <= 0) {
        return error_set(err, STATUS_INVALID,
                         "%s %s is outside %s%g %%, %g %%); 5%% and 0.05 are "
                         "the same",
                         option, given, low > 0 ? "[" : "(", low * 100, high * 100);
    }
    *share = value;
    return STATUS_OK;
}

static status read_ignored(const cli_arguments *arguments, ana_check_options *options,
                           error_message *err)
{
    char name[40];
    char suggestion[TEXT_SUGGESTION_BYTES];
    for (const char *list = cli_value(arguments, "--ignore"); list != NULL && *list != '\0';) {
        const int length = (int)strcspn(list, ",");
        int group = 0;
        snprintf(name, sizeof name, "%.*s", length, list);
        while (group < ANA_CHECK_GROUP_COUNT && strcmp(name, ana_check_group_names[group]) != 0) {
            group++;
        }
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
    TRY(read_share(arguments, "--tolerance", 0, 1, &options->tolerance, err));
    TRY(read_share(arguments, "--confidence", 0.5, 1, &options->confidence, err));
    TRY(cli_int(arguments, "--warmup", 0, 100000000, -1, &options->warmup, err));
    return read_ignored(arguments, options, err);
}

static status read_sides(const cli_arguments *arguments, cli_check_side *plan,
                         cli_check_side *measured, error_message *err)
{
    const char *row = cli_value(arguments, "--row");
    int iterations = 0;
    TRY(cli_require(arguments, "--plan", err));
    TRY(cli_require(arguments, "--measured", err));
    TRY(cli_int(arguments, "--iterations", 1, 100000000, 0, &iterations, err));
    *plan = (cli_check_side){.option = "--plan",
                             .path = cli_value(arguments, "--plan"),
                             .row = row,
                             .trace = cli_value(arguments, "--trace"),
                             .model = cli_value(arguments, "--model"),
                             .hardware = cli_value(arguments, "--hardware"),
                             .iteration_count = iterations};
    *measured = *plan;
    measured->option = "--measured";
    measured->path = cli_value(arguments, "--measured");
    return STATUS_OK;
}

/// --row has to be a row of at least one side; the other may have a single one of another name.
static status check_row(const cli_check_side *side, const ana_observed *planned,
                        const ana_observed *found, error_message *err)
{
    if (side->row == NULL || strcmp(side->row, planned->label) == 0 ||
        strcmp(side->row, found->label) == 0) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "--row: no row '%.60s'; --plan has '%.60s', --measured has '%.60s'", side->row,
                     planned->label, found->label);
}

/// The layers of a trace are summed up to the stages of the other side, which is read first.
static status read_both(const cli_check_side *plan, const cli_check_side *measured, arena *memory,
                        ana_observed *planned, ana_observed *found, error_message *err)
{
    bool is_plan_trace = false;
    bool is_trace = false;
    TRY(cli_check_side_is_trace(plan, memory, &is_plan_trace, err));
    TRY(cli_check_side_is_trace(measured, memory, &is_trace, err));
    if (is_plan_trace && !is_trace) {
        TRY(cli_check_side_read(measured, NULL, memory, found, err));
        TRY(cli_check_side_read(plan, found->plans, memory, planned, err));
    } else {
        TRY(cli_check_side_read(plan, NULL, memory, planned, err));
        TRY(cli_check_side_read(measured, is_plan_trace ? NULL : planned->plans, memory, found,
                                err));
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

static status tell(const cli_arguments *arguments, const ana_check *check, error_message *err)
{
    text_buffer out = {0};
    if (cli_has(arguments, "--json")) {
        ana_check_write(check, &out);
    } else {
        ana_check_print(check, &out);
    }
    const status printed = cli_print(&out, err);
    text_free(&out);
    return printed == STATUS_OK ? outcome_of(check, err) : printed;
}

static status check_in(const cli_arguments *arguments, arena *memory, error_message *err)
{
    ana_check_options options;
    cli_check_side plan;
    cli_check_side measured;
    ana_observed planned;
    ana_observed found;
    ana_check *check = arena_array(memory, 1, sizeof *check);
    TRY(read_options(arguments, &options, err));
    TRY(read_sides(arguments, &plan, &measured, err));
    TRY(read_both(&plan, &measured, memory, &planned, &found, err));
    TRY(ana_check_compare(&planned, &found, &options, memory, check, err));
    return tell(arguments, check, err);
}

static status run(const cli_arguments *arguments, error_message *err)
{
    arena *memory = arena_create(1 << 20);
    const status result = check_in(arguments, memory, err);
    arena_destroy(memory);
    return result;
}

const cli_command cli_command_check = {
    .name = "check",
    .synopsis = "--plan P --measured RUN [--tolerance 5%] [--json] [OPTION...]",
    .summary = "checks a run against a plan's prediction or against another run",
    .description =
        "P and RUN are each a store with a run (STORE.db, or STORE.db:RUN by its number or name), "
        "simulated or executed; a store with a recorded trace, alone or named likewise; a study; "
        "or a plan file, "
        "whose costs --trace, or --model with --hardware, say. So a plan is checked against a run, "
        "a run against another, or a plan against another. Two traces are compared layer by layer; "
        "beside a run or plan a trace's layers are summed up to its stages."
        "\n\n"
        "Every quantity (iterations, ops, messages, ranks, order, memory, decisions) has an "
        "interval of its median change that supposes no distribution; it departs if the whole "
        "interval is beyond the tolerance. Says which departed first, and the most likely cause."
        "\n\n"
        "Exit code 0: nothing departs; 4: something does; 5: undecided, with too few iterations or "
        "too much noise; 2: wrong input. Runs of different layers, microbatches, stages, replicas "
        "or schedules are refused.",
    .options =
        {
            {.name = "--plan",
             .argument = "P",
             .help = "What is expected: STORE.db[:RUN], PLAN.json "
                     "or STUDY.json."},
            {.name = "--measured",
             .argument = "RUN",
             .help = "What is checked: likewise. The newest complete run of a store, else the "
                     "newest."},
            {.name = "--tolerance",
             .argument = "X",
             .help = "Largest change that agrees, in (0 %, 100 %): 5% or 0.05. Default: 5%."},
            {.name = "--confidence",
             .argument = "X",
             .help = "That no quantity is wrongly said to depart, in [50 %, 100 %). Default: 95%."},
            {.name = "--warmup",
             .argument = "N",
             .help = "Iterations to leave out at the begin. Default: until they are no longer "
                     "slower than the rest, at most a third."},
            {.name = "--only-slower",
             .help = "What is faster, shorter or smaller than planned agrees."},
            {.name = "--ignore",
             .argument = "LIST",
             .help = "Kinds that do not count, with commas: plan, order, op, message, outside, "
                     "busy, idle, iteration, decisions, memory."},
            {.name = "--row", .argument = "LABEL", .help = "The row, where a side has several."},
            {.name = "--trace",
             .argument = "TRACE.db",
             .help = "The trace that says how long the ops of a plan or study take."},
            {.name = "--model", .argument = "CONFIG", .help = "Or the model, with --hardware."},
            {.name = "--hardware", .argument = "NAME", .help = "Hardware file or preset."},
            {.name = "--iterations",
             .argument = "N",
             .help = "Of a plan or study, instead of its own number."},
            {.name = "--json",
             .help = "Prints one JSON object, dynmo-check/1, with all quantities, also those that "
                     "agree."},
        },
    .operand_min = 0,
    .operand_max = 0,
    .run = run,
};
