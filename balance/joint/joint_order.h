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

/// A kind of op of a chunk: 3 * chunk + kind. Without a split B is the full backward.
typedef uint8_t bal_joint_code;
enum { BAL_JOINT_FORWARD, BAL_JOINT_INPUT, BAL_JOINT_WEIGHT };
enum { BAL_JOINT_CODES_MAX = 6, BAL_JOINT_NONE = -1 };

/// What an order is played with: a partition's costs by slot, which is kind * stage_count + stage.
typedef struct bal_joint_board {
    const bal_joint_layers *layers;
    bal_joint_shape shape;
    int rank_count;
    int stage_count;
    int microbatch_count;
    bool has_split;
    int code_count;    // 3 * chunk_count
    int line_op_count; // ops of a rank
    int op_count;      // of all ranks
    int *slot;         // [rank_count][code_count]
    int *source;       // [slots] the slot that an op waits for, or NONE
    int *receiver;     // [slots] the rank that waits for an op, or NONE

    bal_stage_costs costs; // of the partition on the board; the arrays are those below
    int64_t *op_ns;        // [slots]
    int64_t *send_ns;      // [slots] of the message that an op waits for
    int64_t *memory;       // [slots] change: F when it begins, others when they end
    int64_t *room_bytes;   // [rank_count] cap without state
    int64_t *work_ns;      // [rank_count] of all its ops

    int64_t *end_ns;  // [slots][microbatch_count] scratch of a play
    int *done;        // [slots]
    int *next;        // [rank_count]
    int64_t *free_ns; // [rank_count]
    int64_t *idle_ns; // [rank_count]
    int *choice_code; // [rank_count] scratch of a dispatch
    int64_t *choice_ns;
    int *path;       // [path_length] of the critical path found last: ops, the last one first
    int *microbatch; // [op_count] scratch of it
    int *place;      // [slots][microbatch_count]
    int path_length;
} bal_joint_board;

/// Carves a board for all partitions of a shape.
void bal_joint_board_init(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                          bal_joint_board *board);

/// Puts a partition on the board.
///
/// @param first_layer [stage_count + 1]
void bal_joint_board_set(bal_joint_board *board, const int *first_layer);

static inline int bal_joint_slot(const bal_joint_board *board, int rank, int code)
{
    return board->slot[rank * board->code_count + code];
}

/// Where the line of a rank begins among those of all.
static inline int bal_joint_line_begin(const bal_joint_board *board, int rank)
{
    return rank * board->line_op_count; // no order has more than BAL_OPS_MAX
}

/// The most that a rank holds along its line, without state. INT64_MAX where a B comes before its F
/// or a W before its B.
int64_t bal_joint_line_peak_bytes(const bal_joint_board *board, int rank,
                                  const bal_joint_code *line);

/// Whether a rank's line has every F before its B before its W, and its memory within the room.
bool bal_joint_line_fits(const bal_joint_board *board, int rank, const bal_joint_code *line);

/// Whether those of all ranks do.
bool bal_joint_lines_fit(const bal_joint_board *board, const bal_joint_code *lines);

/// Plays an order. Time O(ops + ranks * rounds), less where it is given up.
///
/// @param lines   [rank_count][line_op_count] ones that fit
/// @param give_up plays that take longer end early
/// @return the makespan; INT64_MAX where the ranks wait for each other in a circle, or it is above
///         give_up
int64_t bal_joint_play(bal_joint_board *board, const bal_joint_code *lines, int64_t give_up);

/// Finds the critical path of the last complete play: the ops that make it as long as it is. Where
/// an op waits for both its rank and a message, a coin decides. Time O(ops).
void bal_joint_find_path(bal_joint_board *board, const bal_joint_code *lines, rng *coin);

/// Reads an order into lines; BW becomes B and, with a split, W after it. Overlapped pairs become
/// their two ops.
///
/// @return false where the schedule has W and the board no split
bool bal_joint_lines_of(const bal_joint_board *board, const bal_schedule *schedule,
                        bal_joint_code *lines);

/// Writes lines as a schedule.
///
/// @param schedule carved from memory; name is borrowed
void bal_joint_lines_schedule(const bal_joint_board *board, const bal_joint_code *lines,
                              const char *name, arena *memory, bal_schedule *schedule);

/// How a rank that is idle chooses among ops. Those that could begin earliest come first.
typedef struct bal_joint_rule {
    int warmup_quarters; // rank r of P runs at most this many quarters of P - r forwards of its
                         // first chunk ahead of their B; 0: as many as memory allows
    bool forward_first;  // of an F and a B that may begin together
    bool outer_first;    // of two chunks, the first (in model order) before the second
    int gap_quarters;    // a W starts in a gap of at least so many quarters of its time
} bal_joint_rule;

/// Dispatches all ops for the costs on the board, within its memory.
///
/// @param lines [rank_count][line_op_count] out: of lines that fit; worthless on failure
/// @return false where memory stops every rank: not with caps that every rank's one microbatch at a
///         time fits
/// Time O(ops * rank_count). Uses the board's scratch.
bool bal_joint_dispatch(bal_joint_board *board, const bal_joint_rule *rule, bal_joint_code *lines);
