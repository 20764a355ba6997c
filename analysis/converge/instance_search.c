#include "analysis/converge/instance_search.h"

#include <assert.h>

/// The next tuple in dictionary order of digits in [low, high]; false behind the last, digits then
/// all low.
static bool advance(int64_t *digit, int count, int64_t low, int64_t high)
{
    for (int place = count - 1; place >= 0; place--) {
        if (digit[place] < high) {
            digit[place]++;
            return true;
        }
        digit[place] = low;
    }
    return false;
}

/// The same for ascending tuples.
static bool advance_sorted(int64_t *digit, int count, int64_t low, int64_t high)
{
    for (int place = count - 1; place >= 0; place--) {
        if (digit[place] >= high) continue;
        digit[place]++;
        for (int behind = place + 1; behind < count; behind++) {
            digit[behind] = digit[place];
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
        const bool moved =
            search->box.is_sorted
                ? advance_sorted(search->weight, count, search->box.weight_min, search->weight_top)
                : advance(search->weight, count, search->box.weight_min, search->weight_top);
        if (!moved) return false;
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
        for (int behind = stage + 1; behind < search->instance.stage_count; behind++) {
            search->first_layer[behind] = cut;
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
    search->examined++;
    return true;
}

static void append_range(text_buffer *out, int low, int high, const char *one, const char *many)
{
    if (low == high) {
        text_format(out, "%d %s", low, low == 1 ? one : many);
    } else {
        text_format(out, "%d to %d %s", low, high, many);
    }
}

void ana_search_append(const ana_search_box *box, text_buffer *out)
{
    append_range(out, box->stage_min, box->stage_max, "stage", "stages");
    text_append(out, ", ");
    append_range(out, box->layer_min, box->layer_max, "layer", "layers");
    text_format(out, " of weight %d to %d", box->weight_min, box->weight_max);
    if (box->has_memory) {
        text_format(out, " and 1 to %d bytes, caps of 1 to %d", box->bytes_max, box->cap_max);
    }
    if (box->has_starts) text_append(out, ", every start");
}
