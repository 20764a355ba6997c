/// A table over the places of both rows of two chunks, and a search of single steps for more.
#include "balance/partition/partition_pairs.h"

#include "balance/partition/chain.h"
#include "balance/partition/partition.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNREACHED = -1,
    CELLS_MAX = 1 << 21, // pairs of places, over all ranks
    STEPS_MAX = 1 << 28, // pairs of runs that are looked at: about 2 s
    BLOCK_BYTES = 1 << 18,
    CHUNK_STEPS_MAX = 1 << 12, // cuts that the search for more than two chunks moves
};

/// What is minimised over the plans with every rank's load within load_max.
typedef enum pair_value {
    PAIR_ANY,         ///< nothing: is there a plan?
    PAIR_SQUARES,     ///< the sum of the ranks' squared loads, then of the stages'
    PAIR_MOVED_BYTES, ///< bytes of the layers that are on another rank now, then squares
} pair_value;

typedef enum pair_outcome {
    PAIR_FOUND,
    PAIR_NONE,     ///< proven: no plan keeps the rules
    PAIR_TOO_MANY, ///< more pairs than the limits
} pair_outcome;

typedef struct worth {
    bal_wide value; // UNREACHED: no plan
    bal_wide tie;
} worth;

/// The layers of a chain as ranks of two chunks take them: rank after rank, each a run of both
/// rows. Under V the first row is the chain from its begin and the second the chain from its end;
/// of a loop the first row is what stands before a middle and the second what stands after. A place
/// in a row is the number of its layers that ranks have taken so far. For every number of ranks and
/// every place of the first row the table has a window of places of the second: what those ranks
/// can have taken, and the others still can.
typedef struct pair_table {
    const bal_chain *chain;
    bool is_v;
    int rank_count;
    int middle;                   // loop: the first layer of the second row
    int length[2];                // places of a row beyond 0; under V each is all layers
    const int64_t *weight[2];     // [length + 1] sums up to a place; only differences mean anything
    const int64_t *state[2];      // likewise, bytes
    const int64_t *activation[2]; // likewise
    const int *rest[2];           // [rank_count + 1] layers that ranks k and later must have
    const int *room;              // [rank_count + 1] layers between the first and the last of all
                                  // that the memory of ranks k and later takes at the most

    pair_value value;
    int64_t load_max;
    const int *owner;      // [layer_count] moved bytes only: rank of the machine that holds a layer
    const int *place_rank; // [rank_count] moved bytes only: rank of the machine; NULL: the place
    int64_t step_count;    // pairs of runs that were looked at

    arena *memory;    // of all below; reset for every question
    int *low;         // [rank_count + 1][length[0] + 1] first place of the window
    int *high;        // likewise the last; below low: none
    int64_t *offset;  // likewise: where its cells begin
    worth *best;      // [cells] of the ranks so far
    int *left;        // [cells] where the last rank's runs begin
    int *right;       // [cells]
    int64_t *away[2]; // [length + 1] moved bytes: of a row, not on the rank at hand
    int *cuts;        // [stage_count + 1] of the last plan found
    worth least;      // of that plan
} pair_table;

static int pair_stage(const pair_table *at, int rank, int row)
{
    if (row == 0) return rank;
    return at->is_v ? 2 * at->rank_count - 1 - rank : at->rank_count + rank;
}

/// Layers that a rank must have of a row: 0 or 1.
static int need_of(const pair_table *at, int rank, int row)
{
    return at->rest[row][rank] - at->rest[row][rank + 1];
}

/// Moves the middle of a loop; V has none.
static void split(pair_table *at, int middle)
{
    if (at->is_v) return;
    at->middle = middle;
    at->length[0] = middle;
    at->length[1] = at->chain->layer_count - middle;
    at->weight[1] = at->weight[0] + middle;
    at->state[1] = at->state[0] + middle;
    at->activation[1] = at->activation[0] + middle;
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a;
    const int64_t other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

/// How often a rank holds the activations of a layer at the least, whichever of its stages has it.
static int64_t held_least(const pair_table *at, int rank)
{
    const bal_chain *chain = at->chain;
    const bal_rank_peaks *peaks = chain->rank_peaks;
    int64_t least = 0;
    if (peaks != NULL) {
        for (int peak = peaks->first_peak[rank]; peak < peaks->first_peak[rank + 1]; peak++) {
            const int64_t *held = bal_rank_peak(peaks, peak);
            const int64_t fewer = held[0] < held[1] ? held[0] : held[1];
            if (fewer > least) least = fewer;
        }
        return least;
    }
    if (chain->stage_inflight == NULL) return 1;
    const int64_t first = chain->stage_inflight[pair_stage(at, rank, 0)];
    const int64_t second = chain->stage_inflight[pair_stage(at, rank, 1)];
    return first < second ? first : second;
}

/// Layers, of those between the first and the last, that a rank's memory takes at the most: the
/// lightest. @param bytes [layer_count] scratch
static int room_of(const pair_table *at, int rank, int64_t *bytes)
{
    const bal_chain *chain = at->chain;
    const int inner = chain->layer_count - 2;
    const int64_t held = held_least(at, rank);
    bal_wide sum = 0;
    int count = 0;
    if (inner <= 0 || chain->rank_memory_bytes == NULL) return chain->layer_count;
    for (int layer = 0; layer < inner; layer++) {
        bytes[layer] = at->state[0][layer + 2] - at->state[0][layer + 1] +
                       held * (at->activation[0][layer + 2] - at->activation[0][layer + 1]);
    }
    qsort(bytes, (size_t)inner, sizeof *bytes, compare_numbers);
    while (count < inner && sum + bytes[count] <= chain->rank_memory_bytes[rank]) {
        sum += bytes[count++];
    }
    return count;
}

static const int *find_room(const pair_table *at, arena *scratch)
{
    int *room = arena_array(scratch, (size_t)at->rank_count + 1, sizeof *room);
    int64_t *bytes = arena_array(scratch, (size_t)at->chain->layer_count, sizeof *bytes);
    for (int rank = at->rank_count - 1; rank >= 0; rank--) {
        room[rank] = room[rank + 1] + room_of(at, rank, bytes);
    }
    return room;
}

/// @param scratch of what all questions share; the rest is released with arena_destroy(at->memory)
static void table_init(const bal_chain *chain, arena *scratch, pair_table *at)
{
    assert(chain->chunk_count == 2 && chain->transfer_ns == NULL);
    const int layers = chain->layer_count;
    *at = (pair_table){.chain = chain,
                       .is_v = chain->placement == BAL_PLACEMENT_V,
                       .rank_count = chain->stage_count / 2,
                       .length = {layers, layers},
                       .weight = {chain->weight_before},
                       .state = {chain->state_before},
                       .activation = {chain->activation_before},
                       .memory = arena_create(BLOCK_BYTES)};
    at->cuts = arena_array(scratch, (size_t)chain->stage_count + 1, sizeof *at->cuts);
    for (int row = 0; row < 2; row++) {
        int *rest = arena_array(scratch, (size_t)at->rank_count + 1, sizeof *rest);
        for (int rank = at->rank_count - 1; rank >= 0; rank--) {
            const bool may_be_empty = bal_chain_may_be_empty(chain, pair_stage(at, rank, row));
            rest[rank] = rest[rank + 1] + (may_be_empty ? 0 : 1);
        }
        at->rest[row] = rest;
    }
    if (at->is_v) {
        at->weight[1] = bal_chain_turned(chain->weight_before, layers, scratch);
        at->state[1] = bal_chain_turned(chain->state_before, layers, scratch);
        at->activation[1] = bal_chain_turned(chain->activation_before, layers, scratch);
    }
    at->room = find_room(at, scratch);
    split(at, 0);
}

/// Load of a rank's run [begin, end) of a row.
static int64_t run_load(const pair_table *at, int rank, int row, int begin, int end)
{
    const int64_t weight = at->weight[row][end] - at->weight[row][begin];
    return begin == end ? 0
                        : bal_chain_load_of_weight(at->chain, pair_stage(at, rank, row), weight);
}

/// Whether a run keeps within the cap of its stage; what it holds alone and its activations.
static bool fits_stage(const pair_table *at, int rank, int row, int begin, int end, int64_t *own,
                       int64_t *activation)
{
    const bal_chain *chain = at->chain;
    const int stage = pair_stage(at, rank, row);
    const int64_t inflight = chain->stage_inflight != NULL ? chain->stage_inflight[stage] : 1;
    *activation = at->activation[row][end] - at->activation[row][begin];
    *own = at->state[row][end] - at->state[row][begin] + inflight * *activation;
    const bool is_capped = chain->stage_memory_bytes != NULL && begin < end;
    return !is_capped || *own <= chain->stage_memory_bytes[stage];
}

/// Whether a rank's runs [left, left_end) and [right, right_end) stay within the caps of its stages
/// and its own. Never true for longer runs where it is false for shorter ones.
static bool fits(const pair_table *at, int rank, int left, int left_end, int right, int right_end)
{
    const bal_chain *chain = at->chain;
    int64_t own[2];
    int64_t activation[2];
    if (chain->stage_memory_bytes == NULL && chain->rank_memory_bytes == NULL) return true;
    if (!fits_stage(at, rank, 0, left, left_end, &own[0], &activation[0])) return false;
    if (!fits_stage(at, rank, 1, right, right_end, &own[1], &activation[1])) return false;
    if (chain->rank_memory_bytes == NULL) return true;
    const int64_t cap = chain->rank_memory_bytes[rank];
    const bal_rank_peaks *peaks = chain->rank_peaks;
    if (peaks == NULL) return own[0] + own[1] <= cap;
    const int64_t state =
        at->state[0][left_end] - at->state[0][left] + at->state[1][right_end] - at->state[1][right];
    if (state > cap) return false;
    for (int peak = peaks->first_peak[rank]; peak < peaks->first_peak[rank + 1]; peak++) {
        const int64_t *held = bal_rank_peak(peaks, peak);
        if (held[0] * activation[0] + held[1] * activation[1] > cap - state) return false;
    }
    return true;
}

/// The most weight that a rank can take, whichever of its stages does.
static int64_t rank_capacity(const pair_table *at, int rank)
{
    // Two runs are rounded apart, by half a unit each.
    const bool rounds = at->chain->stage_time_factor_ppb != NULL && at->load_max < INT64_MAX;
    int64_t most = 0;
    for (int row = 0; row < 2; row++) {
        const int64_t weight = bal_chain_weight_within(at->chain, pair_stage(at, rank, row),
                                                       at->load_max + (rounds ? 1 : 0));
        if (weight > most) most = weight;
    }
    return most;
}

static size_t row_of(const pair_table *at, int rank, int left)
{
    return (size_t)rank * ((size_t)at->length[0] + 1) + (size_t)left;
}

static int64_t cell_of(const pair_table *at, int rank, int left, int right)
{
    const size_t row = row_of(at, rank, left);
    return at->offset[row] + right - at->low[row];
}

/// The windows after so many ranks: as many layers taken as these must have and can take, and as
/// many left as the others must and can.
///
/// @param front, behind weights that the ranks in front and the others can take at the most
static void find_windows(pair_table *at, int rank, int64_t front, int64_t behind)
{
    const int64_t *first = at->weight[0];
    const int64_t *second = at->weight[1];
    const int64_t total = at->chain->weight_before[at->chain->layer_count];
    const int needed[2] = {at->rest[0][0] - at->rest[0][rank], at->rest[1][0] - at->rest[1][rank]};
    const int ends = 2; // the first and the last layer have no part in room
    const int most = at->room[0] - at->room[rank] + ends;
    const int least = at->chain->layer_count - at->room[rank] - ends;
    int high = at->length[1];
    int low = at->length[1] + 1;
    for (int left = 0; left <= at->length[0]; left++) {
        const int64_t taken = first[left] - first[0] - second[0];
        const size_t row = row_of(at, rank, left);
        int limit = at->length[1] - at->rest[1][rank];
        if (at->is_v) limit -= left + at->rest[0][rank];
        while (high >= 0 && taken + second[high] > front) {
            high--;
        }
        while (low > 0 && total - taken - second[low - 1] <= behind) {
            low--;
        }
        at->low[row] = low > needed[1] ? low : needed[1];
        if (at->low[row] < least - left) at->low[row] = least - left;
        at->high[row] = high < limit ? high : limit;
        if (at->high[row] > most - left) at->high[row] = most - left;
        if (rank == at->rank_count && at->low[row] < limit) at->low[row] = limit; // all is taken
        const bool is_out = left < needed[0] || left > at->length[0] - at->rest[0][rank] ||
                            (rank == 0 && left > 0) ||
                            (rank == at->rank_count && !at->is_v && left < at->length[0]);
        if (is_out) at->high[row] = at->low[row] - 1;
        if (rank == 0 && at->high[row] > 0) at->high[row] = 0;
    }
}

/// Carves the windows and their cells.
///
/// @return PAIR_FOUND: they are there
static pair_outcome carve(pair_table *at)
{
    const int ranks = at->rank_count;
    const int64_t total = at->chain->weight_before[at->chain->layer_count];
    const size_t rows = row_of(at, ranks + 1, 0);
    arena_reset(at->memory);
    if (rows > CELLS_MAX) return PAIR_TOO_MANY;
    int64_t *behind = arena_array(at->memory, (size_t)ranks + 1, sizeof *behind);
    for (int rank = ranks - 1; rank >= 0; rank--) {
        const int64_t most = rank_capacity(at, rank);
        behind[rank] = most < total - behind[rank + 1] ? behind[rank + 1] + most : total;
    }
    if (behind[0] < total) return PAIR_NONE;
    at->low = arena_array(at->memory, rows, sizeof *at->low);
    at->high = arena_array(at->memory, rows, sizeof *at->high);
    at->offset = arena_array(at->memory, rows + 1, sizeof *at->offset);
    int64_t front = 0;
    for (int rank = 0; rank <= ranks; rank++) {
        find_windows(at, rank, front, behind[rank]);
        if (rank < ranks) front += rank_capacity(at, rank);
        if (front > total) front = total;
        for (size_t row = row_of(at, rank, 0); row < row_of(at, rank + 1, 0); row++) {
            const int places = at->high[row] - at->low[row] + 1;
            at->offset[row + 1] = at->offset[row] + (places > 0 ? places : 0);
        }
        if (at->offset[row_of(at, rank + 1, 0)] > CELLS_MAX) return PAIR_TOO_MANY;
    }
    const size_t cells = (size_t)at->offset[rows];
    at->best = arena_array(at->memory, cells + 1, sizeof *at->best);
    at->left = arena_array(at->memory, cells + 1, sizeof *at->left);
    at->right = arena_array(at->memory, cells + 1, sizeof *at->right);
    for (int row = 0; row < 2; row++) {
        const size_t places = (size_t)at->length[row] + 1;
        at->away[row] = arena_array(at->memory, places, sizeof *at->away[row]);
    }
    return at->low[0] <= at->high[0] ? PAIR_FOUND : PAIR_NONE;
}

/// Bytes in front of each place of a row that are not on the rank at a place of the pipeline.
static void sum_away(pair_table *at, int place)
{
    const int rank = at->place_rank != NULL ? at->place_rank[place] : place;
    for (int row = 0; row < 2; row++) {
        for (int before = 0; before < at->length[row]; before++) {
            int layer = before;
            if (row == 1) layer = at->is_v ? at->length[0] - 1 - before : at->middle + before;
            const int64_t bytes = at->state[row][before + 1] - at->state[row][before];
            at->away[row][before + 1] =
                at->away[row][before] + (at->owner[layer] != rank ? bytes : 0);
        }
    }
}

static bool is_less(worth one, worth other)
{
    if (one.value != other.value) return one.value < other.value;
    return one.tie < other.tie;
}

/// What a rank's runs add.
static worth share(const pair_table *at, int rank, int left, int left_end, int right, int right_end)
{
    if (at->value == PAIR_ANY) return (worth){0};
    const bal_wide first = run_load(at, rank, 0, left, left_end);
    const bal_wide second = run_load(at, rank, 1, right, right_end);
    const bal_wide squared = (first + second) * (first + second);
    if (at->value == PAIR_SQUARES) return (worth){squared, first * first + second * second};
    const int64_t bytes =
        at->away[0][left_end] - at->away[0][left] + at->away[1][right_end] - at->away[1][right];
    return (worth){bytes, squared};
}

/// The second runs that a first run leaves room for: begins from right_end down to where the rank
/// is full.
static void try_rights(pair_table *at, int rank, int left, int left_end, int right_end,
                       int64_t target)
{
    const size_t row = row_of(at, rank, left);
    const int64_t *weight = at->weight[1];
    const int64_t load_left = at->load_max - run_load(at, rank, 0, left, left_end);
    const int64_t most = bal_chain_weight_within(at->chain, pair_stage(at, rank, 1), load_left);
    int right = right_end - need_of(at, rank, 1);
    if (right > at->high[row]) right = at->high[row];
    for (; right >= at->low[row]; right--) {
        at->step_count++;
        if (right < right_end && weight[right_end] - weight[right] > most) return;
        if (!fits(at, rank, left, left_end, right, right_end)) return;
        const worth before = at->best[cell_of(at, rank, left, right)];
        if (before.value == UNREACHED) continue;
        worth sum = share(at, rank, left, left_end, right, right_end);
        sum.value += before.value;
        sum.tie += before.tie;
        if (at->best[target].value != UNREACHED && !is_less(sum, at->best[target])) continue;
        at->best[target] = sum;
        at->left[target] = left;
        at->right[target] = right;
        if (at->value == PAIR_ANY) return;
    }
}

/// The least of all ways to the places after a rank. False if there is none.
static bool fill_cell(pair_table *at, int rank, int left_end, int right_end)
{
    const int64_t target = cell_of(at, rank + 1, left_end, right_end);
    at->best[target] = (worth){.value = UNREACHED};
    for (int left = left_end - need_of(at, rank, 0); left >= 0; left--) {
        if (run_load(at, rank, 0, left, left_end) > at->load_max) break;
        if (!fits(at, rank, left, left_end, 0, 0)) break;
        at->step_count++;
        try_rights(at, rank, left, left_end, right_end, target);
        if (at->value == PAIR_ANY && at->best[target].value != UNREACHED) break;
    }
    return at->best[target].value != UNREACHED;
}

/// The end of the last rank: the place of the first row where the least value stands, or UNREACHED.
static int best_end(pair_table *at)
{
    int best = UNREACHED;
    for (int left = 0; left <= at->length[0]; left++) {
        const size_t row = row_of(at, at->rank_count, left);
        if (at->high[row] < at->low[row]) continue;
        const worth here = at->best[at->offset[row]]; // one place: all is taken
        if (here.value == UNREACHED || (best != UNREACHED && !is_less(here, at->least))) continue;
        best = left;
        at->least = here;
    }
    return best;
}

static void read_back(pair_table *at, int left)
{
    const int ranks = at->rank_count;
    int right = at->low[row_of(at, ranks, left)];
    at->cuts[2 * ranks] = at->chain->layer_count;
    for (int rank = ranks; rank >= 0; rank--) {
        at->cuts[rank] = left;
        if (rank == 0) return;
        const int64_t here = cell_of(at, rank, left, right);
        if (at->is_v) {
            at->cuts[2 * ranks - rank] = at->chain->layer_count - right;
        } else {
            at->cuts[ranks + rank] = at->middle + right;
        }
        left = at->left[here];
        right = at->right[here];
    }
}

/// Finds the least value and a plan that has it, into least and cuts. Ties beyond worth: the plan
/// whose last ranks' runs are shortest, the first row before the second.
static pair_outcome answer_middle(pair_table *at, int middle)
{
    split(at, middle);
    const pair_outcome carved = carve(at);
    if (carved != PAIR_FOUND) return carved;
    at->best[0] = (worth){0}; // in front of rank 0 there is one pair of places
    bool is_reached = true;
    for (int rank = 0; rank < at->rank_count && is_reached; rank++) {
        is_reached = false;
        if (at->value == PAIR_MOVED_BYTES) sum_away(at, rank);
        for (int left = 0; left <= at->length[0]; left++) {
            const size_t row = row_of(at, rank + 1, left);
            for (int right = at->low[row]; right <= at->high[row]; right++) {
                is_reached |= fill_cell(at, rank, left, right);
            }
            if (at->step_count > STEPS_MAX) return PAIR_TOO_MANY;
        }
    }
    const int end = is_reached ? best_end(at) : UNREACHED;
    if (end == UNREACHED) return PAIR_NONE;
    read_back(at, end);
    return PAIR_FOUND;
}

/// The best so far.
typedef struct best_plan {
    bool is_found;
    int middle;       // of a loop
    int64_t ceiling;  // a plan must not be above it; once found, below the best
    int *first_layer; // [stage_count + 1]
} best_plan;

/// Bisection between a load that no plan is below and the best plan's, within one middle: first
/// whether it beats the best so far at all, which few middles do, and again after a plan that does:
/// where layers are alike there are few loads, and the best is found long before halving proves it.
static pair_outcome search_middle(pair_table *at, int middle, int64_t low, best_plan *best)
{
    const bal_chain *chain = at->chain;
    int64_t step = low / 64 + 1; // most optima are close above the mean: widen from there
    bool asks_all = true;        // up to the ceiling
    int asked_count = 0;         // so, in a row
    while (low <= best->ceiling) {
        const int64_t half = (best->ceiling - low) / 2;
        at->load_max = asks_all ? best->ceiling : low + (step < half ? step : half);
        asked_count = asks_all ? asked_count + 1 : 0;
        const pair_outcome outcome = answer_middle(at, middle);
        if (outcome == PAIR_TOO_MANY) return outcome;
        if (outcome == PAIR_FOUND) {
            memcpy(best->first_layer, at->cuts, ((size_t)chain->stage_count + 1) * sizeof(int));
            best->is_found = true;
            best->middle = middle;
            best->ceiling = bal_chain_largest_load(chain, best->first_layer) - 1;
        } else {
            low = at->load_max + 1;
            if (step <= INT64_MAX / 2) step *= 2;
        }
        asks_all = outcome == PAIR_FOUND && asked_count < 2;
    }
    return PAIR_NONE;
}

/// The place of the middle with half of the weight on each side.
static int middle_of(const bal_chain *chain)
{
    const int64_t half = chain->weight_before[chain->layer_count] / 2;
    int middle = 0;
    while (middle < chain->layer_count && chain->weight_before[middle] < half) {
        middle++;
    }
    return middle;
}

/// The best plan over all middles, from the one with half of the weight on each side outwards.
///
/// @return PAIR_NONE: nothing is below it; PAIR_TOO_MANY: that is open
static pair_outcome search_middles(pair_table *at, int64_t low, best_plan *best)
{
    const int layers = at->chain->layer_count;
    int above = at->is_v ? 0 : middle_of(at->chain);
    int below = above - 1;
    for (int index = 0; index <= (at->is_v ? 0 : layers); index++) {
        const bool takes_above = above <= layers && (below < 0 || index % 2 == 0);
        const pair_outcome outcome = search_middle(at, takes_above ? above++ : below--, low, best);
        if (outcome == PAIR_TOO_MANY) return outcome;
    }
    return PAIR_NONE;
}

/// How good a plan is; smaller is better, in the order of the fields.
typedef struct merit {
    bal_wide excess_bytes; // what ranks hold above their caps
    int64_t bottleneck;    // the largest load of a rank
    bal_wide squares;      // sum of the ranks' squared loads
} merit;

static merit measure(const bal_chain *chain, const int *first_layer)
{
    merit sum = {0};
    for (int rank = 0; rank < bal_chain_rank_count(chain); rank++) {
        const bal_wide load = bal_chain_rank_load(chain, first_layer, rank);
        if (load > sum.bottleneck) sum.bottleneck = (int64_t)load;
        sum.squares += load * load;
        if (chain->rank_memory_bytes == NULL) continue;
        const int64_t above =
            bal_chain_rank_memory_bytes(chain, rank, first_layer) - chain->rank_memory_bytes[rank];
        if (above > 0) sum.excess_bytes += above;
    }
    return sum;
}

static bool is_better(merit one, merit other)
{
    if (one.excess_bytes != other.excess_bytes) return one.excess_bytes < other.excess_bytes;
    if (one.bottleneck != other.bottleneck) return one.bottleneck < other.bottleneck;
    return one.squares < other.squares;
}

/// Whether the stages on both sides of a cut keep the rules of stages.
static bool is_allowed(const bal_chain *chain, const int *first_layer, int cut)
{
    for (int stage = cut - 1; stage <= cut; stage++) {
        const int begin = first_layer[stage];
        const int end = first_layer[stage + 1];
        if (end < begin || (end == begin && !bal_chain_may_be_empty(chain, stage))) return false;
        if (!bal_chain_fits(chain, stage, begin, end)) return false;
    }
    return true;
}

/// Moves a cut by a layer if that is better.
static bool steps(const bal_chain *chain, int *first_layer, int cut, int by, merit *best)
{
    first_layer[cut] += by;
    if (is_allowed(chain, first_layer, cut)) {
        const merit tried = measure(chain, first_layer);
        if (is_better(tried, *best)) {
            *best = tried;
            return true;
        }
    }
    first_layer[cut] -= by;
    return false;
}

/// Moves single cuts by single layers as long as that is better.
static merit improve(const bal_chain *chain, int *first_layer)
{
    merit best = measure(chain, first_layer);
    int step_count = 0;
    for (bool has_moved = true; has_moved && chain->chunk_count > 1;) {
        has_moved = false;
        for (int cut = 1; cut < chain->stage_count; cut++) {
            for (int by = -1; by <= 1; by += 2) {
                while (step_count < CHUNK_STEPS_MAX && steps(chain, first_layer, cut, by, &best)) {
                    step_count++;
                    has_moved = true;
                }
            }
        }
    }
    return best;
}

static status by_stages(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                        error_message *err)
{
    int *first = arena_array(memory, (size_t)chain->stage_count + 1, sizeof *first);
    int64_t bottleneck = 0;
    TRY(bal_partition_bottleneck(chain, memory, first, &bottleneck, err));
    TRY(bal_partition_flattest(chain, bottleneck, memory, first, err));
    const merit reached = improve(chain, first);
    if (chain->chunk_count > 1) TRY(bal_chain_check(chain, first, err));
    *plan = (bal_pairs_plan){
        .first_layer = first,
        .bottleneck = reached.bottleneck,
        .lower_bound = chain->chunk_count > 1 ? bal_assignment_lower_bound(chain) : bottleneck};
    return STATUS_OK;
}

/// What no plan of equal ranks is below: of the k x ranks + 1 heaviest layers some rank has k + 1.
/// With layers alike, as models have them, that is the optimum, where their mean is below it.
static int64_t bound_by_counts(const bal_chain *chain, arena *memory)
{
    const int layers = chain->layer_count;
    const int ranks = bal_chain_rank_count(chain);
    int64_t bound = 0;
    int64_t *weight = arena_array(memory, (size_t)layers, sizeof *weight);
    if (chain->stage_time_factor_ppb != NULL) return 0;
    for (int layer = 0; layer < layers; layer++) {
        weight[layer] = chain->weight_before[layer + 1] - chain->weight_before[layer];
    }
    qsort(weight, (size_t)layers, sizeof *weight, compare_numbers);
    for (int last = 0; last < layers; last += ranks) {
        int64_t sum = 0;
        for (int heavy = last - last / ranks; heavy <= last; heavy++) {
            sum += weight[layers - 1 - heavy];
        }
        if (sum > bound) bound = sum;
    }
    return bound;
}

/// Two chunks: the exact optimum, from what single steps find downwards, and of its plans the
/// flattest with its middle. Where the limits leave the optimum open, what was found.
static status by_pairs(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                       error_message *err)
{
    const size_t bytes = ((size_t)chain->stage_count + 1) * sizeof(int);
    bal_pairs_plan stepped = {.bottleneck = chain->load_sum_max};
    const bool has_stepped = by_stages(chain, memory, &stepped, NULL) == STATUS_OK;
    const int64_t counted = bound_by_counts(chain, memory);
    const int64_t divided = bal_assignment_lower_bound(chain);
    const int64_t low = counted > divided ? counted : divided;
    best_plan best = {.ceiling = stepped.bottleneck, .first_layer = arena_array(memory, bytes, 1)};
    pair_table table;
    table_init(chain, memory, &table);
    const bool is_open = search_middles(&table, low, &best) == PAIR_TOO_MANY;
    if (best.is_found) {
        table.value = PAIR_SQUARES;
        table.load_max = best.ceiling + 1;
        table.step_count = 0; // a limit of its own, so that a hard optimum may still be a flat one
        if (answer_middle(&table, best.middle) == PAIR_FOUND) {
            memcpy(best.first_layer, table.cuts, bytes);
        }
    }
    arena_destroy(table.memory);
    if (!best.is_found && !has_stepped) {
        return error_set(err, STATUS_INFEASIBLE,
                         "no plan of %d ranks of 2 chunks %s: every rank within its memory cap%s",
                         bal_chain_rank_count(chain), is_open ? "was found" : "keeps the rules",
                         chain->allow_empty_stages ? "" : " and every stage non-empty");
    }
    *plan = stepped;
    if (best.is_found) {
        plan->first_layer = best.first_layer;
        plan->bottleneck = best.ceiling + 1;
    }
    plan->lower_bound = is_open ? low : plan->bottleneck;
    return STATUS_OK;
}

status bal_partition_chunks(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                            error_message *err)
{
    if (chain->chunk_count == 2 && chain->transfer_ns == NULL) {
        return by_pairs(chain, memory, plan, err);
    }
    return by_stages(chain, memory, plan, err);
}

status bal_partition_chunks_moved_bytes(const bal_chain *chain, const int *owner,
                                        const int *place_rank, int64_t load, int middle,
                                        arena *memory, int *first_layer, int64_t *moved_bytes,
                                        error_message *err)
{
    if (chain->chunk_count != 2 || chain->transfer_ns != NULL) {
        return bal_partition_moved_bytes(chain, owner, place_rank, load, memory, first_layer,
                                         moved_bytes, err);
    }
    pair_table table;
    table_init(chain, memory, &table);
    table.value = PAIR_MOVED_BYTES;
    table.load_max = load;
    table.owner = owner;
    table.place_rank = place_rank;
    const bool is_one = table.is_v || middle != BAL_ANY_MIDDLE;
    const int last = is_one ? middle : chain->layer_count;
    bool is_found = false;
    bool is_open = false;
    for (int place = is_one ? middle : 0; place <= last && !is_open; place++) {
        const pair_outcome outcome = answer_middle(&table, place);
        is_open = outcome == PAIR_TOO_MANY;
        if (outcome != PAIR_FOUND || (is_found && table.least.value >= *moved_bytes)) continue;
        is_found = true;
        *moved_bytes = (int64_t)table.least.value;
        memcpy(first_layer, table.cuts, ((size_t)chain->stage_count + 1) * sizeof *first_layer);
    }
    arena_destroy(table.memory);
    if (is_open) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%d layers on %d ranks of 2 chunks within a load of %" PRId64
                         " leave too many plans to compare",
                         chain->layer_count, bal_chain_rank_count(chain), load);
    }
    if (is_found) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE,
                     "no plan of %d ranks of 2 chunks keeps every load within %" PRId64,
                     bal_chain_rank_count(chain), load);
}
