#include "balance/migration/migration.h"

#include <inttypes.h>

static status add_transfer(const bal_machine *machine, int64_t bytes, int from, int to,
                           int64_t *rank_ns, error_message *err)
{
    const int64_t ns = bal_link_transfer_ns(bal_machine_link(machine, from, to), bytes);
    if (ns > INT64_MAX - rank_ns[from] || ns > INT64_MAX - rank_ns[to]) {
        return error_set(err, STATUS_INVALID,
                         "the transfers between ranks %d and %d take longer than 64 bits of ns",
                         from, to);
    }
    rank_ns[from] += ns;
    rank_ns[to] += ns;
    return STATUS_OK;
}

status bal_migration_between(const bal_placed_partition *from, const bal_placed_partition *to,
                             const bal_layer_costs *layers, const bal_machine *machine,
                             arena *memory, bal_migration *out, error_message *err)
{
    const int layer_count = layers->layer_count;
    const int rank_count = machine != NULL ? machine->rank_count : 0;
    TRY(bal_placed_check(from, layer_count, rank_count, "the old plan", err));
    TRY(bal_placed_check(to, layer_count, rank_count, "the new plan", err));
    const size_t count = (size_t)layer_count;
    int *layer_moved = arena_array(memory, count, sizeof *layer_moved);
    int *rank_from = arena_array(memory, count, sizeof *rank_from);
    int *rank_to = arena_array(memory, count, sizeof *rank_to);
    int64_t *rank_ns = arena_array(memory, (size_t)rank_count, sizeof *rank_ns);
    bal_placed_owners(from, rank_from);
    bal_placed_owners(to, rank_to);
    bal_migration made = {.layer = layer_moved, .from = rank_from, .to = rank_to};
    for (int layer = 0; layer < layer_count; layer++) {
        const int source = rank_from[layer];
        const int target = rank_to[layer];
        if (source == target) continue;
        const int64_t bytes = layers->state_bytes != NULL ? layers->state_bytes[layer] : 0;
        if (bytes < 0 || bytes > INT64_MAX - made.bytes) {
            return error_set(err, STATUS_INVALID,
                             "state_bytes of layer %d: %" PRId64 " is negative or the sum does not "
                             "fit 64 bits",
                             layer, bytes);
        }
        made.bytes += bytes;
        if (machine != NULL) TRY(add_transfer(machine, bytes, source, target, rank_ns, err));
        // The moving layers close ranks at the front of the arrays, never ahead of the reading.
        layer_moved[made.layer_count] = layer;
        rank_from[made.layer_count] = source;
        rank_to[made.layer_count] = target;
        made.layer_count++;
    }
    for (int rank = 0; rank < rank_count; rank++) {
        if (rank_ns[rank] > made.time_ns) made.time_ns = rank_ns[rank];
    }
    *out = made;
    return STATUS_OK;
}
