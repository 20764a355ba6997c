/// Loads of layers that are chosen, not predicted: what the best contiguous plan makes of them.
#include "analysis/paper/rows.h"
#include "balance/metrics.h"
#include "balance/partition/partition.h"
#include "sim/costs.h"
#include "sim/order_book.h"

#include <math.h>

enum { LAYERS_MAX = 256, NS_OF_LOAD = 1000000 };

/// Layers whose F, B and W take chosen times, the same for every microbatch.
typedef struct chosen_loads {
    const char *schedule;
    int stage_count;
    int microbatch_count;
    int layer_count;
    int64_t load_ns[LAYERS_MAX]; // [layer_count]
} chosen_loads;

static chosen_loads read_loads(json_value row)
{
    chosen_loads made = {.schedule = ana_paper_text(json_member(row, "schedule")),
                         .stage_count = (int)ana_paper_number(json_member(row, "stages")),
                         .microbatch_count =
                             (int)ana_paper_number(json_member(row, "microbatches"))};
    json_value run = json_element(json_member(row, "layers"), 0);
    for (; run.node != NULL; run = json_next(run)) {
        const int end = made.layer_count + (int)ana_paper_number(json_element(run, 0));
        while (made.layer_count < end && made.layer_count < LAYERS_MAX) {
            made.load_ns[made.layer_count++] =
                llround(ana_paper_number(json_element(run, 1)) * NS_OF_LOAD);
        }
    }
    return made;
}

/// F, B and W of a stage each take the sum of its layers' loads; messages take no time.
static bal_stage_costs stage_costs(const chosen_loads *chosen, const int *first_layer,
                                   arena *memory)
{
    const size_t stages = (size_t)chosen->stage_count;
    int64_t *stage_ns = arena_array(memory, stages, sizeof *stage_ns);
    const int64_t *none = arena_array(memory, stages, sizeof *none);
    for (int stage = 0; stage < chosen->stage_count; stage++) {
        for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
            stage_ns[stage] += chosen->load_ns[layer];
        }
    }
    return (bal_stage_costs){.stage_count = chosen->stage_count,
                             .microbatch_count = 1,
                             .forward_ns = stage_ns,
                             .backward_input_ns = stage_ns,
                             .backward_weight_ns = stage_ns,
                             .send_forward_ns = none,
                             .send_backward_ns = none,
                             .memory_forward = none,
                             .memory_backward_input = none,
                             .memory_backward_weight = none};
}

static status play(const chosen_loads *chosen, const int *first_layer, arena *memory,
                   sim_summary *summary, error_message *err)
{
    const bal_stage_costs costs = stage_costs(chosen, first_layer, memory);
    const bal_schedule_request request = {.name = chosen->schedule,
                                          .rank_count = chosen->stage_count,
                                          .microbatch_count = chosen->microbatch_count,
                                          .costs = &costs};
    sim_compiled_order order;
    TRY(sim_compiled_order_build(&request, memory, &order, err));
    TRY(sim_costs_check(&order.schedule, &costs, err));
    sim_summary_init(&order.order, memory, summary);
    sim_order_summarise(&order.order, &costs, NULL, summary);
    return STATUS_OK;
}

/// Of the length of an iteration without a barrier at the optimizer step.
static double idle_ratio(const chosen_loads *chosen, const sim_summary *summary)
{
    double busy_ns = 0;
    for (int rank = 0; rank < chosen->stage_count; rank++) {
        busy_ns += (double)summary->busy_ns[rank];
    }
    return bal_bubble_ratio(busy_ns, (double)chosen->stage_count * (double)summary->span_ns);
}

/// Idle shares of an iteration without a barrier under the even split and the balanced one, by the
/// exact smallest largest stage; the speed-up of one with a barrier at the optimizer step.
static status play_both(const chosen_loads *chosen, arena *memory, double numbers[3],
                        error_message *err)
{
    int *first_layer = arena_array(memory, (size_t)chosen->stage_count + 1, sizeof *first_layer);
    sim_summary even;
    sim_summary balanced;
    bal_chain chain;
    int64_t bottleneck_ns = 0;
    const bal_problem problem = {.layers = {.layer_count = chosen->layer_count,
                                            .microbatch_count = 1,
                                            .forward_ns = chosen->load_ns,
                                            .backward_input_ns = chosen->load_ns,
                                            .backward_weight_ns = chosen->load_ns},
                                 .stage_count = chosen->stage_count,
                                 .microbatch_count = chosen->microbatch_count};
    for (int stage = 0; stage <= chosen->stage_count; stage++) {
        first_layer[stage] = stage * chosen->layer_count / chosen->stage_count;
    }
    TRY(play(chosen, first_layer, memory, &even, err));
    TRY(bal_chain_of(&problem, memory, &chain, err));
    TRY(bal_partition_bottleneck(&chain, memory, first_layer, &bottleneck_ns, err));
    TRY(play(chosen, first_layer, memory, &balanced, err));
    numbers[0] = idle_ratio(chosen, &even);
    numbers[1] = idle_ratio(chosen, &balanced);
    numbers[2] = (double)even.makespan_ns / (double)balanced.makespan_ns;
    return STATUS_OK;
}

status ana_play_chosen_loads(ana_rows *rows, json_value row, error_message *err)
{
    static const char *const quantities[] = {"bubble before", "bubble after",
                                             "speed-up over static"};
    const chosen_loads chosen = read_loads(row);
    double numbers[3];
    TRY(play_both(&chosen, rows->memory, numbers, err));
    for (int number = 0; number < 3; number++) {
        const ana_interval interval = ana_interval_of(numbers[number]);
        const char *quantity =
            arena_format(rows->memory, "%s%s, of chosen loads",
                         ana_paper_text(json_member(row, "prefix")), quantities[number]);
        ana_rows_add(rows, quantity, &interval, ana_paper_text(json_member(row, "baseline")),
                     number == 0 ? ana_paper_text(json_member(row, "note")) : "")
            ->agreement = ANA_AGREEMENT_CONSISTENT;
    }
    return STATUS_OK;
}
