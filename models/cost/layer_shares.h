/// How much of a layer's time each of its parts takes: what a case of dynamism that touches only
/// attention, or only the MLP, has to know.
#pragma once

#include "base/arena.h"
#include "models/cost/cost_model.h"

/// Parts of model_layer_work, with what is recomputed of them. What they leave of a pass
/// (collectives, launches) no case touches.
typedef enum model_part {
    MODEL_PART_PROJECTION, ///< attention's matrices
    MODEL_PART_ATTENTION,  ///< the core: scores, softmax, values
    MODEL_PART_MLP,        ///< matrices of MLP or experts and router
    MODEL_PART_ELEMENTWISE,
    MODEL_PART_COUNT
} model_part;

/// Carved from the arena given to whoever fills it.
typedef struct model_layer_shares {
    int layer_count;
    const double *share[MODEL_PASS_COUNT][MODEL_PART_COUNT]; // [layer_count], >= 0; the sum over
                                                             // the parts of a pass is at most 1.
                                                             // Of embedding and head all 0
    const double *weight_of_backward; // [layer_count] W / (B + W), for bases that do not split them
} model_layer_shares;

/// Shares of modelled costs: time of a part over time of the pass.
void model_layer_shares_of_costs(const model_costs *costs, arena *memory,
                                 model_layer_shares *shares);
