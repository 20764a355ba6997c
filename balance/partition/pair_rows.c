/// Rows of ranks of two chunks, and the table over the places of both.
#include "balance/partition/pair_rows.h"

#include <assert.h>

/// Sums from the end of the chain.
static const int64_t *turned(const int64_t *before, int count, arena *memory)
{
    int64_t *sums = arena_array(memory, (size_t)count + 1, sizeof *sums);
    for (int place = 0; place <= count; place++) {
        sums[place] = before[count] - before[count - place];
    }
    return sums;
}

void bal_pair_rows_init(const bal_chain *chain, arena *memory, bal_pair_rows *rows)
{
    assert(chain->chunk_count == 2 && chain->transfer_ns == NULL);
    const int layers = chain->layer_count;
    const bool is_v = chain->placement == BAL_PLACEMENT_V;
    *rows = (bal_pair_rows){
        .chain = chain,
        .is_v = is_v,
        .rank_count = chain->stage_count / 2,
        .length = {layers, layers},
        .weight = {chain->weight_before},
        .state = {chain->state_before},
        .activation = {chain->activation_before},
        .has_memory = chain->stage_memory_bytes != NULL || chain->rank_memory_bytes != NULL,
        .is_plain = chain->stage_time_factor_ppb == NULL && chain->stage_fixed_ns == NULL};
    for (int row = 0; row < 2; row++) {
        int *rest = arena_array(memory, (size_t)rows->rank_count + 1, sizeof *rest);
        for (int rank = rows->rank_count - 1; rank >= 0; rank--) {
            const int stage = bal_pair_stage(rows, rank, row);
            rest[rank] = rest[rank + 1] + (bal_chain_may_be_empty(chain, stage) ? 0 : 1);
        }
        rows->rest[row] = rest;
    }
    if (is_v) {
        rows->weight[1] = turned(chain->weight_before, layers, memory);
        rows->state[1] = turned(chain->state_before, layers, memory);
        rows->activation[1] = turned(chain->activation_before, layers, memory);
    }
    bal_pair_rows_split(rows, 0);
}

void bal_pair_rows_split(bal_pair_rows *rows, int middle)
{
    if (rows->is_v) return;
    rows->middle = middle;
    rows->length[0] = middle;
    rows->length[1] = rows->chain->layer_count - middle;
    rows->weight[1] = rows->weight[0] + middle;
    rows->state[1] = rows->state[0] + middle;
    rows->activation[1] = rows->activation[0] + middle;
}

/// Whether a run keeps within the cap of its stage; what it holds alone and its activations.
static bool fits_stage(const bal_pair_rows *rows, int rank, int row, int begin, int end,
                       int64_t *own, int64_t *activation)
{
    const bal_chain *chain = rows->chain;
    const int stage = bal_pair_stage(rows, rank, row);
    const int64_t inflight = chain->stage_inflight != NULL ? chain->stage_inflight[stage] : 1;
    const int64_t state = rows->state[row][end] - rows->state[row][begin];
    *activation = rows->activation[row][end] - rows->activation[row][begin];
    *own = state + inflight * *activation;
    const bool is_capped = chain->stage_memory_bytes != NULL && begin < end;
    return !is_capped || *own <= chain->stage_memory_bytes[stage];
}

bool bal_pair_fits(const bal_pair_rows *rows, int rank, int left, int left_end, int right,
                   int right_end)
{
    const bal_chain *chain = rows->chain;
    int64_t own[2];
    int64_t activation[2];
    if (!fits_stage(rows, rank, 0, left, left_end, &own[0], &activation[0])) return false;
    if (!fits_stage(rows, rank, 1, right, right_end, &own[1], &activation[1])) return false;
    if (chain->rank_memory_bytes == NULL) return true;
    const int64_t cap = chain->rank_memory_bytes[rank];
    const bal_rank_peaks *peaks = chain->rank_peaks;
    if (peaks == NULL) return own[0] + own[1] <= cap;
    const int64_t state = rows->state[0][left_end] - rows->state[0][left] +
                          rows->state[1][right_end] - rows->state[1][right];
    if (state > cap) return false;
    for (int peak = peaks->first_peak[rank]; peak < peaks->first_peak[rank + 1]; peak++) {
        const int64_t *held = bal_rank_peak(peaks, peak);
        if (held[0] * activation[0] + held[1] * activation[1] > cap - state) return false;
    }
    return true;
}

/// The most that a rank can take, whichever of its stages does.
static int64_t rank_capacity(const bal_pair_rows *rows, int rank, int64_t load)
{
    const bal_chain *chain = rows->chain;
    // Two runs are rounded apart, by half a unit each.
    const bool rounds = chain->stage_time_factor_ppb != NULL && load < INT64_MAX;
    int64_t most = 0;
    for (int row = 0; row < 2; row++) {
        const int64_t weight = bal_chain_weight_within(chain, bal_pair_stage(rows, rank, row),
                                                       rounds ? load + 1 : load);
        if (weight > most) most = weight;
    }
    return most;
}

void bal_pair_capacity(const bal_pair_rows *rows, int64_t load, int64_t *front, int64_t *behind)
{
    const int64_t total = rows->chain->weight_before[rows->chain->layer_count];
    const int ranks = rows->rank_count;
    front[0] = 0;
    behind[ranks] = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const int64_t most = rank_capacity(rows, rank, load);
        front[rank + 1] = most < total - front[rank] ? front[rank] + most : total;
    }
    for (int rank = ranks - 1; rank >= 0; rank--) {
        const int64_t most = rank_capacity(rows, rank, load);
        behind[rank] = most < total - behind[rank + 1] ? behind[rank + 1] + most : total;
    }
}

void bal_pair_cuts(const bal_pair_rows *rows, const int *left, const int *right, int *first_layer)
{
    const int ranks = rows->rank_count;
    const int layers = rows->chain->layer_count;
    for (int rank = 0; rank <= ranks; rank++) {
        first_layer[rank] = left[rank];
    }
    for (int rank = 1; rank <= ranks; rank++) {
        if (rows->is_v) {
            first_layer[2 * ranks - rank] = layers - right[rank];
        } else {
            first_layer[ranks + rank] = rows->middle + right[rank];
        }
    }
    first_layer[2 * ranks] = layers;
}

enum { UNREACHED = -1 };

/// What is minimised, and among its equals.
typedef struct worth {
    bal_wide value; // UNREACHED: no plan
    bal_wide tie;
} worth;

/// The places after each rank: for every place of the first row a window of the second.
typedef struct pair_table {
    const bal_pair_question *ask;
    const bal_pair_rows *rows;
    int width;       // places of the first row
    int *low;        // [rank_count + 1][width] first place of the window
    int *high;       // [rank_count + 1][width] last; below low: none
    int64_t *offset; // [rank_count + 1][width] where its cells begin
    worth *value;    // [cells] the least of the ranks in front
    int *left;       // [cells] where the last rank's runs begin
    int *right;
    int64_t *away[2]; // [length + 1] moved bytes: of a row, not on the rank at hand
} pair_table;

static size_t at_row(const pair_table *at, int rank, int left)
{
    return (size_t)rank * (size_t)at->width + (size_t)left;
}

static int64_t cell(const pair_table *at, int rank, int left, int right)
{
    const size_t row = at_row(at, rank, left);
    return at->offset[row] + right - at->low[row];
}

/// Layers that the ranks in front of one must have of a row.
static int needed_before(const bal_pair_rows *rows, int rank, int row)
{
    return rows->rest[row][0] - rows->rest[row][rank];
}

/// The window of the second row after `rank` ranks, with the first at left: as many layers in
/// front as these must have and can take, and as many after as the others must and can.
static void find_window(const pair_table *at, int64_t front, int64_t behind, int rank, int left,
                        int *low, int *high)
{
    const bal_pair_rows *rows = at->rows;
    const int ranks = rows->rank_count;
    const int64_t total = rows->chain->weight_before[rows->chain->layer_count];
    const int64_t *first = rows->weight[0];
    const int64_t *second = rows->weight[1];
    *low = needed_before(rows, rank, 1);
    *high = rank == 0 ? 0 : bal_pair_right_limit(rows, rank - 1, left);
    if (left < needed_before(rows, rank, 0)) *high = -1;
    if (rank == 0 && left > 0) *high = -1;
    if (rank == ranks && *low < *high) *low = *high; // all is taken
    const int64_t taken = first[left] - first[0];
    while (*high >= *low && taken + (second[*high] - second[0]) > front) {
        (*high)--;
    }
    while (*low <= *high && total - taken - (second[*low] - second[0]) > behind) {
        (*low)++;
    }
    if (rank == ranks && *low <= *high && !bal_pair_is_end(rows, left, *low)) *high = *low - 1;
}

/// @param cells out: how many there are, at most one more than the limit
static void find_windows(pair_table *at, arena *memory, int64_t *cells)
{
    const bal_pair_rows *rows = at->rows;
    const int ranks = rows->rank_count;
    at->width = rows->length[0] + 1;
    const size_t count = ((size_t)ranks + 1) * (size_t)at->width;
    *cells = BAL_PAIR_CELLS_MAX + 1;
    if (count > BAL_PAIR_CELLS_MAX) return;
    int64_t *front = arena_array(memory, (size_t)ranks + 1, sizeof *front);
    int64_t *behind = arena_array(memory, (size_t)ranks + 1, sizeof *behind);
    at->low = arena_array(memory, count, sizeof *at->low);
    at->high = arena_array(memory, count, sizeof *at->high);
    at->offset = arena_array(memory, count, sizeof *at->offset);
    bal_pair_capacity(rows, at->ask->load_max, front, behind);
    int64_t sum = 0;
    for (int rank = 0; rank <= ranks; rank++) {
        for (int left = 0; left < at->width; left++) {
            const size_t row = at_row(at, rank, left);
            find_window(at, front[rank], behind[rank], rank, left, &at->low[row], &at->high[row]);
            at->offset[row] = sum;
            if (at->high[row] >= at->low[row]) sum += at->high[row] - at->low[row] + 1;
            if (sum > BAL_PAIR_CELLS_MAX) return;
        }
    }
    *cells = sum;
}

/// Bytes in front of each place of a row that are not on the rank at a place of the pipeline.
static void sum_away(pair_table *at, int rank)
{
    const bal_pair_rows *rows = at->rows;
    const int machine_rank = at->ask->place_rank[rank];
    const int layers = rows->chain->layer_count;
    for (int row = 0; row < 2; row++) {
        const int64_t *state = rows->state[row];
        int64_t *away = at->away[row];
        away[0] = 0;
        for (int place = 0; place < rows->length[row]; place++) {
            int layer = place;
            if (row == 1) layer = rows->is_v ? layers - 1 - place : rows->middle + place;
            away[place + 1] = away[place];
            if (at->ask->owner[layer] == machine_rank) continue;
            away[place + 1] += state[place + 1] - state[place];
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
    if (at->ask->value == BAL_PAIR_ANY) return (worth){0};
    const bal_wide first = bal_pair_load(at->rows, rank, 0, left, left_end);
    const bal_wide second = bal_pair_load(at->rows, rank, 1, right, right_end);
    const bal_wide squared = (first + second) * (first + second);
    if (at->ask->value == BAL_PAIR_SQUARES) {
        return (worth){.value = squared, .tie = first * first + second * second};
    }
    const int64_t bytes =
        at->away[0][left_end] - at->away[0][left] + at->away[1][right_end] - at->away[1][right];
    return (worth){.value = bytes, .tie = squared};
}

/// The second runs that a first run leaves room for: begins from right down to where the rank is
/// full.
///
/// @param load_left what is left of load_max
static void try_rights(pair_table *at, int rank, int left, int left_end, int right_end,
                       int64_t load_left, int64_t target)
{
    const bal_pair_rows *rows = at->rows;
    int64_t *step_count = at->ask->step_count;
    const size_t row = at_row(at, rank, left);
    const int64_t *weight = rows->weight[1];
    const int64_t most = bal_pair_weight_within(rows, rank, 1, load_left);
    int right = right_end - bal_pair_need(rows, rank, 1);
    if (right > at->high[row]) right = at->high[row];
    for (; right >= at->low[row]; right--) {
        ++*step_count;
        if (right < right_end && weight[right_end] - weight[right] > most) return;
        if (rows->has_memory && !bal_pair_fits(rows, rank, left, left_end, right, right_end)) {
            return;
        }
        const worth before = at->value[cell(at, rank, left, right)];
        if (before.value == UNREACHED) continue;
        worth sum = share(at, rank, left, left_end, right, right_end);
        sum.value += before.value;
        sum.tie += before.tie;
        if (at->value[target].value != UNREACHED && !is_less(sum, at->value[target])) continue;
        at->value[target] = sum;
        at->left[target] = left;
        at->right[target] = right;
        if (at->ask->value == BAL_PAIR_ANY) return;
    }
}

/// The least of all ways to the places after a rank.
static void fill_cell(pair_table *at, int rank, int left_end, int right_end)
{
    const bal_pair_rows *rows = at->rows;
    const int64_t target = cell(at, rank + 1, left_end, right_end);
    const bool is_any = at->ask->value == BAL_PAIR_ANY;
    at->value[target] = (worth){.value = UNREACHED};
    for (int left = left_end - bal_pair_need(rows, rank, 0); left >= 0; left--) {
        const int64_t load = bal_pair_load(rows, rank, 0, left, left_end);
        if (load > at->ask->load_max) return;
        if (rows->has_memory && !bal_pair_fits(rows, rank, left, left_end, 0, 0)) return;
        ++*at->ask->step_count;
        try_rights(at, rank, left, left_end, right_end, at->ask->load_max - load, target);
        if (is_any && at->value[target].value != UNREACHED) return;
    }
}

/// False if it takes more steps than the limit leaves.
static bool fill(pair_table *at)
{
    const bal_pair_rows *rows = at->rows;
    for (int rank = 0; rank < rows->rank_count; rank++) {
        if (at->ask->value == BAL_PAIR_MOVED_BYTES) sum_away(at, rank);
        for (int left = 0; left < at->width; left++) {
            const size_t row = at_row(at, rank + 1, left);
            for (int right = at->low[row]; right <= at->high[row]; right++) {
                fill_cell(at, rank, left, right);
            }
            if (*at->ask->step_count > BAL_PAIR_STEPS_MAX) return false;
        }
    }
    return true;
}

/// The end of the last rank: the place of the first row where the least value stands, or -1.
static int best_end(const pair_table *at)
{
    const int ranks = at->rows->rank_count;
    int best = UNREACHED;
    worth least = {0};
    for (int left = 0; left < at->width; left++) {
        const size_t row = at_row(at, ranks, left);
        if (at->high[row] < at->low[row]) continue;
        const worth here = at->value[at->offset[row]]; // one place: all is taken
        if (here.value == UNREACHED || (best != UNREACHED && !is_less(here, least))) continue;
        best = left;
        least = here;
    }
    return best;
}

static void read_back(const pair_table *at, int end, arena *memory, int *first_layer)
{
    const int ranks = at->rows->rank_count;
    int *left = arena_array(memory, (size_t)ranks + 1, sizeof *left);
    int *right = arena_array(memory, (size_t)ranks + 1, sizeof *right);
    left[ranks] = end;
    right[ranks] = at->low[at_row(at, ranks, end)];
    for (int rank = ranks; rank > 0; rank--) {
        const int64_t here = cell(at, rank, left[rank], right[rank]);
        left[rank - 1] = at->left[here];
        right[rank - 1] = at->right[here];
    }
    bal_pair_cuts(at->rows, left, right, first_layer);
}

void bal_pair_table_answer(const bal_pair_question *ask, arena *memory, int *first_layer,
                           bal_wide *least, bal_pair_outcome *outcome)
{
    const bal_pair_rows *rows = ask->rows;
    pair_table at = {.ask = ask, .rows = rows};
    int64_t cells = 0;
    *outcome = BAL_PAIR_TOO_MANY;
    find_windows(&at, memory, &cells);
    if (cells > BAL_PAIR_CELLS_MAX) return;
    at.value = arena_array(memory, (size_t)cells + 1, sizeof *at.value);
    at.left = arena_array(memory, (size_t)cells + 1, sizeof *at.left);
    at.right = arena_array(memory, (size_t)cells + 1, sizeof *at.right);
    for (int row = 0; row < 2; row++) {
        at.away[row] = arena_array(memory, (size_t)rows->length[row] + 1, sizeof *at.away[row]);
    }
    at.value[0] = (worth){0}; // in front of rank 0 there is one pair of places
    *outcome = BAL_PAIR_NONE;
    if (at.high[0] < at.low[0]) return;
    *outcome = BAL_PAIR_TOO_MANY;
    if (!fill(&at)) return;
    const int end = best_end(&at);
    *outcome = end == UNREACHED ? BAL_PAIR_NONE : BAL_PAIR_FOUND;
    if (end == UNREACHED) return;
    if (least != NULL) *least = at.value[at.offset[at_row(&at, rows->rank_count, end)]].value;
    read_back(&at, end, memory, first_layer);
}
