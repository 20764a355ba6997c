#include "sim/gradient_reduction.h"

#include <math.h>
#include <stddef.h>

/// The last op of a stage that makes gradients, as its layers share it.
typedef struct last_op {
    const int64_t *weight_ns; // [layer_count][columns]
    const int64_t *input_ns;  // [layer_count][columns] if the op is a BW, else NULL
    int columns;
    int column;
} last_op;

static last_op last_op_of(const sim_compiled_order *order, const bal_layer_costs *layers, int stage)
{
    const bal_op op = order->schedule.ops[order->last_backward[stage]];
    return (last_op){
        .weight_ns = layers->backward_weight_ns,
        .input_ns = op.kind == OP_BACKWARD ? layers->backward_input_ns : NULL,
        .columns = layers->microbatch_count,
        .column = layers->microbatch_count > 1 ? op.microbatch : 0,
    };
}

static int64_t layer_share_ns(const last_op *op, int layer)
{
    const int64_t at = (int64_t)layer * op->columns + op->column;
    return op->weight_ns[at] + (op->input_ns != NULL ? op->input_ns[at] : 0);
}

void sim_reduction_note_ready(bal_reduction_overlap overlap, const sim_compiled_order *order,
                              const bal_placed_partition *plan, const bal_layer_costs *layers,
                              const int64_t *stage_end_ns, const double *rank_time_factor,
                              int64_t *ready_ns)
{
    for (int stage = 0; stage < bal_placed_stage_count(plan); stage++) {
        const double factor =
            rank_time_factor != NULL ? rank_time_factor[bal_placed_machine_rank(plan, stage)] : 1.0;
        const last_op op = last_op_of(order, layers, stage);
        int64_t before_ns = 0; // what the op still has to do for the layers before
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            const int64_t left_ns =
                factor == 1.0 ? before_ns : (int64_t)round((double)before_ns * factor);
            const int64_t ready = stage_end_ns[stage] - left_ns;
            if (ready > ready_ns[layer]) ready_ns[layer] = ready;
            if (overlap == BAL_REDUCTION_BACKWARD) before_ns += layer_share_ns(&op, layer);
        }
    }
}

/// The chunk of a place whose last gradients come next after those of the op `behind`; -1: none.
static int next_chunk(const sim_compiled_order *order, const bal_placed_partition *plan, int place,
                      int behind)
{
    int found = -1;
    int found_op = 0;
    for (int chunk = 0; chunk < plan->chunk_count; chunk++) {
        const int stage =
            bal_stage_of(plan->placement, plan->rank_count, plan->chunk_count, place, chunk);
        const int op = order->last_backward[stage];
        if (op <= behind || (found >= 0 && op > found_op)) continue;
        found = chunk;
        found_op = op;
    }
    return found;
}

int64_t sim_reduction_end_ns(const sim_compiled_order *order, const bal_placed_partition *plan,
                             int place, const int64_t *reduction_ns, const int64_t *ready_ns)
{
    int64_t end_ns = 0;
    int behind = -1;
    for (int count = 0; count < plan->chunk_count; count++) {
        const int chunk = next_chunk(order, plan, place, behind);
        const int stage =
            bal_stage_of(plan->placement, plan->rank_count, plan->chunk_count, place, chunk);
        behind = order->last_backward[stage];
        for (int layer = plan->first_layer[stage + 1] - 1; layer >= plan->first_layer[stage];
             layer--) {
            if (ready_ns != NULL && ready_ns[layer] > end_ns) end_ns = ready_ns[layer];
            end_ns += reduction_ns[layer];
        }
    }
    return end_ns;
}
