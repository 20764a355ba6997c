/// `dynmo schedule --step`.
#include "cli/schedule/schedule_step.h"

#include "sim/iterations.h"

#include <string.h>

/// How long a norm travels between neighbouring ranks: as the output of the first chunk.
static void find_hops(const bal_schedule *schedule, const bal_stage_costs *costs, arena *memory,
                      sim_update *update)
{
    const int ranks = schedule->rank_count;
    int64_t *hop_ns = arena_array(memory, (size_t)ranks, sizeof *hop_ns);
    for (int rank = 1; rank < ranks; rank++) {
        hop_ns[rank] = costs->send_forward_ns[bal_stage_of(schedule->placement, ranks,
                                                           schedule->chunk_count, rank - 1, 0)];
    }
    update->hop_ns = hop_ns;
}

status cli_schedule_step_play(const cli_arguments *arguments, const cli_stepped_schedule *stepped,
                              arena *memory, cli_schedule_step *step, error_message *err)
{
    static const char *const names[] = {"barrier", "post-validation"};
    const char *given = cli_value(arguments, "--step");
    sim_iterations *iterations = NULL;
    sim_update update = {0};
    *step = (cli_schedule_step){0};
    if (given == NULL) return STATUS_OK;
    if (stepped->policy != SIM_STATIC || !sim_network_is_free(stepped->network)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "--step goes with the static policy and asynchronous messages");
    }
    update.post_validation = strcmp(given, names[1]) == 0;
    if (!update.post_validation && strcmp(given, names[0]) != 0) {
        return error_set(err, STATUS_INVALID, "--step: '%.40s' is not one of %s, %s", given,
                         names[0], names[1]);
    }
    find_hops(stepped->schedule, stepped->costs, memory, &update);
    sim_iterations_prepare(stepped->schedule, memory, &iterations);
    if (update.post_validation) TRY(sim_iterations_check_validation(iterations, memory, err));
    step->name = names[update.post_validation];
    const status found = sim_iterations_find_period(iterations, stepped->costs, &update, memory,
                                                    &step->period_ns, err);
    return found == STATUS_OK ? STATUS_OK : error_prefix(err, found, "--step");
}
