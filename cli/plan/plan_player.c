#include "cli/plan/plan_player.h"

#include "balance/schedule/schedule.h"
#include "sim/pipeline.h"

enum { PPB = 1000000000 };

/// Costs of the stages; all arrays from the scratch arena.
static status stage_costs(const cli_plan_player *player, const bal_layer_costs *layers,
                          const bal_placed_partition *plan, bal_stage_costs *costs,
                          error_message *err)
{
    const bal_problem *problem = player->problem;
    const int *first_layer = plan->first_layer;
    const int stages = bal_placed_stage_count(plan);
    const int ranks = plan->rank_count;
    const size_t count = (size_t)stages;
    const bal_machine machine = {.rank_count = ranks, .ranks_per_node = ranks};
    double *factor = arena_array(player->scratch, count, sizeof *factor);
    int64_t *forward = arena_array(player->scratch, count, sizeof *forward);
    int64_t *send_forward = arena_array(player->scratch, count, sizeof *send_forward);
    int64_t *send_backward = arena_array(player->scratch, count, sizeof *send_backward);
    for (int stage = 0; stage < ranks; stage++) { // the first chunks: their ranks' speeds
        factor[stage] = problem->stage_time_factor_ppb != NULL
                            ? (double)problem->stage_time_factor_ppb[stage] / PPB
                            : 1.0;
    }
    TRY(bal_stage_costs_from_layers(layers, plan, &machine, factor, player->scratch, costs, err));
    for (int stage = 0; stage < stages; stage++) {
        const bool owns = first_layer[stage] < first_layer[stage + 1];
        forward[stage] = costs->forward_ns[stage];
        if (owns && problem->stage_fixed_ns != NULL) {
            forward[stage] += problem->stage_fixed_ns[stage];
        }
        const int last = first_layer[stage + 1] - 1;
        if (stage + 1 == stages || last < 0 || problem->transfer_ns == NULL) continue;
        if (bal_placed_machine_rank(plan, stage) == bal_placed_machine_rank(plan, stage + 1)) {
            continue; // on one rank nothing is sent
        }
        send_forward[stage] = problem->transfer_ns[last];
        send_backward[stage + 1] = problem->transfer_ns[last];
    }
    costs->forward_ns = forward;
    costs->send_forward_ns = send_forward;
    costs->send_backward_ns = send_backward;
    return STATUS_OK;
}

static status play(void *context, const bal_layer_costs *layers, const bal_placed_partition *plan,
                   int64_t *iteration_ns, error_message *err)
{
    const cli_plan_player *player = context;
    arena *scratch = player->scratch;
    arena_reset(scratch);
    bal_stage_costs costs;
    bal_schedule schedule;
    sim_order order;
    sim_summary summary;
    TRY(stage_costs(player, layers, plan, &costs, err));
    const bal_schedule_request request = {.name = player->schedule,
                                          .rank_count = plan->rank_count,
                                          .chunk_count = plan->chunk_count,
                                          .microbatch_count = player->problem->microbatch_count,
                                          .costs = &costs};
    TRY(bal_schedule_build(&request, scratch, &schedule, err));
    TRY(sim_order_compile(&schedule, scratch, &order, err));
    TRY(sim_costs_check(&schedule, &costs, err));
    TRY(sim_summary_init(&order, scratch, &summary));
    sim_order_summarise(&order, &costs, NULL, &summary);
    *iteration_ns = summary.makespan_ns;
    return STATUS_OK;
}

bal_evaluator cli_plan_evaluator(cli_plan_player *player)
{
    return (bal_evaluator){.context = player, .iteration_ns = play};
}
