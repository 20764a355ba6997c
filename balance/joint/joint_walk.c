#include "balance/joint/joint_walk.h"

#include "balance/joint/joint_bound.h"

#include <string.h>

enum {
    CUT_ONE_IN = 12,     // changes that move a cut
    WEIGHTS_ONE_IN = 64, // changes that place all W anew
    TRIES_PER_PLAY = 32, // changes that break a rule before the step is given up
    DISTANCE_MAX = 24,   // places that an op moves at most
};

void bal_joint_ground_init(const bal_joint_layers *layers, bal_joint_shape shape, arena *memory,
                           bal_joint_ground *ground)
{
    *ground = (bal_joint_ground){.layers = layers, .shape = shape};
    bal_joint_board_init(layers, shape, memory, &ground->board);
    bal_joint_costs_init(layers, shape, memory, &ground->costs);
    bal_joint_path_init(&ground->board, memory, &ground->path);
    ground->op_count = layers->rank_count * ground->board.line_op_count;
    ground->stage_count = ground->costs.stage_count;
    ground->tried = arena_array(memory, (size_t)ground->op_count, sizeof *ground->tried);
    ground->tried_first_layer =
        arena_array(memory, (size_t)ground->stage_count + 1, sizeof *ground->tried_first_layer);
}

void bal_joint_place_init(const bal_joint_ground *ground, arena *memory, bal_joint_place *place)
{
    place->first_layer =
        arena_array(memory, (size_t)ground->stage_count + 1, sizeof *place->first_layer);
    place->lines = arena_array(memory, (size_t)ground->op_count, sizeof *place->lines);
    place->makespan_ns = INT64_MAX;
}

void bal_joint_place_copy(const bal_joint_ground *ground, const bal_joint_place *from,
                          bal_joint_place *to)
{
    memcpy(to->first_layer, from->first_layer,
           ((size_t)ground->stage_count + 1) * sizeof *to->first_layer);
    memcpy(to->lines, from->lines, (size_t)ground->op_count * sizeof *to->lines);
    to->makespan_ns = from->makespan_ns;
    to->source = from->source;
}

void bal_joint_ground_set(bal_joint_ground *ground, const int *first_layer)
{
    bal_joint_costs_fill(ground->layers, ground->shape, first_layer, &ground->costs);
    bal_joint_board_set(&ground->board, ground->layers, first_layer, &ground->costs);
}

void bal_joint_walk_begin(const bal_joint_ground *ground, const bal_joint_place *from,
                          uint64_t seed, uint64_t purpose, arena *memory, bal_joint_walk *walk)
{
    bal_joint_place_init(ground, memory, &walk->here);
    bal_joint_place_init(ground, memory, &walk->best);
    bal_joint_place_copy(ground, from, &walk->here);
    bal_joint_place_copy(ground, from, &walk->best);
    for (int index = 0; index < BAL_JOINT_HISTORY; index++) {
        walk->history[index] = from->makespan_ns;
    }
    walk->step_count = 0;
    walk->random = rng_init(seed, purpose);
}

/// A step under way.
typedef struct step {
    bal_joint_ground *ground;
    bal_joint_walk *walk;
    int64_t limit_ns; // makespans up to it are taken
} step;

/// Takes what was just played to the end, if it is short enough.
static bool take(step *now, int64_t makespan_ns)
{
    bal_joint_walk *walk = now->walk;
    if (makespan_ns > now->limit_ns) return false;
    walk->here.makespan_ns = makespan_ns;
    walk->here.source = "local search";
    if (makespan_ns < walk->best.makespan_ns) {
        bal_joint_place_copy(now->ground, &walk->here, &walk->best);
    }
    bal_joint_find_path(&now->ground->board, walk->here.lines, &walk->random, &now->ground->path);
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

/// Where a critical op could go instead: W mostly later, what others wait for mostly earlier. Ops
/// of its own code do not count, as changing places with them changes nothing.
static int place_for(step *now, const bal_joint_code *line, int op)
{
    const int count = now->ground->board.line_op_count;
    rng *random = &now->walk->random;
    const bool later = (line[op] % 3 == 2) == (rng_below(random, 4) != 0);
    const int direction = later ? 1 : -1;
    int distance = 1;
    while (distance < DISTANCE_MAX && rng_below(random, 3) != 0) {
        distance++;
    }
    int to = op;
    for (int next = op + direction; next >= 0 && next < count && distance > 0; next += direction) {
        to = next;
        if (line[next] != line[op]) distance--;
    }
    return to;
}

/// Moves an op of the critical path within its line.
static void change_order(step *now)
{
    bal_joint_ground *ground = now->ground;
    bal_joint_board *board = &ground->board;
    bal_joint_walk *walk = now->walk;
    for (int tries = 0; tries < TRIES_PER_PLAY; tries++) {
        const int which = (int)rng_below(&walk->random, (uint64_t)ground->path.length);
        const int index = ground->path.index[which];
        const int rank = index / board->line_op_count;
        const int from = index % board->line_op_count;
        bal_joint_code *line = walk->here.lines + (size_t)rank * (size_t)board->line_op_count;
        const int to = place_for(now, line, from);
        if (line[to] == line[from]) continue;
        move_op(line, from, to);
        if (bal_joint_line_fits(board, rank, line)) {
            if (!take(now, bal_joint_play(board, walk->here.lines, now->limit_ns))) {
                move_op(line, to, from);
            }
            break;
        }
        move_op(line, to, from);
    }
}

/// Plays the order in hand on the partition on the board, or F and B of it with every W placed
/// anew.
static bool replay(step *now, bool weights_anew)
{
    bal_joint_board *board = &now->ground->board;
    bal_joint_walk *walk = now->walk;
    if (!weights_anew) {
        return bal_joint_lines_fit(board, walk->here.lines) &&
               take(now, bal_joint_play(board, walk->here.lines, now->limit_ns));
    }
    bal_joint_code *const tried = now->ground->tried;
    const bal_joint_rule rule = {.given = walk->here.lines,
                                 .gap_quarters = (int)rng_below(&walk->random, 6)};
    if (!bal_joint_dispatch(board, &rule, tried)) return false;
    const int64_t makespan_ns = bal_joint_play(board, tried, now->limit_ns);
    if (makespan_ns > now->limit_ns) return false;
    memcpy(walk->here.lines, tried, (size_t)now->ground->op_count * sizeof *tried);
    return take(now, makespan_ns);
}

/// Moves one or two layers across cuts.
static void change_cut(step *now)
{
    bal_joint_ground *ground = now->ground;
    bal_joint_walk *walk = now->walk;
    int *const before = walk->here.first_layer;
    int *const after = ground->tried_first_layer;
    memcpy(after, before, ((size_t)ground->stage_count + 1) * sizeof *after);
    const bool anew = rng_below(&walk->random, 2) == 0;
    if (!bal_joint_shift_cuts(ground->stage_count, &walk->random, after)) return;
    if (bal_joint_partition_bound(ground->layers, ground->shape, after) > now->limit_ns) return;
    bal_joint_ground_set(ground, after);
    walk->here.first_layer = after;
    ground->tried_first_layer = before;
    if (replay(now, anew)) return;
    walk->here.first_layer = before;
    ground->tried_first_layer = after;
    bal_joint_ground_set(ground, before);
}

static void take_step(step *now)
{
    bal_joint_walk *walk = now->walk;
    int64_t *then = &walk->history[walk->step_count % BAL_JOINT_HISTORY];
    now->limit_ns = walk->here.makespan_ns > *then ? walk->here.makespan_ns : *then;
    if (now->ground->stage_count > 1 && rng_below(&walk->random, CUT_ONE_IN) == 0) {
        change_cut(now);
    } else if (now->ground->board.has_split && rng_below(&walk->random, WEIGHTS_ONE_IN) == 0) {
        replay(now, true);
    } else {
        change_order(now);
    }
    *then = walk->here.makespan_ns;
    walk->step_count++;
}

int64_t bal_joint_walk_on(bal_joint_ground *ground, bal_joint_walk *walk, int64_t play_count,
                          int64_t goal_ns)
{
    step now = {.ground = ground, .walk = walk};
    int64_t played = 0;
    bal_joint_ground_set(ground, walk->here.first_layer);
    bal_joint_play(&ground->board, walk->here.lines, INT64_MAX);
    bal_joint_find_path(&ground->board, walk->here.lines, &walk->random, &ground->path);
    for (; played < play_count && walk->best.makespan_ns > goal_ns; played++) {
        take_step(&now);
    }
    return played;
}
