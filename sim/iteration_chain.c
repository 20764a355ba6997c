#include "sim/iteration_chain.h"

#include "base/rng.h"
#include "sim/costs.h"
#include "sim/lanes.h"
#include "sim/perturbation.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/// States that are kept to be compared with: longer periods are not found, and played to the end.
enum { KEPT_STATES = 16 };

/// When the ranks were done with an iteration.
typedef struct chain_state {
    int64_t *rank_ns; // [rank_count] less the first of them
    int64_t first_ns;
    int64_t last_ns;
} chain_state;

typedef struct chain_states {
    int rank_count;
    chain_state states[KEPT_STATES]; // of the iterations before, by number
} chain_states;

static void carve(chain_states *kept, arena *memory)
{
    for (int state = 0; state < KEPT_STATES; state++) {
        kept->states[state].rank_ns =
            arena_array(memory, (size_t)kept->rank_count, sizeof(int64_t));
    }
}

/// Keeps where the ranks stand after an iteration.
static const chain_state *keep(chain_states *kept, int64_t iteration, const int64_t *end_ns)
{
    chain_state *state = &kept->states[iteration % KEPT_STATES];
    state->first_ns = end_ns[0];
    state->last_ns = end_ns[0];
    for (int rank = 1; rank < kept->rank_count; rank++) {
        if (end_ns[rank] < state->first_ns) state->first_ns = end_ns[rank];
        if (end_ns[rank] > state->last_ns) state->last_ns = end_ns[rank];
    }
    for (int rank = 0; rank < kept->rank_count; rank++) {
        state->rank_ns[rank] = end_ns[rank] - state->first_ns;
    }
    return state;
}

/// How many iterations ago the ranks stood to each other as they do now; 0: never.
static int64_t find_period(const chain_states *kept, int64_t iteration, const chain_state *now)
{
    const size_t bytes = (size_t)kept->rank_count * sizeof *now->rank_ns;
    for (int64_t ago = 1; ago < KEPT_STATES && ago <= iteration; ago++) {
        const chain_state *then = &kept->states[(iteration - ago) % KEPT_STATES];
        if (memcmp(then->rank_ns, now->rank_ns, bytes) == 0) return ago;
    }
    return 0;
}

/// Ends a chain that repeats: whole periods, and what is left of one.
static status skip_rest(const chain_states *kept, int64_t iteration, sim_chain *chain,
                        int64_t *last_ns)
{
    const int64_t left = chain->iteration_count - 1 - iteration;
    const int64_t periods = left / chain->period_iterations;
    const int64_t rest = left % chain->period_iterations; // iterations after whole periods
    const int64_t like = iteration - chain->period_iterations + rest;
    const int64_t like_ns = kept->states[like % KEPT_STATES].last_ns;
    int64_t way_ns = 0;
    if (__builtin_mul_overflow(periods + 1, chain->period_ns, &way_ns) ||
        __builtin_add_overflow(like_ns, way_ns, last_ns) || *last_ns > INT64_MAX / 2) {
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

static status too_long(int64_t iteration_count, error_message *err)
{
    return error_set(err, STATUS_INVALID,
                     "%" PRId64 " iterations together take longer than %" PRId64 " ns",
                     iteration_count, INT64_MAX / 2);
}

status sim_chain_play(sim_order *order, const bal_stage_costs *costs, int64_t iteration_count,
                      arena *memory, sim_chain *chain, error_message *err)
{
    sim_chain played = {.iteration_count = iteration_count, .steady_iteration = -1};
    chain_states kept = {.rank_count = order->schedule->rank_count};
    sim_summary summary;
    int64_t first_ns = 0;
    int64_t last_ns = 0;
    sim_summary_init(order, memory, &summary);
    carve(&kept, memory);
    for (int64_t iteration = 0; iteration < iteration_count; iteration++) {
        sim_order_summarise(order, costs, iteration > 0 ? summary.last_end_ns : NULL, &summary);
        const chain_state *now = keep(&kept, iteration, summary.last_end_ns);
        if (iteration == 0) first_ns = now->last_ns - summary.makespan_ns;
        last_ns = now->last_ns;
        played.played_count = iteration + 1;
        if (last_ns > INT64_MAX / 2) return too_long(iteration_count, err);
        const int64_t period = find_period(&kept, iteration, now);
        if (period == 0) continue;
        played.period_iterations = period;
        played.steady_iteration = iteration - period + 1;
        played.period_ns = now->first_ns - kept.states[(iteration - period) % KEPT_STATES].first_ns;
        if (skip_rest(&kept, iteration, &played, &last_ns) != STATUS_OK) {
            return too_long(iteration_count, err);
        }
        break;
    }
    played.total_ns = last_ns - first_ns;
    *chain = played;
    return STATUS_OK;
}

enum { DRAW_PURPOSE = 0x64726177, TIMES = 3 };

/// What the draws of one play of the lanes share.
typedef struct playing {
    const sim_ensemble *ensemble;
    sim_lanes lanes;
    bal_disturbance disturbances[SIM_LANES_MAX]; // of each lane's draw
    int64_t first_ns[SIM_LANES_MAX];             // begin of its first op
    int draw_count;                              // lanes in use
    double *rank_factor;                         // [rank_count]
    const int *rank_of_stage;                    // [stage_count]
    int64_t *scaled_ns[TIMES];                   // [stage_count][columns]
    arena *scratch;                              // of the costs of one lane and iteration
    error_message *err;
} playing;

static uint64_t seed_of_draw(uint64_t seed, int draw)
{
    rng generator = rng_init(seed ^ DRAW_PURPOSE, (uint64_t)draw);
    return rng_next(&generator);
}

/// The times of stages on ranks that are slower or faster than their costs.
static void scale_times(const playing *now, const int64_t *op_ns, int64_t *out)
{
    const bal_stage_costs *costs = now->ensemble->costs;
    const int columns = costs->microbatch_count;
    for (int stage = 0; stage < costs->stage_count; stage++) {
        const double factor = now->rank_factor[now->rank_of_stage[stage]];
        for (int column = 0; column < columns; column++) {
            const int64_t cell = (int64_t)stage * columns + column;
            const double ns = round((double)op_ns[cell] * factor);
            out[cell] = ns < (double)(INT64_MAX / 4) ? (int64_t)ns : INT64_MAX / 4;
        }
    }
}

/// The costs of one lane in one iteration, as its draw disturbs them.
static status set_lane(playing *now, int lane, int iteration)
{
    const sim_ensemble *ensemble = now->ensemble;
    const bal_schedule *schedule = ensemble->order->schedule;
    const bal_disturbance *disturbance = &now->disturbances[lane];
    bal_stage_costs costs = *ensemble->costs;
    if (bal_disturbance_has_rank_factors(disturbance)) {
        for (int rank = 0; rank < schedule->rank_count; rank++) {
            now->rank_factor[rank] = 1;
        }
        bal_disturbance_slow_ranks(disturbance, schedule->rank_count, iteration, now->rank_factor);
        scale_times(now, costs.forward_ns, now->scaled_ns[0]);
        scale_times(now, costs.backward_input_ns, now->scaled_ns[1]);
        scale_times(now, costs.backward_weight_ns, now->scaled_ns[2]);
        costs.forward_ns = now->scaled_ns[0];
        costs.backward_input_ns = now->scaled_ns[1];
        costs.backward_weight_ns = now->scaled_ns[2];
    }
    const sim_perturbed_play play = {.iteration = iteration};
    const bal_stage_costs scaled = costs;
    arena_reset(now->scratch);
    sim_perturb(disturbance, schedule, &play, &scaled, now->scratch, &costs);
    TRY(sim_costs_check(schedule, &costs, now->err));
    sim_lanes_set(&now->lanes, lane, &costs);
    return STATUS_OK;
}

/// The begin of a lane's first op: that of the first rank that begins.
static int64_t first_begin_ns(const sim_lanes *lanes, int lane)
{
    int64_t first_ns = INT64_MAX;
    for (int rank = 0; rank < lanes->order->schedule->rank_count; rank++) {
        const int wait = lanes->order->first_wait[rank];
        const int64_t arrived_ns = lanes->arrival_ns[(int64_t)wait * lanes->lane_count + lane];
        if (arrived_ns < first_ns) first_ns = arrived_ns;
    }
    return first_ns;
}

static int64_t last_end_ns(const sim_lanes *lanes, int lane)
{
    int64_t last_ns = 0;
    for (int rank = 0; rank < lanes->order->schedule->rank_count; rank++) {
        const int64_t end_ns = lanes->end_ns[(int64_t)rank * lanes->lane_count + lane];
        if (end_ns > last_ns) last_ns = end_ns;
    }
    return last_ns;
}

static status play_iteration(playing *now, int iteration)
{
    sim_lanes *lanes = &now->lanes;
    for (int lane = 0; lane < now->draw_count; lane++) {
        TRY(set_lane(now, lane, iteration));
    }
    sim_lanes_play(lanes);
    for (int lane = 0; lane < now->draw_count; lane++) {
        if (iteration == 0) now->first_ns[lane] = first_begin_ns(lanes, lane);
        if (last_end_ns(lanes, lane) <= INT64_MAX / 2) continue;
        return error_set(now->err, STATUS_INVALID,
                         "%d iterations together take longer than %" PRId64 " ns",
                         now->ensemble->iteration_count, INT64_MAX / 2);
    }
    sim_lanes_go_on(lanes);
    return STATUS_OK;
}

/// Plays the chains of as many draws as there are lanes.
static status play_draws(playing *now, int first_draw, int64_t *total_ns)
{
    const sim_ensemble *ensemble = now->ensemble;
    const int left = ensemble->draw_count - first_draw;
    now->draw_count = left < now->lanes.lane_count ? left : now->lanes.lane_count;
    for (int lane = 0; lane < now->draw_count; lane++) {
        now->disturbances[lane] = *ensemble->disturbance;
        now->disturbances[lane].seed = seed_of_draw(ensemble->disturbance->seed, first_draw + lane);
    }
    sim_lanes_rewind(&now->lanes);
    for (int iteration = 0; iteration < ensemble->iteration_count; iteration++) {
        TRY(play_iteration(now, iteration));
        if (ensemble->step != NULL) TRY(ensemble->step(ensemble->context, now->err));
    }
    for (int lane = 0; lane < now->draw_count; lane++) {
        total_ns[first_draw + lane] = last_end_ns(&now->lanes, lane) - now->first_ns[lane];
    }
    return STATUS_OK;
}

/// The lanes that draws are played in.
typedef struct lane_shape {
    int count;
    bool has_columns;
    bool has_delays;
} lane_shape;

static lane_shape lanes_of(const sim_ensemble *ensemble)
{
    const bool has_columns = ensemble->costs->microbatch_count > 1 ||
                             bal_disturbance_is_drawn_per_op(ensemble->disturbance);
    const bool has_delays = ensemble->costs->message_delay_ns != NULL || has_columns;
    const int64_t bytes = sim_lanes_lane_bytes(ensemble->order, has_columns, has_delays);
    return (lane_shape){.count = sim_lanes_suited(ensemble->draw_count, bytes),
                        .has_columns = has_columns,
                        .has_delays = has_delays};
}

static void prepare(playing *now, arena *memory)
{
    const sim_ensemble *ensemble = now->ensemble;
    const bal_schedule *schedule = ensemble->order->schedule;
    const int stages = ensemble->costs->stage_count;
    const size_t cells = (size_t)stages * (size_t)ensemble->costs->microbatch_count;
    const lane_shape lanes = lanes_of(ensemble);
    int *rank_of_stage = arena_array(memory, (size_t)stages, sizeof *rank_of_stage);
    int64_t *scaled_ns = arena_array(memory, TIMES * cells, sizeof *scaled_ns);
    now->rank_factor = arena_array(memory, (size_t)schedule->rank_count, sizeof *now->rank_factor);
    for (int stage = 0; stage < stages; stage++) {
        rank_of_stage[stage] = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                                 schedule->chunk_count, stage, NULL);
    }
    now->rank_of_stage = rank_of_stage;
    for (int kind = 0; kind < TIMES; kind++) {
        now->scaled_ns[kind] = scaled_ns + (size_t)kind * cells;
    }
    sim_lanes_init(ensemble->order, lanes.count, lanes.has_columns, lanes.has_delays, memory,
                   &now->lanes);
}

int64_t sim_ensemble_batch_count(const sim_ensemble *ensemble)
{
    const int lanes = lanes_of(ensemble).count;
    return ((int64_t)ensemble->draw_count + lanes - 1) / lanes;
}

status sim_ensemble_play(const sim_ensemble *ensemble, arena *memory, int64_t *total_ns,
                         error_message *err)
{
    playing now = {.ensemble = ensemble, .err = err, .scratch = arena_create(1 << 16)};
    status result = STATUS_OK;
    prepare(&now, memory);
    for (int draw = 0; result == STATUS_OK && draw < ensemble->draw_count;) {
        result = play_draws(&now, draw, total_ns);
        draw += now.lanes.lane_count;
    }
    arena_destroy(now.scratch);
    return result;
}
