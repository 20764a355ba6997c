#include "cli/spread_choice.h"

#include "cli/interrupt.h"

#include <inttypes.h>
#include <stdio.h>

enum { THREADS_MAX = 4096 };

status cli_spread_open(const cli_arguments *arguments, ana_spread **spread, error_message *err)
{
    ana_spread_options options = {0};
    TRY(cli_int(arguments, "--threads", 1, THREADS_MAX, ana_spread_core_count(),
                &options.thread_count, err));
    options.interrupt = cli_interrupt_catch();
    return ana_spread_open(&options, spread, err);
}

void cli_spread_close(ana_spread *spread, error_message *err)
{
    if (spread != NULL && err != NULL && !ana_spread_is_leader(spread)) err->message[0] = '\0';
    ana_spread_close(spread);
}

void cli_spread_tell(const ana_spread_report *report, const char *what)
{
    const double seconds = (double)report->elapsed_ns / 1e9;
    fprintf(stderr, "%" PRId64 " %s in %.1f s, %.0f a second, on %d thread%s", report->item_count,
            what, seconds, seconds > 0 ? (double)report->item_count / seconds : 0,
            report->thread_count, report->thread_count == 1 ? "" : "s");
    if (report->rank_count > 1) fprintf(stderr, " of %d ranks", report->rank_count);
    if (report->lost_rank_count > 0) {
        fprintf(stderr, "; %d rank%s lost, %" PRId64 " %s given to others", report->lost_rank_count,
                report->lost_rank_count == 1 ? " was" : "s were", report->repeated_item_count,
                what);
    }
    fputc('\n', stderr);
}
