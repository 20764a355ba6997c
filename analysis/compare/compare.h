/// Replays a study under each of its balancers and puts the outcomes side by side: for people and
/// for programs.
#pragma once

#include "analysis/study/setup.h"
#include "balance/control/controller.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// Where a speed-up comes from, as a product: its factors in the order in which they are applied.
typedef enum ana_factor {
    ANA_FACTOR_ALGORITHM, ///< what the case itself saves or costs, both under `even`
    ANA_FACTOR_STATIC,    ///< the best split for the first iteration instead of `even`
    ANA_FACTOR_PACKING,   ///< that split with the row's own packing of sequences instead of without
    ANA_FACTOR_DYNAMIC,   ///< the row without re-packing instead of that split
    ANA_FACTOR_REPACK,    ///< the row with re-packing instead of without
    ANA_FACTOR_COUNT
} ana_factor;

/// "algorithm", "static", "packing", "dynamic", "repacking".
extern const char *const ana_factor_names[ANA_FACTOR_COUNT];

/// Moves beyond this are counted and not kept.
enum { ANA_COURSE_MAX = 1 << 17 };

/// A decision that changed the plan, after an iteration.
typedef struct ana_move {
    int iteration;
    bal_action action;
    bal_reason reason;
    int moved_layer_count;
    int64_t moved_bytes;
    int64_t decision_ns;
    int64_t migration_ns; // that the iteration lasted longer for it
} ana_move;

/// What was decided while a row was played. Zero-initialise with memory, which is borrowed.
typedef struct ana_course {
    arena *memory;
    int reason_counts[BAL_REASON_COUNT]; // of all decisions
    int asked_count;
    int acted_count; // decisions that changed the plan
    ana_move *moves; // [move_count] in order
    int move_count;
} ana_course;

/// Adds an iteration as it was played. Call in order.
void ana_course_add(ana_course *course, const bal_training_iteration *iteration);

// The layers of the stages of a row, and when they change: what is to be set (splits.c).

/// Of more splits the first ones and the last are kept.
enum { ANA_SPLITS_MAX = 256 };

/// The split from an iteration on, until the next one.
typedef struct ana_split_step {
    int from_iteration;
    int stage_count;
    int *first_layer; // [stage_count + 1]
} ana_split_step;

/// Arrays grow in memory while the row is played. Zero-initialise with memory, which is borrowed,
/// and chunk_count.
typedef struct ana_splits {
    arena *memory;
    int chunk_count;
    ana_split_step *steps; // [step_count] in order; none for a balancer without stages
    int step_count;
    int change_count; // changes, also those that are not kept
} ana_splits;

/// How the iterations of a row are called.
typedef struct ana_iteration_names {
    const int *number; // [iteration] or NULL: as they are
    int offset;        // that is added
} ana_iteration_names;

int ana_iteration_number(ana_iteration_names names, int iteration);

/// Adds the split of an iteration, if it is another. Call in order.
void ana_splits_add(ana_splits *splits, const bal_training_iteration *iteration);

/// Appends lines for people: "LABEL  from 12:  4 4 3 3", layers per stage in model order; of many
/// the first few and the last.
void ana_splits_print(const ana_splits *splits, const char *indent, const char *label,
                      int label_width, ana_iteration_names names, text_buffer *out);

/// Appends "dynmo export FORMAT FILE", with what else it takes for plans of a schedule: Megatron
/// has no V placement, and runs 1F1B alone.
void ana_splits_print_export(const char *schedule, const char *file, text_buffer *out);

/// Appends what is kept: "splits": [{"from_iteration", "first_layer"}], and "split_changes".
void ana_splits_write(const ana_splits *splits, ana_iteration_names names, json_writer *writer);

/// The outcome under one balancer and policy.
typedef struct ana_row {
    const ana_balancing *balancing;
    status outcome; // STATUS_INFEASIBLE: no plan fits; message says why
    char message[256];
    bal_training_result result; // if outcome is STATUS_OK
    ana_course course;
    ana_splits splits;
    int64_t iteration_mean_ns; // total / iterations
    double per_second;         // tokens (or microbatches) per second, all replicas
    double relative_to_even;   // per_second over that of `even`; 0: no such row
    double relative_to_tuned;
    int64_t unpacked_ns;              // without re-packing; 0: it does not re-pack, or no plan fits
    int64_t packed_tuned_ns;          // `tuned` with the row's packing of sequences; 0: it has none
    double factors[ANA_FACTOR_COUNT]; // 0: does not apply
    double speed_up; // product of the others, over `even` without the case where that was played,
                     // else over `even`; 0: of a row that keeps its plan
} ana_row;

typedef struct ana_comparison {
    const ana_setup *setup;
    const ana_row *rows;   // [study->balancing_count]
    int64_t still_even_ns; // `even` without the study's case of dynamism; 0: not played
    int64_t even_ns;       // `even` and `tuned`, whether or not they are rows; 0: not played
    int64_t tuned_ns;
} ana_comparison;

/// Where rows, iterations and timelines go while they are played. Any function may be NULL.
typedef struct ana_listener {
    /// Told before a row is played; the context is the sink's.
    status (*begin_row)(void *context, const ana_balancing *balancing, error_message *err);
    bal_record_sink sink;

    void (*step)(void *context); // told of every iteration of a row
    void *step_context;
} ana_listener;

/// Replays every row, and beside them what they are compared with:
/// - a row that re-packs also without
/// - where a row is dynamic, `even` and `tuned` if they are no rows, and `even` without the study's
///   case of dynamism
/// An infeasible row is an outcome, not a failure.
///
/// @param listener   NULL: nobody
/// @param comparison arrays are carved from memory
/// @return what the replay, the source or the listener returns; STATUS_INFEASIBLE if no row fits.
status ana_compare(const ana_setup *setup, const ana_listener *listener, arena *memory,
                   ana_comparison *comparison, error_message *err);

/// True if the plan of the row may change after the start.
bool ana_balancing_is_dynamic(const ana_balancing *balancing);

/// Derives the mean iteration and the throughput of a row from its result.
void ana_row_rate(ana_row *row, const ana_setup *setup);

/// Appends the comparison as a table for people; ends with the inputs counted by origin.
void ana_comparison_print(const ana_comparison *comparison, text_buffer *out);

/// Appends the comparison as one JSON object ("dynmo-simulation/1").
void ana_comparison_write(const ana_comparison *comparison, text_buffer *out);

// What no contiguous plan and no schedule beats (contiguous_bound.c): bounds over all plans, not of
// one.

typedef struct ana_contiguous_bound {
    int64_t makespan_ns; // no plan of one stage per rank has a smaller one
    int64_t work_ns;     // F, B and W of all layers and microbatches
    int64_t longest_ns;  // of the layer with most of it
} ana_contiguous_bound;

/// An even share of the reduction of gradients, which no plan does in less on its fullest rank.
int64_t ana_reduction_share_ns(const bal_layer_costs *costs, int rank_count);

/// The smallest, over all contiguous plans with stages that may be empty, of the largest over their
/// stages of
///   - F of one microbatch through the layers in front, then all of the stage's work;
///   - the same, then F and B of the stage only, then B of one microbatch back to the first layer,
/// where what is in front of a stage takes, in each layer, its shortest microbatch.
///
/// Assumes that an op runs without a break on one rank, one op at a time, and that messages, memory
/// and the reduction of gradients cost nothing.
///
/// @param costs            columns are cycled through where there are fewer than microbatches
/// @param rank_count       0: the makespan is not asked for
/// @param microbatch_count M >= 1
/// @param memory           for scratch
/// @return STATUS_INVALID if the work does not fit int64
///
/// Time O(layer_count * (M + rank_count * layer_count)).
status ana_bound_contiguous(const bal_layer_costs *costs, int rank_count, int microbatch_count,
                            arena *memory, ana_contiguous_bound *bound, error_message *err);

// A gain of one run over another, and how far it could have come out otherwise.

enum { ANA_BOOTSTRAP_ROUNDS = 1000, ANA_BOOTSTRAP_COUNT_MIN = 20, ANA_BOOTSTRAP_BLOCKS_MIN = 5 };

/// A gain, and how far it could have come out otherwise on iterations like these.
typedef struct ana_gain_interval {
    double gain; // sum of the baseline over sum of the other, minus 1
    double low;  // of the interval; the gain itself where is_short
    double high;
    int block;     // iterations that are drawn together
    bool is_short; // too few iterations for an interval
} ana_gain_interval;

/// A moving-block bootstrap of paired iterations (Kuensch, Annals of Statistics 17 (1989);
/// circular: Politis & Romano (1992)): draws blocks of consecutive iterations, the same of both
/// runs, and takes quantiles of the gain. A block is as long as the first of the lags 1, 2, 4, ...
/// at which the differences of the two runs are not correlated any more (within 2 / sqrt(count)),
/// at least the cube root of count and at most a fifth of it.
///
/// @param baseline_ns [count] lengths of the iterations
/// @param other_ns    [count] of the same iterations; where their sum is 0 the gain is 0
/// @param tail        probability that is cut off at each end, in (0, 0.5)
/// @param interval    is_short where count is below ANA_BOOTSTRAP_COUNT_MIN
///
/// Time O(ANA_BOOTSTRAP_ROUNDS * count).
void ana_gain_interval_of(const int64_t *baseline_ns, const int64_t *other_ns, int count,
                          double tail, uint64_t seed, arena *memory, ana_gain_interval *interval);
