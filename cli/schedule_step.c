#include "cli/schedule_step.h"

#include "sim/iterations.h"

#include <string.h>

enum { SETTLING_MAX = 24 };

static int64_t largest(const int64_t *values, int count)
{
    int64_t found = 0;
    for (int index = 0; index < count; index++) {
        if (values[index] > found) found = values[index];
    }
    return found;
}

/// How long a norm travels between neighbouring ranks: as the output of the first chunk.
static status find_hops(const bal_schedule *schedule, const bal_stage_costs *costs, arena *memory,
                        sim_update *update, error_message *err)
{
    const int ranks = schedule->rank_count;
    int64_t *hop_ns = arena_array(memory, (size_t)ranks, sizeof *hop_ns);
    if (hop_ns == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    for (int rank = 1; rank < ranks; rank++) {
        hop_ns[rank] = costs->send_forward_ns[bal_stage_of(schedule->placement, ranks,
                                                           schedule->chunk_count, rank - 1, 0)];
    }
    update->hop_ns = hop_ns;
    return STATUS_OK;
}

/// True if all ranks begin equally later than before.
static bool has_settled(const int64_t *begin_ns, const int64_t *before_ns, int count)
{
    for (int rank = 1; rank < count; rank++) {
        if (begin_ns[rank] - before_ns[rank] != begin_ns[0] - before_ns[0]) return false;
    }
    return true;
}

static status find_period(sim_iterations *iterations, const bal_schedule *schedule,
                          const bal_stage_costs *costs, const sim_update *update, arena *memory,
                          int64_t *period_ns, error_message *err)
{
    const int ranks = schedule->rank_count;
    sim_iteration iteration;
    sim_iteration_state state;
    int64_t *before_ns = arena_array(memory, (size_t)ranks, sizeof *before_ns);
    if (before_ns == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    TRY(sim_iteration_init(schedule, memory, &iteration, &state, err));
    for (int played = 0; played < SETTLING_MAX; played++) {
        memcpy(before_ns, state.begin_ns, (size_t)ranks * sizeof *before_ns);
        sim_iterations_play(iterations, costs, update, &state, &iteration);
        if (largest(iteration.last_end_ns, ranks) > INT64_MAX / 64) {
            return error_set(err, STATUS_INVALID,
                             "--step: iterations back to back are longer than "
                             "144115188075855871 ns");
        }
        sim_iterations_end(update, iteration.last_end_ns, ranks, false, &state);
        if (played > 0 && has_settled(state.begin_ns, before_ns, ranks)) break;
    }
    *period_ns = largest(state.begin_ns, ranks) - largest(before_ns, ranks);
    return STATUS_OK;
}

status cli_schedule_step_play(const cli_arguments *arguments, const bal_schedule *schedule,
                              const bal_stage_costs *costs, arena *memory, cli_schedule_step *step,
                              error_message *err)
{
    static const char *const names[] = {"barrier", "post-validation"};
    const char *given = cli_value(arguments, "--step");
    sim_iterations *iterations = NULL;
    sim_update update = {0};
    *step = (cli_schedule_step){0};
    if (given == NULL) return STATUS_OK;
    update.post_validation = strcmp(given, names[1]) == 0;
    if (!update.post_validation && strcmp(given, names[0]) != 0) {
        return error_set(err, STATUS_INVALID, "--step: '%.40s' is not one of %s, %s", given,
                         names[0], names[1]);
    }
    TRY(find_hops(schedule, costs, memory, &update, err));
    TRY(sim_iterations_prepare(schedule, memory, &iterations, err));
    if (update.post_validation) TRY(sim_iterations_check_validation(iterations, memory, err));
    step->name = names[update.post_validation];
    return find_period(iterations, schedule, costs, &update, memory, &step->period_ns, err);
}
