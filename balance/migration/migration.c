#include "balance/migration/migration.h"

#include <inttypes.h>

static int64_t bytes_of(const bal_layer_costs *layers, int layer)
{
    return layers->state_bytes != NULL ? layers->state_bytes[layer] : 0;
}

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
        const int64_t bytes = bytes_of(layers, layer);
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

/// The search. Arrays are carved from an arena.
typedef struct sequencer {
    const bal_migration *moves;
    const bal_layer_costs *layers;
    int64_t cap;   // of every rank; 0: none
    int64_t *held; // [rank_count] bytes on each rank now
    int64_t *left; // [rank_count] bytes that it has still to send or receive
    int *turn;     // [rank_count] turns that the rank has had or waited for
    bool *is_done; // [layer_count of moves]
} sequencer;

/// What a rank lacks for a layer to come; no more than 0 where it has room.
static int64_t lack_of(const sequencer *at, int move)
{
    const int to = at->moves->to[move];
    if (at->cap == 0) return 0;
    return bytes_of(at->layers, at->moves->layer[move]) - (at->cap - at->held[to]);
}

/// The move to do next, or -1 if none has room: one whose ranks are free earliest, then one whose
/// busier rank has the most bytes left, then the first in model order.
static int next_move(const sequencer *at)
{
    int best = -1;
    int64_t best_turn = 0;
    int64_t best_left = 0;
    for (int move = 0; move < at->moves->layer_count; move++) {
        if (at->is_done[move] || lack_of(at, move) > 0) continue;
        const int from = at->moves->from[move];
        const int to = at->moves->to[move];
        const int64_t turn = bal_larger(at->turn[from], at->turn[to]);
        const int64_t left = bal_larger(at->left[from], at->left[to]);
        if (best >= 0 && (turn > best_turn || (turn == best_turn && left <= best_left))) continue;
        best = move;
        best_turn = turn;
        best_left = left;
    }
    return best;
}

static void send(sequencer *at, int move)
{
    const int from = at->moves->from[move];
    const int to = at->moves->to[move];
    const int64_t bytes = bytes_of(at->layers, at->moves->layer[move]);
    at->turn[from] = at->turn[to] = (int)bal_larger(at->turn[from], at->turn[to]) + 1;
    at->held[to] += bytes;
    at->held[from] -= bytes;
    at->left[from] -= bytes;
    at->left[to] -= bytes;
    at->is_done[move] = true;
}

/// Names the move that lacks the least.
static status say_stuck(const sequencer *at, error_message *err)
{
    int best = -1;
    for (int move = 0; move < at->moves->layer_count; move++) {
        if (at->is_done[move]) continue;
        if (best < 0 || lack_of(at, move) < lack_of(at, best)) best = move;
    }
    const int layer = at->moves->layer[best];
    const int to = at->moves->to[best];
    return error_set(err, STATUS_INFEASIBLE,
                     "no order of the transfers fits the memory: layer %d (%" PRId64
                     " bytes) cannot go from rank %d to rank %d, which holds %" PRId64
                     " of its cap of %" PRId64 " bytes",
                     layer, bytes_of(at->layers, layer), at->moves->from[best], to, at->held[to],
                     at->cap);
}

/// Fills what each rank holds under the plan in force, and what it has still to send or receive.
static void fill_bytes(sequencer *at, const bal_placed_partition *from, arena *memory)
{
    const bal_migration *moves = at->moves;
    int *owner = arena_array(memory, (size_t)at->layers->layer_count, sizeof *owner);
    bal_placed_owners(from, owner);
    for (int layer = 0; layer < at->layers->layer_count; layer++) {
        at->held[owner[layer]] += bytes_of(at->layers, layer);
    }
    for (int move = 0; move < moves->layer_count; move++) {
        at->left[moves->from[move]] += bytes_of(at->layers, moves->layer[move]);
        at->left[moves->to[move]] += bytes_of(at->layers, moves->layer[move]);
    }
}

status bal_migration_order(const bal_placed_partition *from, const bal_migration *migration,
                           const bal_layer_costs *layers, const bal_machine *machine, arena *memory,
                           bal_migration *ordered, error_message *err)
{
    const size_t ranks = (size_t)machine->rank_count;
    const size_t count = (size_t)migration->layer_count;
    int *numbers = arena_array(memory, 3 * count, sizeof *numbers);
    sequencer at = {.moves = migration,
                    .layers = layers,
                    .cap = machine->rank_memory_bytes,
                    .held = arena_array(memory, ranks, sizeof *at.held),
                    .left = arena_array(memory, ranks, sizeof *at.left),
                    .turn = arena_array(memory, ranks, sizeof *at.turn),
                    .is_done = arena_array(memory, count, sizeof *at.is_done)};
    fill_bytes(&at, from, memory);
    for (size_t index = 0; index < count; index++) {
        const int move = next_move(&at);
        if (move < 0) return say_stuck(&at, err);
        numbers[index] = migration->layer[move];
        numbers[count + index] = migration->from[move];
        numbers[2 * count + index] = migration->to[move];
        send(&at, move);
    }
    *ordered = *migration;
    ordered->layer = numbers;
    ordered->from = numbers + count;
    ordered->to = numbers + 2 * count;
    return STATUS_OK;
}

status bal_migration_finish_ns(const bal_migration *ordered, const bal_layer_costs *layers,
                               const bal_machine *machine, const int64_t *release_ns, arena *memory,
                               int64_t *finish_ns, error_message *err)
{
    int64_t *free_ns = arena_array(memory, (size_t)machine->rank_count, sizeof *free_ns);
    for (int rank = 0; release_ns != NULL && rank < machine->rank_count; rank++) {
        free_ns[rank] = release_ns[rank];
    }
    int64_t finish = 0;
    for (int move = 0; move < ordered->layer_count; move++) {
        const int layer = ordered->layer[move];
        const int from = ordered->from[move];
        const int to = ordered->to[move];
        const int64_t ns =
            bal_link_transfer_ns(bal_machine_link(machine, from, to), bytes_of(layers, layer));
        const int64_t begin = bal_larger(free_ns[from], free_ns[to]);
        if (begin > INT64_MAX - ns) {
            return error_set(err, STATUS_INVALID,
                             "the transfer of layer %d ends after 64 bits of ns", layer);
        }
        free_ns[from] = free_ns[to] = begin + ns;
        finish = bal_larger(finish, begin + ns);
    }
    *finish_ns = finish;
    return STATUS_OK;
}
