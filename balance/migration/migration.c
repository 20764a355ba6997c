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
    if (machine != NULL && made.layer_count > 0) {
        if (made.time_ns > INT64_MAX - machine->relaunch_ns) {
            return error_set(err, STATUS_INVALID,
                             "a migration of %" PRId64 " ns and a relaunch of "
                             "%" PRId64 " ns do not fit 64 bits",
                             made.time_ns, machine->relaunch_ns);
        }
        made.time_ns += machine->relaunch_ns;
    }
    *out = made;
    return STATUS_OK;
}

enum { NONE = -1 };

/// A layer that has not arrived.
typedef struct transfer {
    int layer;
    int at; // rank that holds it now
    int to;
    int64_t bytes;
    bool has_arrived;
    bool has_detoured;
} transfer;

/// The search. Arrays are carved from an arena.
typedef struct sequencer {
    int rank_count;
    int count;
    transfer *transfers;      // [count]
    const int64_t *cap;       // [rank_count] or NULL: no caps
    int64_t *held;            // [rank_count] bytes on each rank now
    int64_t *peak;            // [rank_count]
    int64_t *lack;            // [rank_count] scratch
    int64_t *left;            // [rank_count] bytes that it has still to send or receive
    int *free_wave;           // [rank_count] first wave that the rank has no step in
    bal_migration_step *step; // [2 * count]
    int step_count;
    int detour_count;
    int64_t bytes;
} sequencer;

static bool has_room(const sequencer *at, int rank, int64_t bytes)
{
    return at->cap == NULL || at->held[rank] <= at->cap[rank] - bytes;
}

static int wave_of(const sequencer *at, int from, int to)
{
    return at->free_wave[from] > at->free_wave[to] ? at->free_wave[from] : at->free_wave[to];
}

static int64_t busier(const sequencer *at, const transfer *one)
{
    return at->left[one->at] > at->left[one->to] ? at->left[one->at] : at->left[one->to];
}

/// The transfer to do next, or NULL if none has room.
static transfer *next_direct(const sequencer *at)
{
    transfer *best = NULL;
    for (int index = 0; index < at->count; index++) {
        transfer *one = &at->transfers[index];
        if (one->has_arrived || !has_room(at, one->to, one->bytes)) continue;
        if (best != NULL) {
            const int wave = wave_of(at, one->at, one->to);
            const int best_wave = wave_of(at, best->at, best->to);
            if (wave > best_wave) continue;
            if (wave == best_wave && busier(at, one) <= busier(at, best)) continue;
        }
        best = one;
    }
    return best;
}

/// Notes what each rank lacks for the smallest layer that is to come, or NONE where none is.
static void fill_lacks(sequencer *at)
{
    for (int rank = 0; rank < at->rank_count; rank++) {
        at->lack[rank] = NONE;
    }
    for (int index = 0; index < at->count; index++) {
        const transfer *one = &at->transfers[index];
        if (one->has_arrived) continue;
        const int64_t lack = one->bytes - (at->cap[one->to] - at->held[one->to]);
        if (at->lack[one->to] == NONE || lack < at->lack[one->to]) at->lack[one->to] = lack;
    }
}

/// The rank with the most room that is neither end of the transfer, or NONE if the layer fits none.
static int third_rank(const sequencer *at, const transfer *one)
{
    int best = NONE;
    for (int rank = 0; rank < at->rank_count; rank++) {
        if (rank == one->at || rank == one->to || !has_room(at, rank, one->bytes)) continue;
        if (best == NONE || at->cap[rank] - at->held[rank] > at->cap[best] - at->held[best]) {
            best = rank;
        }
    }
    return best;
}

/// The layer whose detour leaves its rank closest to room for one that is to come; of several the
/// smallest. NULL if no detour helps.
static transfer *next_detour(sequencer *at, int *over)
{
    transfer *best = NULL;
    int64_t best_lack = 0;
    fill_lacks(at);
    for (int index = 0; index < at->count; index++) {
        transfer *one = &at->transfers[index];
        if (one->has_arrived || one->has_detoured) continue;
        if (at->lack[one->at] == NONE) continue;
        const int64_t after = at->lack[one->at] - one->bytes;
        const int64_t lack = after > 0 ? after : 0;
        if (best != NULL &&
            (lack > best_lack || (lack == best_lack && one->bytes >= best->bytes))) {
            continue;
        }
        const int rank = third_rank(at, one);
        if (rank == NONE) continue;
        best = one;
        best_lack = lack;
        *over = rank;
    }
    return best;
}

static void send(sequencer *at, transfer *one, int to)
{
    const int wave = wave_of(at, one->at, to);
    at->step[at->step_count++] = (bal_migration_step){one->layer, one->at, to, wave};
    at->free_wave[one->at] = wave + 1;
    at->free_wave[to] = wave + 1;
    at->held[to] += one->bytes;
    at->held[one->at] -= one->bytes;
    at->left[one->at] -= one->bytes;
    if (at->held[to] > at->peak[to]) at->peak[to] = at->held[to];
    at->bytes += one->bytes;
    one->at = to;
    if (to == one->to) {
        at->left[to] -= one->bytes;
        one->has_arrived = true;
    } else {
        at->left[to] += one->bytes;
        one->has_detoured = true;
        at->detour_count++;
    }
}

/// Names the transfer that lacks the least.
static status say_stuck(const sequencer *at, error_message *err)
{
    const transfer *best = NULL;
    int64_t best_lack = 0;
    for (int index = 0; index < at->count; index++) {
        const transfer *one = &at->transfers[index];
        if (one->has_arrived) continue;
        const int64_t lack = one->bytes - (at->cap[one->to] - at->held[one->to]);
        if (best != NULL && lack >= best_lack) continue;
        best = one;
        best_lack = lack;
    }
    return error_set(err, STATUS_INFEASIBLE,
                     "no order of the transfers fits the memory: layer %d (%" PRId64
                     " bytes) cannot go from rank %d to rank %d, which holds %" PRId64
                     " of its cap of %" PRId64 " bytes, and no third rank has room",
                     best->layer, best->bytes, best->at, best->to, at->held[best->to],
                     at->cap[best->to]);
}

/// Refuses a plan whose ranks hold too much once all have arrived: no order helps.
static status check_end(const sequencer *at, int64_t *end_bytes, error_message *err)
{
    for (int rank = 0; at->cap != NULL && rank < at->rank_count; rank++) {
        end_bytes[rank] = at->held[rank];
    }
    for (int index = 0; at->cap != NULL && index < at->count; index++) {
        end_bytes[at->transfers[index].at] -= at->transfers[index].bytes;
        end_bytes[at->transfers[index].to] += at->transfers[index].bytes;
    }
    for (int rank = 0; at->cap != NULL && rank < at->rank_count; rank++) {
        if (end_bytes[rank] <= at->cap[rank] || end_bytes[rank] <= at->held[rank]) continue;
        return error_set(err, STATUS_INFEASIBLE,
                         "the plan puts %" PRId64 " bytes on rank %d, whose cap is %" PRId64,
                         end_bytes[rank], rank, at->cap[rank]);
    }
    return STATUS_OK;
}

static status run(sequencer *at, error_message *err)
{
    TRY(check_end(at, at->lack, err));
    for (int arrived = 0; arrived < at->count;) {
        transfer *one = next_direct(at);
        if (one != NULL) {
            send(at, one, one->to);
            arrived++;
            continue;
        }
        int over = NONE;
        one = next_detour(at, &over);
        if (one == NULL) return say_stuck(at, err);
        send(at, one, over);
    }
    return STATUS_OK;
}

/// Bytes that each rank holds under a plan.
static status fill_held(const bal_placed_partition *from, const bal_layer_costs *layers,
                        sequencer *at, error_message *err)
{
    int64_t sum = 0;
    for (int stage = 0; stage < bal_placed_stage_count(from); stage++) {
        const int rank = bal_placed_machine_rank(from, stage);
        for (int layer = from->first_layer[stage]; layer < from->first_layer[stage + 1]; layer++) {
            const int64_t bytes = layers->state_bytes != NULL ? layers->state_bytes[layer] : 0;
            if (bytes < 0 || bytes > INT64_MAX / 4 - sum) {
                return error_set(err, STATUS_INVALID,
                                 "state_bytes of layer %d: %" PRId64
                                 " is negative or the sum exceeds a quarter of 64 bits",
                                 layer, bytes);
            }
            sum += bytes;
            at->held[rank] += bytes;
        }
    }
    return STATUS_OK;
}

static status sequencer_init(const bal_placed_partition *from, const bal_migration *migration,
                             const bal_layer_costs *layers, const bal_machine *machine,
                             const int64_t *rank_cap_bytes, arena *memory, sequencer *at,
                             error_message *err)
{
    const size_t ranks = (size_t)machine->rank_count;
    const size_t count = (size_t)migration->layer_count;
    int64_t *cap = arena_array(memory, ranks, sizeof *cap);
    at->rank_count = machine->rank_count;
    at->count = migration->layer_count;
    at->transfers = arena_array(memory, count, sizeof *at->transfers);
    at->held = arena_array(memory, ranks, sizeof *at->held);
    at->peak = arena_array(memory, ranks, sizeof *at->peak);
    at->lack = arena_array(memory, ranks, sizeof *at->lack);
    at->left = arena_array(memory, ranks, sizeof *at->left);
    at->free_wave = arena_array(memory, ranks, sizeof *at->free_wave);
    at->step = arena_array(memory, 2 * count, sizeof *at->step);
    TRY(fill_held(from, layers, at, err));
    for (int rank = 0; rank < at->rank_count; rank++) {
        cap[rank] = rank_cap_bytes != NULL ? rank_cap_bytes[rank] : machine->rank_memory_bytes;
        at->peak[rank] = at->held[rank];
    }
    if (rank_cap_bytes != NULL || machine->rank_memory_bytes > 0) at->cap = cap;
    for (int index = 0; index < at->count; index++) {
        const int layer = migration->layer[index];
        const int64_t bytes = layers->state_bytes != NULL ? layers->state_bytes[layer] : 0;
        at->transfers[index] = (transfer){.layer = layer,
                                          .at = migration->from[index],
                                          .to = migration->to[index],
                                          .bytes = bytes};
        at->left[migration->from[index]] += bytes;
        at->left[migration->to[index]] += bytes;
    }
    return STATUS_OK;
}

status bal_migration_order(const bal_placed_partition *from, const bal_migration *migration,
                           const bal_layer_costs *layers, const bal_machine *machine,
                           const int64_t *rank_cap_bytes, arena *memory, bal_migration_steps *out,
                           error_message *err)
{
    sequencer at = {0};
    TRY(bal_placed_check(from, layers->layer_count, machine->rank_count, "the plan in force", err));
    TRY(sequencer_init(from, migration, layers, machine, rank_cap_bytes, memory, &at, err));
    TRY(run(&at, err));
    int waves = 0;
    for (int rank = 0; rank < at.rank_count; rank++) {
        if (at.free_wave[rank] > waves) waves = at.free_wave[rank];
    }
    *out = (bal_migration_steps){.step = at.step,
                                 .step_count = at.step_count,
                                 .wave_count = waves,
                                 .detour_count = at.detour_count,
                                 .bytes = at.bytes,
                                 .peak_bytes = at.peak};
    return STATUS_OK;
}

status bal_migration_finish_ns(const bal_migration_steps *steps, const bal_layer_costs *layers,
                               const bal_machine *machine, const int64_t *release_ns, arena *memory,
                               int64_t *finish_ns, error_message *err)
{
    int64_t *free_ns = arena_array(memory, (size_t)machine->rank_count, sizeof *free_ns);
    for (int rank = 0; release_ns != NULL && rank < machine->rank_count; rank++) {
        free_ns[rank] = release_ns[rank];
    }
    int64_t finish = 0;
    for (int index = 0; index < steps->step_count; index++) {
        const bal_migration_step *step = &steps->step[index];
        const int64_t bytes = layers->state_bytes != NULL ? layers->state_bytes[step->layer] : 0;
        const int64_t ns =
            bal_link_transfer_ns(bal_machine_link(machine, step->from, step->to), bytes);
        const int64_t begin =
            free_ns[step->from] > free_ns[step->to] ? free_ns[step->from] : free_ns[step->to];
        if (begin > INT64_MAX - ns) {
            return error_set(err, STATUS_INVALID,
                             "the transfer of layer %d ends after 64 bits of ns", step->layer);
        }
        free_ns[step->from] = begin + ns;
        free_ns[step->to] = begin + ns;
        if (begin + ns > finish) finish = begin + ns;
    }
    *finish_ns = finish;
    return STATUS_OK;
}
