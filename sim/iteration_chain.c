#include "sim/iteration_chain.h"

#include <inttypes.h>
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

/// Keeps where the ranks stand behind an iteration.
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
    const int64_t behind = left % chain->period_iterations; // iterations behind whole periods
    const int64_t like = iteration - chain->period_iterations + behind;
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
    TRY(sim_summary_init(order, memory, &summary));
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
