/// Modelled costs as a cost source: the same in every iteration.
#pragma once

#include "balance/ports.h"
#include "models/cost/cost_model.h"

#include <stdbool.h>

/// Plain state in the caller's memory, filled by model_source_init.
typedef struct model_source {
    const model_costs *costs;
    bool was_asked;
} model_source;

/// Makes source answer with costs.
///
/// @param source borrowed as long as the result is used, as are costs
bal_cost_source model_source_init(model_source *source, const model_costs *costs);
