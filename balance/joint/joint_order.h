/// An order of ops in the form that a search changes and plays again: a line of kinds per rank.
///
/// Microbatches cost the same here, so that the k-th F of a stage may as well be microbatch k, and
/// so on for B and W: sorting begins and ends of any order keeps every wait. A line therefore names
/// kinds and chunks only.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/joint/joint_layers.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// A kind of op of a chunk: 3 * chunk + kind, kind 0 F, 1 B (the full backward without a split), 2
/// W.
typedef uint8_t bal_joint_code;
enum { BAL_JOINT_CODES_MAX = 6, BAL_JOINT_NONE = -1 };

static inline bal_joint_code bal_joint_code_of(int chunk, bal_op_kind kind)
{
    const int code = kind == OP_FORWARD ? 0 : kind == OP_BACKWARD_WEIGHT ? 2 : 1;
    return (bal_joint_code)(3 * chunk + code);
}

/// What an order is played with: a partition's costs by rank and code. Zero-initialise; filled by
/// bal_joint_board_init and bal_joint_board_set.
typedef struct bal_joint_board {
    bal_joint_shape shape;
    int rank_count;
    int microbatch_count;
    bool has_split;
    int code_count;      // 3 * chunk_count
    int line_op_count;   // ops of a rank
    int64_t *op_ns;      // [rank_count][code_count]
    int64_t *send_ns;    // [rank_count][code_count] of the message that an op waits for
    int *source;         // [rank_count][code_count] index of done that it waits for, or NONE
    int *receiver;       // [rank_count][code_count] rank that waits for it, or NONE
    int64_t *memory;     // [rank_count][code_count] change: F when it begins, others when they end
    int64_t *room_bytes; // [rank_count] cap without state
    int64_t *work_ns;    // [rank_count] of all its ops

    int64_t *end_ns;    // [rank_count][code_count][microbatch_count] scratch of a play
    int *done;          // [rank_count][code_count]
    int *next;          // [rank_count]
    int64_t *free_ns;   // [rank_count]
    int64_t *idle_ns;   // [rank_count]
    int *written;       // [rank_count] scratch of a dispatch
    int *choice_code;   // [rank_count]
    int64_t *choice_ns; // [rank_count]
} bal_joint_board;

/// Carves a board for all partitions of a shape.
void bal_joint_board_init(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                          bal_joint_board *board);

/// Puts a partition on the board.
///
/// @param costs of bal_joint_costs_fill for first_layer
void bal_joint_board_set(bal_joint_board *board, const bal_joint_layers *layers,
                         const int *first_layer, const bal_stage_costs *costs);

/// Whether a rank's line has every F before its B before its W, and its memory within the room.
bool bal_joint_line_fits(const bal_joint_board *board, int rank, const bal_joint_code *line);

/// Whether those of all ranks do.
bool bal_joint_lines_fit(const bal_joint_board *board, const bal_joint_code *lines);

/// The most that a rank holds along its line, without state.
int64_t bal_joint_line_peak_bytes(const bal_joint_board *board, int rank,
                                  const bal_joint_code *line);

/// Plays an order. Time O(ops + ranks * rounds), less where it is given up.
///
/// @param lines   [rank_count][line_op_count] ones that fit
/// @param give_up plays that take longer end early
/// @return the makespan; INT64_MAX where the ranks wait for each other in a circle, or it is above
///         give_up
int64_t bal_joint_play(bal_joint_board *board, const bal_joint_code *lines, int64_t give_up);

/// The ops that make a play as long as it is, from the last one back to the begin.
typedef struct bal_joint_path {
    int length;
    int *index;      // [length] into lines
    int *place;      // scratch
    int *microbatch; // scratch
} bal_joint_path;

/// Carves a path for the orders of a board from memory.
void bal_joint_path_init(const bal_joint_board *board, arena *memory, bal_joint_path *path);

/// Finds the critical path of the last complete play. Where an op waits for both its rank and a
/// message, a coin decides. Time O(ops).
void bal_joint_find_path(const bal_joint_board *board, const bal_joint_code *lines, rng *coin,
                         bal_joint_path *path);

/// Reads an order into lines; BW becomes B and, with a split, W after it. Overlapped pairs become
/// their two ops.
///
/// @param fused out: whether the order has full backwards where the board has a split
/// @return false where the schedule has W and the board no split
bool bal_joint_lines_of(const bal_joint_board *board, const bal_schedule *schedule,
                        bal_joint_code *lines, bool *fused);

/// Writes lines as a schedule.
///
/// @param schedule carved from memory; name is borrowed
void bal_joint_lines_schedule(const bal_joint_board *board, const bal_joint_code *lines,
                              const char *name, arena *memory, bal_schedule *schedule);

// Orders by dispatch: whenever a rank is idle, a rule chooses what it runs next.

/// How a rank chooses among ops that may begin. Ops that could begin earliest come first.
typedef struct bal_joint_rule {
    int warmup_quarters; // rank r of P runs at most this many quarters of P - r forwards of its
                         // first chunk ahead of their B; 0: as many as memory allows
    bool forward_first;  // of an F and a B that may begin together
    bool outer_first;    // of two chunks, the first (in model order) before the second
    int gap_quarters;    // a W starts in a gap of at least so many quarters of its time
    const bal_joint_code *given; // [rank_count][line_op_count] or NULL: F and B in the order of
                                 // these lines, only W are placed anew
} bal_joint_rule;

/// Dispatches all ops for the costs on the board, within its memory.
///
/// @param lines [rank_count][line_op_count] out: of lines that fit; worthless on failure
/// @return false where memory stops every rank: not with caps that every rank's one microbatch at a
///         time fits, unless given asks for more
/// Time O(ops * rank_count). Uses the board's scratch.
bool bal_joint_dispatch(bal_joint_board *board, const bal_joint_rule *rule, bal_joint_code *lines);
