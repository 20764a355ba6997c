#include "balance/joint/joint_dispatch.h"

#include <string.h>

enum { FORWARD = 0, INPUT = 1, WEIGHT = 2 };

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

static int slot_of(const dispatch *state, int rank, int code)
{
    return rank * state->board->code_count + code;
}

static const int64_t *memory_of(const dispatch *state, int rank)
{
    return state->board->memory + slot_of(state, rank, 0);
}

/// What a rank holds. idle_ns of the board serves for it.
static int64_t *held_of(const dispatch *state, int rank)
{
    return &state->board->idle_ns[rank];
}

/// Room that the ops behind an F need so that it can be finished: that of the second chunk, and
/// what gradients hold beyond activations.
static int64_t reserve_of(const dispatch *state, int rank, int chunk)
{
    const int64_t *memory = memory_of(state, rank);
    const int64_t own = memory[3 * chunk + INPUT] > 0 ? memory[3 * chunk + INPUT] : 0;
    if (chunk == 1 || state->board->shape.chunk_count == 1) return own;
    const int64_t second = memory[3 + FORWARD] + (memory[3 + INPUT] > 0 ? memory[3 + INPUT] : 0);
    return own > second ? own : second;
}

static bool has_room(const dispatch *state, int rank, int code)
{
    const int64_t reserve = code % 3 == FORWARD ? reserve_of(state, rank, code / 3) : 0;
    return *held_of(state, rank) + memory_of(state, rank)[code] + reserve <=
           state->board->room_bytes[rank];
}

/// Whether a rank has run as many forwards ahead as the rule allows.
static bool is_warm(const dispatch *state, int rank, int code)
{
    if (state->rule->warmup_quarters == 0 || code != FORWARD) return false;
    const int *done = state->board->done + slot_of(state, rank, 0);
    const int most = (state->rule->warmup_quarters * (state->board->rank_count - rank) + 3) / 4;
    return done[FORWARD] - done[INPUT] >= (most > 1 ? most : 1);
}

/// When the next F or B of this code may begin; NONE where that is not known or not allowed.
static choice offer(const dispatch *state, int rank, int code)
{
    const bal_joint_board *board = state->board;
    const choice none = {BAL_JOINT_NONE, INT64_MAX};
    const int slot = slot_of(state, rank, code);
    const int microbatch = board->done[slot];
    if (microbatch == board->microbatch_count || !has_room(state, rank, code)) return none;
    if (code % 3 == INPUT && board->done[slot - 1] <= microbatch) return none;
    if (state->rule->given == NULL && is_warm(state, rank, code)) return none;
    const int source = board->source[slot];
    int64_t begin = board->free_ns[rank];
    if (source >= 0) {
        if (board->done[source] <= microbatch) return none;
        const int64_t arrival =
            board->end_ns[(int64_t)source * board->microbatch_count + microbatch] +
            board->send_ns[slot];
        if (arrival > begin) begin = arrival;
    }
    return (choice){code, begin};
}

/// The earliest F or B; of equal ones as the rule has it.
static choice choose_main(const dispatch *state, int rank)
{
    const bal_joint_rule *rule = state->rule;
    if (rule->given != NULL) {
        const bal_joint_code *line =
            rule->given + (size_t)rank * (size_t)state->board->line_op_count;
        int next = state->board->next[rank];
        while (next < state->board->line_op_count && line[next] % 3 == WEIGHT)
            next++;
        state->board->next[rank] = next;
        if (next == state->board->line_op_count) return (choice){BAL_JOINT_NONE, INT64_MAX};
        return offer(state, rank, line[next]);
    }
    choice best = {BAL_JOINT_NONE, INT64_MAX};
    for (int turn = 0; turn < 2 * state->board->shape.chunk_count; turn++) {
        const bool is_forward =
            (turn / state->board->shape.chunk_count == 0) == rule->forward_first;
        const int index = turn % state->board->shape.chunk_count;
        const int chunk = rule->outer_first ? index : state->board->shape.chunk_count - 1 - index;
        const choice found = offer(state, rank, 3 * chunk + (is_forward ? FORWARD : INPUT));
        if (found.begin_ns < best.begin_ns) best = found;
    }
    return best;
}

/// A W that is pending, of the chunk with more of them.
static int pending_weight(const dispatch *state, int rank)
{
    const bal_joint_board *board = state->board;
    if (!board->has_split) return BAL_JOINT_NONE;
    int best = BAL_JOINT_NONE;
    int most = 0;
    for (int chunk = 0; chunk < board->shape.chunk_count; chunk++) {
        const int slot = slot_of(state, rank, 3 * chunk);
        const int pending = board->done[slot + INPUT] - board->done[slot + WEIGHT];
        if (pending <= most) continue;
        most = pending;
        best = 3 * chunk + WEIGHT;
    }
    return best;
}

static choice choose(const dispatch *state, int rank)
{
    const choice main = choose_main(state, rank);
    const int64_t free_ns = state->board->free_ns[rank];
    if (main.begin_ns == free_ns) return main;
    const int weight = pending_weight(state, rank);
    if (weight == BAL_JOINT_NONE) return main;
    if (main.code != BAL_JOINT_NONE) {
        const int64_t quarter = state->board->op_ns[slot_of(state, rank, weight)] / 4;
        if (main.begin_ns - free_ns < quarter * state->rule->gap_quarters) return main;
    }
    return (choice){weight, free_ns};
}

static void run(dispatch *state, int rank, choice chosen)
{
    bal_joint_board *board = state->board;
    const int slot = slot_of(state, rank, chosen.code);
    board->free_ns[rank] = chosen.begin_ns + board->op_ns[slot];
    board->end_ns[(int64_t)slot * board->microbatch_count + board->done[slot]] =
        board->free_ns[rank];
    board->done[slot]++;
    *held_of(state, rank) += memory_of(state, rank)[chosen.code];
    state->lines[(size_t)rank * (size_t)board->line_op_count + (size_t)board->written[rank]++] =
        (bal_joint_code)chosen.code;
    if (state->rule->given != NULL && chosen.code % 3 != WEIGHT) board->next[rank]++;
}

/// Looks again what a rank would do.
static void look(const dispatch *state, int rank)
{
    const choice chosen = choose(state, rank);
    state->board->choice_code[rank] = chosen.code;
    state->board->choice_ns[rank] = chosen.begin_ns;
}

static void reset(const dispatch *state)
{
    bal_joint_board *board = state->board;
    memset(board->done, 0,
           (size_t)board->rank_count * (size_t)board->code_count * sizeof *board->done);
    for (int rank = 0; rank < board->rank_count; rank++) {
        board->next[rank] = board->written[rank] = 0;
        board->free_ns[rank] = *held_of(state, rank) = 0;
    }
    for (int rank = 0; rank < board->rank_count; rank++) {
        look(state, rank);
    }
}

/// The rank whose next op begins first: all messages that arrive before are known then.
static int first_rank(const bal_joint_board *board)
{
    int first = BAL_JOINT_NONE;
    for (int rank = 0; rank < board->rank_count; rank++) {
        if (board->choice_code[rank] == BAL_JOINT_NONE) continue;
        if (first < 0 || board->choice_ns[rank] < board->choice_ns[first]) first = rank;
    }
    return first;
}

bool bal_joint_dispatch(bal_joint_board *board, const bal_joint_rule *rule, bal_joint_code *lines)
{
    dispatch state = {.board = board, .rule = rule, .lines = lines};
    reset(&state);
    for (int64_t op = (int64_t)board->rank_count * board->line_op_count; op > 0; op--) {
        const int rank = first_rank(board);
        if (rank < 0) return false;
        const int code = board->choice_code[rank];
        run(&state, rank, (choice){code, board->choice_ns[rank]});
        look(&state, rank);
        const int receiver = board->receiver[slot_of(&state, rank, code)];
        if (receiver >= 0 && receiver != rank) look(&state, receiver);
    }
    return true;
}
