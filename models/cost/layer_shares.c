#include "models/cost/layer_shares.h"

#include <assert.h>

static const char *const part_names[] = {"projection", "attention", "mlp", "elementwise"};
enum { WEIGHT_KEY = MODEL_PASS_COUNT, KEY_COUNT };
#define ASSUMED_WEIGHT 0.5 // as many products in W as in B
static const char *const keys[] = {"forward", "backward_input", "backward_weight",
                                   "weight_of_backward"};

/// The same arrays, writable while they are filled.
typedef struct share_arrays {
    double *share[MODEL_PASS_COUNT][MODEL_PART_COUNT];
    double *weight_of_backward;
} share_arrays;

static void carve(int layer_count, arena *memory, share_arrays *arrays)
{
    const size_t layers = (size_t)layer_count;
    double *all =
        arena_array(memory, layers * (MODEL_PASS_COUNT * MODEL_PART_COUNT + 1), sizeof *all);
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        for (int part = 0; part < MODEL_PART_COUNT; part++) {
            arrays->share[pass][part] = all;
            all += layers;
        }
    }
    arrays->weight_of_backward = all;
}

static void publish(const share_arrays *arrays, int layer_count, model_layer_shares *shares)
{
    shares->layer_count = layer_count;
    shares->weight_of_backward = arrays->weight_of_backward;
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        for (int part = 0; part < MODEL_PART_COUNT; part++) {
            shares->share[pass][part] = arrays->share[pass][part];
        }
    }
}

static const model_cost_part cost_part_of[MODEL_PART_COUNT] = {
    [MODEL_PART_PROJECTION] = MODEL_COST_PROJECTION,
    [MODEL_PART_ATTENTION] = MODEL_COST_ATTENTION,
    [MODEL_PART_MLP] = MODEL_COST_MLP,
    [MODEL_PART_ELEMENTWISE] = MODEL_COST_ELEMENTWISE,
};

static int64_t pass_ns(const bal_layer_costs *layers, int layer, model_pass pass)
{
    if (pass == MODEL_PASS_FORWARD) return layers->forward_ns[layer];
    if (pass == MODEL_PASS_BACKWARD_INPUT) return layers->backward_input_ns[layer];
    return layers->backward_weight_ns[layer];
}

void model_layer_shares_of_costs(const model_costs *costs, arena *memory,
                                 model_layer_shares *shares)
{
    const int layer_count = costs->layers.layer_count;
    share_arrays arrays = {0};
    carve(layer_count, memory, &arrays);
    for (int layer = 0; layer < layer_count; layer++) {
        const int64_t weight = costs->layers.backward_weight_ns[layer];
        const int64_t backward = costs->layers.backward_input_ns[layer] + weight;
        arrays.weight_of_backward[layer] =
            backward > 0 ? (double)weight / (double)backward : ASSUMED_WEIGHT;
    }
    for (int layer = 1; layer + 1 < layer_count; layer++) {
        for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
            const int64_t whole = pass_ns(&costs->layers, layer, (model_pass)pass);
            for (int part = 0; whole > 0 && part < MODEL_PART_COUNT; part++) {
                const int64_t part_ns = costs->part_ns[pass][cost_part_of[part]][layer];
                arrays.share[pass][part][layer] = (double)part_ns / (double)whole;
            }
        }
    }
    publish(&arrays, layer_count, shares);
}

/// Shares of one pass; what is missing stays.
static status read_pass(json_value object, double share[MODEL_PART_COUNT], error_message *err)
{
    double sum = 0;
    if (json_is_missing(object)) return STATUS_OK;
    TRY(json_check_keys(object, part_names, MODEL_PART_COUNT, err));
    for (int part = 0; part < MODEL_PART_COUNT; part++) {
        const json_value value = json_member(object, part_names[part]);
        if (json_is_missing(value)) continue;
        TRY(json_double(value, 0, 1, &share[part], err));
        sum += share[part];
    }
    if (sum <= 1 + 1e-9) return STATUS_OK;
    return json_error(object, STATUS_FORMAT, err, "the parts sum to %g, more than the whole", sum);
}

status model_layer_shares_read(json_value object, int layer_count, int first, int end,
                               arena *memory, model_layer_shares *shares, error_message *err)
{
    double stated[MODEL_PASS_COUNT][MODEL_PART_COUNT] = {{0}};
    share_arrays arrays = {0};
    double weight = ASSUMED_WEIGHT;
    TRY(json_check_keys(object, keys, KEY_COUNT, err));
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        TRY(read_pass(json_member(object, keys[pass]), stated[pass], err));
    }
    const json_value split = json_member(object, keys[WEIGHT_KEY]);
    if (!json_is_missing(split)) TRY(json_double(split, 0, 1, &weight, err));
    carve(layer_count, memory, &arrays);
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        for (int part = 0; part < MODEL_PART_COUNT; part++) {
            for (int layer = first; layer < end; layer++) {
                arrays.share[pass][part][layer] = stated[pass][part];
            }
        }
    }
    for (int layer = 0; layer < layer_count; layer++) {
        arrays.weight_of_backward[layer] = weight;
    }
    publish(&arrays, layer_count, shares);
    return STATUS_OK;
}
