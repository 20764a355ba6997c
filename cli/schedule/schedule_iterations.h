/// `dynmo schedule --iterations`: one schedule many times, undisturbed and under many draws.
#pragma once

#include "balance/schedule/schedule.h"
#include "balance/stage_costs.h"
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
///         or where messages delay others; STATUS_NO_MEMORY
status cli_schedule_iterations_play(const cli_arguments *arguments,
                                    const cli_iterated_schedule *iterated, arena *memory,
                                    cli_schedule_iterations *iterations, error_message *err);

/// Adds the keys to an object that is open; none if iterations were not asked for.
void cli_schedule_iterations_json(const cli_schedule_iterations *iterations, json_writer *writer);

/// Adds the lines; none if iterations were not asked for.
void cli_schedule_iterations_text(const cli_schedule_iterations *iterations, text_buffer *out);
