/// The plan that `dynmo export` writes for a framework: of a plan file, of a recorded run, or of a
/// point of a study.
#pragma once

#include "analysis/export/frameworks.h"
#include "balance/plan.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/command.h"
#include "traces/store/store.h"

typedef struct cli_exported_plan {
    bal_plan plan;
    ana_launch launch;   // of a point of a study; is_known false: of a plan alone
    double copied_ratio; // of a point that lies between the ways in which tokens go to experts: its
    double once_ratio;   // time with a copy for each expert, and with one for each GPU, over the
                         // predicted; else 0
    bool is_order;       // then there is only this:
    bal_schedule order;  // as it was written, not checked
} cli_exported_plan;

/// Reads the plan that the file holds, or is asked for with it:
/// - a plan file: that plan;
/// - a run store: the plan of --row in the newest complete run, or the run that --run names, at its
///   end, or at --iteration;
/// - a study: what its balancer decides for --point, at the end of the run.
///
/// @param takes_orders what has no schema is an order, as cli_schedule_order_read reads it
/// @param exported     carved from memory
/// @return STATUS_IO, STATUS_FORMAT; STATUS_INVALID naming the rows or points there are where none
///         or another is asked for; STATUS_UNSUPPORTED for a row whose layers leave the model
///         order; STATUS_INFEASIBLE for a point that cannot be, with the reason
status cli_exported_plan_read(const cli_arguments *arguments, const char *path, bool takes_orders,
                              arena *memory, cli_exported_plan *exported, error_message *err);

/// Reads the order of every rank: of a plan the one that is in it, or that its
/// schedule has; else what cli_schedule_order_read reads, checked. A searched schedule needs
/// --costs, a file of `dynmo schedule --costs`.
///
/// @param schedule   carved from memory
/// @param is_whole   out: the plan is for a first stage whose backward is whole
/// @return STATUS_IO, STATUS_FORMAT; STATUS_INVALID: a searched schedule without order and costs,
///         an order that cannot be played; what bal_schedule_build says
status cli_exported_order_read(const cli_arguments *arguments, const char *path, arena *memory,
                               bal_schedule *schedule, bool *is_whole, error_message *err);

/// Appends the recipe by which a job manager gets nodes back, of the run and row that the options
/// name.
status cli_write_recipe(const cli_arguments *arguments, trace_store *store, arena *memory,
                        text_buffer *out, error_message *err);
