#include "balance/costs_copy.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

status bal_costs_copy_take(bal_costs_copy *copy, const bal_layer_costs *layers)
{
    bal_layer_costs made = *layers;
    const int64_t **arrays[BAL_COST_ARRAY_COUNT];
    bal_layer_costs_list(&made, arrays);
    if (copy->memory == NULL) copy->memory = arena_create(1 << 16);
    copy->is_taken = false;
    arena_reset(copy->memory);
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (*arrays[array] == NULL) continue;
        const size_t bytes = bal_layer_costs_array_bytes(layers, array);
        int64_t *own = arena_array(copy->memory, bytes, 1);
        *arrays[array] = memcpy(own, *arrays[array], bytes);
    }
    copy->layers = made;
    copy->is_taken = true;
    return STATUS_OK;
}

bool bal_costs_copy_equals(const bal_costs_copy *copy, const bal_layer_costs *layers)
{
    bal_layer_costs own = copy->layers;
    bal_layer_costs other = *layers;
    const int64_t **own_arrays[BAL_COST_ARRAY_COUNT];
    const int64_t **other_arrays[BAL_COST_ARRAY_COUNT];
    if (!copy->is_taken || own.layer_count != other.layer_count ||
        own.microbatch_count != other.microbatch_count || own.has_split != other.has_split) {
        return false;
    }
    bal_layer_costs_list(&own, own_arrays);
    bal_layer_costs_list(&other, other_arrays);
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        const int64_t *mine = *own_arrays[array];
        const int64_t *theirs = *other_arrays[array];
        if ((mine == NULL) != (theirs == NULL)) return false;
        const size_t bytes = mine != NULL ? bal_layer_costs_array_bytes(layers, array) : 0;
        if (bytes > 0 && memcmp(mine, theirs, bytes) != 0) return false;
    }
    return true;
}

void bal_costs_copy_free(bal_costs_copy *copy)
{
    arena_destroy(copy->memory);
    *copy = (bal_costs_copy){0};
}
