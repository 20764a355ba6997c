/// Progress of a long command: one line on standard error, rewritten, if that is a terminal.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// Zero-initialise through cli_progress_begin.
typedef struct cli_progress {
    bool is_shown;
    const char *what; // borrowed
    int64_t total;
    int64_t done;
    int64_t begin_ns;
    int64_t last_shown_ns;
} cli_progress;

/// @param what  words in front of the numbers
/// @param total steps, >= 1
cli_progress cli_progress_begin(const char *what, int64_t total);

/// One step more. Writes steps, how many there were a second, and the time left by that, at
/// most ten times a second.
///
/// @param progress a cli_progress, as listeners have their context
void cli_progress_step(void *progress);

/// So many steps in all, for work that is counted in larger portions.
void cli_progress_reach(cli_progress *progress, int64_t done);

/// Takes the line away.
void cli_progress_end(cli_progress *progress);
