/// `dynmo run` in parts: what is asked for, the study, what is trained, what came of it, and the
/// files that are written on the way.
#pragma once

#include "analysis/compare/agreement.h"
#include "analysis/study/setup.h"
#include "balance/plan.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/clock.h"
#include "exec/run/execution.h"
#include "exec/training/training_device.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLI_RUN_SLOW_MAX = 16, CLI_RUN_ITERATIONS_MAX = 10000000, CLI_RUN_DOCUMENTS_MAX = 1 << 26 };

/// The command line, checked. Strings are borrowed from it; NULL or 0: not given.
typedef struct cli_run_request {
    const char *path;         // a study or a plan
    const char *command_line; // all of it
    const char *device;       // "timed", "cpu", "cuda"
    const char *transport;    // "local", "mpi", "tcp", "nccl"
    exec_clock clock;
    bool learns;  // the device trains: not timed
    bool is_bf16; // cuda
    const char *row;
    const char *trace;
    const char *model;
    const char *hardware;
    const char *text;
    int iteration_count;
    int data_parallel;
    int warmup_count;    // iterations
    double tolerance;    // of the forecast's error, a fraction; 0: none
    bool needs_forecast; // the tolerance was asked for, and is no default
    const char *record;
    const char *store;
    const char *counts;
    int64_t watchdog_ns;
    bal_slow_rank slow_ranks[CLI_RUN_SLOW_MAX];
    int slow_rank_count;
    bool is_real_time;
    bool is_distributed; // ranks decide among themselves
} cli_run_request;

/// The study that is executed: read from a study file, or made around a plan file.
typedef struct cli_run_study {
    ana_study study; // of one row
    ana_setup setup;
    const ana_balancing *row;
    bal_plan plan; // of a plan file; rank_count 0: the balancer makes it
    bool has_plan;
} cli_run_study;

/// Opens it. A plan file needs --trace, or --model with --hardware where the device is told how
/// long ops take; it is then a study of these costs with the plan's schedule, whose plan stays.
/// With a device that trains, --model alone will do.
///
/// @param memory for strings, the plan and the study
/// @param opened must stay where it is
/// @return STATUS_IO, STATUS_FORMAT as the file's reader; STATUS_INVALID naming the option that is
///         missing, the row that is not there, or the plan's number of layers and that of the
///         costs; STATUS_UNSUPPORTED naming a key of the study that the device does not do
status cli_run_study_open(const cli_run_request *request, arena *memory, cli_run_study *opened,
                          error_message *err);

/// Reads what is trained: the transformer that the study's model describes, and the mechanism that
/// its "execution" names; of a model whose layers have experts that is mixture of experts.
///
/// @param text        out: path of the text to train on, borrowed from the request or carved from
///                    memory; NULL: none is named, and tokens are synthetic
/// @param token_bytes out: of a token of it
/// @return STATUS_UNSUPPORTED for a model that the executor has not; STATUS_FORMAT naming key,
///         value and limits
status cli_run_model_read(const cli_run_request *request, const cli_run_study *opened,
                          arena *memory, exec_model *model, const char **text, int *token_bytes,
                          error_message *err);

/// Packs the sequences of all iterations as the study's case `lengths` does; nothing where it has
/// another case or none.
///
/// @param model   out: packed_rows
/// @param packing out: arrays are carved from memory; untouched where nothing is packed
/// @return STATUS_UNSUPPORTED for a sequence that is longer than the model's, a mask over whole
///         microbatches, or more sequences than CLI_RUN_DOCUMENTS_MAX
status cli_run_packing_make(const cli_run_request *request, const cli_run_study *opened,
                            arena *memory, exec_model *model, exec_packing *packing,
                            error_message *err);

/// What came of experts that ranks share, over their blocks, microbatches and iterations. All but
/// rank_count zero at first.
typedef struct cli_run_experts {
    int rank_count;      // that share the experts of a block; 1: none do
    int64_t cell_count;  // F of a block that were added
    double token_ratios; // sum of: tokens of the busiest rank over its even share
    double time_ratios;  // sum of: what the busiest rank computes, without exchanges, over the mean
    int replica_count;
    int64_t *forward_ns;  // [replica_count] of blocks, with
    int64_t *exchange_ns; // [replica_count] exchanges of rows: most of it waiting for the busiest
} cli_run_experts;

/// @param memory of the arrays
void cli_run_experts_add(cli_run_experts *experts, const exec_measured *measured, arena *memory);

/// A member of the JSON object, or a line for people; nothing where no experts are shared.
void cli_run_experts_write(const cli_run_experts *experts, json_writer *writer);
void cli_run_experts_print(const cli_run_experts *experts, text_buffer *out);

/// What came of the run, iteration by iteration. Filled by the leader while it goes on.
typedef struct cli_run_outcome {
    const cli_run_request *request;
    const cli_run_study *opened;
    arena *scratch;
    int iteration_count; // told so far
    int iteration_max;
    arena *memory;         // of the arrays
    double *loss;          // [iteration_max] nats per token
    double *gradient_norm; // [iteration_max]
    int64_t *iteration_ns; // [iteration_max]
    uint64_t *plan_hash;   // [iteration_max] of the plan in force
    bool is_synthetic;     // no text was named, so tokens are
    uint64_t loss_hash;    // FNV-1a over the bits of losses and norms
    uint64_t state_hash;   // of the last iteration
    int64_t overhead_ns;   // sums over ranks and iterations
    int64_t wake_ns;
    int64_t latency_ns;
    int64_t op_count;
    int64_t message_count;
    int64_t clock_offset_ns;   // of another node, as last measured; 0: one clock
    int64_t clock_residual_ns; // by which it may be wrong, the largest
    cli_run_experts experts;
    ana_agreement agreement;
    ana_forecast forecast;         // of a device that trains, under a clock that measures
    int64_t forecast_migration_ns; // by the machine's links; the result has what was measured
    int64_t forecast_decision_ns;  // by the study's decision_ns
    int64_t replay_ns; // timed: of the whole run, as simulated by itself; -1: not simulated
    int replay_difference_count; // iterations whose length or plan is another
    int plan_difference_count;   // iterations whose plan is another
    bal_training_result result;
} cli_run_outcome;

/// @param memory of its arrays
void cli_run_outcome_init(cli_run_outcome *outcome, const cli_run_request *request,
                          const cli_run_study *opened, arena *memory);

/// Takes an iteration in.
status cli_run_outcome_add(cli_run_outcome *outcome, const exec_measured *iteration,
                           error_message *err);

/// Simulates the whole run by itself, decisions and all, and compares: for a device that was told
/// how long ops take.
status cli_run_outcome_replay(cli_run_outcome *outcome, const bal_training *training, arena *memory,
                              error_message *err);

/// Whether the run is compared with a forecast from its first warm iterations.
bool cli_run_has_forecast(const cli_run_request *request);

/// What the forecast came to: a member of the JSON object, or words for people.
void cli_run_forecast_write(const cli_run_outcome *outcome, json_writer *writer);
void cli_run_forecast_print(const cli_run_outcome *outcome, text_buffer *out);

/// @return STATUS_EXCEEDED if the error exceeds the tolerance; STATUS_UNDECIDED if one was asked
///         for and no iteration was forecast
status cli_run_forecast_check(const cli_run_outcome *outcome, error_message *err);

/// Appends one JSON object and a line end, or words for people.
void cli_run_outcome_write(const cli_run_outcome *outcome, text_buffer *out);
void cli_run_outcome_print(const cli_run_outcome *outcome, text_buffer *out);

/// The files that a run writes while it goes on: a trace of what every layer took (--record), the
/// run as `dynmo simulate --store` puts a simulated one (--store), loads of the mechanism
/// (--counts): the tokens of every expert as a study's case `moe` reads them, or the blocks of keys
/// that are met and that dense attention meets.
typedef struct cli_run_files cli_run_files;

/// Begins those that the request names.
///
/// @param model that is trained; NULL: none
/// @param files owned by the caller; ends with cli_run_files_finish, also on failure
/// @return what the stores refuse: a name that is taken, one that cannot be written; STATUS_INVALID
///         for --counts where the mechanism has none
status cli_run_files_begin(const cli_run_request *request, const cli_run_study *opened,
                           const exec_model *model, arena *memory, cli_run_files **files,
                           error_message *err);

/// Where the records of the iterations go: all zero without --store.
bal_record_sink cli_run_files_sink(cli_run_files *files);

/// Takes an iteration in: layer times of the first replica, a column per microbatch, of the first
/// and the last iteration also every op; tokens of the experts.
status cli_run_files_put(cli_run_files *files, const exec_measured *measured, error_message *err);

/// Ends the files; they are gone afterwards, also on failure.
///
/// @param result  of the run, not read where it failed
/// @param outcome of the run, with its message in err. Where it failed, what was recorded until
///                then stays and says so; nothing stays where there was no iteration
/// @return outcome; where that is STATUS_OK, what the files say
status cli_run_files_finish(cli_run_files *files, const bal_training_result *result, status outcome,
                            error_message *err);
