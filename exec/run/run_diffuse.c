/// Decisions of the ranks among themselves: each adds what it has measured of its own layers to
/// sums over the pipeline, takes the steps of the balancer `diffusion` over the whole chain, and
/// the leader hears the cuts.
#include "exec/run/run.h"

#include "balance/partition/balancer.h"
#include "balance/partition/chain.h"
#include "exec/transport/transport.h"

#include <string.h>

/// What all ranks know of the problem; after it in the command those of the arrays of stages that
/// are not NULL, in the order of list_arrays.
typedef struct exec_diffuse_terms {
    bool by_parameters; // layers are weighed by them; else by time
    bal_chain chain;    // without sums of layers
} exec_diffuse_terms;

enum { STAGE_ARRAYS = 4 };

/// The arrays of a chain that have a number for each stage.
static void list_arrays(bal_chain *chain, const int64_t **arrays[STAGE_ARRAYS])
{
    arrays[0] = &chain->stage_memory_bytes;
    arrays[1] = &chain->stage_inflight;
    arrays[2] = &chain->stage_time_factor_ppb;
    arrays[3] = &chain->stage_fixed_ns;
}

/// What a place has decided; place -1 of a leader whose rank has been released.
typedef struct exec_diffused_answer {
    int64_t place;
    int64_t first_layer;
    int64_t end_layer;
} exec_diffused_answer;

/// The weight of an own layer as a controller would have it: parameters, or the sum of mean times.
static status weigh(exec_run *run, const exec_layer_report *report, bool by_parameters,
                    int64_t *weight, error_message *err)
{
    const bal_layer_costs layers = {
        .layer_count = report->layer_count,
        .microbatch_count = report->microbatch_count,
        .forward_ns = report->forward_ns,
        .backward_input_ns = report->backward_input_ns,
        .backward_weight_ns = report->backward_weight_ns,
    };
    bal_layer_times times;
    bal_layer_times_init(&times, report->layer_count, run->scratch);
    if (!by_parameters) TRY(bal_layer_times_fill(&times, &layers, err));
    for (int row = 0; row < report->layer_count; row++) {
        weight[report->layer[row]] =
            by_parameters ? report->parameters[row] : bal_layer_time_ns(&times, row);
    }
    return STATUS_OK;
}

/// Puts one number per own layer at its place among all layers.
static void spread(const exec_layer_report *report, const int64_t *rows, int64_t *all)
{
    for (int row = 0; row < report->layer_count && rows != NULL; row++) {
        all[report->layer[row]] = rows[row];
    }
}

/// Sums in front of every boundary. They fit: the leader has summed the same for its own chain.
static const int64_t *before(exec_run *run, const int64_t *values)
{
    int64_t *sums = arena_array(run->scratch, (size_t)run->terms.layer_count + 1, sizeof *sums);
    for (int layer = 0; layer < run->terms.layer_count; layer++) {
        sums[layer + 1] = sums[layer] + values[layer];
    }
    return sums;
}

/// @param first [places + 1] out
static status decide(exec_run *run, const exec_diffuse_terms *terms, int *first, error_message *err)
{
    bal_chain chain = terms->chain;
    const int layers = chain.layer_count;
    int64_t *numbers = arena_array(run->scratch, 3 * (size_t)layers, sizeof *numbers);
    const int64_t **arrays[STAGE_ARRAYS];
    exec_layer_report report;
    list_arrays(&chain, arrays);
    for (int array = 0; array < STAGE_ARRAYS; array++) {
        if (*arrays[array] == NULL) continue;
        *arrays[array] =
            exec_packet_take(&run->command, chain.stage_count * (int64_t)sizeof **arrays[array]);
    }
    run->device->table->report(run->device, &report);
    TRY(weigh(run, &report, terms->by_parameters, numbers, err));
    spread(&report, report.state_bytes, numbers + layers);
    spread(&report, report.activation_bytes, numbers + 2 * layers);
    TRY(exec_group_sum_int64(&run->ranks.pipeline, numbers, 3 * (int64_t)layers, err));
    chain.weight_before = before(run, numbers);
    chain.state_before = before(run, numbers + layers);
    chain.activation_before = before(run, numbers + 2 * layers);
    TRY(bal_chain_bound_load_sum(&chain, err));
    return bal_diffusion_cuts(&chain, run->scratch, first, err);
}

status exec_run_diffuse(exec_run *run, const exec_command *command, error_message *err)
{
    const exec_diffuse_terms terms =
        *(const exec_diffuse_terms *)exec_packet_take(&run->command, sizeof terms);
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    exec_diffused_answer answer = {.place = plan->place};
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_DECISION);
    if (plan->place >= 0) {
        int *first = arena_array(run->scratch, (size_t)plan->placed.rank_count + 1, sizeof *first);
        TRY(decide(run, &terms, first, err));
        answer.first_layer = first[plan->place];
        answer.end_layer = first[plan->place + 1];
    }
    exec_packet_put(&run->answer, &answer, sizeof answer);
    return STATUS_OK;
}

/// Whether the problem is that of the layers that the ranks have measured, on the places in force.
static bool is_at_hand(const exec_leader *leader, const bal_problem *problem)
{
    const exec_run_plan *plan = exec_run_plan_in_force(&leader->run);
    return leader->is_controlled && plan->placed.rank_count == problem->stage_count &&
           problem->stage_count > 0 && plan->placed.chunk_count == 1 &&
           problem->weight != BAL_WEIGHT_LAYERS;
}

static status give_command(exec_leader *leader, const bal_problem *problem, error_message *err)
{
    exec_run *run = &leader->run;
    const exec_command command = {.kind = EXEC_COMMAND_DIFFUSE, .iteration = leader->iteration};
    exec_diffuse_terms terms = {
        .by_parameters = problem->weight == BAL_WEIGHT_PARAMETERS,
        .chain = {.layer_count = run->terms.layer_count,
                  .stage_count = problem->stage_count,
                  .chunk_count = 1,
                  .allow_empty_stages = problem->allow_empty_stages,
                  .embedding = problem->layers.embedding,
                  .head = problem->layers.head,
                  .stage_memory_bytes = problem->stage_memory_bytes,
                  .stage_inflight = problem->stage_inflight,
                  .stage_time_factor_ppb = problem->stage_time_factor_ppb,
                  .stage_fixed_ns = problem->stage_fixed_ns},
    };
    const int64_t **arrays[STAGE_ARRAYS];
    list_arrays(&terms.chain, arrays);
    exec_run_begin_command(run, &command);
    exec_packet_put(&run->command, &terms, sizeof terms);
    for (int array = 0; array < STAGE_ARRAYS; array++) {
        if (*arrays[array] == NULL) continue;
        exec_packet_put(&run->command, *arrays[array],
                        problem->stage_count * (int64_t)sizeof **arrays[array]);
    }
    return exec_run_give_command(run, err);
}

static status hear_cuts(void *context, const bal_problem *problem, int *first_layer,
                        bool *has_decided, error_message *err)
{
    exec_leader *leader = context;
    exec_packet *answers = &leader->run.answers;
    *has_decided = false;
    if (!is_at_hand(leader, problem)) return STATUS_OK;
    TRY(give_command(leader, problem, err));
    while (answers->taken_bytes < answers->byte_count) {
        const exec_diffused_answer *answer = exec_packet_take(answers, sizeof *answer);
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
