#include "sim/perturbation.h"

#include "sim/network.h"

#include <assert.h>
#include <math.h>

enum { ROUND_BITS = 10, STAGE_BITS = 20, KIND_BITS = 4, REPLICA_BITS = 14 };
_Static_assert(STAGE_BITS + KIND_BITS + REPLICA_BITS <= 40, "a row of ops is one number");
_Static_assert(BAL_RANKS_MAX *BAL_CHUNKS_MAX <= 1 << STAGE_BITS, "a stage fits its bits");

/// What is the same for all rows of a play.
typedef struct perturbing {
    const bal_disturbance *disturbance;
    const bal_schedule *schedule;
    const sim_perturbed_play *play;
    const bal_stage_costs *costs;
    arena *memory;
} perturbing;

/// The stream of a row: ops of one kind of a stage, or its messages in one direction.
static rng row_stream(const perturbing *of, bal_draw_purpose purpose, int kind, int stage)
{
    const int64_t iteration = of->play->iteration << ROUND_BITS | of->play->round;
    const uint64_t row = ((uint64_t)of->play->replica << KIND_BITS | (uint64_t)kind) << STAGE_BITS;
    return bal_disturbance_stream(of->disturbance->seed, purpose, iteration, row | (uint64_t)stage);
}

static int64_t scaled_ns(int64_t ns, double factor)
{
    const double scaled = round((double)ns * factor);
    return scaled >= (double)(INT64_MAX / 4) ? INT64_MAX / 4 : (int64_t)scaled;
}

static void perturb_ops(const perturbing *of, bal_op_kind kind, const int64_t *op_ns,
                        const int64_t **out)
{
    const bal_stage_costs *costs = of->costs;
    const int microbatches = of->schedule->microbatch_count;
    int64_t *drawn =
        arena_array(of->memory, (size_t)costs->stage_count * (size_t)microbatches, sizeof *drawn);
    *out = drawn;
    for (int stage = 0; stage < costs->stage_count; stage++) {
        rng generator = row_stream(of, BAL_DRAW_OP, (int)kind, stage);
        const int64_t *row = op_ns + (int64_t)stage * costs->microbatch_count;
        for (int microbatch = 0; microbatch < microbatches; microbatch++) {
            const double z = rng_normal(&generator);
            const double factor = fmax(0.0, 1.0 + of->disturbance->op_sigma * z);
            const int64_t ns = row[costs->microbatch_count > 1 ? microbatch : 0];
            drawn[(int64_t)stage * microbatches + microbatch] = scaled_ns(ns, factor);
        }
    }
}

/// Repeats a column for every microbatch, where the times of ops are drawn and another array's not.
static void repeat(const perturbing *of, const int64_t *values, int row_count, const int64_t **out)
{
    const int columns = of->costs->microbatch_count;
    const int microbatches = of->schedule->microbatch_count;
    if (columns == microbatches) {
        *out = values;
        return;
    }
    int64_t *repeated =
        arena_array(of->memory, (size_t)row_count * (size_t)microbatches, sizeof *repeated);
    for (int64_t cell = 0; values != NULL && cell < (int64_t)row_count * microbatches; cell++) {
        repeated[cell] = values[cell / microbatches];
    }
    *out = repeated;
}

static int machine_rank(const perturbing *of, int stage)
{
    const bal_schedule *schedule = of->schedule;
    const int place = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                        schedule->chunk_count, stage, NULL);
    return of->play->machine_rank != NULL ? of->play->machine_rank[place] : place;
}

/// What a message between two ranks takes over links as they are in the iteration.
static int64_t link_ns(const perturbing *of, int rank, int other_rank, int64_t ns)
{
    for (int index = 0; index < of->disturbance->link_count; index++) {
        const bal_disturbed_link *link = &of->disturbance->links[index];
        const bool is_it = (link->rank == rank && link->other_rank == other_rank) ||
                           (link->rank == other_rank && link->other_rank == rank);
        if (!is_it || of->play->iteration < link->first_iteration ||
            of->play->iteration >= link->end_iteration) {
            continue;
        }
        ns = scaled_ns(ns, link->time_factor);
        ns = ns < INT64_MAX / 4 - link->delay_ns ? ns + link->delay_ns : INT64_MAX / 4;
    }
    return ns;
}

static void perturb_links(const perturbing *of, bal_op_kind kind, const int64_t *send_ns,
                          const int64_t **out)
{
    const int stages = of->costs->stage_count;
    int64_t *slower = arena_array(of->memory, (size_t)stages, sizeof *slower);
    for (int stage = 0; stage < stages; stage++) {
        const int receiver = sim_network_receiver(of->schedule, kind, stage);
        slower[stage] = receiver < 0 ? send_ns[stage]
                                     : link_ns(of, machine_rank(of, stage),
                                               machine_rank(of, receiver), send_ns[stage]);
    }
    *out = slower;
}

/// Adds what messages take longer by their own factors.
///
/// @param sends  [stage_count] of each direction, over links as they are
/// @param delays [2][stage_count][microbatches] in and out
static void draw_delays(const perturbing *of, const int64_t *const sends[2], int64_t *delays)
{
    const bal_disturbance *disturbance = of->disturbance;
    const int stages = of->costs->stage_count;
    const int microbatches = of->schedule->microbatch_count;
    for (int way = 0; way < 2; way++) {
        for (int stage = 0; stage < stages; stage++) {
            rng generator = row_stream(of, BAL_DRAW_MESSAGE, way, stage);
            int64_t *row = delays + ((int64_t)way * stages + stage) * microbatches;
            const bal_op_kind kind = way == 0 ? OP_FORWARD : OP_BACKWARD_INPUT;
            if (sim_network_receiver(of->schedule, kind, stage) < 0) continue;
            for (int microbatch = 0; microbatch < microbatches; microbatch++) {
                const double drawn = disturbance->message_factor +
                                     disturbance->message_sigma * rng_normal(&generator);
                const double factor = fmin(fmax(drawn, 1.0), disturbance->message_factor_max);
                row[microbatch] += scaled_ns(sends[way][stage], factor - 1.0);
            }
        }
    }
}

static void perturb_messages(const perturbing *of, bal_stage_costs *out)
{
    const int stages = of->costs->stage_count;
    const size_t cells = 2 * (size_t)stages * (size_t)of->schedule->microbatch_count;
    const int64_t *const sends[] = {out->send_forward_ns, out->send_backward_ns};
    const int64_t *repeated = NULL;
    int64_t *delays = arena_array(of->memory, cells, sizeof *delays);
    if (of->costs->message_delay_ns != NULL) {
        repeat(of, of->costs->message_delay_ns, 2 * stages, &repeated);
        for (size_t cell = 0; cell < cells; cell++) {
            delays[cell] = repeated[cell];
        }
    }
    draw_delays(of, sends, delays);
    out->message_delay_ns = delays;
}

/// Draws the times of all ops, or gives them the columns of what else is drawn.
static void perturb_all_ops(const perturbing *of, bal_stage_costs *out)
{
    const bal_stage_costs *costs = of->costs;
    const int stages = costs->stage_count;
    out->microbatch_count = of->schedule->microbatch_count;
    if (of->disturbance->op_sigma <= 0) {
        repeat(of, costs->forward_ns, stages, &out->forward_ns);
        repeat(of, costs->backward_input_ns, stages, &out->backward_input_ns);
        repeat(of, costs->backward_weight_ns, stages, &out->backward_weight_ns);
        return;
    }
    perturb_ops(of, OP_FORWARD, costs->forward_ns, &out->forward_ns);
    perturb_ops(of, OP_BACKWARD_INPUT, costs->backward_input_ns, &out->backward_input_ns);
    perturb_ops(of, OP_BACKWARD_WEIGHT, costs->backward_weight_ns, &out->backward_weight_ns);
}

void sim_perturb(const bal_disturbance *disturbance, const bal_schedule *schedule,
                 const sim_perturbed_play *play, const bal_stage_costs *costs, arena *memory,
                 bal_stage_costs *out)
{
    const perturbing of = {disturbance, schedule, play, costs, memory};
    bal_stage_costs made = *costs;
    assert(play->round >= 0 && play->round < 1 << ROUND_BITS);
    assert(play->replica >= 0 && play->replica < 1 << REPLICA_BITS);
    if (disturbance->link_count > 0) {
        perturb_links(&of, OP_FORWARD, costs->send_forward_ns, &made.send_forward_ns);
        perturb_links(&of, OP_BACKWARD_INPUT, costs->send_backward_ns, &made.send_backward_ns);
    }
    if (bal_disturbance_is_drawn_per_op(disturbance)) {
        perturb_all_ops(&of, &made);
        if (disturbance->message_factor_max > 1) {
            perturb_messages(&of, &made);
        } else if (costs->message_delay_ns != NULL) {
            repeat(&of, costs->message_delay_ns, 2 * costs->stage_count, &made.message_delay_ns);
        }
    }
    *out = made;
}
