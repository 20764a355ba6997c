/// Lemma 1 of the DynMo paper: the smallest difference of stage loads is the smallest bubble.
#include "analysis/converge/range_optimum.h"
#include "analysis/converge/verdict.h"

#include "base/rng.h"

#include <inttypes.h>

enum { RANDOM_PURPOSE = 101 };

static status try_instance(const ana_layer_instance *instance, arena *memory,
                           ana_verdict_case *tried, error_message *err)
{
    int first[ANA_SEARCH_STAGES_MAX + 1];
    const ana_range_plans plans =
        ana_range_enumerate(instance->weight, instance->layer_count, instance->stage_count, first);
    tried->examined++;
    if (plans.optimum > 0) {
        ana_case_measure(tried, (double)plans.range_load_min / (double)plans.optimum);
    }
    if (plans.range_load_min == plans.optimum) return STATUS_OK;
    ana_layer_instance shown = *instance;
    shown.first_layer = first;
    return ana_case_violate(
        tried, &shown, memory, err,
        "the smallest difference is %" PRId64 ", and every plan that has it has a stage of %" PRId64
        " or more; the smallest possible is %" PRId64 ", at a difference of %" PRId64,
        plans.range, plans.range_load_min, plans.optimum, plans.optimum_range);
}

static status search_stages(int stages, int layer_max, int weight_max, arena *memory,
                            ana_verdict_case *tried, error_message *err)
{
    const ana_search_box box = {.stage_min = stages,
                                .stage_max = stages,
                                .layer_min = stages,
                                .layer_max = layer_max,
                                .weight_min = 1,
                                .weight_max = weight_max};
    ana_search search;
    ana_case_searched(tried, &box, memory);
    ana_search_begin(&search, &box);
    while (ana_search_next(&search)) {
        TRY(try_instance(&search.instance, memory, tried, err));
    }
    return STATUS_OK;
}

/// What a search of small numbers misses: weights of wide range.
static status search_random(const ana_verdict_options *options, arena *memory,
                            ana_verdict_case *tried, error_message *err)
{
    enum { LAYERS_MIN = 5, LAYERS_MAX = 10, STAGES_MIN = 3, STAGES_MAX = 5, WEIGHT_MAX = 40 };
    int64_t weight[LAYERS_MAX];
    rng generator = rng_init(options->seed, RANDOM_PURPOSE);
    tried->searched = "5 to 10 layers of weight 1 to 40, drawn evenly";
    for (int index = 0; index < options->instance_count; index++) {
        ana_layer_instance instance = {.weight = weight};
        instance.layer_count = (int)rng_between(&generator, LAYERS_MIN, LAYERS_MAX);
        instance.stage_count = (int)rng_between(&generator, STAGES_MIN, STAGES_MAX);
        for (int layer = 0; layer < instance.layer_count; layer++) {
            weight[layer] = rng_between(&generator, 1, WEIGHT_MAX);
        }
        TRY(try_instance(&instance, memory, tried, err));
    }
    return STATUS_OK;
}

status ana_try_range(const ana_verdict_options *options, arena *memory, arena *scratch,
                     ana_verdict *verdict, error_message *err)
{
    (void)scratch;
    static const char measure[] = "largest stage / the smallest possible";
    verdict->claim = "Among the contiguous plans of a pipeline, one with the smallest (max - min) "
                     "of the stage loads has the smallest largest stage, and so the smallest "
                     "bubble.";
    verdict->source = "DynMo, Lemma 1";
    verdict->reason = "A saturated pipeline idles 1 - mean/max whatever the smallest stage does. "
                      "On two stages max - min = 2 max - total, so both are one; on three a plan "
                      "can raise its smallest stage by raising its largest.";
    verdict->case_count = 4;
    for (int index = 0; index < verdict->case_count; index++) {
        verdict->cases[index].worst_name = measure;
    }
    verdict->cases[0].condition = "2 stages";
    verdict->cases[1].condition = "3 stages";
    verdict->cases[2].condition = "4 stages";
    verdict->cases[3].condition = "3 to 5 stages, random layers";
    TRY(search_stages(2, 7, 6, memory, &verdict->cases[0], err));
    TRY(search_stages(3, 6, 6, memory, &verdict->cases[1], err));
    TRY(search_stages(4, 6, 6, memory, &verdict->cases[2], err));
    return search_random(options, memory, &verdict->cases[3], err);
}
