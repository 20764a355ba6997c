#include "balance/joint/joint_order.h"

#include <string.h>

static void carve_scratch(arena *memory, bal_joint_board *board)
{
    const size_t ranks = (size_t)board->rank_count;
    const size_t slots = 3 * (size_t)board->stage_count;
    const size_t ends = slots * (size_t)board->microbatch_count;
    const size_t ops = (size_t)board->op_count;
    board->end_ns = arena_array(memory, ends, sizeof *board->end_ns);
    board->done = arena_array(memory, slots, sizeof *board->done);
    board->next = arena_array(memory, ranks, sizeof *board->next);
    board->free_ns = arena_array(memory, ranks, sizeof *board->free_ns);
    board->idle_ns = arena_array(memory, ranks, sizeof *board->idle_ns);
    board->choice_code = arena_array(memory, ranks, sizeof *board->choice_code);
    board->choice_ns = arena_array(memory, ranks, sizeof *board->choice_ns);
    board->path = arena_array(memory, ops, sizeof *board->path);
    board->microbatch = arena_array(memory, ops, sizeof *board->microbatch);
    board->place = arena_array(memory, ends, sizeof *board->place);
}

static void carve_costs(arena *memory, bal_joint_board *board)
{
    const int stages = board->stage_count;
    const size_t slots = 3 * (size_t)stages;
    board->op_ns = arena_array(memory, slots, sizeof *board->op_ns);
    board->send_ns = arena_array(memory, slots, sizeof *board->send_ns);
    board->memory = arena_array(memory, slots, sizeof *board->memory);
    board->room_bytes = arena_array(memory, (size_t)board->rank_count, sizeof *board->room_bytes);
    board->work_ns = arena_array(memory, (size_t)board->rank_count, sizeof *board->work_ns);
    // What stage s sends is what the F of s + 1 or the B of s - 1 waits for.
    board->costs = (bal_stage_costs){.stage_count = stages,
                                     .microbatch_count = 1,
                                     .forward_ns = board->op_ns,
                                     .backward_input_ns = board->op_ns + stages,
                                     .backward_weight_ns = board->op_ns + 2 * stages,
                                     .send_forward_ns = board->send_ns + 1,
                                     .send_backward_ns = board->send_ns + stages - 1,
                                     .memory_forward = board->memory,
                                     .memory_backward_input = board->memory + stages,
                                     .memory_backward_weight = board->memory + 2 * stages};
}

static int rank_of(const bal_joint_board *board, int stage, int *chunk)
{
    return bal_rank_of_stage(board->shape.placement, board->rank_count, board->shape.chunk_count,
                             stage, chunk);
}

/// Says who waits for whom: F for the stage before, B for the stage after.
static void connect(arena *memory, bal_joint_board *board)
{
    const int stages = board->stage_count;
    const size_t slots = 3 * (size_t)stages;
    board->slot = arena_array(memory, slots, sizeof *board->slot);
    board->source = arena_array(memory, slots, sizeof *board->source);
    board->receiver = arena_array(memory, slots, sizeof *board->receiver);
    for (int stage = 0; stage < stages; stage++) {
        int chunk = 0;
        const int rank = rank_of(board, stage, &chunk);
        const bool is_last = stage + 1 == stages;
        for (int kind = 0; kind < 3; kind++) {
            const int slot = kind * stages + stage;
            board->slot[rank * board->code_count + 3 * chunk + kind] = slot;
            board->source[slot] = board->receiver[slot] = BAL_JOINT_NONE;
        }
        if (stage > 0) {
            board->source[stage] = stage - 1;
            board->receiver[stages + stage] = rank_of(board, stage - 1, NULL);
        }
        if (!is_last) {
            board->source[stages + stage] = stages + stage + 1;
            board->receiver[stage] = rank_of(board, stage + 1, NULL);
        }
    }
}

void bal_joint_board_init(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                          bal_joint_board *board)
{
    const int ops = (layers->has_split ? 3 : 2) * shape.chunk_count * layers->microbatch_count;
    *board = (bal_joint_board){.layers = layers,
                               .shape = shape,
                               .rank_count = layers->rank_count,
                               .stage_count = layers->rank_count * shape.chunk_count,
                               .microbatch_count = layers->microbatch_count,
                               .has_split = layers->has_split,
                               .code_count = 3 * shape.chunk_count,
                               .line_op_count = ops,
                               .op_count = layers->rank_count * ops};
    connect(memory, board);
    carve_costs(memory, board);
    carve_scratch(memory, board);
}

/// Fills the slots of a stage that owns layers [begin, end).
static void put_stage(bal_joint_board *board, int stage, int begin, int end)
{
    const int stages = board->stage_count;
    const int64_t *transfer = board->layers->transfer_ns;
    int chunk = 0;
    const int rank = rank_of(board, stage, &chunk);
    const bal_joint_cost cost = bal_joint_cost_of(board->layers, rank, chunk, begin, end);
    const int64_t op_ns[3] = {cost.forward_ns, cost.input_ns, cost.weight_ns};
    const int64_t memory[3] = {cost.held_bytes, cost.gradient_bytes - cost.held_bytes,
                               -cost.gradient_bytes};
    for (int kind = 0; kind < 3; kind++) {
        board->op_ns[kind * stages + stage] = op_ns[kind];
        board->memory[kind * stages + stage] = memory[kind];
        board->work_ns[rank] += board->microbatch_count * op_ns[kind];
    }
    board->room_bytes[rank] -= cost.state_bytes;
    if (transfer == NULL || stage + 1 == stages) return;
    const int64_t send_ns = rank_of(board, stage + 1, NULL) == rank ? 0 : transfer[end - 1];
    board->send_ns[stage + 1] = board->send_ns[stages + stage] = send_ns;
}

void bal_joint_board_set(bal_joint_board *board, const int *first_layer)
{
    for (int rank = 0; rank < board->rank_count; rank++) {
        board->room_bytes[rank] = board->layers->memory_bytes[rank];
        board->work_ns[rank] = 0;
    }
    for (int stage = 0; stage < board->stage_count; stage++) {
        put_stage(board, stage, first_layer[stage], first_layer[stage + 1]);
    }
}

int64_t bal_joint_line_peak_bytes(const bal_joint_board *board, int rank,
                                  const bal_joint_code *line)
{
    const int *slots = board->slot + rank * board->code_count;
    int count[BAL_JOINT_CODES_MAX] = {0};
    int64_t held = 0;
    int64_t peak = 0;
    for (int op = 0; op < board->line_op_count; op++) {
        const int code = line[op];
        const bool is_forward = code == 0 || code == 3;
        if (!is_forward && count[code] >= count[code - 1]) return INT64_MAX;
        count[code]++;
        held += board->memory[slots[code]];
        if (held > peak) peak = held;
    }
    return peak;
}

bool bal_joint_line_fits(const bal_joint_board *board, int rank, const bal_joint_code *line)
{
    return bal_joint_line_peak_bytes(board, rank, line) <= board->room_bytes[rank];
}

bool bal_joint_lines_fit(const bal_joint_board *board, const bal_joint_code *lines)
{
    for (int rank = 0; rank < board->rank_count; rank++) {
        if (!bal_joint_line_fits(board, rank, lines + bal_joint_line_begin(board, rank))) {
            return false;
        }
    }
    return true;
}

/// Runs a rank on until it has to wait for a message that is not sent yet.
///
/// @return how many ops it ran, or -1 where its idle time alone is too much
static int run_on(bal_joint_board *board, int rank, const bal_joint_code *line, int64_t give_up)
{
    const int *slots = board->slot + rank * board->code_count;
    const int microbatches = board->microbatch_count;
    const int begin = board->next[rank];
    int64_t free_ns = board->free_ns[rank];
    int op = begin;
    for (; op < board->line_op_count; op++) {
        const int slot = slots[line[op]];
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
    memset(board->done, 0, 3 * (size_t)board->stage_count * sizeof *board->done);
    for (int rank = 0; rank < ranks; rank++) {
        board->next[rank] = 0;
        board->free_ns[rank] = board->idle_ns[rank] = 0;
        if (board->work_ns[rank] > give_up) return INT64_MAX;
    }
    // Up the ranks with the outputs, down with the gradients.
    int ran = 0;
    for (bool up = true; ran < board->op_count; up = !up) {
        int progress = 0;
        for (int index = 0; index < ranks; index++) {
            const int rank = up ? index : ranks - 1 - index;
            const int count =
                run_on(board, rank, lines + bal_joint_line_begin(board, rank), give_up);
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

/// Finds where every op of the lines stands, and which microbatch it is: the number of its kind
/// before it.
static void number_ops(bal_joint_board *board, const bal_joint_code *lines)
{
    memset(board->done, 0, 3 * (size_t)board->stage_count * sizeof *board->done);
    int index = 0;
    for (int rank = 0; rank < board->rank_count; rank++) {
        const int *slots = board->slot + rank * board->code_count;
        for (; index < bal_joint_line_begin(board, rank + 1); index++) {
            const int slot = slots[lines[index]];
            const int microbatch = board->done[slot]++;
            board->microbatch[index] = microbatch;
            board->place[slot * board->microbatch_count + microbatch] = index;
        }
    }
}

/// End of an op in the last play.
static int64_t end_of(const bal_joint_board *board, const bal_joint_code *lines, int index)
{
    const int slot = bal_joint_slot(board, index / board->line_op_count, lines[index]);
    return board->end_ns[slot * board->microbatch_count + board->microbatch[index]];
}

/// The op that kept one from beginning earlier, or NONE.
static int cause_of(const bal_joint_board *board, const bal_joint_code *lines, int index, rng *coin)
{
    const int slot = bal_joint_slot(board, index / board->line_op_count, lines[index]);
    const int64_t begin = end_of(board, lines, index) - board->op_ns[slot];
    if (begin == 0) return BAL_JOINT_NONE;
    const bool is_first = index % board->line_op_count == 0;
    const bool follows = !is_first && end_of(board, lines, index - 1) == begin;
    const int source = board->source[slot];
    const int message = source * board->microbatch_count + board->microbatch[index];
    const bool waits = source >= 0 && board->end_ns[message] + board->send_ns[slot] == begin;
    const bool stays = follows && (!waits || rng_next(coin) % 2 == 0);
    return stays ? index - 1 : board->place[message];
}

void bal_joint_find_path(bal_joint_board *board, const bal_joint_code *lines, rng *coin)
{
    number_ops(board, lines);
    int rank = 0;
    for (int other = 1; other < board->rank_count; other++) {
        if (board->free_ns[other] > board->free_ns[rank]) rank = other;
    }
    board->path_length = 0;
    for (int index = bal_joint_line_begin(board, rank + 1) - 1; index != BAL_JOINT_NONE;) {
        board->path[board->path_length++] = index;
        index = cause_of(board, lines, index, coin);
    }
}

bool bal_joint_lines_of(const bal_joint_board *board, const bal_schedule *schedule,
                        bal_joint_code *lines)
{
    if (schedule->has_split && !board->has_split) return false;
    for (int index = 0; index < schedule->first_op[board->rank_count]; index++) {
        const bal_op op = schedule->ops[index];
        const bool is_full = op.kind == OP_BACKWARD;
        const int kind = op.kind == OP_FORWARD           ? BAL_JOINT_FORWARD
                         : op.kind == OP_BACKWARD_WEIGHT ? BAL_JOINT_WEIGHT
                                                         : BAL_JOINT_INPUT;
        *lines++ = (bal_joint_code)(3 * op.chunk + kind);
        if (is_full && board->has_split)
            *lines++ = (bal_joint_code)(3 * op.chunk + BAL_JOINT_WEIGHT);
    }
    return true;
}

void bal_joint_lines_schedule(const bal_joint_board *board, const bal_joint_code *lines,
                              const char *name, arena *memory, bal_schedule *schedule)
{
    int *first_op = arena_array(memory, (size_t)board->rank_count + 1, sizeof *first_op);
    bal_op *ops = arena_array(memory, (size_t)board->op_count, sizeof *ops);
    const bal_op_kind kinds[3] = {OP_FORWARD, board->has_split ? OP_BACKWARD_INPUT : OP_BACKWARD,
                                  OP_BACKWARD_WEIGHT};
    for (int rank = 0; rank < board->rank_count; rank++) {
        int count[BAL_JOINT_CODES_MAX] = {0};
        first_op[rank + 1] = bal_joint_line_begin(board, rank + 1);
        for (int op = first_op[rank]; op < first_op[rank + 1]; op++) {
            const int code = lines[op];
            ops[op] = (bal_op){.kind = (uint8_t)kinds[code % 3],
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
