#include "cli/spread_choice.h"

#include "analysis/spread/spread_carrier.h"
#include "base/loadable.h"
#include "cli/interrupt.h"
#include "cli/launcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS_MAX = 4096 };

/// Joins the processes of the launcher; *carrier stays NULL where this is the only one.
static status join_others(ana_carrier **carrier, error_message *err)
{
    const loadable *module = NULL;
    const int count = cli_launched_count(NULL);
    if (count == 1) return STATUS_OK;
    const status code = loadable_open("spread", &module, err);
    if (code != STATUS_OK) {
        return error_prefix(err, code, "started as one of %d processes", count);
    }
    const ana_carrier_module *table = module->table;
    return table->open(carrier, err);
}

status cli_spread_open(const cli_arguments *arguments, ana_spread **spread, error_message *err)
{
    ana_spread_options options = {0};
    TRY(cli_int(arguments, "--threads", 1, THREADS_MAX, 0, &options.thread_count, err));
    TRY(join_others(&options.carrier, err));
    if (options.thread_count == 0) {
        options.thread_count =
            options.carrier != NULL ? options.carrier->core_count : ana_spread_core_count();
    }
    options.interrupt = cli_interrupt_catch();
    return ana_spread_open(&options, spread, err);
}

void cli_spread_close(ana_spread *spread, error_message *err)
{
    if (spread != NULL && err != NULL && !ana_spread_is_speaker(spread)) err->message[0] = '\0';
    ana_spread_close(spread);
}

static void begin_progress(void *context, int64_t item_count)
{
    cli_progress *progress = context;
    if (item_count > 0) *progress = cli_progress_begin(progress->what, item_count);
}

static void step_progress(void *context)
{
    cli_progress_step(context);
}

static void end_progress(void *context)
{
    cli_progress_end(context);
}

void cli_spread_watch(ana_spread *spread, const char *what, cli_progress *progress)
{
    *progress = (cli_progress){.what = what};
    ana_spread_watch(spread, &(ana_watcher){.context = progress,
                                            .begin = begin_progress,
                                            .step = step_progress,
                                            .end = end_progress});
}

void cli_spread_tell(const ana_spread_report *report, const char *what)
{
    if (report->rank_count == 1 && !isatty(STDERR_FILENO)) return;
    const double seconds = (double)report->elapsed_ns / 1e9;
    const int64_t done_count = report->item_count - report->recalled_item_count;
    if (report->recalled_item_count > 0) {
        fprintf(stderr, "%" PRId64 " %s from the store, ", report->recalled_item_count, what);
    }
    fprintf(stderr, "%" PRId64 " %s in %.1f s, %.0f a second, on %d thread%s", done_count, what,
            seconds, seconds > 0 ? (double)done_count / seconds : 0, report->thread_count,
            report->thread_count == 1 ? "" : "s");
    if (report->rank_count > 1) fprintf(stderr, " of %d ranks", report->rank_count);
    if (report->lost_rank_count > 0) {
        fprintf(stderr, "; %d rank%s lost, %" PRId64 " %s given to others", report->lost_rank_count,
                report->lost_rank_count == 1 ? " was" : "s were", report->repeated_item_count,
                what);
    }
    fputc('\n', stderr);
}
