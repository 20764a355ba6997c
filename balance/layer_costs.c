#include "balance/layer_costs.h"

_Static_assert((sizeof(bal_layer_costs) - offsetof(bal_layer_costs, forward_ns)) /
                       sizeof(int64_t *) ==
                   BAL_COST_ARRAY_COUNT,
               "every array of the struct is in the list");

void bal_layer_costs_list(bal_layer_costs *costs, const int64_t **arrays[BAL_COST_ARRAY_COUNT])
{
    arrays[0] = &costs->forward_ns;
    arrays[1] = &costs->backward_input_ns;
    arrays[2] = &costs->backward_weight_ns;
    arrays[3] = &costs->parameters;
    arrays[4] = &costs->state_bytes;
    arrays[5] = &costs->activation_bytes;
    arrays[6] = &costs->gradient_bytes;
    arrays[7] = &costs->message_bytes;
    arrays[8] = &costs->reduction_ns;
}

size_t bal_layer_costs_array_bytes(const bal_layer_costs *costs, int array)
{
    const size_t columns = array < BAL_COST_TIMES_COUNT ? (size_t)costs->microbatch_count : 1;
    return (size_t)costs->layer_count * columns * sizeof(int64_t);
}
