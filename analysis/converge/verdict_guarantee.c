/// How good what Algorithm 3 ends with is, and what the two other historical and local balancers
/// end with.
#include "analysis/converge/assignment_optimum.h"
#include "analysis/converge/verdict.h"

#include "base/rng.h"

#include <inttypes.h>
#include <math.h>

enum {
    RANDOM_PURPOSE = 103,
    NODES_MAX = 200000, // of a search for the best assignment of one small instance
};

static const int family_sizes[] = {2, 3, 4, 8, 16, 32, 64};
enum { FAMILY_SIZE_COUNT = sizeof family_sizes / sizeof family_sizes[0] };

/// 2 - 2 / (P + 1)
static double guarantee(int stages)
{
    return 2 - 2.0 / (stages + 1);
}

/// Whether load_max <= (2 - 2 / (P + 1)) optimum, in whole numbers.
static bool is_within(int64_t load_max, int64_t optimum, int stages)
{
    return (bal_wide)load_max * (stages + 1) <= (bal_wide)optimum * 2 * stages;
}

/// Runs Algorithm 3 and compares what it ends with with the best assignment.
static status try_instance(const ana_layer_instance *instance, int64_t optimum, arena *memory,
                           arena *scratch, ana_verdict_case *tried, error_message *err)
{
    ana_settled settled;
    const int stages = instance->stage_count;
    TRY(ana_instance_settle(bal_balancer_find("diffusion-published"), instance, scratch, &settled,
                            err));
    tried->examined++;
    const double ratio = optimum > 0 ? (double)settled.load_max / (double)optimum : 1;
    ana_case_measure(tried, ratio / guarantee(stages));
    if (is_within(settled.load_max, optimum, stages)) return STATUS_OK;
    return ana_case_violate(tried, instance, memory, err,
                            "ends after %d transfers with a largest load of %" PRId64
                            "; an assignment with %" PRId64 " exists: %.4g times, above %.4g",
                            settled.transfer_count, settled.load_max, optimum, ratio,
                            guarantee(stages));
}

/// The instance with caps as Algorithm 3 keeps them: it takes a layer only where memory stays below
/// the cap, so that a byte of the cap is never used.
///
/// @param cap_bytes [stage_count] where the caps are written
static ana_layer_instance with_usable_caps(const ana_layer_instance *instance, int64_t *cap_bytes)
{
    ana_layer_instance usable = *instance;
    if (instance->cap_bytes == NULL) return usable;
    for (int stage = 0; stage < instance->stage_count; stage++) {
        cap_bytes[stage] = instance->cap_bytes[stage] - 1;
    }
    usable.cap_bytes = cap_bytes;
    return usable;
}

/// Whether every rank of the start keeps its cap.
static bool starts_within_caps(const ana_layer_instance *instance)
{
    if (instance->cap_bytes == NULL) return true;
    for (int stage = 0; stage < instance->stage_count; stage++) {
        int64_t bytes = 0;
        for (int layer = instance->first_layer[stage]; layer < instance->first_layer[stage + 1];
             layer++) {
            bytes += instance->bytes[layer];
        }
        if (bytes > instance->cap_bytes[stage]) return false;
    }
    return true;
}

static status search_box(const ana_search_box *box, arena *memory, arena *scratch,
                         ana_verdict_case *tried, error_message *err)
{
    ana_search search;
    ana_case_searched(tried, box, memory);
    ana_search_begin(&search, box);
    ana_assignment_optimum optimum = {0};
    status found = STATUS_OK;
    while (ana_search_next(&search)) {
        arena_reset(scratch);
        int64_t cap_bytes[ANA_SEARCH_STAGES_MAX];
        const ana_layer_instance usable = with_usable_caps(&search.instance, cap_bytes);
        if (search.is_new) {
            found = ana_assignment_search(&usable, NODES_MAX, scratch, &optimum, NULL);
            if (found == STATUS_NO_MEMORY) return error_set(err, found, "out of memory");
        }
        if (found != STATUS_OK || !optimum.is_exact) continue;
        if (!starts_within_caps(&usable)) continue;
        TRY(try_instance(&search.instance, optimum.low, memory, scratch, tried, err));
    }
    return STATUS_OK;
}

static status draw_random(const ana_verdict_options *options, arena *memory, arena *scratch,
                          ana_verdict_case *tried, error_message *err)
{
    enum { LAYERS_MAX = 14, STAGES_MAX = 5 };
    int64_t weight[LAYERS_MAX];
    int first[STAGES_MAX + 1] = {0};
    rng generator = rng_init(options->seed, RANDOM_PURPOSE);
    tried->searched = "4 to 14 layers of weight 1 to 2^1 up to 2^12 on 2 to 5 ranks, any start; "
                      "those whose best assignment was found";
    for (int index = 0; index < options->instance_count; index++) {
        ana_layer_instance instance = {.weight = weight, .first_layer = first};
        ana_assignment_optimum optimum;
        instance.layer_count = (int)rng_between(&generator, 4, LAYERS_MAX);
        instance.stage_count = (int)rng_between(&generator, 2, STAGES_MAX);
        const int64_t range = INT64_C(1) << rng_between(&generator, 1, 12);
        for (int layer = 0; layer < instance.layer_count; layer++) {
            weight[layer] = rng_between(&generator, 1, range);
        }
        for (int stage = 1; stage <= instance.stage_count; stage++) {
            first[stage] =
                stage == instance.stage_count
                    ? instance.layer_count
                    : (int)rng_between(&generator, first[stage - 1], instance.layer_count);
        }
        arena_reset(scratch);
        TRY(ana_assignment_search(&instance, NODES_MAX, scratch, &optimum, err));
        if (!optimum.is_exact) continue;
        TRY(try_instance(&instance, optimum.low, memory, scratch, tried, err));
    }
    return STATUS_OK;
}

/// A family of instances, one for each number of stages.
typedef struct family {
    int heavy_count; // layers of heavy_weight that start on rank 0
    int64_t heavy_weight;
    int light_count; // layers of weight 1 that start on each other rank
    bool has_zero;   // a layer without weight in front, on rank 0
    bool has_cap;    // every rank has a first layer of weight 1 and 2 bytes; caps are 3
} family;

static void family_instance(const family *shape, int stages, arena *memory,
                            ana_layer_instance *instance)
{
    const int fronts = (shape->has_zero ? 1 : 0) + (shape->has_cap ? 1 : 0);
    const int others = shape->light_count + (shape->has_cap ? 1 : 0);
    const int layers = fronts + shape->heavy_count + (stages - 1) * others;
    int64_t *weight = arena_array(memory, (size_t)layers, sizeof *weight);
    int64_t *bytes = arena_array(memory, (size_t)layers, sizeof *bytes);
    int64_t *cap = arena_array(memory, (size_t)stages, sizeof *cap);
    int *first = arena_array(memory, (size_t)stages + 1, sizeof *first);
    int layer = 0;
    for (int stage = 0; stage < stages; stage++) {
        first[stage] = layer;
        cap[stage] = 3;
        if (stage == 0 && shape->has_zero) weight[layer++] = 0;
        if (shape->has_cap) {
            bytes[layer] = 2;
            weight[layer++] = 1;
        }
        const int count = stage == 0 ? shape->heavy_count : shape->light_count;
        for (int index = 0; index < count; index++) {
            weight[layer++] = stage == 0 ? shape->heavy_weight : 1;
        }
    }
    first[stages] = layers;
    *instance = (ana_layer_instance){.layer_count = layers,
                                     .stage_count = stages,
                                     .weight = weight,
                                     .bytes = shape->has_cap ? bytes : NULL,
                                     .cap_bytes = shape->has_cap ? cap : NULL,
                                     .first_layer = first};
}

/// Largest load over the best assignment's; without caps the best is known where longest processing
/// time first reaches the lower bound, as it does for these families.
static status measure_family(const family *shape, int stages, arena *scratch, double *ratio,
                             error_message *err)
{
    ana_layer_instance instance;
    ana_settled settled;
    ana_assignment_optimum optimum;
    arena_reset(scratch);
    family_instance(shape, stages, scratch, &instance);
    TRY(ana_instance_settle(bal_balancer_find("diffusion-published"), &instance, scratch, &settled,
                            err));
    TRY(ana_assignment_search(&instance, NODES_MAX, scratch, &optimum, err));
    *ratio = optimum.is_exact ? (double)settled.load_max / (double)optimum.low : NAN;
    return STATUS_OK;
}

static status grow(arena *memory, arena *scratch, ana_growth *growth, error_message *err)
{
    *growth = (ana_growth){
        .family = "largest load / best assignment, with weights > 0 of [P P | 1 x P | ...]; with "
                  "[0, 1 x P | | ...]; with caps of 3 bytes and [1:2, 2:0 x 32P | 1:2 | ...]:",
        .column = {"stages", "2 - 2/(P+1)", "weights > 0", "a zero weight", "memory caps"},
        .column_count = 5};
    ana_growth_init(growth, FAMILY_SIZE_COUNT, memory);
    for (int row = 0; row < FAMILY_SIZE_COUNT; row++) {
        const int stages = family_sizes[row];
        const family tight = {.heavy_count = 2, .heavy_weight = stages, .light_count = stages};
        const family zero = {.heavy_count = stages, .heavy_weight = 1, .has_zero = true};
        const family capped = {.heavy_count = 32 * stages, .heavy_weight = 2, .has_cap = true};
        double *value = &growth->value[row * growth->column_count];
        value[0] = stages;
        value[1] = guarantee(stages);
        TRY(measure_family(&tight, stages, scratch, &value[2], err));
        TRY(measure_family(&zero, stages, scratch, &value[3], err));
        TRY(measure_family(&capped, stages, scratch, &value[4], err));
    }
    return STATUS_OK;
}

status ana_try_guarantee(const ana_verdict_options *options, arena *memory, arena *scratch,
                         ana_verdict *verdict, error_message *err)
{
    static const char measure[] = "(load / best) / (2 - 2/(P+1))";
    const ana_search_box positive = {.stage_min = 2,
                                     .stage_max = 4,
                                     .layer_min = 1,
                                     .layer_max = 6,
                                     .weight_min = 1,
                                     .weight_max = 4,
                                     .has_starts = true};
    ana_search_box zero = positive;
    zero.weight_min = 0;
    zero.stage_max = 3;
    zero.layer_max = 5;
    zero.weight_max = 3;
    ana_search_box capped = zero;
    capped.weight_min = 1;
    capped.weight_max = 2;
    capped.layer_max = 5;
    capped.has_memory = true;
    capped.bytes_max = 2;
    capped.cap_max = 4;
    verdict->claim = "Where Algorithm 3 ends, the largest load is at most 2 - 2/(P+1) times that "
                     "of the best assignment.";
    verdict->source = "derived here";
    verdict->reason =
        "A rank with two layers that gives none away has its lightest >= max - min and <= max/2, "
        "so every rank carries max/2 or more. A lightest layer that weighs nothing lowers no "
        "variance, one that fits nowhere is offered again and again: either blocks its rank for "
        "good, and the ratio then comes as close to P as one likes: without a bound.";
    verdict->case_count = 4;
    verdict->cases[0].condition = "weights > 0, no caps";
    verdict->cases[1].condition = "weights > 0, no caps, random layers";
    verdict->cases[2].condition = "layers without weight";
    verdict->cases[3].condition = "memory caps";
    for (int index = 0; index < verdict->case_count; index++) {
        verdict->cases[index].worst_name = measure;
    }
    TRY(search_box(&positive, memory, scratch, &verdict->cases[0], err));
    TRY(draw_random(options, memory, scratch, &verdict->cases[1], err));
    TRY(search_box(&zero, memory, scratch, &verdict->cases[2], err));
    TRY(search_box(&capped, memory, scratch, &verdict->cases[3], err));
    return grow(memory, scratch, &verdict->growth, err);
}

static status search_released(int stages, int layer_max, arena *memory, arena *scratch,
                              ana_verdict_case *tried, error_message *err)
{
    const ana_search_box box = {.stage_min = stages,
                                .stage_max = stages,
                                .layer_min = stages,
                                .layer_max = layer_max,
                                .weight_min = 1,
                                .weight_max = 4,
                                .has_starts = true};
    ana_search search;
    ana_case_searched(tried, &box, memory);
    ana_search_begin(&search, &box);
    while (ana_search_next(&search)) {
        ana_settled settled;
        arena_reset(scratch);
        TRY(ana_instance_settle(bal_balancer_find("diffusion-coded"), &search.instance, scratch,
                                &settled, err));
        tried->examined++;
        ana_case_measure(tried, (double)settled.load_max / (double)settled.start_max);
        if (settled.load_max <= settled.start_max) continue;
        TRY(ana_case_violate(tried, &search.instance, memory, err,
                             "the largest load rises from %" PRId64 " to %" PRId64 " in %d "
                             "transfers",
                             settled.start_max, settled.load_max, settled.transfer_count));
    }
    return STATUS_OK;
}

status ana_try_released(const ana_verdict_options *options, arena *memory, arena *scratch,
                        ana_verdict *verdict, error_message *err)
{
    (void)options;
    static const char *const conditions[] = {"2 ranks", "3 ranks", "4 ranks"};
    verdict->claim = "The released code never leaves a larger largest load than it found.";
    verdict->source = "what a balancer promises; github.com/wahibium/DynMo at 7faf19e";
    verdict->reason = "It compares a move with the best variance so far, which starts at "
                      "infinity: the first move is made whatever it does, and all overloaded ranks "
                      "send to the rank that was the least loaded before.";
    verdict->case_count = 3;
    for (int index = 0; index < verdict->case_count; index++) {
        verdict->cases[index].condition = conditions[index];
        verdict->cases[index].worst_name = "largest load after / before";
        TRY(search_released(2 + index, 6, memory, scratch, &verdict->cases[index], err));
    }
    return STATUS_OK;
}

static status search_cuts(int stages, int layer_max, arena *memory, arena *scratch,
                          ana_verdict_case *tried, error_message *err)
{
    const ana_search_box box = {.stage_min = stages,
                                .stage_max = stages,
                                .layer_min = stages,
                                .layer_max = layer_max,
                                .weight_min = 1,
                                .weight_max = 4};
    ana_search search;
    ana_case_searched(tried, &box, memory);
    ana_search_begin(&search, &box);
    while (ana_search_next(&search)) {
        bal_answer answer;
        arena_reset(scratch);
        bal_problem problem = ana_instance_problem(&search.instance);
        problem.allow_empty_stages = false;
        TRY(bal_balance(bal_balancer_find("diffusion"), &problem, scratch, &answer, err));
        tried->examined++;
        ana_case_measure(tried,
                         (double)answer.bottleneck_ns / (double)answer.bottleneck_lower_bound_ns);
        if (answer.optimal) continue;
        ana_layer_instance shown = search.instance;
        shown.first_layer = answer.first_layer;
        TRY(ana_case_violate(tried, &shown, memory, err,
                             "no single layer over one cut helps; largest load %" PRId64
                             ", contiguous optimum %" PRId64,
                             answer.bottleneck_ns, answer.bottleneck_lower_bound_ns));
    }
    return STATUS_OK;
}

status ana_try_cut_diffusion(const ana_verdict_options *options, arena *memory, arena *scratch,
                             ana_verdict *verdict, error_message *err)
{
    (void)options;
    static const char *const conditions[] = {"2 stages", "3 stages", "4 stages"};
    static const int layer_max[] = {8, 7, 7};
    verdict->claim = "Diffusion that keeps stages contiguous (`diffusion`: prefix sums, rounded, "
                     "then single layers over cuts) ends at the contiguous optimum.";
    verdict->source = "what a replacement of exact partitioning would need";
    verdict->reason = "It sees neighbours only: a chain of stages of which each is balanced with "
                      "the next can still be a staircase. `partition` is exact and costs no more.";
    verdict->case_count = 3;
    for (int index = 0; index < verdict->case_count; index++) {
        verdict->cases[index].condition = conditions[index];
        verdict->cases[index].worst_name = "largest stage / contiguous optimum";
        TRY(search_cuts(2 + index, layer_max[index], memory, scratch, &verdict->cases[index], err));
    }
    return STATUS_OK;
}
