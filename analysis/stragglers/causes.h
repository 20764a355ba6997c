/// Why a recorded run was slow: each cause with its evidence, and what mending it would gain.
///
/// F and backward are taken apart as mean of the stage x factor of the worker x length of the
/// microbatch x rest. The length is what most stages say of one microbatch (the lower median of
/// what it took over their means, F and backward apart), the factor what is left of a worker over
/// the whole run, against the other replicas of its stage. A cause is mended by taking its part
/// away, and the gain is that of a replay.
#pragma once

#include "analysis/stragglers/slowdowns.h"

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

typedef struct ana_cause {
    ana_cause_kind kind;
    const char *name;     // "last stage too long"
    const char *evidence; // one sentence, with numbers
    double gain;          // time before over time after, minus 1
    double low;           // 95 % interval over the steps; the gain where there are fewer than 3
    double high;
    bool has_interval;
    bool is_named; // low reaches ANA_CAUSE_GAIN_MIN and the evidence holds
} ana_cause;

/// What is known of the stages: how to split them anew.
typedef struct ana_stage_split {
    int64_t *stage_ns; // [stage_count] F and backward of one microbatch, mean of the run
    int *layers;       // [stage_count] that mend it best; NULL: layers are not known
    double *shares;    // [stage_count] otherwise, in layers of an ordinary stage, if what the first
                       // and the last take more is embedding and head
    int64_t unit_ns;   // F and backward of an ordinary stage
} ana_stage_split;

typedef struct ana_causes {
    ana_cause all[ANA_CAUSE_COUNT]; // by gain, largest first; named ones in front
    int named_count;
    ana_stage_split split;
    double correlation;     // of F on the first and backward on the last part of the model of one
                            // microbatch, less the means of step and worker
    double *worker_factor;  // [worker_count]
    const double **mending; // [step_count][op_count] by what the ops' own times are multiplied
                            // where all named causes are mended; 0 also takes the ops' delays away
} ana_causes;

/// @param layers [stage_count] layers that each stage has now, or NULL. With them the gain of a
///               split is that of whole layers
/// Everything is carved from memory. Time O(ops log ops).
void ana_causes_of(const ana_op_run *run, const ana_slowdowns *slowdowns, const int *layers,
                   arena *memory, ana_causes *causes);
