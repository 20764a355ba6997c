#include "exec/run/run_costs.h"

#include <math.h>
#include <string.h>

/// One source as it travels; the arrays that are there follow.
typedef struct costs_head {
    int layer_count;
    int column_count;
    bool has_split;
    bool embedding;
    bool head;
    bool has_array[BAL_COST_ARRAY_COUNT];
} costs_head;

static status put_source(exec_parcel *parcel, const bal_layer_costs *source)
{
    bal_layer_costs layers = *source;
    const int64_t **arrays[BAL_COST_ARRAY_COUNT];
    bal_layer_costs_list(&layers, arrays);
    costs_head head;
    memset(&head, 0, sizeof head); // padding is compared, too
    head.layer_count = layers.layer_count;
    head.column_count = layers.microbatch_count;
    head.has_split = layers.has_split;
    head.embedding = layers.embedding;
    head.head = layers.head;
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        head.has_array[array] = *arrays[array] != NULL;
    }
    TRY(exec_parcel_put(parcel, &head, (int64_t)sizeof head));
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (*arrays[array] == NULL) continue;
        TRY(exec_parcel_put(parcel, *arrays[array],
                            (int64_t)bal_layer_costs_array_bytes(&layers, array)));
    }
    return STATUS_OK;
}

static bool is_same(const exec_parcel *parcel, const exec_parcel *other)
{
    return parcel->byte_count == other->byte_count &&
           memcmp(parcel->bytes, other->bytes, (size_t)parcel->byte_count) == 0;
}

status exec_run_costs_put(exec_run_costs *costs, const bal_layer_costs *sources, int source_count,
                          bool *is_other)
{
    exec_parcel made = {0};
    status put = exec_parcel_put(&made, &source_count, (int64_t)sizeof source_count);
    for (int source = 0; put == STATUS_OK && source < source_count; source++) {
        put = put_source(&made, &sources[source]);
    }
    *is_other = put == STATUS_OK && !is_same(&made, &costs->parcel);
    if (*is_other) {
        exec_parcel_free(&costs->parcel);
        costs->parcel = made;
    } else {
        exec_parcel_free(&made);
    }
    return put;
}

static bal_layer_costs take_source(exec_parcel *parcel)
{
    const costs_head *head = exec_parcel_take(parcel, (int64_t)sizeof *head);
    bal_layer_costs layers = {
        .layer_count = head->layer_count,
        .microbatch_count = head->column_count,
        .has_split = head->has_split,
        .embedding = head->embedding,
        .head = head->head,
    };
    const int64_t **arrays[BAL_COST_ARRAY_COUNT];
    bal_layer_costs_list(&layers, arrays);
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (head->has_array[array]) {
            *arrays[array] =
                exec_parcel_take(parcel, (int64_t)bal_layer_costs_array_bytes(&layers, array));
        }
    }
    return layers;
}

bal_layer_costs exec_run_costs_of(exec_run_costs *costs, int replica)
{
    exec_parcel *parcel = &costs->parcel;
    bal_layer_costs layers = {0};
    parcel->taken_bytes = 0;
    const int *source_count = exec_parcel_take(parcel, (int64_t)sizeof *source_count);
    for (int source = 0; source <= replica % *source_count; source++) {
        layers = take_source(parcel);
    }
    return layers;
}

/// Stretches times in place.
static const int64_t *stretched(int64_t *times, int count, int64_t time_scale_ppb)
{
    for (int index = 0; index < count && time_scale_ppb != 1000000000; index++) {
        times[index] = (int64_t)round((double)times[index] * ((double)time_scale_ppb / 1e9));
    }
    return times;
}

status exec_run_costs_fill_sends(exec_run_costs *costs, const bal_placed_partition *plan,
                                 const bal_machine *machine, int64_t time_scale_ppb,
                                 error_message *err)
{
    const int stages = bal_placed_stage_count(plan);
    if (costs->memory == NULL) costs->memory = arena_create(1 << 14);
    arena_reset(costs->memory);
    bal_stage_costs made;
    TRY(bal_stage_costs_from_layers(&costs->layers, plan, machine, NULL, costs->memory, &made,
                                    err));
    int64_t *forward = arena_array(costs->memory, (size_t)stages, sizeof *forward);
    int64_t *backward = arena_array(costs->memory, (size_t)stages, sizeof *backward);
    memcpy(forward, made.send_forward_ns, (size_t)stages * sizeof *forward);
    memcpy(backward, made.send_backward_ns, (size_t)stages * sizeof *backward);
    costs->send_forward_ns = stretched(forward, stages, time_scale_ppb);
    costs->send_backward_ns = stretched(backward, stages, time_scale_ppb);
    return STATUS_OK;
}

void exec_run_costs_free(exec_run_costs *costs)
{
    exec_parcel_free(&costs->parcel);
    arena_destroy(costs->memory);
    *costs = (exec_run_costs){0};
}
