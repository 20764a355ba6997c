/// One point of a what-if study: a study's text in, numbers out.
#pragma once

#include "analysis/compare/compare.h"
#include "analysis/export/frameworks.h"
#include "analysis/study/setup.h"
#include "balance/costs/layer_costs.h"
#include "balance/plan.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/// "out of memory", "more stages than layers", ...
extern const char *const ana_refusal_names[ANA_REFUSAL_COUNT];

/// Tokens of a training whose study does not say: figures are then of so many.
#define ANA_TOKENS_DEFAULT INT64_C(1000000000)

typedef struct ana_point {
    ana_refusal refusal;   // NONE: it was played, and what follows holds
    int rank;              // that needs the most memory
    const char *message;   // says more of a refusal, with its numbers; else NULL
    int64_t missing_bytes; // of it, where refusal is MEMORY and they are known; else 0

    double iteration_ns;       // mean over the iterations played
    double per_second;         // tokens of all replicas; microbatches, where tokens are not known
    double gpu_count;          // that are paid for, mean over time: re-packing releases some
    double used_gpu_count;     // that have ranks when the training begins
    double train_ns;           // of the whole training; 0: tokens of a microbatch are not known
    double gpu_hours;          // of the whole training
    double cost;               // in the study's currency; -1: no price
    int64_t peak_memory_bytes; // of the fullest rank, in one GPU, what is held for a while and the
                               // reserve included
    int64_t reserve_bytes;     // of it, what no tensor has
    int64_t free_bytes;        // that it leaves of the limit; -1: there is none
    double flop_per_s;         // of the model over the GPUs, without what is recomputed;
                               // 0: not known (of a trace, or under a case of dynamism)
    double flop_share;         // the same of the GPU's rate for dense products (MFU)
    double bubble_ratio;       // idle over total of the pipelines, over the run
    double imbalance_ratio;    // mean over the iterations
    double bound_ns;           // proven: no mean iteration is shorter; 0: nothing is proven
    unsigned frameworks; // 1 << ana_framework: `dynmo export` writes its plan for it; 0 also before
                         // ana_point_note_frameworks
    uint64_t training;   // hash of what decides what is trained: model, trace, case of dynamism
                         // without its draws, sequence length, dtype, sequences of a global
                         // batch (as asked for, within a tolerance), tokens
} ana_point;

/// Probability that a predicted peak fits, by how far off those of published runs were: the
/// logarithm of measured over predicted is normal, 0.07 in the mean and 0.10 from it
/// (analysis/validate/README.md). 1 where there is no limit.
double ana_point_fits(const ana_point *point);

/// Makes a point's times longer by a factor, with what follows from them.
void ana_point_scale(ana_point *point, double factor);

/// The state of who evaluates points: memory that is used again, studies and traces that are open.
/// Each thread has its own.
typedef struct ana_point_worker ana_point_worker;

/// An ana_point_worker, as items of work have their workers. It ends with memory.
void *ana_point_worker_create(arena *memory);

/// Plays the one row of the study in text and puts its numbers together. What cannot be played is
/// an outcome: a point with its refusal.
///
/// @param name    stands for the study's path
/// @param changes of the text, as json_open_changed takes them; "{}": none
/// @param point out: its message is borrowed until the worker's next evaluation
/// @return STATUS_IO, STATUS_BACKEND, STATUS_UNSUPPORTED
status ana_point_evaluate(ana_point_worker *worker, const char *name, const char *text,
                          const char *changes, ana_point *point, error_message *err);

/// Notes for which frameworks the plan of the point evaluated last can be written.
///
/// @param wanted the point is refused where it cannot be for this one, with what its writer says,
///               also one that is out of memory
void ana_point_note_frameworks(ana_point_worker *worker, ana_framework wanted, ana_point *point);

/// The study of the point evaluated or checked last; NULL if it could not be read. Of one that was
/// evaluated the inputs are as ana_study_open_document leaves them.
const ana_study *ana_point_worker_study(const ana_point_worker *worker);

/// The setup of the point evaluated last, for who explains it; NULL if it could not be opened.
/// Borrowed until the next evaluation.
const ana_setup *ana_point_worker_setup(const ana_point_worker *worker);

/// The plan at the end of the run of the point evaluated last; NULL if it was not played, or by a
/// balancer without stages. Borrowed until the next evaluation.
const bal_plan *ana_point_worker_plan(const ana_point_worker *worker);

/// Opens the study in text without playing it: what is wrong with its form.
///
/// @return STATUS_OK also for what is infeasible; STATUS_FORMAT, STATUS_UNSUPPORTED, STATUS_IO
status ana_point_check(ana_point_worker *worker, const char *name, const char *text,
                       const char *changes, error_message *err);

/// Appends a point as its bytes lie in memory, and its message: what a store keeps of it. Only the
/// same version of the program on the same kind of machine reads it.
void ana_point_write(const ana_point *point, text_buffer *out);

/// Reads what ana_point_write writes.
///
/// @param memory of the message
/// @return STATUS_FORMAT if it is no point
status ana_point_read(const char *bytes, size_t length, arena *memory, ana_point *point,
                      error_message *err);

/// The bound that was found last, for points of the same costs. Zero-initialise all but the memory
/// of the copy.
typedef struct ana_bound_book {
    bal_costs_copy costs;
    int rank_count;
    int microbatch_count;
    ana_contiguous_bound bound;
} ana_bound_book;

/// Per iteration the bound is, without the step of the optimizer, which is added:
/// - one chunk per rank, a global barrier: ana_bound_contiguous
/// - else: the larger of a rank's even share of all work and of the longest layer's work, as one
///   rank does all of it
/// and, where nothing hides the reduction of gradients, a rank's even share of it. Of replicas with
/// loads of their own the first is looked at, which the slowest is no shorter than.
///
/// Nothing is proven where re-packing may choose other microbatches or make further replicas, nor
/// where a rank is faster than its costs say.
///
/// @param book     used by nobody else meanwhile
/// @param memory   for scratch
/// @param total_ns out: of the whole run; 0: nothing is proven
/// @return what the source of costs returns
status ana_run_bound(const ana_setup *setup, const ana_balancing *balancing, ana_bound_book *book,
                     arena *memory, int64_t *total_ns, error_message *err);
