/// Why a recorded run was slow: each cause with its evidence, and what mending it would gain.
///
/// F and backward are taken apart as mean of the stage x factor of the worker x length of the
/// microbatch x rest. The length is what most stages say of one microbatch (the lower median of
/// what it took over their means, F and backward apart), the factor what is left of a worker over
/// the whole run, against the other replicas of its stage. A cause is mended by taking its part
/// away, and the gain is that of a replay.
#pragma once

#include "analysis/compare/compare.h"
#include "analysis/stragglers/op_graph.h"
#include "base/json.h"
#include "base/text.h"

// What stragglers cost a recorded run, by replaying what would have been without them.
//
// Source: Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis,
// OSDI'25. A run without stragglers has every op at its kind's ideal time. The slowdown of a part
// (a kind, a stage, a replica, a worker) is that of a run in which only the ops of that part keep
// their own time.

/// One step, ns.
typedef struct ana_straggler_step {
    int step;
    int64_t recorded_ns;
    int64_t delayed_ns;  // replayed with the launch delays that were recorded
    int64_t replayed_ns; // replayed without them
    int64_t ideal_ns;    // with every op at its kind's ideal time
} ana_straggler_step;

/// What a run is taken apart by.
typedef enum ana_slow_part {
    ANA_SLOW_KIND,
    ANA_SLOW_STAGE,
    ANA_SLOW_REPLICA,
    ANA_SLOW_WORKER,
    ANA_SLOW_COUNT
} ana_slow_part;

typedef struct ana_slowdowns {
    ana_straggler_step *steps;       // [step_count]
    double slowdown;                 // sum of replayed over sum of ideal
    double launch_slowdown;          // sum of recorded over sum of replayed
    int count[ANA_SLOW_COUNT];       // of parts
    double *by[ANA_SLOW_COUNT];      // [count]; workers each replayed alone
    double *step_by[ANA_SLOW_COUNT]; // [step_count][count] the same of every step
    int slow_worker_count;           // 3 % of the workers, rounded up: those slowed most
    bool *is_slow;                   // [worker_count]
    double worker_share; // M_W: of the time lost, what is won with only those at ideal times
    double stage_share;  // M_S: the same of the last stage; 0 with one stage
} ana_slowdowns;

/// Everything is carved from memory. Time O(ops x (kinds + stages + replicas + workers)).
void ana_slowdowns_of(const ana_op_run *run, arena *memory, ana_slowdowns *slowdowns);

typedef enum ana_cause_kind {
    ANA_CAUSE_WORKER,  ///< workers that take longer than other replicas of their stage, always
    ANA_CAUSE_STAGE,   ///< stages that are not equally long
    ANA_CAUSE_LENGTHS, ///< microbatches that are not equally long, on all stages alike
    ANA_CAUSE_HOST,    ///< late launches, collections of garbage, single ops that were held up
    ANA_CAUSE_LINK,    ///< messages or collectives of some workers that travel longer
    ANA_CAUSE_COUNT
} ana_cause_kind;

/// From which gain on a cause is named: as far off as replays of production jobs are known to be.
#define ANA_CAUSE_GAIN_MIN 0.02

/// From which correlation of F and backward of one microbatch on what differs is its length.
#define ANA_LENGTHS_CORRELATION_MIN 0.7

/// From which factor on a first step is cold.
#define ANA_COLD_FACTOR_MIN 1.5

typedef struct ana_cause {
    ana_cause_kind kind;
    const char *name;       // "last stage too long"
    const char *evidence;   // one sentence, with numbers
    ana_gain_interval gain; // of mending it; 95 % over the steps. is_short: there are fewer than 3,
                            // low and high are the least and the largest gain of a step, of
                            // stages the gain of all
    bool is_bound;          // the gain is of stages that are made equally long, which no split of
                            // whole layers may reach
    bool is_named;          // low reaches ANA_CAUSE_GAIN_MIN and the evidence holds
} ana_cause;

/// What is known of the stages: how to split them anew.
typedef struct ana_stage_split {
    int64_t *stage_ns; // [stage_count] F and backward of one microbatch, mean of the run
    int *layers;       // [stage_count] that mend it best; NULL: layers are not known
    int64_t unit_ns;   // F and backward of an ordinary stage, or of a layer where they are known
} ana_stage_split;

/// What is known of the layers of the stages; all NULL: nothing.
typedef struct ana_stage_layers {
    const int *counts;       // [stage_count] that each stage has
    bool has_ends;           // the first and the last stage also count embedding and head
    const int64_t *layer_ns; // [sum of counts] F and backward; NULL: layers are alike, and what a
                             // stage takes more than an ordinary one is no layer's
} ana_stage_layers;

/// The layers of a trace that tells their times beside the ops of a run with one chunk per rank:
/// cut where they come nearest to what the stages took, or as they are given, with or without
/// embedding and head. Of another trace what is given.
///
/// @param given  [stage_count] layers of each stage; NULL: not known
/// @param layers out: carved from memory, or given
/// @return what reading the store returns
status ana_stage_layers_of_trace(const char *path, const char *trace, const ana_op_run *run,
                                 const int *given, arena *memory, ana_stage_layers *layers,
                                 error_message *err);

typedef struct ana_causes {
    ana_cause all[ANA_CAUSE_COUNT]; // by gain, largest first; named ones in front
    int named_count;
    ana_stage_split split;
    double correlation;    // of F on the first and backward on the last part of the model of one
                           // microbatch, less the means of step and worker
    double *worker_factor; // [worker_count]
    double untold; // share that late launches and the travel of messages, which were not recorded,
                   // lengthen the run by together; 0: messages were recorded
    const double **mending; // [step_count][op_count] by what the ops' own times are multiplied
                            // where all named causes are mended; 0 also takes the ops' delays away
} ana_causes;

/// @param layers that the stages have now: where they are known the gain of a split is that of
///               whole layers, else it is a bound
/// Everything is carved from memory. Time O(ops log ops).
void ana_causes_of(const ana_op_run *run, const ana_slowdowns *slowdowns,
                   const ana_stage_layers *layers, arena *memory, ana_causes *causes);

/// The cause of a kind, named or not.
const ana_cause *ana_cause_of(const ana_causes *causes, ana_cause_kind kind);

/// A recorded run, and all that is told of what slowed it.
typedef struct ana_stragglers {
    trace_op_table table;
    double cold_factor; // by which most F and backwards of the first step take longer than in the
                        // step after it; 0: by less than ANA_COLD_FACTOR_MIN, or there is none
    int cold_step;      // with cold_factor: these steps. Where they follow each other the first is
    int next_step;      // left out as warm-up; else the model may have changed
    ana_op_run run;
    ana_slowdowns slowdowns;
    ana_causes causes;
} ana_stragglers;

/// Reads a trace of which every op was recorded, and finds what slowed the run. Everything is
/// carved from memory.
///
/// @param trace       as of trace_find
/// @param layers      [layer_count] of each stage; their number need not be right. NULL: those that
///                    the trace tells
/// @param of          stays where it is as long as it is used
/// @return what trace_op_table_read returns; STATUS_INVALID: the ops do not fit together, as
///         ana_op_run_make says, or the layers are not those of as many stages as the run has
status ana_stragglers_read(const char *path, const char *trace, const int *layers, int layer_count,
                           arena *memory, ana_stragglers *of, error_message *err);

// What `dynmo stragglers` tells of a recorded run: text, JSON, and in pictures one step as it was
// and as it could have been, and its workers.

/// Appends what slowed the run, for people.
void ana_stragglers_print(const ana_stragglers *of, text_buffer *out);

/// Appends the same as one JSON object on one line.
void ana_stragglers_write(const ana_stragglers *of, text_buffer *out);

/// Appends a cause as an object of an array.
void ana_cause_write(const ana_cause *cause, json_writer *writer);

/// Appends one step as a Chrome trace that Perfetto opens, up to three timelines below each other:
/// as recorded; ideal; with all named causes mended, if there are any. Rows of every worker: its
/// own ops, collectives, and the messages that it sends and receives.
void ana_straggler_timelines(const ana_stragglers *of, int step, text_buffer *out);

/// Appends a heat map as standalone SVG: the slowdown of every worker, replicas below each other,
/// stages beside each other.
void ana_straggler_heat_map(const ana_stragglers *of, text_buffer *out);

/// Appends what `dynmo report` shows of the run as one HTML page: the timelines of the slowest
/// step, the heat map, and what is printed.
void ana_stragglers_page(const ana_stragglers *of, const char *title, text_buffer *out);

/// The step that stragglers slowed most, as an index.
int ana_slowest_step(const ana_stragglers *of);
