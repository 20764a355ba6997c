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

static const int64_t *perturbed_ops(const perturbing *of, int kind)
{
    const bal_stage_costs *costs = of->costs;
    const int microbatches = of->schedule->microbatch_count;
    int64_t *drawn =
        arena_array(of->memory, (size_t)costs->stage_count * (size_t)microbatches, sizeof *drawn);
    for (int stage = 0; stage < costs->stage_count; stage++) {
        rng generator = row_stream(of, BAL_DRAW_OP, kind, stage);
        const int64_t *row = costs->times_ns[kind] + (int64_t)stage * costs->microbatch_count;
        for (int microbatch = 0; microbatch < microbatches; microbatch++) {
            const double z = rng_normal(&generator);
            const double factor = fmax(0.0, 1.0 + of->disturbance->op_sigma * z);
            const int64_t ns = row[costs->microbatch_count > 1 ? microbatch : 0];
            drawn[(int64_t)stage * microbatches + microbatch] = bal_scaled_ns(ns, factor);
        }
    }
    return drawn;
}

/// Repeats a column for every microbatch, where the times of ops are drawn and another array's not.
static const int64_t *repeated(const perturbing *of, const int64_t *values, int row_count)
{
    const int columns = of->costs->microbatch_count;
    const int microbatches = of->schedule->microbatch_count;
    if (columns == microbatches) return values;
    int64_t *out = arena_array(of->memory, (size_t)row_count * (size_t)microbatches, sizeof *out);
    for (int64_t cell = 0; values != NULL && cell < (int64_t)row_count * microbatches; cell++) {
        out[cell] = values[cell / microbatches];
    }
    return out;
}

/// Whose messages go this way: outputs, or gradients.
static bal_op_kind kind_of(int way)
{
    return way == 0 ? OP_FORWARD : OP_BACKWARD_INPUT;
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
        ns = bal_scaled_ns(ns, link->time_factor);
        ns = ns < INT64_MAX / 4 - link->delay_ns ? ns + link->delay_ns : INT64_MAX / 4;
    }
    return ns;
}

static const int64_t *perturbed_sends(const perturbing *of, int way)
{
    const int stages = of->costs->stage_count;
    const int64_t *send_ns = of->costs->sends_ns[way];
    int64_t *slower = arena_array(of->memory, (size_t)stages, sizeof *slower);
    for (int stage = 0; stage < stages; stage++) {
        const int receiver = sim_network_receiver(of->schedule, kind_of(way), stage);
        slower[stage] = receiver < 0 ? send_ns[stage]
                                     : link_ns(of, bal_placed_machine_rank(of->play->plan, stage),
                                               bal_placed_machine_rank(of->play->plan, receiver),
                                               send_ns[stage]);
    }
    return slower;
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
            if (sim_network_receiver(of->schedule, kind_of(way), stage) < 0) continue;
            for (int microbatch = 0; microbatch < microbatches; microbatch++) {
                const double drawn = disturbance->message_factor +
                                     disturbance->message_sigma * rng_normal(&generator);
                const double factor = fmin(fmax(drawn, 1.0), disturbance->message_factor_max);
                row[microbatch] += bal_scaled_ns(sends[way][stage], factor - 1.0);
            }
        }
    }
}

static void perturb_messages(const perturbing *of, bal_stage_costs *out)
{
    const int stages = of->costs->stage_count;
    const size_t cells = 2 * (size_t)stages * (size_t)of->schedule->microbatch_count;
    int64_t *delays = arena_array(of->memory, cells, sizeof *delays);
    if (of->costs->message_delay_ns != NULL) {
        const int64_t *before = repeated(of, of->costs->message_delay_ns, 2 * stages);
        for (size_t cell = 0; cell < cells; cell++) {
            delays[cell] = before[cell];
        }
    }
    draw_delays(of, out->sends_ns, delays);
    out->message_delay_ns = delays;
}

/// Draws the times of all ops, or gives them the columns of what else is drawn.
static void perturb_all_ops(const perturbing *of, bal_stage_costs *out)
{
    const bal_stage_costs *costs = of->costs;
    out->microbatch_count = of->schedule->microbatch_count;
    for (int kind = 0; kind < BAL_COST_TIMES_COUNT; kind++) {
        out->times_ns[kind] = of->disturbance->op_sigma > 0
                                  ? perturbed_ops(of, kind)
                                  : repeated(of, costs->times_ns[kind], costs->stage_count);
    }
}

void sim_perturb(const bal_disturbance *disturbance, const bal_schedule *schedule,
                 const sim_perturbed_play *play, const bal_stage_costs *costs, arena *memory,
                 bal_stage_costs *out)
{
    const perturbing of = {disturbance, schedule, play, costs, memory};
    bal_stage_costs made = *costs;
    assert(play->round >= 0 && play->round < 1 << ROUND_BITS);
    assert(play->replica >= 0 && play->replica < 1 << REPLICA_BITS);
    for (int way = 0; way < 2 && disturbance->link_count > 0; way++) {
        made.sends_ns[way] = perturbed_sends(&of, way);
    }
    if (bal_disturbance_is_drawn_per_op(disturbance)) {
        perturb_all_ops(&of, &made);
        if (disturbance->message_factor_max > 1) {
            perturb_messages(&of, &made);
        } else if (costs->message_delay_ns != NULL) {
            made.message_delay_ns = repeated(&of, costs->message_delay_ns, 2 * costs->stage_count);
        }
    }
    *out = made;
}
