#include "analysis/whatif/sensitivity.h"

#include "sim/costs.h"
#include "sim/pipeline.h"

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
static int64_t gain_ns(trial *trying)
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
    return gain_ns(trying);
}

/// Messages between a stage and the next.
static int64_t link_gain_ns(trial *trying, int stage)
{
    if (stage + 1 == trying->original->stage_count) return 0;
    shorten(trying, TIMES, (size_t)stage, 1);
    shorten(trying, TIMES + 1, (size_t)stage + 1, 1);
    return gain_ns(trying);
}

static int64_t arrays_gain_ns(trial *trying, int first, int end)
{
    for (int array = first; array < end; array++) {
        shorten(trying, array, 0, entries_of(trying->original, array));
    }
    return gain_ns(trying);
}

static status prepare(trial *trying, const bal_schedule *schedule, arena *memory,
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
    TRY(prepare(&trying, schedule, memory, err));
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
