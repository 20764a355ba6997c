#include "balance/joint/joint_order.h"

#include <string.h>

enum { FORWARD = 0, INPUT = 1, WEIGHT = 2 };

static int slot_of(const bal_joint_board *board, int rank, int code)
{
    return rank * board->code_count + code;
}

void bal_joint_board_init(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                          bal_joint_board *board)
{
    const size_t ranks = (size_t)layers->rank_count;
    const size_t slots = ranks * 3 * (size_t)shape.chunk_count;
    const int kinds = layers->has_split ? 3 : 2;
    *board = (bal_joint_board){
        .shape = shape,
        .rank_count = layers->rank_count,
        .microbatch_count = layers->microbatch_count,
        .has_split = layers->has_split,
        .code_count = 3 * shape.chunk_count,
        .line_op_count = kinds * shape.chunk_count * layers->microbatch_count,
        .op_ns = arena_array(memory, slots, sizeof *board->op_ns),
        .send_ns = arena_array(memory, slots, sizeof *board->send_ns),
        .source = arena_array(memory, slots, sizeof *board->source),
        .receiver = arena_array(memory, slots, sizeof *board->receiver),
        .memory = arena_array(memory, slots, sizeof *board->memory),
        .room_bytes = arena_array(memory, ranks, sizeof *board->room_bytes),
        .work_ns = arena_array(memory, ranks, sizeof *board->work_ns),
        .end_ns =
            arena_array(memory, slots * (size_t)layers->microbatch_count, sizeof *board->end_ns),
        .done = arena_array(memory, slots, sizeof *board->done),
        .next = arena_array(memory, ranks, sizeof *board->next),
        .free_ns = arena_array(memory, ranks, sizeof *board->free_ns),
        .idle_ns = arena_array(memory, ranks, sizeof *board->idle_ns),
        .written = arena_array(memory, ranks, sizeof *board->written),
        .choice_code = arena_array(memory, ranks, sizeof *board->choice_code),
        .choice_ns = arena_array(memory, ranks, sizeof *board->choice_ns),
    };
}

/// The slot of the message that an op of a stage waits for, and what it takes.
static void connect(bal_joint_board *board, const bal_stage_costs *costs, int rank, int chunk,
                    int stage, bool forward)
{
    const int neighbour = forward ? stage - 1 : stage + 1;
    const int slot = slot_of(board, rank, 3 * chunk + (forward ? 0 : 1));
    board->source[slot] = BAL_JOINT_NONE;
    board->send_ns[slot] = 0;
    if (neighbour < 0 || neighbour == costs->stage_count) return;
    int sender_chunk = 0;
    const int sender = bal_rank_of_stage(board->shape.placement, board->rank_count,
                                         board->shape.chunk_count, neighbour, &sender_chunk);
    board->source[slot] = slot_of(board, sender, 3 * sender_chunk + (forward ? 0 : 1));
    board->receiver[board->source[slot]] = rank;
    if (sender == rank) return;
    board->send_ns[slot] =
        forward ? costs->send_forward_ns[neighbour] : costs->send_backward_ns[neighbour];
}

void bal_joint_board_set(bal_joint_board *board, const bal_joint_layers *layers,
                         const int *first_layer, const bal_stage_costs *costs)
{
    for (int slot = 0; slot < board->rank_count * board->code_count; slot++) {
        board->receiver[slot] = BAL_JOINT_NONE;
    }
    for (int rank = 0; rank < board->rank_count; rank++) {
        const int64_t state = bal_joint_state_bytes(layers, board->shape, first_layer, rank);
        board->room_bytes[rank] = layers->memory_bytes[rank] - state;
        board->work_ns[rank] = 0;
        for (int chunk = 0; chunk < board->shape.chunk_count; chunk++) {
            const int stage = bal_stage_of(board->shape.placement, board->rank_count,
                                           board->shape.chunk_count, rank, chunk);
            const int slot = slot_of(board, rank, 3 * chunk);
            board->op_ns[slot] = costs->forward_ns[stage];
            board->op_ns[slot + 1] = costs->backward_input_ns[stage];
            board->op_ns[slot + 2] = costs->backward_weight_ns[stage];
            board->memory[slot] = costs->memory_forward[stage];
            board->memory[slot + 1] = costs->memory_backward_input[stage];
            board->memory[slot + 2] = costs->memory_backward_weight[stage];
            board->work_ns[rank] += board->microbatch_count *
                                    (costs->forward_ns[stage] + costs->backward_input_ns[stage] +
                                     costs->backward_weight_ns[stage]);
            connect(board, costs, rank, chunk, stage, true);
            connect(board, costs, rank, chunk, stage, false);
            board->source[slot + 2] = BAL_JOINT_NONE;
        }
    }
}

/// Walks a line. False where an op comes too early.
static bool walk(const bal_joint_board *board, int rank, const bal_joint_code *line, int64_t *peak)
{
    const int64_t *memory = board->memory + slot_of(board, rank, 0);
    int count[BAL_JOINT_CODES_MAX] = {0};
    int64_t held = 0;
    *peak = 0;
    for (int op = 0; op < board->line_op_count; op++) {
        const int code = line[op];
        const bool is_forward = code == 0 || code == 3;
        if (!is_forward && count[code] >= count[code - 1]) return false;
        count[code]++;
        held += memory[code];
        if (held > *peak) *peak = held;
    }
    return true;
}

bool bal_joint_line_fits(const bal_joint_board *board, int rank, const bal_joint_code *line)
{
    int64_t peak = 0;
    return walk(board, rank, line, &peak) && peak <= board->room_bytes[rank];
}

bool bal_joint_lines_fit(const bal_joint_board *board, const bal_joint_code *lines)
{
    for (int rank = 0; rank < board->rank_count; rank++) {
        const bal_joint_code *line = lines + (size_t)rank * (size_t)board->line_op_count;
        if (!bal_joint_line_fits(board, rank, line)) return false;
    }
    return true;
}

int64_t bal_joint_line_peak_bytes(const bal_joint_board *board, int rank,
                                  const bal_joint_code *line)
{
    int64_t peak = 0;
    walk(board, rank, line, &peak);
    return peak;
}

/// Runs a rank on until it has to wait for a message that is not sent yet.
///
/// @return how many ops it ran, or -1 where its idle time alone is too much
static int run_on(bal_joint_board *board, int rank, const bal_joint_code *line, int64_t give_up)
{
    const int first = slot_of(board, rank, 0);
    const int microbatches = board->microbatch_count;
    const int begin = board->next[rank];
    int64_t free_ns = board->free_ns[rank];
    int op = begin;
    for (; op < board->line_op_count; op++) {
        const int slot = first + line[op];
        const int microbatch = board->done[slot];
        const int source = board->source[slot];
        if (source >= 0) {
            if (board->done[source] <= microbatch) break;
            const int64_t arrival =
                board->end_ns[(int64_t)source * microbatches + microbatch] + board->send_ns[slot];
            if (arrival > free_ns) {
                board->idle_ns[rank] += arrival - free_ns;
                if (board->idle_ns[rank] > give_up - board->work_ns[rank]) return -1;
                free_ns = arrival;
            }
        }
        free_ns += board->op_ns[slot];
        board->end_ns[(int64_t)slot * microbatches + microbatch] = free_ns;
        board->done[slot] = microbatch + 1;
    }
    board->next[rank] = op;
    board->free_ns[rank] = free_ns;
    return op - begin;
}

int64_t bal_joint_play(bal_joint_board *board, const bal_joint_code *lines, int64_t give_up)
{
    const int ranks = board->rank_count;
    const int64_t ops = (int64_t)ranks * board->line_op_count;
    memset(board->done, 0, (size_t)ranks * (size_t)board->code_count * sizeof *board->done);
    for (int rank = 0; rank < ranks; rank++) {
        board->next[rank] = 0;
        board->free_ns[rank] = board->idle_ns[rank] = 0;
        if (board->work_ns[rank] > give_up) return INT64_MAX;
    }
    // Up the ranks with the outputs, down with the gradients.
    int64_t ran = 0;
    for (bool up = true; ran < ops; up = !up) {
        int64_t progress = 0;
        for (int index = 0; index < ranks; index++) {
            const int rank = up ? index : ranks - 1 - index;
            const bal_joint_code *line = lines + (size_t)rank * (size_t)board->line_op_count;
            const int count = run_on(board, rank, line, give_up);
            if (count < 0) return INT64_MAX;
            progress += count;
        }
        if (progress == 0) return INT64_MAX;
        ran += progress;
    }
    int64_t makespan = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (board->free_ns[rank] > makespan) makespan = board->free_ns[rank];
    }
    return makespan;
}

/// Where every op of the lines stands, and which microbatch it is: the number of its kind before
/// it.
static void number_ops(const bal_joint_board *board, const bal_joint_code *lines,
                       bal_joint_path *path)
{
    for (int rank = 0; rank < board->rank_count; rank++) {
        int count[BAL_JOINT_CODES_MAX] = {0};
        for (int op = 0; op < board->line_op_count; op++) {
            const int index = rank * board->line_op_count + op;
            const int code = lines[index];
            const int microbatch = count[code]++;
            path->microbatch[index] = microbatch;
            path->place[(int64_t)slot_of(board, rank, code) * board->microbatch_count +
                        microbatch] = index;
        }
    }
}

/// End of an op in the last play.
static int64_t end_of(const bal_joint_board *board, const bal_joint_code *lines,
                      const bal_joint_path *path, int index)
{
    const int slot = slot_of(board, index / board->line_op_count, lines[index]);
    return board->end_ns[(int64_t)slot * board->microbatch_count + path->microbatch[index]];
}

void bal_joint_find_path(const bal_joint_board *board, const bal_joint_code *lines, rng *coin,
                         bal_joint_path *path)
{
    number_ops(board, lines, path);
    int rank = 0;
    for (int other = 1; other < board->rank_count; other++) {
        if (board->free_ns[other] > board->free_ns[rank]) rank = other;
    }
    path->length = 0;
    for (int index = (rank + 1) * board->line_op_count - 1;;) {
        const int slot = slot_of(board, index / board->line_op_count, lines[index]);
        const int64_t begin = end_of(board, lines, path, index) - board->op_ns[slot];
        path->index[path->length++] = index;
        if (begin == 0) return;
        const bool is_first = index % board->line_op_count == 0;
        const bool follows = !is_first && end_of(board, lines, path, index - 1) == begin;
        const int source = board->source[slot];
        const int64_t message = (int64_t)source * board->microbatch_count + path->microbatch[index];
        const bool waits = source >= 0 && board->end_ns[message] + board->send_ns[slot] == begin;
        const bool stays = follows && (!waits || rng_next(coin) % 2 == 0);
        index = stays ? index - 1 : path->place[message];
    }
}

void bal_joint_path_init(const bal_joint_board *board, arena *memory, bal_joint_path *path)
{
    const size_t ops = (size_t)board->rank_count * (size_t)board->line_op_count;
    const size_t places =
        (size_t)board->rank_count * (size_t)board->code_count * (size_t)board->microbatch_count;
    *path = (bal_joint_path){.index = arena_array(memory, ops, sizeof *path->index),
                             .place = arena_array(memory, places, sizeof *path->place),
                             .microbatch = arena_array(memory, ops, sizeof *path->microbatch)};
}

bool bal_joint_lines_of(const bal_joint_board *board, const bal_schedule *schedule,
                        bal_joint_code *lines, bool *fused)
{
    *fused = false;
    for (int rank = 0; rank < board->rank_count; rank++) {
        bal_joint_code *next = lines + (size_t)rank * (size_t)board->line_op_count;
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            const bal_op op = schedule->ops[index];
            const bal_op_kind kind = (bal_op_kind)op.kind;
            if (kind == OP_BACKWARD_WEIGHT && !board->has_split) return false;
            *next++ = bal_joint_code_of(op.chunk, kind);
            if (kind != OP_BACKWARD || !board->has_split) continue;
            *next++ = bal_joint_code_of(op.chunk, OP_BACKWARD_WEIGHT);
            *fused = true;
        }
    }
    return true;
}

void bal_joint_lines_schedule(const bal_joint_board *board, const bal_joint_code *lines,
                              const char *name, arena *memory, bal_schedule *schedule)
{
    const int op_count = board->line_op_count;
    const size_t all = (size_t)board->rank_count * (size_t)op_count;
    int *first_op = arena_array(memory, (size_t)board->rank_count + 1, sizeof *first_op);
    bal_op *ops = arena_array(memory, all, sizeof *ops);
    for (int rank = 0; rank < board->rank_count; rank++) {
        int count[BAL_JOINT_CODES_MAX] = {0};
        first_op[rank + 1] = first_op[rank] + op_count;
        for (int op = first_op[rank]; op < first_op[rank + 1]; op++) {
            static const bal_op_kind kinds[] = {OP_FORWARD, OP_BACKWARD_INPUT, OP_BACKWARD_WEIGHT};
            const int code = lines[op];
            const bool is_full = code % 3 == 1 && !board->has_split;
            ops[op] = (bal_op){.kind = (uint8_t)(is_full ? OP_BACKWARD : kinds[code % 3]),
                               .chunk = (uint16_t)(code / 3),
                               .microbatch = count[code]++};
        }
    }
    *schedule = (bal_schedule){.name = name,
                               .rank_count = board->rank_count,
                               .chunk_count = board->shape.chunk_count,
                               .microbatch_count = board->microbatch_count,
                               .placement = board->shape.placement,
                               .has_split = board->has_split,
                               .first_op = first_op,
                               .ops = ops};
}

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

static const int64_t *memory_of(const dispatch *state, int rank)
{
    return state->board->memory + slot_of(state->board, rank, 0);
}

/// What a rank holds. idle_ns of the board serves for it.
static int64_t *held_of(const dispatch *state, int rank)
{
    return &state->board->idle_ns[rank];
}

/// Room that the ops after an F need so that it can be finished: that of the second chunk, and
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
    const int *done = state->board->done + slot_of(state->board, rank, 0);
    const int most = (state->rule->warmup_quarters * (state->board->rank_count - rank) + 3) / 4;
    return done[FORWARD] - done[INPUT] >= (most > 1 ? most : 1);
}

/// When the next F or B of this code may begin; NONE where that is not known or not allowed.
static choice offer(const dispatch *state, int rank, int code)
{
    const bal_joint_board *board = state->board;
    const choice none = {BAL_JOINT_NONE, INT64_MAX};
    const int slot = slot_of(state->board, rank, code);
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
        const int slot = slot_of(state->board, rank, 3 * chunk);
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
        const int64_t quarter = state->board->op_ns[slot_of(state->board, rank, weight)] / 4;
        if (main.begin_ns - free_ns < quarter * state->rule->gap_quarters) return main;
    }
    return (choice){weight, free_ns};
}

static void run_choice(dispatch *state, int rank, choice chosen)
{
    bal_joint_board *board = state->board;
    const int slot = slot_of(state->board, rank, chosen.code);
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

static void reset_dispatch(const dispatch *state)
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
    reset_dispatch(&state);
    for (int64_t op = (int64_t)board->rank_count * board->line_op_count; op > 0; op--) {
        const int rank = first_rank(board);
        if (rank < 0) return false;
        const int code = board->choice_code[rank];
        run_choice(&state, rank, (choice){code, board->choice_ns[rank]});
        look(&state, rank);
        const int receiver = board->receiver[slot_of(board, rank, code)];
        if (receiver >= 0 && receiver != rank) look(&state, receiver);
    }
    return true;
}
