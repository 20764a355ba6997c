#include "balance/costs_copy.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ARRAY_COUNT = 9, TIMES_COUNT = 3 };

/// The arrays of costs, times first.
static void list_arrays(bal_layer_costs *layers, const int64_t **arrays[ARRAY_COUNT])
{
    arrays[0] = &layers->forward_ns;
    arrays[1] = &layers->backward_input_ns;
    arrays[2] = &layers->backward_weight_ns;
    arrays[3] = &layers->parameters;
    arrays[4] = &layers->state_bytes;
    arrays[5] = &layers->activation_bytes;
    arrays[6] = &layers->gradient_bytes;
    arrays[7] = &layers->message_bytes;
    arrays[8] = &layers->reduction_ns;
}

static size_t array_bytes(const bal_layer_costs *layers, int array)
{
    const size_t columns = array < TIMES_COUNT ? (size_t)layers->microbatch_count : 1;
    return (size_t)layers->layer_count * columns * sizeof(int64_t);
}

status bal_costs_copy_take(bal_costs_copy *copy, const bal_layer_costs *layers, error_message *err)
{
    bal_layer_costs made = *layers;
    const int64_t **arrays[ARRAY_COUNT];
    list_arrays(&made, arrays);
    if (copy->memory == NULL) copy->memory = arena_create(1 << 16);
    if (copy->memory == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    copy->is_taken = false;
    arena_reset(copy->memory);
    for (int array = 0; array < ARRAY_COUNT; array++) {
        if (*arrays[array] == NULL) continue;
        const size_t bytes = array_bytes(layers, array);
        int64_t *own = arena_array(copy->memory, bytes, 1);
        if (own == NULL) {
            return error_set(err, STATUS_NO_MEMORY, "out of memory for the costs of %d layers",
                             layers->layer_count);
        }
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
    const int64_t **own_arrays[ARRAY_COUNT];
    const int64_t **other_arrays[ARRAY_COUNT];
    if (!copy->is_taken || own.layer_count != other.layer_count ||
        own.microbatch_count != other.microbatch_count || own.has_split != other.has_split) {
        return false;
    }
    list_arrays(&own, own_arrays);
    list_arrays(&other, other_arrays);
    for (int array = 0; array < ARRAY_COUNT; array++) {
        const int64_t *mine = *own_arrays[array];
        const int64_t *theirs = *other_arrays[array];
        if ((mine == NULL) != (theirs == NULL)) return false;
        if (mine != NULL && memcmp(mine, theirs, array_bytes(layers, array)) != 0) return false;
    }
    return true;
}

void bal_costs_copy_free(bal_costs_copy *copy)
{
    arena_destroy(copy->memory);
    *copy = (bal_costs_copy){0};
}
