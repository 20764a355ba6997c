/// What `dynmo run` is asked for: its command line, checked.
#pragma once

#include "balance/training.h"
#include "base/status.h"
#include "cli/command.h"
#include "exec/clock.h"
#include "exec/execution.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLI_RUN_SLOW_MAX = 16 };

/// Strings are borrowed from the command line; NULL or 0: not given.
typedef struct cli_run_request {
    const char *path;      // a study or a plan
    const char *device;    // "timed", "cpu", "cuda"
    const char *transport; // "local", "mpi", "nccl"
    exec_clock clock;
    bool learns;    // the device trains: not timed
    bool uses_blas; // cpu: products by OpenBLAS
    bool is_bf16;   // cuda
    const char *row;
    const char *trace;
    const char *model;
    const char *hardware;
    const char *text;
    int iteration_count;
    int data_parallel;
    int64_t time_scale_ppb; // 10^9: durations as they are
    const char *record;
    const char *store;
    const char *counts;
    const char *checkpoint;
    int checkpoint_every; // iterations
    const char *restart;
    int64_t watchdog_ns;
    bal_slow_rank slow_ranks[CLI_RUN_SLOW_MAX];
    int slow_rank_count;
    exec_slow_link slow_links[CLI_RUN_SLOW_MAX];
    int slow_link_count;
    bool is_real_time;
    bool is_distributed; // ranks decide among themselves
} cli_run_request;

/// The options of the command, for its table.
#define CLI_RUN_OPTIONS                                                                            \
    {"--device", 0, "D", "timed, cpu or cuda: what an op does; default timed", false},             \
        {"--transport", 0, "T",                                                                    \
         "local (threads of one process), mpi (under mpirun or srun) or nccl (a rank per GPU); "   \
         "default local",                                                                          \
         false},                                                                                   \
        {"--clock", 0, "C",                                                                        \
         "nominal (deadlines travel with the messages, nobody waits), queue (an op begins at the " \
         "deadline of the one before, as in a GPU's queue) or real; default nominal for timed, "   \
         "real else",                                                                              \
         false},                                                                                   \
        {"--row", 0, "LABEL",                                                                      \
         "the entry of the study's balancing to run; default the first that decides", false},      \
        {"--trace", 0, "TRACE.db", "the trace that says how long ops take (timed)", false},        \
        {"--model", 0, "CONFIG",                                                                   \
         "config.json or shipped name: what is trained (cpu, cuda), or what says how long ops "    \
         "take (timed, with --hardware)",                                                          \
         false},                                                                                   \
        {"--hardware", 0, "NAME", "hardware file or preset, with --model", false},                 \
        {"--text", 0, "FILE", "text to train on, as bytes (cpu, cuda)", false},                    \
        {"--iterations", 0, "N", "instead of the study's number", false},                          \
        {"--data-parallel", 0, "D", "replicas of the pipeline, instead of the study's number",     \
         false},                                                                                   \
        {"--time-scale", 0, "X", "durations times X, in [0.000001, 1000]; default 1 (timed)",      \
         false},                                                                                   \
        {"--slow", 0, "RANK=X",                                                                    \
         "makes all ops of a rank take X times as long, X in [1, 1000], to see what follows "      \
         "(timed, cpu); may be given several times",                                               \
         true},                                                                                    \
        {"--slow-link", 0, "A-B=US",                                                               \
         "makes messages between ranks A and B travel so many microseconds longer (timed, cpu); "  \
         "may be given several times",                                                             \
         true},                                                                                    \
        {"--precision", 0, "P", "fp32 or bf16 (cuda); default fp32", false},                       \
        {"--blas", 0, NULL, "products of matrices by OpenBLAS (cpu)", false},                      \
        {"--record", 0, "TRACE.db", "records what layers took, as a trace that simulate reads",    \
         false},                                                                                   \
        {"--store", 0, "RUN.db",                                                                   \
         "records the run as simulate --store does, for report and export", false},                \
        {"--counts", 0, "FILE.csv", "writes the tokens of every expert (mechanism moe)", false},   \
        {"--checkpoint", 0, "FILE", "writes all state behind the last iteration", false},          \
        {"--checkpoint-every", 0, "N", "and behind every N-th", false},                            \
        {"--restart", 0, "FILE", "goes on from a checkpoint, on any number of ranks", false},      \
        {"--watchdog", 0, "SECONDS", "no rank has moved for so long: the run fails; default 60",   \
         false},                                                                                   \
        {"--distributed", 0, NULL,                                                                 \
         "the balancer diffusion runs on the ranks, with messages between neighbours", false},     \
        {"--real-time", 0, NULL, "asks the system for real-time priority, where it is allowed",    \
         false},                                                                                   \
        {"--json", 0, NULL, "prints one JSON object", false},

/// Reads and checks the command line.
///
/// @return STATUS_INVALID naming the option, its value and what is known
status cli_run_request_read(const cli_arguments *arguments, cli_run_request *request,
                            error_message *err);
