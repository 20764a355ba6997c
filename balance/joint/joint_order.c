#include "balance/joint/joint_order.h"

#include <string.h>

static int slot_of(const bal_joint_board *board, int rank, int code)
{
    return rank * board->code_count + code;
}

status bal_joint_board_init(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                            bal_joint_board *board, error_message *err)
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
    const bool complete = board->op_ns != NULL && board->send_ns != NULL && board->source != NULL &&
                          board->receiver != NULL && board->memory != NULL &&
                          board->written != NULL && board->choice_code != NULL &&
                          board->choice_ns != NULL && board->room_bytes != NULL &&
                          board->work_ns != NULL && board->end_ns != NULL && board->done != NULL &&
                          board->next != NULL && board->free_ns != NULL && board->idle_ns != NULL;
    if (complete) return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY, "out of memory for orders of %d microbatches",
                     layers->microbatch_count);
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
                         const int *first_layer, const bal_stage_costs *costs, bool fused)
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
            const int64_t weight = costs->backward_weight_ns[stage];
            board->op_ns[slot] = costs->forward_ns[stage];
            board->op_ns[slot + 1] = costs->backward_input_ns[stage] + (fused ? weight : 0);
            board->op_ns[slot + 2] = fused ? 0 : weight;
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

status bal_joint_path_init(const bal_joint_board *board, arena *memory, bal_joint_path *path,
                           error_message *err)
{
    const size_t ops = (size_t)board->rank_count * (size_t)board->line_op_count;
    const size_t places =
        (size_t)board->rank_count * (size_t)board->code_count * (size_t)board->microbatch_count;
    *path = (bal_joint_path){.index = arena_array(memory, ops, sizeof *path->index),
                             .place = arena_array(memory, places, sizeof *path->place),
                             .microbatch = arena_array(memory, ops, sizeof *path->microbatch)};
    if (path->index != NULL && path->place != NULL && path->microbatch != NULL) return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY, "out of memory for an order of %zu ops", ops);
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
