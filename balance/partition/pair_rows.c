#include "balance/partition/pair_rows.h"

#include <assert.h>

static status no_memory(const bal_chain *chain, error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory for %d stages of %d layers",
                     chain->stage_count, chain->layer_count);
}

/// Sums from the end of the chain.
static const int64_t *turned(const int64_t *before, int count, arena *memory)
{
    int64_t *sums = arena_array(memory, (size_t)count + 1, sizeof *sums);
    for (int place = 0; sums != NULL && place <= count; place++) {
        sums[place] = before[count] - before[count - place];
    }
    return sums;
}

static status turn(const bal_chain *chain, arena *memory, bal_pair_rows *rows, error_message *err)
{
    const int layers = chain->layer_count;
    rows->length[0] = rows->length[1] = layers;
    rows->weight[1] = turned(chain->weight_before, layers, memory);
    rows->state[1] = turned(chain->state_before, layers, memory);
    rows->activation[1] = turned(chain->activation_before, layers, memory);
    const bool has_all =
        rows->weight[1] != NULL && rows->state[1] != NULL && rows->activation[1] != NULL;
    return has_all ? STATUS_OK : no_memory(chain, err);
}

status bal_pair_rows_init(const bal_chain *chain, arena *memory, bal_pair_rows *rows,
                          error_message *err)
{
    assert(chain->chunk_count == 2 && chain->transfer_ns == NULL);
    bal_pair_rows made = {
        .chain = chain,
        .is_v = chain->placement == BAL_PLACEMENT_V,
        .rank_count = chain->stage_count / 2,
        .weight = {chain->weight_before},
        .state = {chain->state_before},
        .activation = {chain->activation_before},
        .has_memory = chain->stage_memory_bytes != NULL || chain->rank_memory_bytes != NULL,
        .is_plain = chain->stage_time_factor_ppb == NULL && chain->stage_fixed_ns == NULL};
    for (int row = 0; row < 2; row++) {
        made.rest[row] = arena_array(memory, (size_t)made.rank_count + 1, sizeof *made.rest[row]);
        for (int rank = made.rank_count - 1; rank >= 0; rank--) {
            const int stage = bal_pair_stage(&made, rank, row);
            const int need = bal_chain_may_be_empty(chain, stage) ? 0 : 1;
            made.rest[row][rank] = made.rest[row][rank + 1] + need;
        }
    }
    if (made.is_v) TRY(turn(chain, memory, &made, err));
    if (!made.is_v) bal_pair_rows_split(&made, 0);
    *rows = made;
    return STATUS_OK;
}

void bal_pair_rows_split(bal_pair_rows *rows, int middle)
{
    assert(!rows->is_v);
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
