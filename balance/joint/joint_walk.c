#include "balance/joint/joint_walk.h"

#include "balance/joint/joint_bound.h"

#include <string.h>

enum {
    CUT_ONE_IN = 12,     // changes that move a cut
    TRIES_PER_PLAY = 32, // changes that break a rule before the step is given up
    DISTANCE_MAX = 24,   // places that an op moves at most
};

void bal_joint_place_init(int stage_count, int op_count, arena *memory, bal_joint_place *place)
{
    *place = (bal_joint_place){.makespan_ns = INT64_MAX};
    place->first_layer = arena_array(memory, (size_t)stage_count + 1, sizeof *place->first_layer);
    place->lines = arena_array(memory, (size_t)op_count, sizeof *place->lines);
}

void bal_joint_place_copy(const bal_joint_place *from, bal_joint_place *to)
{
    const bal_joint_board *board = from->board;
    const size_t cuts = (size_t)board->stage_count + 1;
    memcpy(to->first_layer, from->first_layer, cuts * sizeof *to->first_layer);
    memcpy(to->lines, from->lines, (size_t)board->op_count * sizeof *to->lines);
    to->board = from->board;
    to->makespan_ns = from->makespan_ns;
    to->source = from->source;
}

void bal_joint_walk_begin(bal_joint_walk *walk, uint64_t seed, uint64_t purpose)
{
    bal_joint_place_copy(&walk->best, &walk->here);
    for (int index = 0; index < BAL_JOINT_HISTORY; index++) {
        walk->history[index] = walk->here.makespan_ns;
    }
    walk->step_count = 0;
    walk->random = rng_init(seed, purpose);
}

/// Plays the order in hand and takes it, if it is short enough.
static bool take(bal_joint_walk *walk, int64_t limit_ns)
{
    bal_joint_place *here = &walk->here;
    const int64_t makespan_ns = bal_joint_play(here->board, here->lines, limit_ns);
    if (makespan_ns > limit_ns) return false;
    here->makespan_ns = makespan_ns;
    here->source = "local search";
    if (makespan_ns < walk->best.makespan_ns) bal_joint_place_copy(here, &walk->best);
    bal_joint_find_path(here->board, here->lines, &walk->random);
    return true;
}

/// Moves the op at one place of a line to another place, those between by one.
static void move_op(bal_joint_code *line, int from, int to)
{
    const bal_joint_code moved = line[from];
    if (from < to) {
        memmove(line + from, line + from + 1, (size_t)(to - from));
    } else {
        memmove(line + to + 1, line + to, (size_t)(from - to));
    }
    line[to] = moved;
}

/// Where a critical op could go instead. Ops of its own code do not count, as changing places with
/// them changes nothing.
static int place_for(const bal_joint_code *line, int op_count, int op, rng *random)
{
    const int direction = rng_below(random, 2) == 0 ? 1 : -1;
    int distance = 1;
    while (distance < DISTANCE_MAX && rng_below(random, 4) != 0) {
        distance++;
    }
    int to = op;
    for (int next = op + direction; next >= 0 && next < op_count && distance > 0;
         next += direction) {
        to = next;
        if (line[next] != line[op]) distance--;
    }
    return to;
}

/// Moves an op of the critical path within its line.
static void change_order(bal_joint_walk *walk, int64_t limit_ns)
{
    const bal_joint_board *board = walk->here.board;
    for (int tries = 0; tries < TRIES_PER_PLAY; tries++) {
        const int index = board->path[rng_below(&walk->random, (uint64_t)board->path_length)];
        const int rank = index / board->line_op_count;
        const int from = index % board->line_op_count;
        bal_joint_code *line = walk->here.lines + bal_joint_line_begin(board, rank);
        const int to = place_for(line, board->line_op_count, from, &walk->random);
        if (line[to] == line[from]) continue;
        move_op(line, from, to);
        const bool fits = bal_joint_line_fits(board, rank, line);
        if (fits && take(walk, limit_ns)) return;
        move_op(line, to, from);
        if (fits) return;
    }
}

/// Moves one or two layers across cuts.
static void change_cut(bal_joint_walk *walk, int64_t limit_ns)
{
    bal_joint_place *here = &walk->here;
    bal_joint_board *board = here->board;
    int *const before = here->first_layer;
    int *const after = walk->spare_first_layer;
    memcpy(after, before, ((size_t)board->stage_count + 1) * sizeof *after);
    if (!bal_joint_shift_cuts(board->stage_count, &walk->random, after)) return;
    if (bal_joint_partition_bound(board->layers, board->shape, after) > limit_ns) return;
    here->first_layer = after;
    bal_joint_board_set(board, after);
    if (bal_joint_lines_fit(board, here->lines) && take(walk, limit_ns)) {
        walk->spare_first_layer = before;
        return;
    }
    here->first_layer = before;
    bal_joint_board_set(board, before);
}

static void take_step(bal_joint_walk *walk)
{
    int64_t *then = &walk->history[walk->step_count++ % BAL_JOINT_HISTORY];
    const int64_t here_ns = walk->here.makespan_ns;
    const int64_t limit_ns = here_ns > *then ? here_ns : *then;
    if (walk->here.board->stage_count > 1 && rng_below(&walk->random, CUT_ONE_IN) == 0) {
        change_cut(walk, limit_ns);
    } else {
        change_order(walk, limit_ns);
    }
    *then = walk->here.makespan_ns;
}

int64_t bal_joint_walk_on(bal_joint_walk *walk, int64_t step_count, int64_t goal_ns)
{
    bal_joint_place *here = &walk->here;
    int64_t taken = 0;
    bal_joint_board_set(here->board, here->first_layer);
    bal_joint_play(here->board, here->lines, INT64_MAX);
    bal_joint_find_path(here->board, here->lines, &walk->random);
    for (; taken < step_count && walk->best.makespan_ns > goal_ns; taken++) {
        take_step(walk);
    }
    return taken;
}
