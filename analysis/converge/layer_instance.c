#include "analysis/converge/layer_instance.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_PRINTED_MAX = 16 };

static int compare_loads(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

double ana_phi(int64_t *load, int count)
{
    qsort(load, (size_t)count, sizeof *load, compare_loads);
    bal_wide phi = 0; // load k is the larger one in k pairs, the smaller one in count - 1 - k
    for (int rank = 0; rank < count; rank++) {
        phi += (bal_wide)(2 * rank - count + 1) * load[rank];
    }
    return (double)phi;
}

bal_problem ana_instance_problem(const ana_layer_instance *instance)
{
    return (bal_problem){
        .layers = {.layer_count = instance->layer_count,
                   .microbatch_count = 1,
                   .forward_ns = instance->weight,
                   .parameters = instance->weight,
                   .state_bytes = instance->bytes},
        .stage_count = instance->stage_count,
        .weight = BAL_WEIGHT_TIME,
        .objective = BAL_OBJECTIVE_BOTTLENECK,
        .allow_empty_stages = true,
        .stage_memory_bytes = instance->cap_bytes,
        .current_first_layer = instance->first_layer,
    };
}

static int64_t start_max(const ana_layer_instance *instance)
{
    int64_t largest = 0;
    for (int stage = 0; stage < instance->stage_count; stage++) {
        int64_t load = 0;
        for (int layer = instance->first_layer[stage]; layer < instance->first_layer[stage + 1];
             layer++) {
            load += instance->weight[layer];
        }
        if (load > largest) largest = load;
    }
    return largest;
}

status ana_instance_settle(const bal_balancer *balancer, const ana_layer_instance *instance,
                           arena *memory, ana_settled *settled, error_message *err)
{
    const bal_problem problem = ana_instance_problem(instance);
    const size_t ranks = (size_t)instance->stage_count;
    bal_answer answer;
    TRY(bal_balance(balancer, &problem, memory, &answer, err));
    int64_t *sorted = arena_array(memory, ranks, sizeof *sorted);
    memcpy(sorted, answer.stage_load, ranks * sizeof *sorted);
    const double phi = ana_phi(sorted, instance->stage_count);
    *settled = (ana_settled){.start_max = start_max(instance),
                             .load_max = sorted[ranks - 1],
                             .load_min = sorted[0],
                             .phi = phi,
                             .load = answer.stage_load,
                             .owner = answer.owner,
                             .transfers = answer.transfers,
                             .transfer_count = answer.transfer_count,
                             .iteration_count = answer.iteration_count};
    return STATUS_OK;
}

status ana_instance_is_settled(const ana_layer_instance *instance, const ana_settled *settled,
                               arena *memory, bool *is_settled, error_message *err)
{
    bal_problem problem = ana_instance_problem(instance);
    problem.current_first_layer = NULL;
    problem.current_owner = settled->owner;
    bal_answer answer;
    TRY(bal_balance(bal_balancer_find("diffusion-published"), &problem, memory, &answer, err));
    *is_settled = answer.transfer_count == 0;
    return STATUS_OK;
}

/// A copy of an array of the arena's; NULL stays NULL.
static void copy_array(const void *values, size_t count, size_t bytes, arena *memory,
                       const void **copy)
{
    *copy = NULL;
    if (values == NULL) return;
    void *made = arena_array(memory, count, bytes);
    if (count > 0) memcpy(made, values, count * bytes);
    *copy = made;
}

void ana_instance_copy(const ana_layer_instance *instance, arena *memory, ana_layer_instance *copy)
{
    const size_t layers = (size_t)instance->layer_count;
    const size_t stages = (size_t)instance->stage_count;
    const void *weight = NULL;
    const void *bytes = NULL;
    const void *cap = NULL;
    const void *first = NULL;
    copy_array(instance->weight, layers, sizeof *instance->weight, memory, &weight);
    copy_array(instance->bytes, layers, sizeof *instance->bytes, memory, &bytes);
    copy_array(instance->cap_bytes, stages, sizeof *instance->cap_bytes, memory, &cap);
    copy_array(instance->first_layer, stages + 1, sizeof *instance->first_layer, memory, &first);
    *copy = (ana_layer_instance){.layer_count = instance->layer_count,
                                 .stage_count = instance->stage_count,
                                 .weight = weight,
                                 .bytes = bytes,
                                 .cap_bytes = cap,
                                 .first_layer = first};
}

/// How many layers from layer on, before end, are equal to it.
static int run_length(const ana_layer_instance *instance, int layer, int end)
{
    int behind = layer + 1;
    while (behind < end && instance->weight[behind] == instance->weight[layer] &&
           (instance->bytes == NULL || instance->bytes[behind] == instance->bytes[layer])) {
        behind++;
    }
    return behind - layer;
}

static void append_layers(const ana_layer_instance *instance, int begin, int end, text_buffer *out)
{
    const bool shortens = instance->layer_count > LAYERS_PRINTED_MAX;
    for (int layer = begin; layer < end;) {
        const int run = shortens ? run_length(instance, layer, end) : 1;
        text_format(out, "%s%" PRId64, layer > begin ? " " : "", instance->weight[layer]);
        if (instance->bytes != NULL) text_format(out, ":%" PRId64, instance->bytes[layer]);
        if (run > 1) text_format(out, " x %d", run);
        layer += run;
    }
}

void ana_instance_append(const ana_layer_instance *instance, text_buffer *out)
{
    text_append(out, "[");
    for (int stage = 0; stage < instance->stage_count; stage++) {
        if (stage > 0) text_append(out, " | ");
        append_layers(instance, instance->first_layer[stage], instance->first_layer[stage + 1],
                      out);
    }
    text_append(out, "]");
    if (instance->cap_bytes == NULL) return;
    text_append(out, " (weight:bytes), caps");
    for (int stage = 0; stage < instance->stage_count; stage++) {
        text_format(out, " %" PRId64, instance->cap_bytes[stage]);
    }
}

void ana_instance_write(const ana_layer_instance *instance, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "stages", instance->stage_count);
    json_write_key(writer, "weights");
    json_write_int64_array(writer, instance->weight, instance->layer_count);
    json_write_key(writer, "first_layer");
    json_write_int_array(writer, instance->first_layer, instance->stage_count + 1);
    if (instance->bytes != NULL) {
        json_write_key(writer, "bytes");
        json_write_int64_array(writer, instance->bytes, instance->layer_count);
    }
    if (instance->cap_bytes != NULL) {
        json_write_key(writer, "cap_bytes");
        json_write_int64_array(writer, instance->cap_bytes, instance->stage_count);
    }
    json_end_object(writer);
}
