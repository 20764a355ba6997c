#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int64_t show_every_ns = 100000000;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

cli_progress cli_progress_begin(const char *what, int64_t total)
{
    const char *terminal = getenv("TERM");
    const bool is_dumb = terminal != NULL && strcmp(terminal, "dumb") == 0;
    cli_progress progress = {
        .is_shown = isatty(STDERR_FILENO) && !is_dumb, .what = what, .total = total};
    if (progress.is_shown) progress.begin_ns = progress.last_shown_ns = now_ns();
    return progress;
}

static void print_time_left(double seconds)
{
    if (seconds < 120) {
        fprintf(stderr, "%.0f s left", seconds);
    } else if (seconds < 7200) {
        fprintf(stderr, "%.0f min left", seconds / 60);
    } else {
        fprintf(stderr, "%.1f h left", seconds / 3600);
    }
}

void cli_progress_step(void *progress)
{
    cli_progress *own = progress;
    cli_progress_reach(own, own->done + 1);
}

void cli_progress_reach(cli_progress *progress, int64_t done)
{
    progress->done = done;
    if (!progress->is_shown) return;
    const int64_t now = now_ns();
    if (now - progress->last_shown_ns < show_every_ns) return;
    progress->last_shown_ns = now;
    const double per_second = (double)done * 1e9 / (double)(now - progress->begin_ns);
    fprintf(stderr, "\r%s %" PRId64 "/%" PRId64 ", %.*f/s, ", progress->what, progress->done,
            progress->total, per_second < 10 ? 1 : 0, per_second);
    print_time_left((double)(progress->total - progress->done) / per_second);
    fputs("\033[K", stderr);
}

void cli_progress_end(cli_progress *progress)
{
    if (progress->is_shown) fputs("\r\033[K", stderr);
    progress->is_shown = false;
}
