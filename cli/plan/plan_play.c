/// Plays of plans on the loads of `dynmo plan`.
#include "cli/plan/plan_play.h"

#include "balance/schedule/schedule.h"
#include "cli/plan/plan_loads.h"
#include "sim/pipeline.h"
#include "traces/store/writer.h"

#include <stdio.h>

enum { ARENA_BLOCK_BYTES = 1 << 20, PPB = 1000000000, CHUNKS_TRIED = 8 };

/// Plays candidate plans for `makespan`.
typedef struct plan_player {
    const bal_problem *problem;
    const char *schedule;
    const bal_schedule *order; // in place of the schedule's own, or NULL
    arena *scratch;            // reset for every candidate
} plan_player;

/// Costs of the stages; all arrays from the scratch arena.
static status stage_costs(const plan_player *player, const bal_layer_costs *layers,
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

/// Makespan of the static order of a candidate. Times take stage_time_factor and stage_fixed_ns
/// (added to F); messages take transfer_ns both ways, 0 without.
static status play(void *context, const bal_layer_costs *layers, const bal_placed_partition *plan,
                   int microbatch_count, int64_t *iteration_ns, error_message *err)
{
    const plan_player *player = context;
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
                                          .microbatch_count = microbatch_count,
                                          .costs = &costs};
    if (player->order != NULL) {
        schedule = *player->order;
    } else {
        TRY(bal_schedule_build(&request, scratch, &schedule, err));
    }
    TRY(sim_order_compile(&schedule, scratch, &order, err));
    TRY(sim_costs_check(&schedule, &costs, err));
    sim_summary_init(&order, scratch, &summary);
    sim_order_summarise(&order, &costs, NULL, &summary);
    *iteration_ns = summary.makespan_ns;
    return STATUS_OK;
}

status cli_plan_decide(const bal_balancer *balancer, const char *schedule, bal_problem *problem,
                       arena *memory, bal_answer *answer, error_message *err)
{
    plan_player player = {.problem = problem,
                          .schedule = schedule,
                          .scratch = arena_within(memory, ARENA_BLOCK_BYTES)};
    const bal_evaluator evaluator = {.context = &player, .iteration_ns = play};
    if (schedule != NULL && problem->microbatch_count > 0) problem->evaluator = &evaluator;
    const status result = bal_balance(balancer, problem, memory, answer, err);
    problem->evaluator = NULL;
    return result;
}

/// What layers cost by --loads or --trace, read once for all shapes.
typedef struct layer_source {
    json_value loads; // missing: of the trace
    bal_layer_costs of_trace;
} layer_source;

static status read_source(const cli_arguments *arguments, arena *memory, layer_source *source,
                          error_message *err)
{
    const char *loads = cli_value(arguments, "--loads");
    const cli_plan_shape shape = {.rank_count = 1, .chunk_count = 1};
    bal_problem problem;
    int sample_count = 0;
    *source = (layer_source){0};
    if (loads != NULL) return cli_plan_loads_open(loads, memory, &source->loads, err);
    TRY(cli_plan_loads_of_trace(cli_value(arguments, "--trace"), 0, TRACE_ITERATIONS_MAX, shape,
                                memory, &problem, &sample_count, err));
    source->of_trace = problem.layers;
    return STATUS_OK;
}

/// The problem of a source for ranks like those of a plan, with so many chunks each.
static status pose(const layer_source *source, const bal_plan *plan, int chunk_count,
                   bal_placement placement, arena *memory, bal_problem *problem, error_message *err)
{
    const cli_plan_shape shape = {plan->rank_count, chunk_count, placement};
    const bool is_traced = json_is_missing(source->loads);
    const int planned = plan->first_layer[plan->rank_count * plan->chunk_count];
    *problem = cli_plan_problem_of(shape);
    problem->layers = source->of_trace;
    if (!is_traced) TRY(cli_plan_loads_of(source->loads, shape, memory, problem, err));
    problem->microbatch_count = plan->microbatch_count;
    problem->layers.first_stage_whole = plan->first_stage_whole;
    if (problem->layers.layer_count == planned) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: %d layers, the plan has %d",
                     is_traced ? "--trace" : "--loads", problem->layers.layer_count, planned);
}

/// What the plan itself takes.
static status play_plan(const layer_source *source, const bal_plan *plan, arena *memory,
                        int64_t *makespan_ns, error_message *err)
{
    bal_problem problem;
    TRY(pose(source, plan, plan->chunk_count, plan->placement, memory, &problem, err));
    plan_player player = {.problem = &problem,
                          .schedule = plan->schedule,
                          .order = plan->order,
                          .scratch = arena_within(memory, ARENA_BLOCK_BYTES)};
    const bal_placed_partition placed = bal_problem_placed(&problem, plan->first_layer);
    return play(&player, &problem.layers, &placed, plan->microbatch_count, makespan_ns, err);
}

/// Keeps the best split of a schedule with so many chunks per rank if it is the best so far. Where
/// there is none, as of interleaved-1f1b of microbatches that ranks do not divide, nothing changes.
static status try_chunks(const layer_source *source, const bal_plan *plan, const char *schedule,
                         int chunks, arena *memory, cli_plan_best *best, error_message *err)
{
    bal_problem problem;
    bal_answer answer;
    error_message why = {0};
    TRY(pose(source, plan, chunks, bal_schedule_family_find(schedule)->placement, memory, &problem,
             err));
    if (cli_plan_decide(bal_balancer_find("makespan"), schedule, &problem, memory, &answer, &why) !=
        STATUS_OK) {
        return STATUS_OK;
    }
    if (best->makespan_ns >= 0 && answer.iteration_ns >= best->makespan_ns) return STATUS_OK;
    best->schedule = schedule;
    best->chunk_count = chunks;
    best->stage_count = problem.stage_count;
    best->first_layer = answer.first_layer;
    best->makespan_ns = answer.iteration_ns;
    return STATUS_OK;
}

status cli_plan_best_of(const cli_arguments *arguments, const bal_plan *plan,
                        const char *(*schedule_of)(int chunk_count), arena *memory,
                        cli_plan_best *best, error_message *err)
{
    const int layers = plan->first_layer[plan->rank_count * plan->chunk_count];
    layer_source source;
    *best = (cli_plan_best){.makespan_ns = -1};
    TRY(read_source(arguments, memory, &source, err));
    TRY(play_plan(&source, plan, memory, &best->plan_ns, err));
    for (int chunks = 1; chunks <= CHUNKS_TRIED && plan->rank_count * chunks <= layers; chunks++) {
        TRY(try_chunks(&source, plan, schedule_of(chunks), chunks, memory, best, err));
    }
    return STATUS_OK;
}
