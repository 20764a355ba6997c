/// The leader's part of decisions that the ranks make among themselves: it says by which rules, and
/// hears the cuts. What the layers cost it does not tell.
#include "exec/run/leader.h"

#include <string.h>

/// Whether the problem is that of the layers that the ranks have measured, on the places in force.
static bool is_at_hand(const exec_leader *leader, const bal_problem *problem)
{
    const exec_run_plan *plan = exec_run_plan_in_force(&leader->run);
    return leader->is_controlled && leader->has_profile &&
           plan->placed.rank_count == problem->stage_count && problem->stage_count > 0 &&
           plan->placed.chunk_count == 1;
}

static status give_command(exec_leader *leader, const bal_problem *problem, error_message *err)
{
    exec_run *run = &leader->run;
    const exec_command command = {.kind = EXEC_COMMAND_DIFFUSE, .iteration = leader->iteration};
    const int64_t *arrays[] = {problem->stage_memory_bytes, problem->stage_inflight,
                               problem->stage_time_factor_ppb, problem->stage_fixed_ns};
    exec_diffuse_terms terms = {
        .allow_empty_stages = problem->allow_empty_stages,
        .embedding = problem->layers.embedding,
        .head = problem->layers.head,
        .by_parameters = problem->weight == BAL_WEIGHT_PARAMETERS,
    };
    for (int array = 0; array < 4; array++) {
        terms.has_array[array] = arrays[array] != NULL;
    }
    TRY(exec_run_begin_command(run, &command));
    TRY(exec_parcel_put(&run->command, &terms, (int64_t)sizeof terms));
    for (int array = 0; array < 4; array++) {
        if (arrays[array] == NULL) continue;
        TRY(exec_parcel_put(&run->command, arrays[array],
                            problem->stage_count * (int64_t)sizeof *arrays[array]));
    }
    return exec_run_give_command(run, err);
}

static status hear_cuts(void *context, const bal_problem *problem, int *first_layer,
                        bool *has_decided, error_message *err)
{
    exec_leader *leader = context;
    const exec_gathered *gathered = &leader->run.gathered;
    int64_t offset = 0;
    *has_decided = false;
    if (!is_at_hand(leader, problem)) return STATUS_OK;
    TRY(give_command(leader, problem, err));
    for (int index = 0; index < gathered->group->rank_count; index++) {
        exec_parcel parcel = exec_gathered_next(gathered, index, &offset);
        const exec_diffused_answer *answer = exec_parcel_take(&parcel, (int64_t)sizeof *answer);
        if (answer->place < 0) continue;
        first_layer[answer->place] = (int)answer->first_layer;
        first_layer[answer->place + 1] = (int)answer->end_layer;
    }
    *has_decided = true;
    return STATUS_OK;
}

status exec_leader_distribute(exec_leader *leader, error_message *err)
{
    const bal_training *training = &leader->training;
    const char *against =
        strcmp(training->balancer->name, "diffusion") != 0 ? "another balancer than diffusion"
        : training->data_parallel > 1                      ? "several replicas"
        : training->estimates_speed                        ? "estimated speeds"
        : training->weight == BAL_WEIGHT_TIME_TRANSFER     ? "weighing by transfers"
        : training->information != BAL_INFORMATION_PROFILE ? "other loads than the profile's"
        : training->policy.kind == BAL_POLICY_SHADOW       ? "the policy shadow"
        : training->repack.kind != BAL_REPACK_NONE         ? "re-packing"
                                                           : NULL;
    if (against != NULL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "ranks decide among themselves on what each has measured of its own "
                         "layers: not with %s",
                         against);
    }
    leader->diffuser = (bal_diffuser){.context = leader, .cuts = hear_cuts};
    leader->training.diffuser = &leader->diffuser;
    return STATUS_OK;
}
