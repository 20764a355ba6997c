#include "cli/schedule/schedule_iterations.h"

#include "balance/costs/disturbance.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "sim/iteration_chain.h"
#include "sim/iterations.h"
#include "sim/pipeline.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS_MAX = 1000000, DRAWS_DEFAULT = 100 };

static status read_sigma(const cli_arguments *arguments, const char *name, double *sigma,
                         error_message *err)
{
    const char *text = cli_value(arguments, name);
    return text == NULL ? STATUS_OK : text_parse_double(text, name, 0, 1, sigma, err);
}

/// Refuses an option that says nothing without another.
static status check_needed(const cli_arguments *arguments, const char *name, bool has_needed,
                           const char *needed, error_message *err)
{
    if (!cli_has(arguments, name) || has_needed) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s goes with %s", name, needed);
}

/// What disturbs the draws; how many there are, 0 if nothing disturbs.
static status read_draws(const cli_arguments *arguments, bal_disturbance *disturbance,
                         cli_schedule_iterations *iterations, error_message *err)
{
    static const char *const options[] = {"--draws", "--seed", "--jitter", "--rank-jitter"};
    const char *seed = cli_value(arguments, "--seed");
    const bool is_disturbed = cli_has(arguments, "--jitter") || cli_has(arguments, "--rank-jitter");
    for (size_t option = 0; option < sizeof options / sizeof options[0]; option++) {
        TRY(check_needed(arguments, options[option], cli_has(arguments, "--iterations"),
                         "--iterations", err));
    }
    for (int option = 0; option < 2; option++) {
        TRY(check_needed(arguments, options[option], is_disturbed, "--jitter or --rank-jitter",
                         err));
    }
    TRY(read_sigma(arguments, "--jitter", &disturbance->op_sigma, err));
    TRY(read_sigma(arguments, "--rank-jitter", &disturbance->iteration_sigma, err));
    iterations->seed = 1;
    if (seed != NULL) {
        TRY(text_parse_int64(seed, "--seed", 0, INT64_C(1) << 53, &iterations->seed, err));
    }
    disturbance->seed = (uint64_t)iterations->seed;
    if (is_disturbed && !cli_has(arguments, "--costs")) {
        return error_set(err, STATUS_INVALID, "%s needs --costs: ops of 1 ns stay as they are",
                         cli_has(arguments, "--jitter") ? "--jitter" : "--rank-jitter");
    }
    if (!is_disturbed) return STATUS_OK;
    return cli_int(arguments, "--draws", 1, DRAWS_MAX, DRAWS_DEFAULT, &iterations->draw_count, err);
}

static int compare_ns(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/// What the user sees and may do while draws are played.
typedef struct watch {
    cli_progress progress;
    const atomic_bool *interrupt;
} watch;

static status count_step(void *context, error_message *err)
{
    watch *watching = context;
    cli_progress_step(&watching->progress);
    if (!atomic_load(watching->interrupt)) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "interrupted");
}

static status play_draws(const sim_ensemble *asked, arena *memory,
                         cli_schedule_iterations *iterations, error_message *err)
{
    const size_t draws = (size_t)asked->draw_count;
    iterations->total_ns = arena_array(memory, draws, sizeof *iterations->total_ns);
    const int64_t steps = sim_ensemble_batch_count(asked) * asked->iteration_count;
    watch watching = {.interrupt = cli_interrupt_catch()};
    sim_ensemble ensemble = *asked;
    ensemble.step = count_step;
    ensemble.context = &watching;
    watching.progress = cli_progress_begin("iterations of several draws", steps);
    const status played = sim_ensemble_play(&ensemble, memory, iterations->total_ns, err);
    cli_progress_end(&watching.progress);
    if (played != STATUS_OK) return played;
    qsort(iterations->total_ns, draws, sizeof *iterations->total_ns, compare_ns);
    return STATUS_OK;
}

/// Refuses what the static engine cannot chain.
static status check_iterated(const cli_iterated_schedule *iterated, error_message *err)
{
    if (iterated->policy != SIM_STATIC) {
        return error_set(err, STATUS_UNSUPPORTED, "--iterations plays policy static only, not %s",
                         sim_policy_name(iterated->policy));
    }
    if (sim_network_is_free(iterated->network)) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "--iterations plays asynchronous sends without shared links only");
}

status cli_schedule_iterations_play(const cli_arguments *arguments,
                                    const cli_iterated_schedule *iterated, arena *memory,
                                    cli_schedule_iterations *iterations, error_message *err)
{
    cli_schedule_iterations played = {0};
    bal_disturbance disturbance = {0};
    sim_order order;
    int count = 0;
    TRY(cli_int(arguments, "--iterations", 1, INT_MAX, 0, &count, err));
    TRY(read_draws(arguments, &disturbance, &played, err));
    *iterations = played;
    if (count == 0) return STATUS_OK;
    TRY(check_iterated(iterated, err));
    TRY(sim_order_compile(iterated->schedule, memory, &order, err));
    TRY(sim_chain_play(&order, iterated->costs, count, memory, &played.chain, err));
    const sim_ensemble ensemble = {.order = &order,
                                   .costs = iterated->costs,
                                   .disturbance = &disturbance,
                                   .draw_count = played.draw_count,
                                   .iteration_count = count};
    if (played.draw_count > 0) TRY(play_draws(&ensemble, memory, &played, err));
    *iterations = played;
    return STATUS_OK;
}

/// The smallest draw that so many hundredths of all draws do not exceed.
static int64_t percentile_ns(const cli_schedule_iterations *iterations, int hundredths)
{
    const int64_t rank = ((int64_t)hundredths * iterations->draw_count + 99) / 100;
    return iterations->total_ns[rank > 0 ? rank - 1 : 0];
}

static double mean_ns(const cli_schedule_iterations *iterations)
{
    double sum = 0;
    for (int draw = 0; draw < iterations->draw_count; draw++) {
        sum += (double)iterations->total_ns[draw];
    }
    return sum / iterations->draw_count;
}

/// How many times as long the draws take as nothing that is disturbed; 1 if neither takes time.
static double slowdown(const cli_schedule_iterations *iterations)
{
    const int64_t total_ns = iterations->chain.total_ns;
    return total_ns > 0 ? mean_ns(iterations) / (double)total_ns : 1.0;
}

static double period_ns(const sim_chain *chain)
{
    return (double)chain->period_ns / (double)chain->period_iterations;
}

void cli_schedule_iterations_json(const cli_schedule_iterations *iterations, json_writer *writer)
{
    const sim_chain *chain = &iterations->chain;
    if (chain->iteration_count == 0) return;
    json_put_int64(writer, "iterations", chain->iteration_count);
    json_put_int64(writer, "total_ns", chain->total_ns);
    if (chain->steady_iteration >= 0) {
        json_put_int64(writer, "steady_iteration", chain->steady_iteration);
        json_put_int64(writer, "period_iterations", chain->period_iterations);
        json_put_int64(writer, "period_ns", chain->period_ns);
    }
    if (iterations->draw_count == 0) return;
    json_write_key(writer, "draws");
    json_begin_object(writer);
    json_put_int64(writer, "count", iterations->draw_count);
    json_put_int64(writer, "seed", iterations->seed);
    json_put_double(writer, "mean_ns", mean_ns(iterations));
    json_put_int64(writer, "p5_ns", percentile_ns(iterations, 5));
    json_put_int64(writer, "median_ns", percentile_ns(iterations, 50));
    json_put_int64(writer, "p95_ns", percentile_ns(iterations, 95));
    json_put_int64(writer, "largest_ns", percentile_ns(iterations, 100));
    json_put_double(writer, "slowdown", slowdown(iterations));
    json_end_object(writer);
}

void cli_schedule_iterations_text(const cli_schedule_iterations *iterations, text_buffer *out)
{
    const sim_chain *chain = &iterations->chain;
    if (chain->iteration_count == 0) return;
    text_format(out, "%-18s %14" PRId64 " ns   for %" PRId64 ", a rank goes on when it is done\n",
                "iterations", chain->total_ns, chain->iteration_count);
    if (chain->steady_iteration >= 0) {
        text_format(out, "%-18s %14.1f ns   per iteration, from iteration %" PRId64 " on\n",
                    "steady", period_ns(chain), chain->steady_iteration);
    }
    if (iterations->draw_count == 0) return;
    text_format(out, "%-18s %14.0f ns   mean of %d draws: %.4f times as long\n", "disturbed",
                mean_ns(iterations), iterations->draw_count, slowdown(iterations));
    text_format(out, "%-18s %14" PRId64 " ns   to %" PRId64 ": 5 %% to 95 %% of the draws\n", "",
                percentile_ns(iterations, 5), percentile_ns(iterations, 95));
}

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

status cli_schedule_step_play(const cli_arguments *arguments, const cli_iterated_schedule *iterated,
                              arena *memory, cli_schedule_step *step, error_message *err)
{
    static const char *const names[] = {"barrier", "post-validation"};
    const char *given = cli_value(arguments, "--step");
    sim_iterations *iterations = NULL;
    sim_update update = {0};
    *step = (cli_schedule_step){0};
    if (given == NULL) return STATUS_OK;
    if (iterated->policy != SIM_STATIC || !sim_network_is_free(iterated->network)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "--step goes with the static policy and asynchronous messages");
    }
    update.post_validation = strcmp(given, names[1]) == 0;
    if (!update.post_validation && strcmp(given, names[0]) != 0) {
        return error_set(err, STATUS_INVALID, "--step: '%.40s' is not one of %s, %s", given,
                         names[0], names[1]);
    }
    find_hops(iterated->schedule, iterated->costs, memory, &update);
    sim_iterations_prepare(iterated->schedule, memory, &iterations);
    if (update.post_validation) TRY(sim_iterations_check_validation(iterations, memory, err));
    step->name = names[update.post_validation];
    const status found = sim_iterations_find_period(iterations, iterated->costs, &update, memory,
                                                    &step->period_ns, err);
    return found == STATUS_OK ? STATUS_OK : error_prefix(err, found, "--step");
}
