#include "analysis/whatif/explanation.h"

#include "analysis/compare/contiguous_bound.h"
#include "balance/schedule/makespan_bounds.h"
#include "sim/costs.h"
#include "sim/pipeline.h"
#include "sim/training_replay.h"

#include <stdlib.h>
#include <string.h>

enum { TIMES = 3, SENDS = 2, ARRAYS = TIMES + SENDS };

/// An order with costs that can be changed: a copy of each array, and the costs that point to them.
typedef struct trial {
    sim_order order;
    sim_summary summary;
    bool post_validation;
    const bal_stage_costs *original;
    bal_stage_costs changed;
    int64_t *arrays[ARRAYS]; // F, B, W [stages][columns]; sends forward, sends backward [stages]
    int64_t base_ns;
} trial;

static const int64_t *original_array(const bal_stage_costs *costs, int array)
{
    const int64_t *const arrays[ARRAYS] = {costs->forward_ns, costs->backward_input_ns,
                                           costs->backward_weight_ns, costs->send_forward_ns,
                                           costs->send_backward_ns};
    return arrays[array];
}

static size_t entries_of(const bal_stage_costs *costs, int array)
{
    const size_t columns = array < TIMES ? (size_t)costs->microbatch_count : 1;
    return (size_t)costs->stage_count * columns;
}

static void copy_costs(trial *trying, arena *memory)
{
    for (int array = 0; array < ARRAYS; array++) {
        const size_t entries = entries_of(trying->original, array);
        trying->arrays[array] = arena_array(memory, entries, sizeof *trying->arrays[array]);
        memcpy(trying->arrays[array], original_array(trying->original, array),
               entries * sizeof *trying->arrays[array]);
    }
    trying->changed = *trying->original;
    trying->changed.forward_ns = trying->arrays[0];
    trying->changed.backward_input_ns = trying->arrays[1];
    trying->changed.backward_weight_ns = trying->arrays[2];
    trying->changed.send_forward_ns = trying->arrays[TIMES];
    trying->changed.send_backward_ns = trying->arrays[TIMES + 1];
}

static int64_t length_ns(trial *trying)
{
    sim_order_summarise(&trying->order, &trying->changed, NULL, &trying->summary);
    return trying->post_validation ? trying->summary.span_ns : trying->summary.makespan_ns;
}

/// Takes 1 %, rounded down, off entries of an array.
static void shorten(trial *trying, int array, size_t first, size_t count)
{
    for (size_t entry = first; entry < first + count; entry++) {
        trying->arrays[array][entry] -= trying->arrays[array][entry] / 100;
    }
}

/// What was gained by what has been shortened; all is then as it was.
static int64_t gain_of_ns(trial *trying)
{
    const int64_t gained = trying->base_ns - length_ns(trying);
    for (int array = 0; array < ARRAYS; array++) {
        memcpy(trying->arrays[array], original_array(trying->original, array),
               entries_of(trying->original, array) * sizeof *trying->arrays[array]);
    }
    return gained;
}

static int64_t stage_gain_ns(trial *trying, int stage)
{
    const size_t columns = (size_t)trying->original->microbatch_count;
    for (int array = 0; array < TIMES; array++) {
        shorten(trying, array, (size_t)stage * columns, columns);
    }
    return gain_of_ns(trying);
}

/// Messages between a stage and the next.
static int64_t link_gain_ns(trial *trying, int stage)
{
    if (stage + 1 == trying->original->stage_count) return 0;
    shorten(trying, TIMES, (size_t)stage, 1);
    shorten(trying, TIMES + 1, (size_t)stage + 1, 1);
    return gain_of_ns(trying);
}

static int64_t arrays_gain_ns(trial *trying, int first, int end)
{
    for (int array = first; array < end; array++) {
        shorten(trying, array, 0, entries_of(trying->original, array));
    }
    return gain_of_ns(trying);
}

static status prepare_trial(trial *trying, const bal_schedule *schedule, arena *memory,
                            error_message *err)
{
    TRY(sim_costs_check(schedule, trying->original, err));
    TRY(sim_order_compile(schedule, memory, &trying->order, err));
    sim_summary_init(&trying->order, memory, &trying->summary);
    copy_costs(trying, memory);
    trying->base_ns = length_ns(trying);
    return STATUS_OK;
}

status ana_sensitivity_of(const bal_schedule *schedule, const bal_stage_costs *costs,
                          bool post_validation, arena *memory, ana_sensitivity *sensitivity,
                          error_message *err)
{
    const size_t stages = (size_t)costs->stage_count;
    trial trying = {.original = costs, .post_validation = post_validation};
    ana_sensitivity found = {
        .stage_count = costs->stage_count,
        .stage_ns = arena_array(memory, stages, sizeof *found.stage_ns),
        .link_ns = arena_array(memory, stages, sizeof *found.link_ns),
    };
    TRY(prepare_trial(&trying, schedule, memory, err));
    for (int stage = 0; stage < costs->stage_count; stage++) {
        found.stage_ns[stage] = stage_gain_ns(&trying, stage);
        found.link_ns[stage] = link_gain_ns(&trying, stage);
    }
    for (int kind = 0; kind < TIMES; kind++) {
        found.kind_ns[kind] = arrays_gain_ns(&trying, kind, kind + 1);
    }
    found.kind_ns[OP_BACKWARD] = arrays_gain_ns(&trying, OP_BACKWARD_INPUT, TIMES);
    found.all_ops_ns = arrays_gain_ns(&trying, 0, TIMES);
    found.all_links_ns = arrays_gain_ns(&trying, TIMES, ARRAYS);
    *sensitivity = found;
    return STATUS_OK;
}

/// What the run is watched for, first its lengths and causes, then the iteration to explain.
typedef struct watch {
    ana_explanation *explanation;
    int64_t *iteration_ns; // [iteration_count] NULL: the second play
    arena *memory;         // of the explanation
    arena *scratch;
} watch;

/// Evenly spaced, the first among them.
static bool is_sampled(const ana_explanation *explanation, int iteration)
{
    const int64_t samples = ANA_EXPLAINED_ITERATIONS;
    const int64_t count = explanation->iteration_count;
    if (count <= samples) return true;
    const int64_t sample = (iteration * samples + count - 1) / count;
    return sample < samples && sample * count / samples == iteration;
}

static bool wants_timeline(void *context, int iteration)
{
    const watch *watching = context;
    if (watching->iteration_ns != NULL) return is_sampled(watching->explanation, iteration);
    return iteration == watching->explanation->iteration;
}

static status explain_iteration(watch *watching, const bal_training_iteration *iteration,
                                error_message *err);

static status put_iteration(void *context, const bal_training_iteration *iteration,
                            error_message *err)
{
    watch *watching = context;
    ana_explanation *explanation = watching->explanation;
    if (watching->iteration_ns == NULL) {
        return iteration->iteration == explanation->iteration
                   ? explain_iteration(watching, iteration, err)
                   : STATUS_OK;
    }
    watching->iteration_ns[iteration->iteration] = iteration->iteration_ns;
    if (iteration->timeline == NULL) return STATUS_OK;
    arena_reset(watching->scratch);
    return ana_bubble_causes_add(&explanation->causes, iteration, iteration->validates_behind, 1,
                                 watching->scratch, err);
}

static int64_t *stage_sums(const bal_stage_costs *costs, int microbatch_count, arena *memory)
{
    int64_t *sum = arena_array(memory, (size_t)costs->stage_count, sizeof *sum);
    const int columns = costs->microbatch_count;
    for (int stage = 0; stage < costs->stage_count; stage++) {
        for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
            const int cell = stage * columns + microbatch % columns;
            sum[stage] += costs->forward_ns[cell] + costs->backward_input_ns[cell] +
                          costs->backward_weight_ns[cell];
        }
    }
    return sum;
}

/// Keeps what of the iteration does not outlive the call: the plan and the loads of its stages.
static void keep_plan(watch *watching, const bal_training_iteration *iteration)
{
    ana_explanation *explanation = watching->explanation;
    const bal_stage_costs *costs = iteration->costs;
    const size_t cuts = (size_t)costs->stage_count + 1;
    int *first_layer = arena_array(watching->memory, cuts, sizeof *first_layer);
    const int microbatches = iteration->timeline->schedule->microbatch_count;
    explanation->stage_ns = stage_sums(costs, microbatches, watching->memory);
    memcpy(first_layer, iteration->first_layer, cuts * sizeof *first_layer);
    explanation->first_layer = first_layer;
    explanation->stage_count = costs->stage_count;
    explanation->rank_count = iteration->rank_count;
    explanation->iteration_ns = iteration->iteration_ns;
    explanation->pipeline_ns = iteration->pipeline_ns;
}

/// Bounds of the pipeline: of this plan, and of all contiguous ones of one stage per rank. Where
/// the span counts, only the work of a rank bounds it.
static status bound(watch *watching, const bal_training_iteration *iteration, error_message *err)
{
    ana_explanation *explanation = watching->explanation;
    const ana_setup *setup = explanation->setup;
    const bal_schedule *schedule = iteration->timeline->schedule;
    const bool by_span = iteration->validates_behind;
    ana_contiguous_bound any = {0, 0};
    bal_layer_costs layers;
    bool changed = false;
    explanation->plan_bound_ns = (by_span ? bal_span_lower_bound_ns : bal_makespan_lower_bound_ns)(
        iteration->costs, schedule->rank_count, schedule->chunk_count, schedule->placement,
        schedule->microbatch_count);
    if (schedule->chunk_count > 1 || by_span || setup->study->slow_rank_count > 0 ||
        bal_disturbance_has_rank_factors(&setup->study->disturbance) ||
        setup->study->disturbance.op_sigma > 0) {
        return STATUS_OK;
    }
    TRY(setup->source.costs_at(setup->source.context, iteration->iteration, &layers, &changed,
                               err));
    arena_reset(watching->scratch);
    TRY(ana_bound_contiguous(&layers, iteration->rank_count, schedule->microbatch_count,
                             watching->scratch, &any, err));
    explanation->any_bound_ns = any.makespan_ns;
    return STATUS_OK;
}

static status explain_iteration(watch *watching, const bal_training_iteration *iteration,
                                error_message *err)
{
    ana_explanation *explanation = watching->explanation;
    keep_plan(watching, iteration);
    sim_critical_path_of(iteration->timeline, iteration->costs, watching->memory,
                         &explanation->path);
    TRY(ana_sensitivity_of(iteration->timeline->schedule, iteration->costs,
                           iteration->validates_behind, watching->memory, &explanation->sensitivity,
                           err));
    return bound(watching, iteration, err);
}

static int ascending(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/// The first iteration of the median length; the lower one of two in the middle.
static void choose_iteration(watch *watching)
{
    ana_explanation *explanation = watching->explanation;
    const size_t count = (size_t)explanation->iteration_count;
    int64_t *sorted = arena_array(watching->scratch, count, sizeof *sorted);
    memcpy(sorted, watching->iteration_ns, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, ascending);
    explanation->iteration_min_ns = sorted[0];
    explanation->iteration_max_ns = sorted[count - 1];
    const int64_t median = sorted[(count - 1) / 2];
    while (watching->iteration_ns[explanation->iteration] != median) {
        explanation->iteration++;
    }
}

static status play(watch *watching, const ana_balancing *balancing, error_message *err)
{
    const bal_record_sink sink = {
        .context = watching, .wants_timeline = wants_timeline, .put = put_iteration};
    const bal_training training = ana_setup_training(watching->explanation->setup, balancing, sink);
    arena *memory = arena_create(1 << 16);
    bal_training_result result;
    const status played = sim_training_replay(&training, memory, &result, err);
    arena_destroy(memory);
    return played;
}

static status play_twice(watch *watching, const ana_balancing *balancing, error_message *err)
{
    const size_t count = (size_t)watching->explanation->iteration_count;
    watching->iteration_ns = arena_array(watching->memory, count, sizeof *watching->iteration_ns);
    TRY(play(watching, balancing, err));
    choose_iteration(watching);
    watching->iteration_ns = NULL;
    return play(watching, balancing, err);
}

status ana_explain(const ana_setup *setup, const ana_balancing *balancing, const ana_worth *worth,
                   arena *memory, ana_explanation *explanation, error_message *err)
{
    if (balancing->balancer->owns_freely) {
        return error_set(err, STATUS_INVALID,
                         "%s has owners of layers and no stages: nothing to explain",
                         balancing->label);
    }
    if (!bal_machine_network_is_free(&setup->machine)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "cluster: only messages that are asynchronous and share no link can be "
                         "explained");
    }
    if (setup->study->round_count > 1) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "training.accumulation %d: one pass of the pipeline can be explained, "
                         "not several",
                         setup->study->round_count);
    }
    ana_explanation made = {.setup = setup,
                            .label = balancing->label,
                            .worth = *worth,
                            .iteration_count = setup->iteration_count};
    watch watching = {.explanation = &made, .memory = memory, .scratch = arena_create(1 << 16)};
    const status played = play_twice(&watching, balancing, err);
    arena_destroy(watching.scratch);
    if (played == STATUS_OK) *explanation = made;
    return played;
}
