#include "balance/partition/partition.h"

#include <inttypes.h>
#include <string.h>

/// The places that plans within a load leave for each cut, and the least sums up to each.
typedef struct places {
    const bal_chain *chain;
    int64_t load;
    int *earliest;     // [stage_count + 1]
    int *latest;       // [stage_count + 1]
    size_t *row;       // [stage_count + 1] where the places of a cut begin in choice
    int *choice;       // by row and place: the cut before
    bal_wide *squares; // [layer_count + 1] sum of squared loads up to a place, -1: not reached
    bal_wide *previous;
} places;

static status no_memory(const bal_chain *chain, error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory for %d stages of %d layers",
                     chain->stage_count, chain->layer_count);
}

/// Finds the first and the last place of every cut. Transfers only narrow them.
static status find_places(const bal_chain *chain, int64_t load, arena *memory, places *out,
                          error_message *err)
{
    bal_chain without_transfer = *chain;
    without_transfer.transfer_ns = NULL;
    const size_t cuts = (size_t)chain->stage_count + 1;
    out->earliest = arena_array(memory, cuts, sizeof *out->earliest);
    out->latest = arena_array(memory, cuts, sizeof *out->latest);
    out->row = arena_array(memory, cuts + 1, sizeof *out->row);
    TRY(bal_partition_latest(&without_transfer, load, NULL, out->latest, err));
    TRY(bal_partition_earliest(&without_transfer, load, memory, out->earliest, err));
    out->chain = chain;
    out->load = load;
    for (size_t cut = 0; cut < cuts; cut++) {
        const int width = out->latest[cut] - out->earliest[cut] + 1;
        out->row[cut + 1] = out->row[cut] + (size_t)width;
    }
    return STATUS_OK;
}

/// The best cut before a stage that ends at end.
static void fill_place(const places *at, int stage, int end)
{
    const bal_chain *chain = at->chain;
    const bool may_be_empty = bal_chain_may_be_empty(chain, stage);
    int *choice = &at->choice[at->row[stage + 1] + (size_t)(end - at->earliest[stage + 1])];
    bal_wide best = -1;
    int begin = may_be_empty ? end : end - 1;
    if (begin > at->latest[stage]) begin = at->latest[stage];
    for (; begin >= at->earliest[stage]; begin--) {
        if (!bal_chain_fits(chain, stage, begin, end)) break;
        if (bal_chain_own_load(chain, stage, begin, end) > at->load) break;
        const bal_wide load = bal_chain_load(chain, stage, begin, end);
        if (load > at->load || at->previous[begin] < 0) continue;
        const bal_wide squares = at->previous[begin] + load * load;
        if (best >= 0 && squares >= best) continue;
        best = squares;
        *choice = begin;
    }
    at->squares[end] = best;
}

/// False if transfers leave no plan within load.
static bool fill(places *at)
{
    const int stages = at->chain->stage_count;
    at->squares[0] = 0;
    for (int stage = 0; stage < stages; stage++) {
        bal_wide *swap = at->previous;
        at->previous = at->squares;
        at->squares = swap;
        for (int end = at->earliest[stage + 1]; end <= at->latest[stage + 1]; end++) {
            fill_place(at, stage, end);
        }
    }
    return at->squares[at->chain->layer_count] >= 0;
}

status bal_partition_flattest(const bal_chain *chain, int64_t load, arena *memory, int *first_layer,
                              error_message *err)
{
    places at = {0};
    const int stages = chain->stage_count;
    const size_t width = (size_t)chain->layer_count + 1;
    TRY(find_places(chain, load, memory, &at, err));
    const size_t place_count = at.row[stages + 1];
    const bool too_many = place_count > BAL_FLATTEST_CUTS_MAX;
    if (too_many && chain->transfer_ns != NULL) return no_memory(chain, err);
    if (too_many || (place_count == (size_t)stages + 1 && chain->transfer_ns == NULL)) {
        memcpy(first_layer, at.latest, ((size_t)stages + 1) * sizeof *first_layer);
        return STATUS_OK;
    }
    at.choice = arena_array(memory, place_count, sizeof *at.choice);
    at.squares = arena_array(memory, width, sizeof *at.squares);
    at.previous = arena_array(memory, width, sizeof *at.previous);
    if (!fill(&at)) {
        return error_set(err, STATUS_INFEASIBLE,
                         "no plan keeps every load, messages included, within %" PRId64, load);
    }
    first_layer[stages] = chain->layer_count;
    for (int cut = stages; cut > 0; cut--) {
        first_layer[cut - 1] =
            at.choice[at.row[cut] + (size_t)(first_layer[cut] - at.earliest[cut])];
    }
    return STATUS_OK;
}
