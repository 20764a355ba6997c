/// `dynmo schedule --iterations` and `--step`: one schedule many times, undisturbed and under many
/// draws; and how often it can begin anew, with a barrier at the optimizer's step or with
/// post-validation.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/command.h"
#include "sim/iteration_chain.h"
#include "sim/network.h"
#include "sim/policy.h"

#include <stdint.h>

/// What is played many times.
typedef struct cli_iterated_schedule {
    const bal_schedule *schedule;
    sim_policy policy;
    const sim_network *network;
    const bal_stage_costs *costs; // ones that sim_costs_check accepts
} cli_iterated_schedule;

/// What came of the iterations. The options say what is asked; with --iterations not given,
/// nothing.
typedef struct cli_schedule_iterations {
    sim_chain chain; // undisturbed; iteration_count 0: not asked
    int draw_count;  // 0: not asked
    int64_t seed;
    int64_t *total_ns; // [draw_count] of the whole chain, ascending
} cli_schedule_iterations;

/// Reads the options and plays.
///
/// @param memory of total_ns, too
/// @return STATUS_INVALID for an option outside its limits or without the one that it belongs to,
///         or iterations that take too long; STATUS_UNSUPPORTED under another policy than static,
///         or where messages delay others
status cli_schedule_iterations_play(const cli_arguments *arguments,
                                    const cli_iterated_schedule *iterated, arena *memory,
                                    cli_schedule_iterations *iterations, error_message *err);

/// Adds the keys to an object that is open; none if iterations were not asked for.
void cli_schedule_iterations_json(const cli_schedule_iterations *iterations, json_writer *writer);

/// Adds the lines; none if iterations were not asked for.
void cli_schedule_iterations_text(const cli_schedule_iterations *iterations, text_buffer *out);

/// How often an iteration can begin anew.
typedef struct cli_schedule_step {
    const char *name; // NULL: not asked
    int64_t period_ns;
} cli_schedule_step;

/// Plays iterations back to back (sim_iterations_find_period): the step itself takes no time, and a
/// norm as long as a message. Nothing where --step is not given.
///
/// @param iterated costs are ones that sim_costs_check accepts
/// @return STATUS_UNSUPPORTED for another policy than static and for messages that keep ranks busy
///         or share links; STATUS_INVALID for an unknown name, an order that cannot validate after
///         it the step, or more ns than SIM_ITERATIONS_NS_MAX
status cli_schedule_step_play(const cli_arguments *arguments, const cli_iterated_schedule *iterated,
                              arena *memory, cli_schedule_step *step, error_message *err);
