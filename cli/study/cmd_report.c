/// `dynmo report`: a recorded run as one HTML page, or its timelines as SVG.
#include "cli/commands.h"

#include "analysis/report/recorded.h"
#include "analysis/report/report.h"
#include "analysis/whatif/study_report.h"
#include "base/file.h"

#include <string.h>

/// The two timelines of the picture; after may stay unset.
typedef struct timeline_pair {
    ana_timeline before;
    ana_timeline after;
    bool has_before;
    bool has_after;
    const char *before_label; // of the rows, whether or not there are timelines
    const char *after_label;
} timeline_pair;

/// Takes what the options name, else `even` and the fastest row. Only what was asked for by name
/// must be there.
static status open_timelines(const cli_arguments *arguments, trace_store *store,
                             const ana_recorded *recorded, arena *memory, timeline_pair *pair,
                             error_message *err)
{
    const char *before = NULL;
    const char *after = NULL;
    int iteration = -1;
    TRY(cli_int(arguments, "--iteration", 0, INT32_MAX, -1, &iteration, err));
    ana_recorded_before_after(recorded, &before, &after);
    const bool named = cli_has(arguments, "--before") || cli_has(arguments, "--after") ||
                       (cli_has(arguments, "--svg") && !cli_has(arguments, "--figure")) ||
                       iteration >= 0;
    if (cli_has(arguments, "--before")) before = cli_value(arguments, "--before");
    if (cli_has(arguments, "--after")) after = cli_value(arguments, "--after");
    pair->before_label = before;
    pair->after_label = after;
    if (before != NULL) {
        const status found =
            ana_recorded_timeline(store, recorded, before, iteration, memory, &pair->before, err);
        if (found != STATUS_OK && named) return found;
        pair->has_before = found == STATUS_OK;
    }
    if (after != NULL && pair->has_before) {
        const status found =
            ana_recorded_timeline(store, recorded, after, iteration, memory, &pair->after, err);
        if (found != STATUS_OK && named) return found;
        pair->has_after = found == STATUS_OK;
    }
    return STATUS_OK;
}

static bool wants_figure(const cli_arguments *arguments)
{
    return cli_has(arguments, "--svg") || cli_has(arguments, "--figure");
}

static status write_figure(const cli_arguments *arguments, const ana_report *report,
                           text_buffer *out, error_message *err)
{
    const char *name = cli_value(arguments, "--figure");
    ana_figure figure = ANA_FIGURE_TIMELINE;
    for (; name != NULL && figure < ANA_FIGURE_COUNT; figure++) {
        if (strcmp(name, ana_figure_names[figure]) == 0) break;
    }
    if (figure == ANA_FIGURE_COUNT) {
        char suggestion[TEXT_SUGGESTION_BYTES];
        return error_set(err, STATUS_INVALID, "--figure: unknown figure '%.40s'%s", name,
                         text_suggestion(name, ana_figure_names, ANA_FIGURE_COUNT, suggestion));
    }
    TRY(ana_report_figure(report, figure, out, err));
    if (out->length > 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "the run holds nothing to draw as '%s'",
                     ana_figure_names[figure]);
}

static status write_page(const cli_arguments *arguments, trace_store *store,
                         const ana_recorded *recorded, arena *memory, text_buffer *out,
                         error_message *err)
{
    timeline_pair pair = {0};
    TRY(open_timelines(arguments, store, recorded, memory, &pair, err));
    const ana_timeline *before = pair.has_before ? &pair.before : NULL;
    const ana_timeline *after = pair.has_after ? &pair.after : NULL;
    const ana_report report = {
        .title = recorded->info.name,
        .comparison = recorded->comparison,
        .series = recorded->series,
        .series_count = recorded->series_count,
        .before = before,
        .after = after,
        .before_label = pair.before_label,
        .after_label = pair.after_label,
        .provenance = recorded->provenance,
        .provenance_count = recorded->provenance_count,
    };
    return wants_figure(arguments) ? write_figure(arguments, &report, out, err)
                                   : ana_report_write(&report, out, err);
}

/// The page of a what-if study.
static status write_study(const cli_arguments *arguments, const ana_recorded *recorded,
                          text_buffer *out, error_message *err)
{
    const ana_study_report report = {.answer = recorded->answer,
                                     .words = recorded->words,
                                     .provenance = recorded->provenance,
                                     .provenance_count = recorded->provenance_count};
    if (!wants_figure(arguments)) return ana_study_report_write(&report, out, err);
    return error_set(err, STATUS_INVALID, "of a what-if study there is only the whole page");
}

static status write_report(const cli_arguments *arguments, trace_store *store, arena *memory,
                           text_buffer *out, error_message *err)
{
    ana_recorded recorded;
    TRY(ana_recorded_open(store, cli_value(arguments, "--run"), memory, &recorded, err));
    const status result = recorded.answer != NULL
                              ? write_study(arguments, &recorded, out, err)
                              : write_page(arguments, store, &recorded, memory, out, err);
    ana_recorded_close(&recorded);
    return result;
}

static status run(const cli_arguments *arguments, error_message *err)
{
    const char *output = cli_value(arguments, "--output");
    trace_store *store = NULL;
    text_buffer out = {0};
    arena *memory = arena_create(1 << 20);
    status result = trace_store_open(cli_operand(arguments, 0), TRACE_READ, &store, err);
    if (result == STATUS_OK) result = write_report(arguments, store, memory, &out, err);
    if (result == STATUS_OK) {
        result = file_write(output != NULL ? output : "-", out.bytes, out.length, err);
    }
    text_free(&out);
    trace_store_close(store);
    arena_destroy(memory);
    return result;
}

const cli_command cli_command_report = {
    .name = "report",
    .synopsis = "RUN.db [--run NAME] [--before LABEL] [--after LABEL] [--iteration N] [--svg] "
                "[--figure NAME] "
                "[-o FILE]",
    .summary = "writes a recorded run as an HTML page, or its timelines as SVG",
    .description =
        "Writes one HTML page with the comparison of a run that `dynmo simulate --store` or `dynmo "
        "run --store` recorded: "
        "timelines before and after balancing, throughput, how much every rank works over the "
        "iterations as a heat map, the ranks in use where they change, bubble_ratio and imbalance "
        "over the iterations, where each speed-up comes from, the inputs and where they come from. "
        "The page needs nothing else: no scripts, no fonts, no network. gnuplot draws the figures; "
        "without it they are left out. --svg and --figure write one figure alone."
        "\n\n"
        "Of a what-if study that `dynmo study --store` kept: the answer in words, the best points "
        "with their error bars, all points with the Pareto set, and the whole printed answer.",
    .options =
        {
            {.name = "--run",
             .argument = "NAME",
             .help = "The run by its name or number. Default: the newest."},
            {.name = "--before",
             .argument = "LABEL",
             .help = "Row of the upper timeline. Default: 'even'."},
            {.name = "--after",
             .argument = "LABEL",
             .help = "Row of the lower timeline. Default: the fastest."},
            {.name = "--iteration",
             .argument = "N",
             .help = "Iteration of both timelines. Default: the last recorded."},
            {.name = "--svg", .help = "Writes only a picture, as SVG: that of the timelines."},
            {.name = "--figure",
             .argument = "NAME",
             .help = "Writes this picture instead: timeline, load (how much every rank works over "
                     "the iterations, as a heat map of the rows before and after), ranks (in use "
                     "over the iterations), throughput, bubble or imbalance."},
            {.name = "--output",
             .is_output = true,
             .letter = 'o',
             .argument = "FILE",
             .help = "Where to write. Default: standard output."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
