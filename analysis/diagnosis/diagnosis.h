/// Is dynamic balancing worth anything for this run? Everything that the answer rests on.
#pragma once

#include "analysis/compare/compare.h"
#include "analysis/stragglers/causes.h"
#include "analysis/study/setup.h"
#include "balance/costs/layer_costs.h"
#include "balance/ports.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "models/dynamism/dynamism.h"

#include <stdbool.h>
#include <stdint.h>

// The sampled iterations of a run, held in memory one after the other: looked at by every part of
// a diagnosis and played by every row.
//
// Between two samples nothing is known. A player that held the last sample would see noise that
// stands still, and let balancers win from it; here every sample is an iteration of its own that
// stands for the `stride` x `spacing` iterations of the run around it.

/// Iterations that are kept of a long run.
enum { ANA_SERIES_COUNT_MAX = 1 << 14 };

/// Arrays are carved from the arena given to ana_series_read.
typedef struct ana_series {
    int layer_count;
    int count;        // T: iterations that are kept, >= 1
    int sample_count; // iterations for which the source has costs of its own
    int stride;       // every stride-th of them is kept, from the first on
    int last;         // iteration of the last sample; the first is 0
    bool announces_changes;
    int *iteration;         // [count] of the run
    bal_layer_costs *costs; // [count] as the source gave them
    int64_t *before_ns;     // [count][layer_count + 1] F + B + W of the layers before, the mean
                            // over the microbatches
} ana_series;

/// Reads a source from iteration 0 to iteration_count - 1, once to count the samples and once more
/// to keep them.
///
/// Samples beyond count_max, or 256 MiB of costs, are thinned out evenly: every second one goes, as
/// often as needed.
///
/// @param count_max >= 2
/// @param series untouched on failure
/// @return what the source returns; STATUS_INVALID if the times of an iteration are negative or do
///         not fit int64 / 4, or iterations differ in their layers
///
/// Time O(iteration_count + samples x layers x columns).
status ana_series_read(const bal_cost_source *source, int iteration_count, int count_max,
                       arena *memory, ana_series *series, error_message *err);

/// By which most passes of most layers take longer in the first iteration than in the next one of
/// the run; 0: by less than ANA_COLD_FACTOR_MIN, or the next one is not kept, or nothing comes
/// after it.
double ana_series_cold_factor(const ana_series *series, arena *memory);

/// The series without its first iteration. Borrows its arrays.
ana_series ana_series_after_first(const ana_series *series);

/// Iterations of the run that one of the series stands for: 1 where all were sampled and kept.
double ana_series_spacing(const ana_series *series);

/// Prefix sums of the layers' times in an iteration. [layer_count + 1]
const int64_t *ana_series_before(const ana_series *series, int index);

/// Time of a layer.
int64_t ana_series_load_ns(const ana_series *series, int index, int layer);

/// The series as a source of `count` iterations. Borrows it; its costs stay as long as it does.
bal_cost_source ana_series_source(const ana_series *series);

// Whether dynamic balancing is worth it, and what to record where that cannot be told.

typedef enum ana_verdict {
    ANA_VERDICT_WORTHWHILE,
    ANA_VERDICT_NOT_WORTHWHILE,
    ANA_VERDICT_UNDECIDABLE,
} ana_verdict;

/// Why; each decides alone where it holds, the first one first. An interval is below the threshold
/// if its high end is, above it if its low end is.
typedef enum ana_ground {
    ANA_GROUND_UNIFORM,       ///< undecidable: measured, and all layers alike to the ns
    ANA_GROUND_SHORT,         ///< undecidable: too few iterations for an interval
    ANA_GROUND_STAGES,        ///< undecidable: stages were recorded, not the layers in them
    ANA_GROUND_COARSE,        ///< undecidable: no row gains it, of too few layers per stage
    ANA_GROUND_PROVEN,        ///< not worthwhile: no contiguous plan can gain the threshold
    ANA_GROUND_NOISE,         ///< not worthwhile: no row gains it; only noise is left
    ANA_GROUND_ONE_SPLIT,     ///< not worthwhile: no row gains it over the best split that is kept
    ANA_GROUND_STATE_UNKNOWN, ///< undecidable: it would be, but for bytes to move that are not
                              ///< known
    ANA_GROUND_GAIN,          ///< worthwhile: the low end of the best row's gain exceeds it
    ANA_GROUND_INTERVAL,      ///< undecidable: the best row's interval includes the threshold
    ANA_GROUND_COUNT
} ana_ground;

/// What the verdict looks at. Gains are over the better of `even` and `tuned`, where nothing else
/// is said.
typedef struct ana_evidence {
    double threshold_ratio; // the gain from which it is worth the trouble
    bool is_uniform;        // measured, and in no iteration do transformer layers differ
    bool is_of_stages;      // not more layers than stages, of a trace: there is one split only
    bool is_coarse;         // few layers per stage, each of which may stand for several
    bool knows_state;       // bytes that a migration moves
    ana_gain_interval best; // of the rows that were played
    ana_gain_interval best_over_kept; // of the same row over the best split that is kept
    ana_gain_interval bound;          // proven: any contiguous plan, any schedule that splits alike
} ana_evidence;

/// Which ground decides.
ana_ground ana_ground_of(const ana_evidence *evidence);

/// "worthwhile", "not worthwhile", "undecidable".
extern const char *const ana_verdict_names[];

typedef struct ana_ground_words {
    const char *name; // one word for programs: "uniform", "short", ...
    ana_verdict verdict;
    const char *advice; // why, and what to do
} ana_ground_words;

extern const ana_ground_words ana_grounds[ANA_GROUND_COUNT];

/// Iterations like these after which the interval of the best row would probably leave the
/// threshold: its half gets smaller with the root of their number. At most INT32_MAX.
int64_t ana_iterations_to_decide(const ana_evidence *evidence, int count);

// What the iterations of a series take under a plan that is kept, and could take at the least.

/// The best split that is kept, as far as it is found: the exact contiguous optimum of the layers'
/// mean times, then neighbouring cuts moved as long as the slowest stages' times add up to less.
/// Memory is not looked at.
///
/// @param first_layer [stages + 1] out
/// @return what bal_partition_bottleneck returns
status ana_kept_split_of(const ana_series *series, int stage_count, arena *memory, int *first_layer,
                         error_message *err);

/// Proven: no plan of one contiguous stage per rank has a shorter iteration. Messages and
/// reductions cost nothing, the optimizer step does; where the schedule does not split the
/// backward, B and W are one op.
///
/// @param bound_ns [series->count] out
/// @return what ana_bound_contiguous returns
///
/// Time of ana_bound_contiguous, for every iteration.
status ana_contiguous_bounds_of(const ana_setup *setup, const ana_series *series, int64_t *bound_ns,
                                error_message *err);

/// What iterations take under a plan that is kept, as the schedule plays them.
///
/// @param first_layer [stages + 1]
/// @param taken_ns    [series->count] out; where it fails some are set
/// @return what the simulator returns; STATUS_INFEASIBLE where it does not fit in memory
status ana_plan_takes(const ana_setup *setup, const ana_series *series, const int *first_layer,
                      arena *memory, int64_t *taken_ns, error_message *err);

// Imbalance of data beside imbalance of layers: microbatches that take unlike long, as sequences
// of unlike length make them, and what it would gain if they were alike.
//
// A long microbatch is long everywhere: in F where the model begins and in the backward where it
// ends. Noise of single ops is not.

typedef struct ana_data_imbalance {
    bool is_known;            // microbatches are told apart, and are not all alike
    double correlation;       // of F on the first half of the layers and the backward on the other
                              // half, of one microbatch, about the iteration's means
    double scatter_ratio;     // standard deviation of microbatches over their mean
    double largest_over_mean; // mean over the iterations
} ana_data_imbalance;

/// Looks at the microbatches of a series.
///
/// Time O(iterations x layers x microbatches).
ana_data_imbalance ana_data_imbalance_of(const ana_series *series);

/// What iterations take under a plan that is kept if each of their microbatches cost what they cost
/// in the mean: more than any packing reaches.
///
/// @param first_layer [stages + 1]
/// @param taken_ns    [series->count] out
/// @return what the simulator returns
status ana_alike_take(const ana_setup *setup, const ana_series *series, const int *first_layer,
                      arena *memory, int64_t *taken_ns, error_message *err);

// The experts of a run whose tokens were counted: which have most tokens, and how long each layer
// waits for the rank that holds them. No split of the layers into stages mends that.

enum { ANA_HOT_EXPERTS = 3 };

/// Of a layer, in the mean of the iterations; tokens are those of an iteration.
typedef struct ana_expert_layer {
    int layer;                     // of the model, from its embedding on
    int busiest_rank;              // of those that share the experts: the one that is it most often
    double max_over_mean;          // tokens of the busiest rank over the ranks' mean
    int hot[ANA_HOT_EXPERTS];      // experts with most tokens
    double times[ANA_HOT_EXPERTS]; // over the experts' mean
    int hot_count;
} ana_expert_layer;

typedef struct ana_expert_imbalance {
    int expert_count;               // of a layer; 0: no tokens were counted
    int rank_count;                 // that share them, each as many as the next
    double max_over_mean;           // over the layers with experts
    const ana_expert_layer *layers; // [layer_count] largest max_over_mean first
    int layer_count;
} ana_expert_imbalance;

/// @param dynamism   NULL, or a case without experts: none
/// @param rank_count divides the experts
/// @return what the case returns
///
/// Time O(iterations x layers x experts).
status ana_expert_imbalance_of(model_dynamism *dynamism, const ana_series *series, int rank_count,
                               arena *memory, ana_expert_imbalance *made, error_message *err);

/// Appends a section for people, and the member "experts"; nothing where there are none.
void ana_expert_imbalance_print(const ana_expert_imbalance *of, text_buffer *out);
void ana_expert_imbalance_write(const ana_expert_imbalance *of, json_writer *writer);

typedef struct ana_diagnosis_options {
    double threshold_ratio;    // gain over the better of `even` and `tuned` from which balancing
                               // is worth it
    double tail_probability;   // that an interval leaves out at each end
    uint64_t seed;             // of the bootstrap
    int64_t layer_state_bytes; // of every layer where the trace does not say; 0: not given
    const ana_stragglers *stragglers; // what slowed the run by its ops; NULL: it has none
} ana_diagnosis_options;

/// 1 %, 95 % of both sides, seed 1, no bytes.
ana_diagnosis_options ana_diagnosis_options_default(void);

/// What a row that was played takes, beside the baseline.
typedef struct ana_row_gain {
    const ana_row *row;
    int64_t total_ns;           // over the series; migration, decisions and profiling weighed down
                                // to one iteration of the run in spacing
    int64_t overhead_ns;        // of it, these three
    ana_gain_interval interval; // of its gain over the baseline; all 0 where it was not played
} ana_row_gain;

/// What is to be mended first.
typedef enum ana_mend {
    ANA_MEND_NOTHING, ///< none gains the threshold, or it is not known
    ANA_MEND_DATA,    ///< microbatches of unlike length
    ANA_MEND_LAYERS,  ///< the split, or when it changes
    ANA_MEND_WORKER,  ///< the rest as ops tell it: ana_cause_kind
    ANA_MEND_HOST,
    ANA_MEND_LINK,
    ANA_MEND_COUNT
} ana_mend;

/// "nothing", "data", "layers", "worker", "host", "link".
extern const char *const ana_mend_names[ANA_MEND_COUNT];

typedef struct ana_diagnosis {
    const ana_setup *setup; // of the series
    ana_diagnosis_options options;
    const ana_series *series;
    double cold_factor; // the first iteration took so many times as long as the next, and is left
                        // out as warm-up; 0: it is not
    double spacing;     // iterations of the run that one of the series stands for
    ana_comparison comparison;
    const ana_row_gain *rows; // [study->balancing_count] in the order of the study
    int baseline;             // row of the better of `even` and `tuned`, which gains are over
    int best;                 // row that gains most, of those whose plan may change; -1: none fits
    ana_evidence evidence;
    const int *kept_first_layer;  // [stage_count + 1] the best split that is kept and fits: what
                                  // the search finds, `even` or `tuned`
    ana_gain_interval kept;       // of it, known beforehand
    ana_expert_imbalance experts; // of a run whose tokens were counted
    ana_data_imbalance data;
    ana_gain_interval alike; // of microbatches that all cost the same, under the baseline's plan
    ana_mend mend;           // the largest gain
    ana_ground ground;
} ana_diagnosis;

/// Whether ops are recorded of enough steps to tell what unlike microbatches cost.
bool ana_ops_tell_lengths(const ana_diagnosis *of);

/// The rows that are played, as the "balancing" of a study.
extern const char ana_diagnosis_rows[];

/// Diagnoses the run of a study that was opened, whose rows must be ana_diagnosis_rows.
///
/// The setup's costs are replaced by the series of its samples.
///
/// @param step      told of every iteration that is replayed, or NULL
/// @param memory    everything that the diagnosis points to
/// @param diagnosis untouched on failure
/// @return STATUS_UNSUPPORTED for schedules of more than one chunk, or replicas with loads of their
///         own; what reading and replaying return
status ana_diagnose(ana_setup *setup, const ana_diagnosis_options *options,
                    void (*step)(void *context), void *step_context, arena *memory,
                    ana_diagnosis *diagnosis, error_message *err);

/// Appends the page for people, or one JSON object ("dynmo-diagnosis/1").
///
/// @param is_recorded its layers were: the best kept split is also shown as a plan for frameworks
void ana_diagnosis_print(const ana_diagnosis *diagnosis, bool is_recorded, text_buffer *out);
void ana_diagnosis_write(const ana_diagnosis *diagnosis, text_buffer *out);

// Tokens per expert that a run of Megatron-LM has left: which files there are, and what they are
// of, before the reader of counts (models/experts/expert_counts.h) is told what they must fit.

/// What is known of the run beside its files.
typedef struct ana_counted_layout {
    int layer_count;  // transformer layers of the model
    int expert_count; // of a layer
    int stage_count;  // pipeline stages of the run that wrote the files; they divide layer_count
} ana_counted_layout;

/// Counts of a run. Strings and arrays are carved from the arena given to the reader.
typedef struct ana_counted_run {
    const char **files;     // [stage_count][expert_parallel]
    const int *first_layer; // [stage_count]
    int stage_count;
    int expert_parallel;  // ranks that share experts
    int microbatch_count; // of an iteration; half of the rows where recomputation repeats them
    int last_iteration;
} ana_counted_run;

/// Looks at one of Megatron's files, at a folder that holds rank<r>.jsonl or
/// tokens_per_expert/rank<r>.jsonl, or at what a pattern of the shell matches, "run/rank*.jsonl".
///
/// Ranks are numbered stage by stage, and within a stage those that share experts follow each
/// other, as with Megatron's default order. Where a stage has several such groups the first one
/// counts.
///
/// @return STATUS_IO; STATUS_FORMAT naming file and line, or the folder: no files, a rank missing
///         or twice, files that stages and experts do not divide; STATUS_INVALID: stages that do
///         not divide the layers
///
/// Time: reads the first file once.
status ana_counted_run_find(const char *path, const ana_counted_layout *layout, arena *memory,
                            ana_counted_run *run, error_message *err);
