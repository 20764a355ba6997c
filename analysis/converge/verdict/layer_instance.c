#include "analysis/converge/verdict/verdict.h"

#include <assert.h>
#include <gsl/gsl_sort_long.h>
#include <inttypes.h>
#include <string.h>

enum { LAYERS_PRINTED_MAX = 16 };

double ana_phi(int64_t *load, int count)
{
    gsl_sort_long(load, 1, (size_t)count);
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
                   .parameters = instance->weight},
        .stage_count = instance->stage_count,
        .weight = BAL_WEIGHT_TIME,
        .objective = BAL_OBJECTIVE_BOTTLENECK,
        .allow_empty_stages = true,
        .current_first_layer = instance->first_layer,
    };
}

/// Loads of the stages of a plan.
static void sum_stages(const int64_t *weight, const int *first_layer, int stage_count,
                       int64_t *load)
{
    for (int stage = 0; stage < stage_count; stage++) {
        load[stage] = 0;
        for (int layer = first_layer[stage]; layer < first_layer[stage + 1]; layer++) {
            load[stage] += weight[layer];
        }
    }
}

void ana_instance_loads(const ana_layer_instance *instance, int64_t *load)
{
    sum_stages(instance->weight, instance->first_layer, instance->stage_count, load);
}

status ana_instance_balance(const char *balancer, const ana_layer_instance *instance, arena *memory,
                            bal_answer *answer, error_message *err)
{
    const bal_problem problem = ana_instance_problem(instance);
    return bal_balance(bal_balancer_find(balancer), &problem, memory, answer, err);
}

ana_layer_instance ana_instance_copy(const ana_layer_instance *instance, arena *memory)
{
    const size_t layers = (size_t)instance->layer_count;
    const size_t bounds = (size_t)instance->stage_count + 1;
    int64_t *weight = arena_array(memory, layers, sizeof *weight);
    int *first_layer = arena_array(memory, bounds, sizeof *first_layer);
    memcpy(weight, instance->weight, layers * sizeof *weight);
    memcpy(first_layer, instance->first_layer, bounds * sizeof *first_layer);
    return (ana_layer_instance){instance->layer_count, instance->stage_count, weight, first_layer};
}

static void append_layers(const ana_layer_instance *instance, int begin, int end, text_buffer *out)
{
    const bool shortens = instance->layer_count > LAYERS_PRINTED_MAX;
    for (int layer = begin; layer < end;) {
        const int64_t weight = instance->weight[layer];
        int after = layer + 1;
        while (shortens && after < end && instance->weight[after] == weight) {
            after++;
        }
        text_format(out, "%s%" PRId64, layer > begin ? " " : "", weight);
        if (after > layer + 1) text_format(out, " x %d", after - layer);
        layer = after;
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
}

void ana_instance_write(const ana_layer_instance *instance, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "stages", instance->stage_count);
    json_put_int64_array(writer, "weights", instance->weight, instance->layer_count);
    json_put_int_array(writer, "first_layer", instance->first_layer, instance->stage_count + 1);
    json_end_object(writer);
}

/// The next tuple in dictionary order of digits in [low, high]; false after the last, digits then
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

/// Which rank is which plays no part, so the first layer stays on rank 0.
ana_assignment_best ana_instance_best(const ana_layer_instance *instance)
{
    int64_t owner[ANA_SEARCH_LAYERS_MAX] = {0};
    const int layers = instance->layer_count;
    const int ranks = instance->stage_count;
    ana_assignment_best best = {-1, INT64_MAX};
    assert(layers <= ANA_SEARCH_LAYERS_MAX && ranks <= ANA_SEARCH_STAGES_MAX);
    do {
        int64_t load[ANA_SEARCH_STAGES_MAX] = {0};
        for (int layer = 0; layer < layers; layer++) {
            load[owner[layer]] += instance->weight[layer];
        }
        const double phi = ana_phi(load, ranks); // sorts
        if (best.phi < 0 || phi < best.phi) best.phi = phi;
        if (load[ranks - 1] < best.largest) best.largest = load[ranks - 1];
    } while (advance(owner + 1, layers - 1, 0, ranks - 1));
    return best;
}

/// The next cuts in dictionary order with so many layers on every stage at least; false after the
/// last.
static bool next_cuts(int *first, int layer_count, int stage_count, int least)
{
    for (int stage = stage_count - 1; stage > 0; stage--) {
        if (first[stage] == layer_count - least * (stage_count - stage)) continue;
        first[stage]++;
        for (int after = stage + 1; after < stage_count; after++) {
            first[after] = first[after - 1] + least;
        }
        return true;
    }
    return false;
}

/// Whether the plan is the first with the smallest range and, of those, the smallest largest load.
static bool take_plan(ana_range_plans *plans, int64_t range, int64_t load)
{
    if (load < plans->optimum || (load == plans->optimum && range > plans->optimum_range)) {
        plans->optimum = load;
        plans->optimum_range = range;
    }
    if (range > plans->range || (range == plans->range && load >= plans->range_load_min)) {
        return false;
    }
    plans->range = range;
    plans->range_load_min = load;
    return true;
}

ana_range_plans ana_range_enumerate(const ana_layer_instance *instance, int *first)
{
    const int stages = instance->stage_count;
    int cuts[ANA_SEARCH_STAGES_MAX + 1];
    int64_t load[ANA_SEARCH_STAGES_MAX];
    assert(stages >= 1 && stages <= instance->layer_count && stages <= ANA_SEARCH_STAGES_MAX);
    ana_range_plans plans = {.range = INT64_MAX, .optimum = INT64_MAX};
    for (int stage = 0; stage < stages; stage++) {
        cuts[stage] = stage;
    }
    cuts[stages] = instance->layer_count;
    do {
        sum_stages(instance->weight, cuts, stages, load);
        gsl_sort_long(load, 1, (size_t)stages);
        if (take_plan(&plans, load[stages - 1] - load[0], load[stages - 1])) {
            memcpy(first, cuts, ((size_t)stages + 1) * sizeof *cuts);
        }
    } while (next_cuts(cuts, instance->layer_count, stages, 1));
    return plans;
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

/// The first weights with weight_top as the largest: the last layer has it.
static void reset_weights(ana_search *search)
{
    const int count = search->instance.layer_count;
    for (int layer = 0; layer < count; layer++) {
        search->weight[layer] = search->box.weight_min;
    }
    search->weight[count - 1] = search->weight_top;
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

/// The next layers or stages, smallest first.
static bool next_layers(ana_search *search)
{
    const ana_search_box *box = &search->box;
    if (next_weights(search)) return true;
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
                                            .first_layer = search->first_layer};
    reset_weights(search);
    reset_start(search);
}

bool ana_search_next(ana_search *search)
{
    search->is_new = true;
    if (!search->has_begun) {
        search->has_begun = true;
    } else if (search->box.has_starts &&
               next_cuts(search->first_layer, search->instance.layer_count,
                         search->instance.stage_count, 0)) {
        search->is_new = false;
    } else if (next_layers(search)) {
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
    text_buffer words = {.memory = memory};
    append_range(&words, box->stage_min, box->stage_max, "stage");
    text_append(&words, ", ");
    append_range(&words, box->layer_min, box->layer_max, "layer");
    text_format(&words, " of weight %d to %d", box->weight_min, box->weight_max);
    if (box->has_starts) text_append(&words, ", every start");
    return words.bytes;
}
