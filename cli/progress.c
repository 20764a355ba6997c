#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SHOW_EVERY_NS = 100000000, LOOK_EVERY = 64 };

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
    if (progress.is_shown) {
        progress.begun_ns = now_ns();
        progress.last_shown_ns = progress.begun_ns;
    }
    return progress;
}

void cli_progress_step(cli_progress *progress)
{
    progress->done++;
    if (!progress->is_shown || progress->done % LOOK_EVERY != 0) return;
    const int64_t now = now_ns();
    if (now - progress->last_shown_ns < SHOW_EVERY_NS) return;
    progress->last_shown_ns = now;
    const double seconds = (double)(now - progress->begun_ns) / 1e9;
    const double per_second = (double)progress->done / seconds;
    fprintf(stderr, "\r%s %" PRId64 "/%" PRId64 ", %.0f/s, %.0f s left\033[K", progress->what,
            progress->done, progress->total, per_second,
            (double)(progress->total - progress->done) / per_second);
}

void cli_progress_end(cli_progress *progress)
{
    if (progress->is_shown) fputs("\r\033[K", stderr);
    progress->is_shown = false;
}
