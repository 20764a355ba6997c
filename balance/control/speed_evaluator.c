#include "balance/control/speed_evaluator.h"

#include "balance/partition/chain.h"

enum { PPB = 1000000000 };

static status scale(const bal_speed_evaluator *at, const int64_t *times,
                    const bal_layer_costs *layers, const bal_placed_partition *plan,
                    const int64_t **out, error_message *err)
{
    const int columns = layers->microbatch_count;
    int64_t *scaled =
        arena_array(at->memory, (size_t)layers->layer_count * (size_t)columns, sizeof *scaled);
    for (int stage = 0; stage < bal_placed_stage_count(plan); stage++) {
        const int64_t factor = at->rank_factor_ppb[bal_placed_machine_rank(plan, stage)];
        const int64_t begin = (int64_t)plan->first_layer[stage] * columns;
        const int64_t end = (int64_t)plan->first_layer[stage + 1] * columns;
        for (int64_t index = begin; index < end; index++) {
            const bal_wide ns = ((bal_wide)times[index] * factor + PPB / 2) / PPB;
            if (ns > INT64_MAX) {
                return error_set(err, STATUS_INVALID,
                                 "the time of layer %d on rank %d does not fit 64 bits",
                                 (int)(index / columns), bal_placed_machine_rank(plan, stage));
            }
            scaled[index] = (int64_t)ns;
        }
    }
    *out = scaled;
    return STATUS_OK;
}

/// The layers at the speeds of their ranks.
static status slow_down(const bal_speed_evaluator *at, const bal_layer_costs *layers,
                        const bal_placed_partition *plan, bal_layer_costs *out, error_message *err)
{
    *out = *layers;
    arena_reset(at->memory);
    TRY(scale(at, layers->forward_ns, layers, plan, &out->forward_ns, err));
    TRY(scale(at, layers->backward_input_ns, layers, plan, &out->backward_input_ns, err));
    return scale(at, layers->backward_weight_ns, layers, plan, &out->backward_weight_ns, err);
}

static status evaluate(void *context, const bal_layer_costs *layers,
                       const bal_placed_partition *plan, int64_t *iteration_ns, error_message *err)
{
    const bal_speed_evaluator *at = context;
    bal_layer_costs slowed;
    TRY(slow_down(at, layers, plan, &slowed, err));
    return at->inner->iteration_ns(at->inner->context, &slowed, plan, iteration_ns, err);
}

static status evaluate_of(void *context, const bal_layer_costs *layers,
                          const bal_placed_partition *plan, int microbatch_count,
                          int64_t *iteration_ns, error_message *err)
{
    const bal_speed_evaluator *at = context;
    bal_layer_costs slowed;
    TRY(slow_down(at, layers, plan, &slowed, err));
    return at->inner->iteration_ns_of(at->inner->context, &slowed, plan, microbatch_count,
                                      iteration_ns, err);
}

bal_evaluator bal_speed_evaluator_of(bal_speed_evaluator *context)
{
    return (bal_evaluator){
        .context = context,
        .iteration_ns = evaluate,
        .iteration_ns_of = context->inner->iteration_ns_of != NULL ? evaluate_of : NULL,
    };
}
