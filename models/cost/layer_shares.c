#include "models/cost/layer_shares.h"

#define ASSUMED_WEIGHT 0.5 // as many products in W as in B

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
    const size_t layers = (size_t)layer_count;
    double *weight_share = arena_array(memory, layers, sizeof *weight_share);
    *shares = (model_layer_shares){layer_count, .weight_of_backward = weight_share};
    for (int layer = 0; layer < layer_count; layer++) {
        const int64_t weight = costs->layers.backward_weight_ns[layer];
        const int64_t backward = costs->layers.backward_input_ns[layer] + weight;
        weight_share[layer] = backward > 0 ? (double)weight / (double)backward : ASSUMED_WEIGHT;
    }
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        for (int part = 0; part < MODEL_PART_COUNT; part++) {
            double *share = arena_array(memory, layers, sizeof *share);
            shares->share[pass][part] = share;
            for (int layer = 1; layer + 1 < layer_count; layer++) {
                const int64_t whole = pass_ns(&costs->layers, layer, (model_pass)pass);
                const int64_t part_ns = costs->part_ns[pass][cost_part_of[part]][layer];
                if (whole > 0) share[layer] = (double)part_ns / (double)whole;
            }
        }
    }
}
