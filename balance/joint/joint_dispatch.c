/// Orders by dispatch: whenever a rank is idle, a rule chooses what it runs next.
#include "balance/joint/joint_order.h"

#include <string.h>

/// What a rank would do next, and when.
typedef struct choice {
    int code; // or BAL_JOINT_NONE
    int64_t begin_ns;
} choice;

typedef struct dispatch {
    bal_joint_board *board;
    const bal_joint_rule *rule;
    bal_joint_code *lines;
} dispatch;

static int64_t memory_of(const bal_joint_board *board, int rank, int code)
{
    return board->memory[bal_joint_slot(board, rank, code)];
}

/// What a rank holds. idle_ns of the board serves for it.
static int64_t *held_of(const bal_joint_board *board, int rank)
{
    return &board->idle_ns[rank];
}

/// What the gradients of a chunk take beyond its activations.
static int64_t growth_of(const bal_joint_board *board, int rank, int chunk)
{
    const int64_t change = memory_of(board, rank, 3 * chunk + BAL_JOINT_INPUT);
    return change > 0 ? change : 0;
}

/// Room that the ops after an F need so that it can be finished: that of the second chunk, and
/// what gradients hold beyond activations.
static int64_t reserve_of(const bal_joint_board *board, int rank, int chunk)
{
    const int64_t own = growth_of(board, rank, chunk);
    if (chunk == 1 || board->shape.chunk_count == 1) return own;
    const int64_t second =
        memory_of(board, rank, 3 + BAL_JOINT_FORWARD) + growth_of(board, rank, 1);
    return own > second ? own : second;
}

static bool has_room(const bal_joint_board *board, int rank, int code)
{
    const int64_t reserve = code % 3 == BAL_JOINT_FORWARD ? reserve_of(board, rank, code / 3) : 0;
    const int64_t need = *held_of(board, rank) + memory_of(board, rank, code) + reserve;
    return need <= board->room_bytes[rank];
}

/// Whether a rank has run as many forwards ahead as the rule allows.
static bool is_warm(const dispatch *state, int rank, int slot)
{
    const bal_joint_board *board = state->board;
    if (state->rule->warmup_quarters == 0 || slot != rank) return false;
    const int most = (state->rule->warmup_quarters * (board->rank_count - rank) + 3) / 4;
    return board->done[slot] - board->done[board->stage_count + slot] >= (most > 1 ? most : 1);
}

/// When the next F or B of this code may begin; NONE where that is not known or not allowed.
static choice offer(const dispatch *state, int rank, int code)
{
    const bal_joint_board *board = state->board;
    const choice none = {BAL_JOINT_NONE, INT64_MAX};
    const int slot = bal_joint_slot(board, rank, code);
    const int microbatch = board->done[slot];
    if (microbatch == board->microbatch_count || !has_room(board, rank, code)) return none;
    if (code % 3 == BAL_JOINT_INPUT && board->done[slot - board->stage_count] <= microbatch) {
        return none;
    }
    if (is_warm(state, rank, slot)) return none;
    const int source = board->source[slot];
    if (source < 0) return (choice){code, board->free_ns[rank]};
    if (board->done[source] <= microbatch) return none;
    const int64_t arrival =
        board->end_ns[source * board->microbatch_count + microbatch] + board->send_ns[slot];
    return (choice){code, arrival > board->free_ns[rank] ? arrival : board->free_ns[rank]};
}

/// The earliest F or B; of equal ones as the rule has it.
static choice choose_main(const dispatch *state, int rank)
{
    const int chunks = state->board->shape.chunk_count;
    choice best = {BAL_JOINT_NONE, INT64_MAX};
    for (int turn = 0; turn < 2 * chunks; turn++) {
        const bool is_forward = (turn < chunks) == state->rule->forward_first;
        const int index = turn % chunks;
        const int chunk = state->rule->outer_first ? index : chunks - 1 - index;
        const int kind = is_forward ? BAL_JOINT_FORWARD : BAL_JOINT_INPUT;
        const choice found = offer(state, rank, 3 * chunk + kind);
        if (found.begin_ns < best.begin_ns) best = found;
    }
    return best;
}

/// A W that is pending, of the chunk with more of them, or NONE.
static int pending_weight(const bal_joint_board *board, int rank)
{
    int best = BAL_JOINT_NONE;
    int most = 0;
    if (!board->has_split) return best;
    for (int chunk = 0; chunk < board->shape.chunk_count; chunk++) {
        const int slot = bal_joint_slot(board, rank, 3 * chunk + BAL_JOINT_INPUT);
        const int pending = board->done[slot] - board->done[slot + board->stage_count];
        if (pending <= most) continue;
        most = pending;
        best = 3 * chunk + BAL_JOINT_WEIGHT;
    }
    return best;
}

/// Looks again what a rank would do: a W where it is idle until the next F or B for long enough.
static void look(const dispatch *state, int rank)
{
    bal_joint_board *board = state->board;
    choice chosen = choose_main(state, rank);
    const int64_t free_ns = board->free_ns[rank];
    const int weight = chosen.begin_ns > free_ns ? pending_weight(board, rank) : BAL_JOINT_NONE;
    if (weight != BAL_JOINT_NONE) {
        const int64_t quarter = board->op_ns[bal_joint_slot(board, rank, weight)] / 4;
        const bool is_long = chosen.begin_ns - free_ns >= quarter * state->rule->gap_quarters;
        if (is_long) chosen = (choice){weight, free_ns};
    }
    board->choice_code[rank] = chosen.code;
    board->choice_ns[rank] = chosen.begin_ns;
}

static void reset(const dispatch *state)
{
    bal_joint_board *board = state->board;
    memset(board->done, 0, 3 * (size_t)board->stage_count * sizeof *board->done);
    for (int rank = 0; rank < board->rank_count; rank++) {
        board->next[rank] = 0;
        board->free_ns[rank] = *held_of(board, rank) = 0;
    }
    for (int rank = 0; rank < board->rank_count; rank++) {
        look(state, rank);
    }
}

/// The rank whose next op begins first, as all messages that arrive before are known then; or NONE.
static int first_rank(const bal_joint_board *board)
{
    int first = BAL_JOINT_NONE;
    for (int rank = 0; rank < board->rank_count; rank++) {
        if (board->choice_code[rank] == BAL_JOINT_NONE) continue;
        if (first < 0 || board->choice_ns[rank] < board->choice_ns[first]) first = rank;
    }
    return first;
}

/// Runs what a rank has chosen.
static void run_choice(const dispatch *state, int rank)
{
    bal_joint_board *board = state->board;
    const int code = board->choice_code[rank];
    const int slot = bal_joint_slot(board, rank, code);
    board->free_ns[rank] = board->choice_ns[rank] + board->op_ns[slot];
    board->end_ns[slot * board->microbatch_count + board->done[slot]++] = board->free_ns[rank];
    *held_of(board, rank) += board->memory[slot];
    state->lines[bal_joint_line_begin(board, rank) + board->next[rank]++] = (bal_joint_code)code;
    look(state, rank);
    if (board->receiver[slot] != BAL_JOINT_NONE) look(state, board->receiver[slot]);
}

bool bal_joint_dispatch(bal_joint_board *board, const bal_joint_rule *rule, bal_joint_code *lines)
{
    const dispatch state = {.board = board, .rule = rule, .lines = lines};
    reset(&state);
    for (int op = 0; op < board->op_count; op++) {
        const int rank = first_rank(board);
        if (rank == BAL_JOINT_NONE) return false;
        run_choice(&state, rank);
    }
    return true;
}
