#include "analysis/converge/verdict/layer_instance.h"

#include <assert.h>
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

void ana_sort_loads(int64_t *load, size_t count)
{
    qsort(load, count, sizeof *load, compare_loads);
}

double ana_phi(int64_t *load, int count)
{
    ana_sort_loads(load, (size_t)count);
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

void ana_instance_sum(const ana_layer_instance *instance, const int64_t *values, int64_t *sum)
{
    for (int stage = 0; stage < instance->stage_count; stage++) {
        sum[stage] = 0;
        for (int layer = instance->first_layer[stage]; layer < instance->first_layer[stage + 1];
             layer++) {
            sum[stage] += values[layer];
        }
    }
}

status ana_instance_balance(const char *balancer, const ana_layer_instance *instance, arena *memory,
                            bal_answer *answer, error_message *err)
{
    const bal_problem problem = ana_instance_problem(instance);
    return bal_balance(bal_balancer_find(balancer), &problem, memory, answer, err);
}

/// A copy of an array; NULL stays NULL.
static void *copy_array(const void *values, int count, size_t bytes, arena *memory)
{
    if (values == NULL) return NULL;
    void *made = arena_array(memory, (size_t)count, bytes);
    memcpy(made, values, (size_t)count * bytes);
    return made;
}

ana_layer_instance ana_instance_copy(const ana_layer_instance *instance, arena *memory)
{
    const int layers = instance->layer_count;
    const int stages = instance->stage_count;
    return (ana_layer_instance){
        .layer_count = layers,
        .stage_count = stages,
        .weight = copy_array(instance->weight, layers, sizeof(int64_t), memory),
        .bytes = copy_array(instance->bytes, layers, sizeof(int64_t), memory),
        .cap_bytes = copy_array(instance->cap_bytes, stages, sizeof(int64_t), memory),
        .first_layer = copy_array(instance->first_layer, stages + 1, sizeof(int), memory)};
}

/// How many layers from layer on, before end, are equal to it.
static int run_length(const ana_layer_instance *instance, int layer, int end)
{
    int after = layer + 1;
    while (after < end && instance->weight[after] == instance->weight[layer] &&
           (instance->bytes == NULL || instance->bytes[after] == instance->bytes[layer])) {
        after++;
    }
    return after - layer;
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

/// The next tuple in dictionary order of digits in [low, high]; false after the last, digits then
/// all low.
static bool advance(int64_t *digit, int count, int64_t low, int64_t high)
{
    for (int place = count - 1; place >= 0; place--) {
        if (digit[place] >= high) continue;
        digit[place]++;
        for (int after = place + 1; after < count; after++) {
            digit[after] = low;
        }
        return true;
    }
    for (int place = 0; place < count; place++) {
        digit[place] = low;
    }
    return false;
}

static bool has_weight(const ana_search *search, int64_t weight)
{
    for (int layer = 0; layer < search->instance.layer_count; layer++) {
        if (search->weight[layer] == weight) return true;
    }
    return false;
}

/// The next weights with the same largest one; those with smaller ones only were shown before.
static bool next_weights(ana_search *search)
{
    const int count = search->instance.layer_count;
    do {
        if (!advance(search->weight, count, search->box.weight_min, search->weight_top)) {
            return false;
        }
    } while (!has_weight(search, search->weight_top));
    return true;
}

static void set_cap(ana_search *search, int cap)
{
    search->cap = cap;
    for (int stage = 0; stage < search->instance.stage_count; stage++) {
        search->cap_bytes[stage] = cap;
    }
}

static void reset_memory(ana_search *search)
{
    for (int layer = 0; layer < search->instance.layer_count; layer++) {
        search->bytes[layer] = 1;
    }
    set_cap(search, 1);
}

/// The first weights with weight_top as the largest: the last layer has it.
static void reset_weights(ana_search *search)
{
    const int count = search->instance.layer_count;
    for (int layer = 0; layer < count; layer++) {
        search->weight[layer] = search->box.weight_min;
    }
    search->weight[count - 1] = search->weight_top;
    reset_memory(search);
}

/// All layers on the last stage where every start is shown, else as many on each as on any other.
static void reset_start(ana_search *search)
{
    const int stages = search->instance.stage_count;
    const int layers = search->instance.layer_count;
    for (int stage = 0; stage <= stages; stage++) {
        search->first_layer[stage] = search->box.has_starts ? 0 : stage * layers / stages;
    }
    search->first_layer[stages] = layers;
}

static bool next_start(ana_search *search)
{
    if (!search->box.has_starts) return false;
    const int layers = search->instance.layer_count;
    for (int stage = search->instance.stage_count - 1; stage > 0; stage--) {
        if (search->first_layer[stage] == layers) continue;
        const int cut = ++search->first_layer[stage];
        for (int after = stage + 1; after < search->instance.stage_count; after++) {
            search->first_layer[after] = cut;
        }
        return true;
    }
    return false;
}

static bool next_memory(ana_search *search)
{
    if (!search->box.has_memory) return false;
    if (search->cap < search->box.cap_max) {
        set_cap(search, search->cap + 1);
        return true;
    }
    set_cap(search, 1);
    return advance(search->bytes, search->instance.layer_count, 1, search->box.bytes_max);
}

/// The next layers or stages, smallest first.
static bool next_layers(ana_search *search)
{
    const ana_search_box *box = &search->box;
    if (next_weights(search)) {
        reset_memory(search);
        return true;
    }
    if (search->weight_top < box->weight_max) {
        search->weight_top++;
    } else if (search->instance.layer_count < box->layer_max) {
        search->instance.layer_count++;
        search->weight_top = box->weight_min;
    } else if (search->instance.stage_count < box->stage_max) {
        search->instance.stage_count++;
        search->instance.layer_count = box->layer_min;
        search->weight_top = box->weight_min;
    } else {
        return false;
    }
    reset_weights(search);
    return true;
}

void ana_search_begin(ana_search *search, const ana_search_box *box)
{
    assert(box->stage_min >= 1 && box->stage_min <= box->stage_max);
    assert(box->layer_min >= 1 && box->layer_min <= box->layer_max);
    assert(box->weight_min >= 0 && box->weight_min <= box->weight_max);
    assert(box->stage_max <= ANA_SEARCH_STAGES_MAX && box->layer_max <= ANA_SEARCH_LAYERS_MAX);
    *search = (ana_search){.box = *box, .weight_top = box->weight_min};
    search->instance = (ana_layer_instance){.layer_count = box->layer_min,
                                            .stage_count = box->stage_min,
                                            .weight = search->weight,
                                            .bytes = box->has_memory ? search->bytes : NULL,
                                            .cap_bytes = box->has_memory ? search->cap_bytes : NULL,
                                            .first_layer = search->first_layer};
    reset_weights(search);
    reset_start(search);
}

bool ana_search_next(ana_search *search)
{
    search->is_new = true;
    if (!search->has_begun) {
        search->has_begun = true;
    } else if (next_start(search)) {
        search->is_new = false;
    } else if (next_memory(search) || next_layers(search)) {
        reset_start(search);
    } else {
        return false;
    }
    return true;
}

/// "2 to 4 stages", "1 layer"
static void append_range(text_buffer *out, int low, int high, const char *noun)
{
    text_format(out, "%d", low);
    if (low < high) text_format(out, " to %d", high);
    text_format(out, " %s%s", noun, high > 1 ? "s" : "");
}

const char *ana_search_words(const ana_search_box *box, arena *memory)
{
    text_buffer words = {0};
    append_range(&words, box->stage_min, box->stage_max, "stage");
    text_append(&words, ", ");
    append_range(&words, box->layer_min, box->layer_max, "layer");
    text_format(&words, " of weight %d to %d", box->weight_min, box->weight_max);
    if (box->has_memory) {
        text_format(&words, " and 1 to %d bytes, caps of 1 to %d", box->bytes_max, box->cap_max);
    }
    if (box->has_starts) text_append(&words, ", every start");
    const char *kept = arena_string(memory, words.bytes);
    text_free(&words);
    return kept;
}
