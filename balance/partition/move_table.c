/// A dynamic program over stages and the places that a load leaves to their cuts.
#include "balance/partition/move_table.h"

#include "balance/partition/partition.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { UNREACHED = -1 };

/// First and last places of the cuts: no plan leaves them.
static status find_places(bal_move_table *at, arena *memory, error_message *err)
{
    bal_chain chain = at->chain;
    chain.transfer_ns = NULL; // transfers only narrow the places
    TRY(bal_partition_latest(&chain, at->load_max, NULL, at->latest, err));
    return bal_partition_earliest(&chain, at->load_max, memory, at->earliest, err);
}

static void carve(bal_move_table *at, arena *memory)
{
    const size_t cuts = (size_t)at->chain.stage_count + 1;
    const size_t width = (size_t)at->chain.layer_count + 1;
    at->earliest = arena_array(memory, cuts, sizeof *at->earliest);
    at->latest = arena_array(memory, cuts, sizeof *at->latest);
    at->row = arena_array(memory, cuts + 1, sizeof *at->row);
    at->away = arena_array(memory, width, sizeof *at->away);
    at->queue = arena_array(memory, width, sizeof *at->queue);
    at->value = arena_array(memory, width, sizeof *at->value);
    at->next_value = arena_array(memory, width, sizeof *at->next_value);
}

status bal_move_table_init(const bal_chain *chain, const int *owner, int64_t load_max,
                           const int *pinned, arena *memory, bal_move_table *table,
                           error_message *err)
{
    bal_move_table made = {.chain = *chain, .owner = owner, .load_max = load_max};
    const int cuts = chain->stage_count + 1;
    carve(&made, memory);
    if (pinned != NULL) {
        memcpy(made.earliest, pinned, (size_t)cuts * sizeof *pinned);
        memcpy(made.latest, pinned, (size_t)cuts * sizeof *pinned);
    } else {
        TRY(find_places(&made, memory, err));
    }
    for (int cut = 0; cut < cuts; cut++) {
        made.row[cut + 1] = made.row[cut] + (size_t)(made.latest[cut] - made.earliest[cut] + 1);
    }
    made.choice = arena_array(memory, made.row[cuts], sizeof *made.choice);
    *table = made;
    return STATUS_OK;
}

/// Whether a stage may own [begin, end), transfers aside: never true for a longer run where it is
/// false for a shorter one.
static bool is_within(const bal_move_table *at, int stage, int begin, int end)
{
    return bal_chain_own_load(&at->chain, stage, begin, end) <= at->load_max &&
           bal_chain_fits(&at->chain, stage, begin, end);
}

/// Bytes of the layers before each of [first, last] that are not on the rank, counted from first.
static void sum_away(bal_move_table *at, int rank, int first, int last)
{
    const int64_t *state = at->chain.state_before;
    at->away[first] = 0;
    for (int layer = first; layer < last; layer++) {
        at->away[layer + 1] = at->away[layer];
        if (at->owner[layer] != rank) at->away[layer + 1] += state[layer + 1] - state[layer];
    }
}

/// The best begin of a stage that ends at end, by looking at all: where messages count, a longer
/// run may have the smaller load.
static int best_begin(const bal_move_table *at, int stage, int last, int end, const int64_t *value)
{
    int best = UNREACHED;
    for (int begin = last; begin >= at->earliest[stage]; begin--) {
        if (!is_within(at, stage, begin, end)) break;
        if (value[begin] == UNREACHED) continue;
        if (bal_chain_load(&at->chain, stage, begin, end) > at->load_max) continue;
        if (best == UNREACHED || value[begin] - at->away[begin] < value[best] - at->away[best]) {
            best = begin;
        }
    }
    return best;
}

/// Adds a stage on a rank: value[end] of its last cut from those of its first.
///
/// Value is what the stages in front move, plus away[end] - away[begin]. The begins that are within
/// the limits of an end are a window that only moves forward, so its least value - away[begin] is
/// the head of a queue from which every begin is dropped that a later one is no worse than.
static void add_stage(bal_move_table *at, int stage, int rank, const int64_t *value,
                      int64_t *next_value, int *choice)
{
    const int need = bal_chain_may_be_empty(&at->chain, stage) ? 0 : 1;
    int head = 0;
    int tail = 0;
    int entering = at->earliest[stage];
    sum_away(at, rank, at->earliest[stage], at->latest[stage + 1]);
    for (int end = at->earliest[stage + 1]; end <= at->latest[stage + 1]; end++) {
        const int last = end - need < at->latest[stage] ? end - need : at->latest[stage];
        int begin = UNREACHED;
        if (at->chain.transfer_ns != NULL) {
            begin = best_begin(at, stage, last, end, value);
        } else {
            for (; entering <= last; entering++) {
                if (value[entering] == UNREACHED) continue;
                const int64_t entry = value[entering] - at->away[entering];
                while (tail > head &&
                       value[at->queue[tail - 1]] - at->away[at->queue[tail - 1]] >= entry) {
                    tail--;
                }
                at->queue[tail++] = entering;
            }
            while (head < tail && !is_within(at, stage, at->queue[head], end)) {
                head++;
            }
            if (head < tail) begin = at->queue[head];
        }
        next_value[end] =
            begin == UNREACHED ? UNREACHED : value[begin] - at->away[begin] + at->away[end];
        choice[end - at->earliest[stage + 1]] = begin;
    }
}

bool bal_move_table_fixed(bal_move_table *table, const int *stage_rank, int *first_layer,
                          int64_t *moved_bytes)
{
    const int stages = table->chain.stage_count;
    table->value[0] = 0;
    for (int stage = 0; stage < stages; stage++) {
        add_stage(table, stage, stage_rank[stage], table->value, table->next_value,
                  &table->choice[table->row[stage + 1]]);
        int64_t *swap = table->value;
        table->value = table->next_value;
        table->next_value = swap;
    }
    const int layers = table->chain.layer_count;
    if (table->value[layers] == UNREACHED) return false;
    *moved_bytes = table->value[layers];
    first_layer[stages] = layers;
    for (int cut = stages; cut > 0; cut--) {
        const int place = first_layer[cut] - table->earliest[cut];
        first_layer[cut - 1] = table->choice[table->row[cut] + (size_t)place];
    }
    return true;
}

bool bal_move_table_allows_subset(const bal_move_table *table, int group_count)
{
    const size_t places = table->row[table->chain.stage_count + 1];
    return places <= (size_t)BAL_MOVE_TABLE_CELLS_MAX / ((size_t)group_count + 1);
}

/// The table over groups of ranks: what the first `taken` groups of stages move at least when they
/// are on some of the groups of ranks seen so far.
typedef struct subset {
    bal_move_table *table;
    const int *rank;
    int group_count;
    int group_size;
    int wanted;       // groups of stages
    int64_t *value;   // [row[stage_count + 1]] by cut between groups of stages and place
    int64_t *through; // [2][layer_count + 1] scratch within a group
    int *choice;      // [group_count][row[stage_count + 1]] begin of the stage that ends here
    bool *is_taken;   // [group_count][row[stage_count + 1]] the last group seen holds a stage that
                      // ends here
} subset;

static void subset_init(subset *at, arena *memory)
{
    const bal_chain *chain = &at->table->chain;
    const size_t places = at->table->row[chain->stage_count + 1];
    const size_t cells = places * (size_t)at->group_count;
    at->value = arena_array(memory, places, sizeof *at->value);
    at->through = arena_array(memory, 2 * ((size_t)chain->layer_count + 1), sizeof *at->through);
    at->choice = arena_array(memory, cells, sizeof *at->choice);
    at->is_taken = arena_array(memory, cells, sizeof *at->is_taken);
    for (size_t place = 0; place < places; place++) {
        at->value[place] = UNREACHED;
    }
    at->value[0] = 0;
}

/// Puts one more group of stages on the group of ranks and keeps the result where it moves less
/// than leaving the ranks out.
static void take_group(subset *at, int group, int taken)
{
    bal_move_table *table = at->table;
    const size_t places = table->row[table->chain.stage_count + 1];
    const size_t base = (size_t)group * places;
    int64_t *from = at->through;
    int64_t *to = at->through + table->chain.layer_count + 1;
    const int begin_stage = taken * at->group_size;
    const int end_stage = begin_stage + at->group_size;
    for (int end = table->earliest[begin_stage]; end <= table->latest[begin_stage]; end++) {
        from[end] =
            at->value[table->row[begin_stage] + (size_t)(end - table->earliest[begin_stage])];
    }
    for (int stage = begin_stage; stage < end_stage; stage++) {
        const int rank = at->rank[group * at->group_size + stage - begin_stage];
        add_stage(table, stage, rank, from, to, &at->choice[base + table->row[stage + 1]]);
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    for (int end = table->earliest[end_stage]; end <= table->latest[end_stage]; end++) {
        const size_t place = table->row[end_stage] + (size_t)(end - table->earliest[end_stage]);
        if (from[end] == UNREACHED) continue;
        if (at->value[place] != UNREACHED && at->value[place] <= from[end]) continue;
        at->value[place] = from[end];
        at->is_taken[base + place] = true;
    }
}

/// Follows the choices back from the last layer.
static void trace_back(const subset *at, int *stage_rank, int *first_layer)
{
    const bal_move_table *table = at->table;
    const int stages = table->chain.stage_count;
    const size_t places = table->row[stages + 1];
    int cut = stages;
    first_layer[stages] = table->chain.layer_count;
    for (int group = at->group_count - 1; group >= 0 && cut > 0; group--) {
        const size_t base = (size_t)group * places;
        const size_t place = table->row[cut] + (size_t)(first_layer[cut] - table->earliest[cut]);
        if (!at->is_taken[base + place]) continue;
        for (int index = at->group_size - 1; index >= 0; index--, cut--) {
            const int offset = first_layer[cut] - table->earliest[cut];
            first_layer[cut - 1] = at->choice[base + table->row[cut] + (size_t)offset];
            stage_rank[cut - 1] = at->rank[group * at->group_size + index];
        }
    }
    assert(cut == 0);
}

void bal_move_table_subset(bal_move_table *table, const int *rank, int group_count, int group_size,
                           arena *memory, int *stage_rank, int *first_layer, int64_t *moved_bytes,
                           bool *is_found)
{
    const int stages = table->chain.stage_count;
    assert(stages % group_size == 0);
    subset at = {.table = table,
                 .rank = rank,
                 .group_count = group_count,
                 .group_size = group_size,
                 .wanted = stages / group_size};
    subset_init(&at, memory);
    for (int group = 0; group < group_count; group++) {
        // Later groups first, so that no group of ranks is taken twice.
        const int most = group < at.wanted - 1 ? group : at.wanted - 1;
        const int left = group_count - group - 1;
        for (int taken = most; taken >= 0 && taken + 1 + left >= at.wanted; taken--) {
            take_group(&at, group, taken);
        }
    }
    const int64_t least = at.value[table->row[stages]];
    *is_found = least != UNREACHED;
    if (!*is_found) return;
    *moved_bytes = least;
    trace_back(&at, stage_rank, first_layer);
}

status bal_partition_moved_bytes(const bal_chain *chain, const int *current_first_layer,
                                 int current_stage_count, int64_t load_cap, arena *memory,
                                 int *first_layer, int64_t *moved_bytes, error_message *err)
{
    bal_move_table table;
    int *owner = arena_array(memory, (size_t)chain->layer_count, sizeof *owner);
    int *stage_rank = arena_array(memory, (size_t)chain->stage_count, sizeof *stage_rank);
    for (int stage = 0; stage < current_stage_count; stage++) {
        for (int layer = current_first_layer[stage]; layer < current_first_layer[stage + 1];
             layer++) {
            owner[layer] = stage;
        }
    }
    for (int stage = 0; stage < chain->stage_count; stage++) {
        stage_rank[stage] = stage;
    }
    if (bal_move_table_init(chain, owner, load_cap, NULL, memory, &table, NULL) == STATUS_OK &&
        bal_move_table_fixed(&table, stage_rank, first_layer, moved_bytes)) {
        return STATUS_OK;
    }
    int *best = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *best);
    int64_t bottleneck = 0;
    TRY(bal_partition_bottleneck(chain, memory, best, &bottleneck, err));
    return error_set(err, STATUS_INFEASIBLE,
                     "no plan keeps every load within load_cap_ns %" PRId64
                     "; the smallest bottleneck is %" PRId64,
                     load_cap, bottleneck);
}
