/// Who runs what when: the op order of every rank, compiled before the iteration and replayed.
#pragma once

#include "balance/costs/placement.h"
#include "balance/costs/stage_costs.h"
#include "balance/schedule/closed_form.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum bal_op_kind {
    OP_FORWARD,         ///< F
    OP_BACKWARD_INPUT,  ///< B: gradient of the input only; releases the stage before
    OP_BACKWARD_WEIGHT, ///< W: gradient of the weights; nobody waits for it
    OP_BACKWARD,        ///< BW: both; the stage before waits for all of it
    OP_KIND_COUNT
} bal_op_kind;

/// An F and a B or BW of two microbatches, one after the other, may be one piece of work, an
/// overlapped pair ("F0&BW1"): it begins when the messages of both are there, its ops run back to
/// back, and the messages of both leave when the second ends. What overlapping saves is a matter of
/// their costs.
typedef struct bal_op {
    uint8_t kind;          // bal_op_kind
    uint8_t overlaps_next; // 1: the first of a pair with the next op of the rank; else 0
    uint16_t chunk;
    int32_t microbatch;
} bal_op;
_Static_assert(sizeof(bal_op) == 8, "schedules of millions of ops stay in cache");

typedef struct bal_schedule {
    const char *name; // static storage
    int rank_count;
    int chunk_count;
    int microbatch_count; // that pass each stage: those of the iteration, or half of them under
                          // BAL_PLACEMENT_BIDIRECTIONAL, where each half counts from 0
    bal_placement placement;
    bool has_split;      // B and W apart; false: F and BW only
    const int *first_op; // [rank_count + 1] rank r runs ops [first_op[r], first_op[r + 1])
    const bal_op *ops;   // [first_op[rank_count]] in the order in which each rank runs them
} bal_schedule;

/// What ran when: what a player returns, whether it simulated or executed. Times count from the
/// begin of the iteration. The arrays belong to whoever made the timeline.
typedef struct bal_timeline {
    const bal_schedule *schedule;
    int64_t *begin_ns; // [op_count] parallel to schedule->ops
    int64_t *end_ns;   // [op_count]
} bal_timeline;

/// The stage, in model order, of a chunk of a rank of a schedule.
static inline int bal_schedule_stage(const bal_schedule *schedule, int rank, int chunk)
{
    return bal_stage_of(schedule->placement, schedule->rank_count, schedule->chunk_count, rank,
                        chunk);
}

/// The rank of a schedule that runs a stage.
static inline int bal_schedule_rank(const bal_schedule *schedule, int stage)
{
    return bal_rank_of_stage(schedule->placement, schedule->rank_count, schedule->chunk_count,
                             stage, NULL);
}

enum {
    BAL_RANKS_MAX = 4096,
    BAL_CHUNKS_MAX = 64,
    BAL_MICROBATCHES_MAX = 1 << 20,
    BAL_OPS_MAX = 1 << 28
};

/// What a schedule is built from. Zero-initialise, then fill by name.
typedef struct bal_schedule_request {
    const char *name; // row of the table below
    int rank_count;
    int microbatch_count;         // of the iteration
    int chunk_count;              // 0: the family's own (1, or 2 where it needs two)
    const bal_stage_costs *costs; // only searched schedules read it; required for them
    const int64_t *memory_limit;  // [rank_count] in the unit of costs->memory_*; NULL: none.
                                  // Searched schedules stay within it
    int64_t *placed_op_count; // NULL, or searched schedules add to it how many ops they placed in
                              // all that they tried: their work, counted, not timed
} bal_schedule_request;

/// Builds the order of every rank.
///
/// @param schedule carved from memory
/// @return STATUS_INVALID: unknown name (the nearest is named), a count outside its limits, a
///         rule of the family broken (named); STATUS_INFEASIBLE: memory_limit is below what any
///         order needs, naming rank, need and limit.
status bal_schedule_build(const bal_schedule_request *request, arena *memory,
                          bal_schedule *schedule, error_message *err);

/// The microbatches of the iteration that a schedule plays.
int bal_iteration_microbatch_count(const bal_schedule *schedule);

/// The counts that an order is written for; with two pipelines, microbatches of each.
typedef struct bal_schedule_counts {
    int rank_count;
    int chunk_count;
    int microbatch_count;
} bal_schedule_counts;

/// A row of the table of schedules. What the functions promise is in schedule_families.h.
typedef struct bal_schedule_family {
    const char *name;
    bool has_split;
    bool is_searched;       // reads costs and memory_limit
    const char *counted_as; // searched only: the fixed order whose memory it is counted with where
                            // no limit says what it takes
    int chunk_count;        // 0: the caller chooses; else the only one allowed
    int chunk_count_min;    // where the caller chooses
    bal_placement placement;
    // Who writes the order: of one rank, or of all together; one of the two is NULL.
    bal_op *(*fill)(bal_schedule_counts counts, int rank, bal_op *ops);
    status (*write)(const bal_schedule_request *request, arena *memory, bal_op *ops,
                    error_message *err);
    status (*rule)(int rank_count, int microbatch_count, error_message *err); // NULL: none
    bal_closed_form (*length)(const bal_equal_stages *stages); // NULL: no formula is known
} bal_schedule_family;

/// The table, in the order in which it is shown.
const bal_schedule_family *bal_schedule_families(int *count);

/// The row of a name, or NULL.
const bal_schedule_family *bal_schedule_family_find(const char *name);

/// As text_suggestion, of the names of the table.
const char *bal_schedule_suggestion(const char *name, char out[TEXT_SUGGESTION_BYTES]);

/// Chunks per rank where requested may be 0, for the family's own number, or 2 where it has none.
int bal_schedule_chunk_count(const bal_schedule_family *family, int requested);

/// Whether a family has orders for this many chunks per rank.
bool bal_schedule_takes_chunks(const bal_schedule_family *family, int chunk_count);

/// Whether a family has orders for these counts: interleaved-1f1b where rank_count divides
/// microbatch_count, interleaved-zb where max(1, floor(M / P)) does, dualpipe-v from 2 P
/// microbatches on, the others always.
bool bal_schedule_takes(const bal_schedule_family *family, int rank_count, int microbatch_count);

/// The smallest count that a family has orders for and that is at least microbatch_count; -1 where
/// it has none for rank_count at all.
int bal_schedule_microbatch_count(const bal_schedule_family *family, int rank_count,
                                  int microbatch_count);

/// Proves that an order can be played: every (stage, microbatch) has its F and either B and W or
/// BW exactly once, F before B before W on its rank, overlapped pairs are of two microbatches, and
/// no cycle among the ranks' waits. Orders that were imported or written by hand come through here.
///
/// @return STATUS_INVALID naming rank and op that is missing, repeated or too early; or the
///         cycle, op by op: "rank 0 F1 waits for rank 1 B0 waits for ... ".
/// Memory O(stages * microbatches); time the same where ranks seldom wait for each other against
/// the way of their messages.
status bal_schedule_check(const bal_schedule *schedule, error_message *err);

/// The op whose message op (of rank) waits for: the F of the stage before, or the B (or BW) of the
/// stage after, same microbatch. Same-rank neighbours count too (chunk to chunk).
///
/// @param kind out: OP_FORWARD; or OP_BACKWARD_INPUT with a split and OP_BACKWARD without, where
///             an op of the other kind in its place counts too. Untouched for -1.
/// @return the stage that sends, or -1 if the op waits for no other stage (F of the first stage;
///         B of the last; W)
int bal_op_waits_for(const bal_schedule *schedule, int rank, bal_op op, bal_op_kind *kind);

/// "F", "B", "W", "BW".
extern const char *const bal_op_kind_names[OP_KIND_COUNT];

/// "F0", "B0", "W0", "BW0", or "1:F0" for chunk 1.
text_words bal_op_name(bal_op op);

/// Parses what bal_op_name writes. STATUS_FORMAT naming the text.
status bal_op_parse(const char *name, bal_op *op, error_message *err);

/// The name of ops[0], or of the overlapped pair ops[0] and ops[1]: "F0&BW1".
text_words bal_op_pair_name(const bal_op *ops);

/// Parses what bal_op_pair_name writes.
///
/// @param ops   [2] out: untouched on failure
/// @param count out: how many ops the name holds, 1 or 2
/// @return STATUS_FORMAT naming the text
status bal_op_pair_parse(const char *name, bal_op *ops, int *count, error_message *err);
