/// `dynmo export perfetto`: timelines of a recorded run for Perfetto or chrome://tracing.
#include "cli/commands.h"
#include "cli/trace/recorded_run.h"

#include "analysis/report/perfetto.h"

enum { ROWS_MAX = 64 };

/// The rows that the options name; else before and after.
static int choose_rows(const cli_arguments *arguments, const ana_recorded *recorded,
                       const char *labels[ROWS_MAX])
{
    int count = 0;
    for (const char *label; count < ROWS_MAX; count++) {
        label = cli_value_at(arguments, "--row", count);
        if (label == NULL) break;
        labels[count] = label;
    }
    if (count > 0) return count;
    const char *before = NULL;
    const char *after = NULL;
    ana_recorded_before_after(recorded, &before, &after);
    if (before != NULL) labels[count++] = before;
    if (after != NULL) labels[count++] = after;
    return count;
}

static status write_rows(const cli_arguments *arguments, trace_store *store,
                         const ana_recorded *recorded, arena *memory, text_buffer *out,
                         error_message *err)
{
    const char *labels[ROWS_MAX];
    const ana_timeline *chosen[ROWS_MAX];
    int iteration = -1;
    TRY(cli_int(arguments, "--iteration", 0, INT32_MAX, -1, &iteration, err));
    const int count = choose_rows(arguments, recorded, labels);
    ana_timeline *timelines = arena_array(memory, ROWS_MAX, sizeof *timelines);
    if (count == 0) return error_set(err, STATUS_INVALID, "the run holds no timeline");
    for (int row = 0; row < count; row++) {
        TRY(ana_recorded_timeline(store, recorded, labels[row], iteration, memory, &timelines[row],
                                  err));
        chosen[row] = &timelines[row];
    }
    return ana_perfetto_write(chosen, count, memory, out);
}

static status run(const cli_arguments *arguments, error_message *err)
{
    return cli_write_recorded(arguments, write_rows, err);
}

const cli_command cli_command_export_perfetto = {
    .name = "export perfetto",
    .synopsis = "RUN.db [--run NAME] [--row LABEL]... [--iteration N] [-o TRACE.json]",
    .summary = "writes recorded timelines for Perfetto",
    .description =
        "Writes timelines of a run that `dynmo simulate --store` or `dynmo run --store` recorded "
        "as a Chrome trace: a "
        "process per row of the comparison, a thread per rank with its layers, a slice per op, an "
        "arrow per message and a counter of activation bytes. Opens in the Perfetto UI and in "
        "chrome://tracing.",
    .options =
        {
            {.name = "--run",
             .argument = "NAME",
             .help = "The run by its name or number. Default: the newest."},
            {.name = "--row",
             .argument = "LABEL",
             .help = "A row of the comparison; may be given several times. Default: 'even' and the "
                     "fastest.",
             .may_repeat = true},
            {.name = "--iteration",
             .argument = "N",
             .help = "The iteration. Default: the last recorded."},
            {.name = "--output",
             .letter = 'o',
             .argument = "FILE",
             .help = "Where to write. Default: standard output."},
        },
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
