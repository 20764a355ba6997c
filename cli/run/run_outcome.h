/// What came of `dynmo run`, iteration by iteration, and how it is told.
#pragma once

#include "analysis/compare/agreement.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/run/run_request.h"
#include "cli/run/run_study.h"
#include "exec/run/execution.h"

#include <stdint.h>

/// Filled while the run goes on, by the leader.
typedef struct cli_run_outcome {
    const cli_run_request *request;
    const cli_run_study *opened;
    arena *scratch;
    int first_iteration; // of the run, behind a restart not 0
    int iteration_count; // told so far
    int iteration_max;
    double *loss;          // [iteration_max] nats per byte
    double *gradient_norm; // [iteration_max]
    int64_t *iteration_ns; // [iteration_max]
    uint64_t *plan_hash;   // [iteration_max] of the plan in force
    uint64_t loss_hash;    // FNV-1a over the bits of losses and norms
    uint64_t state_hash;   // of the last iteration
    int64_t overhead_ns;   // sums over ranks and iterations
    int64_t wake_ns;
    int64_t latency_ns;
    int64_t op_count;
    int64_t message_count;
    ana_agreement agreement;
    int64_t replay_ns; // timed: of the whole run, as simulated by itself; -1: not simulated
    int replay_difference_count; // iterations whose length or plan is another
    int plan_difference_count;   // iterations whose plan is another
    bal_training_result result;
} cli_run_outcome;

/// @param memory of its arrays
void cli_run_outcome_init(cli_run_outcome *outcome, const cli_run_request *request,
                          const cli_run_study *opened, arena *memory);
void cli_run_outcome_free(cli_run_outcome *outcome);

/// Takes an iteration in.
status cli_run_outcome_add(cli_run_outcome *outcome, const exec_measured *iteration,
                           error_message *err);

/// Simulates the whole run by itself, decisions and all, and compares: for a device that was told
/// how long ops take.
status cli_run_outcome_replay(cli_run_outcome *outcome, const bal_training *training, arena *memory,
                              error_message *err);

/// Appends one JSON object and a line end, or words for people.
void cli_run_outcome_write(const cli_run_outcome *outcome, text_buffer *out);
void cli_run_outcome_print(const cli_run_outcome *outcome, text_buffer *out);
