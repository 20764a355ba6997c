/// The study that `dynmo run` executes: read from a study file, or made around a plan file.
#pragma once

#include "analysis/study/setup.h"
#include "balance/plan.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"
#include "cli/run/run_request.h"

#include <stdbool.h>

typedef struct cli_run_study {
    ana_study study;
    ana_setup setup;
    const ana_balancing *row;
    bal_plan plan; // of a plan file; rank_count 0: the balancer makes it
    bool has_plan;
    bool is_set_up; // setup is open
} cli_run_study;

/// Opens it. A plan file needs --trace, or --model with --hardware where the device is told how
/// long ops take; it is then a study of these costs with the plan's schedule, whose plan stays.
/// With a device that learns, --model alone will do.
///
/// @param memory for strings, the plan and the study
/// @param opened must stay where it is; release with cli_run_study_close, also on failure
/// @return STATUS_IO, STATUS_FORMAT as the file's reader; STATUS_INVALID naming the option that is
///         missing, the row that is not there, or the plan's number of layers and that of the costs
status cli_run_study_open(const cli_run_request *request, arena *memory, cli_run_study *opened,
                          error_message *err);

void cli_run_study_close(cli_run_study *opened);
