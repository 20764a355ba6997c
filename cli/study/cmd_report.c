/// `dynmo report`: a recorded run as one HTML page, or its timelines as SVG.
#include "cli/commands.h"

#include "analysis/report/recorded.h"
#include "analysis/report/report.h"
#include "analysis/stragglers/causes.h"

/// The last timelines of `even` and of the fastest row, as far as there are.
static void open_timelines(trace_store *store, const ana_recorded *recorded, arena *memory,
                           ana_timeline pair[2], ana_report *report)
{
    const char *before = NULL;
    const char *after = NULL;
    ana_recorded_before_after(recorded, &before, &after);
    if (before != NULL &&
        ana_recorded_timeline(store, recorded, before, -1, memory, &pair[0], NULL) == STATUS_OK) {
        report->before = &pair[0];
    }
    if (after != NULL && report->before != NULL &&
        ana_recorded_timeline(store, recorded, after, -1, memory, &pair[1], NULL) == STATUS_OK) {
        report->after = &pair[1];
    }
}

static status write_figure(const cli_arguments *arguments, const ana_report *report,
                           text_buffer *out, error_message *err)
{
    int figure = 0;
    TRY(cli_choice(arguments, "--figure", ana_figure_names, ANA_FIGURE_COUNT, 0, &figure, err));
    TRY(ana_report_figure(report, (ana_figure)figure, out, err));
    if (out->length > 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "the run holds nothing to draw as '%s'",
                     ana_figure_names[figure]);
}

/// The page of a trace of which every op was recorded: what `dynmo stragglers` says.
static status write_stragglers(const cli_arguments *arguments, arena *memory, text_buffer *out)
{
    const char *path = cli_operand(arguments, 0);
    ana_stragglers stragglers;
    TRY(ana_stragglers_read(path, NULL, NULL, 0, memory, &stragglers, NULL));
    ana_stragglers_page(&stragglers, path, out);
    return STATUS_OK;
}

static status write_report(const cli_arguments *arguments, trace_store *store, arena *memory,
                           text_buffer *out, error_message *err)
{
    ana_recorded recorded;
    ana_timeline pair[2];
    ana_report report = {.recorded = &recorded};
    const status opened =
        ana_recorded_open(store, cli_value(arguments, "--run"), memory, &recorded, err);
    const bool is_asked = cli_has(arguments, "--run") || cli_has(arguments, "--figure");
    if (opened != STATUS_OK && !is_asked && write_stragglers(arguments, memory, out) == STATUS_OK) {
        return STATUS_OK; // no run, but a trace of ops
    }
    TRY(opened);
    if (!json_is_missing(recorded.comparison)) {
        open_timelines(store, &recorded, memory, pair, &report);
    }
    return cli_has(arguments, "--figure") ? write_figure(arguments, &report, out, err)
                                          : ana_report_write(&report, out, err);
}

static status run(const cli_arguments *arguments, arena *memory, text_buffer *out,
                  error_message *err)
{
    trace_store *store = NULL;
    TRY(trace_store_open_within(cli_operand(arguments, 0), TRACE_READ, memory, &store, err));
    TRY(write_report(arguments, store, memory, out, err));
    return cli_write_output(arguments, out, err);
}

const cli_command cli_command_report = {
    .name = "report",
    .synopsis = "RUN.db [--run NAME] [--figure NAME] [-o FILE]",
    .summary = "writes a recorded run as an HTML page, or one of its pictures as SVG",
    .description =
        "Writes one HTML page with the comparison of a run that `dynmo simulate --store` or `dynmo "
        "run --store` recorded: timelines before and after balancing, bubble_ratio over the "
        "iterations, all that was printed, and where the run comes from. The page needs nothing "
        "else: no scripts, no fonts, no network. gnuplot draws the figures; without it they are "
        "left out. --figure writes one figure alone."
        "\n\n"
        "Of a what-if study that `dynmo study --store` kept: the answer in words, all points with "
        "the Pareto set, and the whole printed answer with its error bars."
        "\n\n"
        "Of a store without a run, but with a trace of which every op was recorded: what `dynmo "
        "stragglers` says, the slowest step as recorded, ideal and with the causes mended, and the "
        "heat map of the workers.",
    .options =
        {
            {"--run", "NAME", .help = "The run by its name or number. Default: the newest."},
            {"--figure", "NAME",
             .help = "Writes this picture instead: timeline or bubble; of a study pareto."},
            {"--output", "FILE", .is_output = true, .letter = 'o',
             .help = "Where to write. Default: standard output."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
