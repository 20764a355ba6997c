/// What `dynmo run` is asked for: its command line, checked.
#pragma once

#include "balance/run/training.h"
#include "base/status.h"
#include "cli/command.h"
#include "exec/clock.h"
#include "exec/run/execution.h"

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
    {.name = "--device",                                                                           \
     .argument = "D",                                                                              \
     .help = "timed, cpu or cuda: what an op does; default timed"},                                \
        {.name = "--transport",                                                                    \
         .argument = "T",                                                                          \
         .help = "local (threads of one process), mpi (under mpirun or srun) or nccl (a rank per " \
                 "GPU); default local"},                                                           \
        {.name = "--clock",                                                                        \
         .argument = "C",                                                                          \
         .help = "nominal (deadlines travel with the messages, nobody waits), queue (an op "       \
                 "begins at the deadline of the one before, as in a GPU's queue) or real; "        \
                 "default nominal for timed, real else"},                                          \
        {.name = "--row",                                                                          \
         .argument = "LABEL",                                                                      \
         .help = "the entry of the study's balancing to run; default the first that decides"},     \
        {.name = "--trace",                                                                        \
         .argument = "TRACE.db",                                                                   \
         .help = "the trace that says how long ops take (timed)"},                                 \
        {.name = "--model",                                                                        \
         .argument = "CONFIG",                                                                     \
         .help = "config.json or shipped name: what is trained (cpu, cuda), or what says how "     \
                 "long ops take (timed, with --hardware)"},                                        \
        {.name = "--hardware",                                                                     \
         .argument = "NAME",                                                                       \
         .help = "hardware file or preset, with --model"},                                         \
        {.name = "--text", .argument = "FILE", .help = "text to train on, as bytes (cpu, cuda)"},  \
        {.name = "--iterations", .argument = "N", .help = "instead of the study's number"},        \
        {.name = "--data-parallel",                                                                \
         .argument = "D",                                                                          \
         .help = "replicas of the pipeline, instead of the study's number"},                       \
        {.name = "--time-scale",                                                                   \
         .argument = "X",                                                                          \
         .help = "durations times X, in [0.000001, 1000]; default 1 (timed)"},                     \
        {.name = "--slow",                                                                         \
         .argument = "RANK=X",                                                                     \
         .help = "makes all ops of a rank take X times as long, X in [1, 1000], to see what "      \
                 "follows (timed, cpu); may be given several times",                               \
         .may_repeat = true},                                                                      \
        {.name = "--slow-link",                                                                    \
         .argument = "A-B=US",                                                                     \
         .help = "makes messages between ranks A and B travel so many microseconds longer "        \
                 "(timed, cpu); may be given several times",                                       \
         .may_repeat = true},                                                                      \
        {.name = "--precision", .argument = "P", .help = "fp32 or bf16 (cuda); default fp32"},     \
        {.name = "--blas", .help = "products of matrices by OpenBLAS (cpu)"},                      \
        {.name = "--record",                                                                       \
         .argument = "TRACE.db",                                                                   \
         .help = "records what layers took, as a trace that simulate reads"},                      \
        {.name = "--store",                                                                        \
         .argument = "RUN.db",                                                                     \
         .help = "records the run as simulate --store does, for report and export"},               \
        {.name = "--counts",                                                                       \
         .argument = "FILE.csv",                                                                   \
         .help = "writes the tokens of every expert (mechanism moe)"},                             \
        {.name = "--checkpoint",                                                                   \
         .argument = "FILE",                                                                       \
         .help = "writes all state behind the last iteration"},                                    \
        {.name = "--checkpoint-every", .argument = "N", .help = "and behind every N-th"},          \
        {.name = "--restart",                                                                      \
         .argument = "FILE",                                                                       \
         .help = "goes on from a checkpoint, on any number of ranks"},                             \
        {.name = "--watchdog",                                                                     \
         .argument = "SECONDS",                                                                    \
         .help = "no rank has moved for so long: the run fails; default 60"},                      \
        {.name = "--distributed",                                                                  \
         .help = "the balancer diffusion runs on the ranks, with messages between neighbours"},    \
        {.name = "--real-time",                                                                    \
         .help = "asks the system for real-time priority, where it is allowed"},                   \
        {.name = "--json", .help = "prints one JSON object"},

/// Reads and checks the command line.
///
/// @return STATUS_INVALID naming the option, its value and what is known
status cli_run_request_read(const cli_arguments *arguments, cli_run_request *request,
                            error_message *err);
