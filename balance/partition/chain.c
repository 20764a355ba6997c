#include "balance/partition/chain.h"

#include <assert.h>
#include <inttypes.h>

enum { PPB = 1000000000 };

/// Prefix sums of bytes; zeros where values is NULL.
static status sum_bytes(const int64_t *values, int count, const char *what, int64_t *before,
                        error_message *err)
{
    for (int layer = 0; layer < count; layer++) {
        const int64_t value = values != NULL ? values[layer] : 0;
        if (value < 0) {
            return error_set(err, STATUS_INVALID, "%s of layer %d is negative: %" PRId64, what,
                             layer, value);
        }
        if (value > INT64_MAX - before[layer]) {
            return error_set(err, STATUS_INVALID, "%s: the sum up to layer %d does not fit 64 bits",
                             what, layer);
        }
        before[layer + 1] = before[layer] + value;
    }
    return STATUS_OK;
}

/// F + B + W of one layer, the mean over its microbatches, rounded half up.
static status layer_time(const bal_layer_costs *layers, int layer, int64_t *time_ns,
                         error_message *err)
{
    const int columns = layers->microbatch_count;
    bal_wide sum = 0;
    for (int part = 0; part < BAL_COST_TIMES_COUNT; part++) {
        if (layers->arrays[part] == NULL) continue;
        for (int column = 0; column < columns; column++) {
            const int64_t ns = layers->arrays[part][(int64_t)layer * columns + column];
            if (ns < 0) {
                return error_set(err, STATUS_INVALID, "%s of layer %d is negative: %" PRId64,
                                 bal_cost_names[part], layer, ns);
            }
            sum += ns;
        }
    }
    const bal_wide mean = (sum + columns / 2) / columns;
    if (mean > INT64_MAX) {
        return error_set(err, STATUS_INVALID, "the time of layer %d does not fit 64 bits", layer);
    }
    *time_ns = (int64_t)mean;
    return STATUS_OK;
}

static status sum_weights(const bal_problem *problem, int64_t *before, error_message *err)
{
    const bal_layer_costs *layers = &problem->layers;
    if (problem->weight == BAL_WEIGHT_PARAMETERS) {
        if (layers->parameters == NULL) {
            return error_set(err, STATUS_INVALID, "weighing by parameters needs parameters");
        }
        return sum_bytes(layers->parameters, layers->layer_count, "parameters", before, err);
    }
    if (problem->weight == BAL_WEIGHT_LAYERS) {
        for (int layer = 0; layer < layers->layer_count; layer++) {
            const bool is_pinned = (layer == 0 && layers->embedding) ||
                                   (layer == layers->layer_count - 1 && layers->head);
            before[layer + 1] = before[layer] + (is_pinned ? 0 : 1);
        }
        return STATUS_OK;
    }
    for (int layer = 0; layer < layers->layer_count; layer++) {
        int64_t time_ns = 0;
        TRY(layer_time(layers, layer, &time_ns, err));
        if (time_ns > INT64_MAX - before[layer]) {
            return error_set(err, STATUS_INVALID,
                             "time: the sum up to layer %d does not fit 64 bits", layer);
        }
        before[layer + 1] = before[layer] + time_ns;
    }
    return STATUS_OK;
}

static int chunk_count_of(const bal_problem *problem)
{
    return problem->chunk_count > 0 ? problem->chunk_count : 1;
}

/// What whoever makes a problem has seen to.
static void assert_shape(const bal_problem *problem)
{
    const int chunks = chunk_count_of(problem);
    const bal_rank_peaks *peaks = problem->rank_peaks;
    assert(problem->stage_count >= 1 && problem->stage_count <= BAL_LAYERS_MAX);
    assert(problem->stage_count % chunks == 0 && problem->layers.microbatch_count >= 1);
    assert(peaks == NULL ||
           (peaks->rank_count == problem->stage_count / chunks && peaks->chunk_count == chunks));
}

static status check_counts(const bal_problem *problem, error_message *err)
{
    const int layer_count = problem->layers.layer_count;
    TRY(check_int_range("layer_count", layer_count, 0, BAL_LAYERS_MAX, err));
    if (!problem->allow_empty_stages && problem->stage_count > layer_count) {
        return error_set(err, STATUS_INVALID,
                         "stage_count %d exceeds layer_count %d and empty stages are not allowed",
                         problem->stage_count, layer_count);
    }
    const int pinned = (problem->layers.embedding ? 1 : 0) + (problem->layers.head ? 1 : 0);
    if (pinned > layer_count) {
        return error_set(err, STATUS_INVALID,
                         "layer_count %d is below the %d of embedding and head", layer_count,
                         pinned);
    }
    if (problem->placement != BAL_PLACEMENT_V || chunk_count_of(problem) <= 2) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "the placement v has 2 chunks per rank, not %d",
                     chunk_count_of(problem));
}

static status check_current(const bal_problem *problem, error_message *err)
{
    const int *first = problem->current_first_layer;
    if (first == NULL) return STATUS_OK;
    const int stages =
        problem->current_stage_count > 0 ? problem->current_stage_count : problem->stage_count;
    const int layer_count = problem->layers.layer_count;
    if (stages % chunk_count_of(problem) != 0) {
        return error_set(err, STATUS_INVALID,
                         "current_first_layer has %d stages, no multiple of %d chunks", stages,
                         chunk_count_of(problem));
    }
    for (int stage = 0; stage < stages; stage++) {
        if (first[stage] > first[stage + 1]) {
            return error_set(err, STATUS_INVALID,
                             "current_first_layer falls from %d to %d after stage %d", first[stage],
                             first[stage + 1], stage);
        }
    }
    if (first[0] != 0 || first[stages] != layer_count) {
        return error_set(err, STATUS_INVALID,
                         "current_first_layer runs from %d to %d instead of 0 to layer_count %d",
                         first[0], first[stages], layer_count);
    }
    return STATUS_OK;
}

status bal_chain_bound_load_sum(bal_chain *chain, error_message *err)
{
    const int64_t total = chain->weight_before[chain->layer_count];
    int64_t factor_ppb = PPB;
    bal_wide sum = 0;
    for (int stage = 0; stage < chain->stage_count; stage++) {
        if (chain->stage_time_factor_ppb != NULL) {
            const int64_t factor = chain->stage_time_factor_ppb[stage];
            if (stage == 0 || factor > factor_ppb) factor_ppb = factor;
        }
        if (chain->stage_fixed_ns != NULL) sum += chain->stage_fixed_ns[stage];
    }
    for (int layer = 0; chain->transfer_ns != NULL && layer < chain->layer_count; layer++) {
        sum += (bal_wide)chain->transfer_ns[layer] * 2;
    }
    const bal_wide product = (bal_wide)total * factor_ppb;
    sum += factor_ppb == PPB ? (bal_wide)total : product / PPB + chain->stage_count;
    if (sum >= INT64_MAX) {
        return error_set(err, STATUS_INVALID,
                         "the loads of all layers (%" PRId64 " at a factor of up to %g, fixed "
                         "times and transfers) do not fit 64 bits",
                         total, (double)factor_ppb / PPB);
    }
    chain->load_sum_max = (int64_t)sum;
    return STATUS_OK;
}

static status check_memory_sums(const bal_chain *chain, error_message *err)
{
    const int64_t state = chain->state_before[chain->layer_count];
    const int64_t activation = chain->activation_before[chain->layer_count];
    for (int stage = 0; stage < chain->stage_count; stage++) {
        const int64_t inflight = chain->stage_inflight != NULL ? chain->stage_inflight[stage] : 1;
        if ((bal_wide)inflight * activation + state > INT64_MAX) {
            return error_set(err, STATUS_INVALID,
                             "memory of stage %d with stage_inflight %" PRId64
                             " does not fit 64 bits",
                             stage, inflight);
        }
    }
    const bal_rank_peaks *peaks = chain->rank_peaks;
    for (int peak = 0; peaks != NULL && peak < peaks->first_peak[peaks->rank_count]; peak++) {
        int64_t held = 0;
        for (int chunk = 0; chunk < peaks->chunk_count; chunk++) {
            held += bal_rank_peak(peaks, peak)[chunk];
        }
        if ((bal_wide)held * activation + state <= INT64_MAX) continue;
        return error_set(err, STATUS_INVALID,
                         "memory of a rank that holds %" PRId64 " activations does not fit 64 bits",
                         held);
    }
    return STATUS_OK;
}

status bal_chain_of(const bal_problem *problem, arena *memory, bal_chain *chain, error_message *err)
{
    assert_shape(problem);
    TRY(check_counts(problem, err));
    TRY(check_current(problem, err));
    const bal_layer_costs *layers = &problem->layers;
    const bool by_time =
        problem->weight != BAL_WEIGHT_PARAMETERS && problem->weight != BAL_WEIGHT_LAYERS;
    const bool by_transfer = problem->weight == BAL_WEIGHT_TIME_TRANSFER;
    if (by_transfer && problem->transfer_ns == NULL) {
        return error_set(err, STATUS_INVALID, "weighing by time+transfer needs transfer_ns");
    }
    const size_t entries = (size_t)layers->layer_count + 1;
    int64_t *weight = arena_array(memory, entries, sizeof *weight);
    int64_t *state = arena_array(memory, entries, sizeof *state);
    int64_t *activation = arena_array(memory, entries, sizeof *activation);
    TRY(sum_weights(problem, weight, err));
    TRY(sum_bytes(layers->state_bytes, layers->layer_count, "state_bytes", state, err));
    TRY(sum_bytes(layers->activation_bytes, layers->layer_count, "activation_bytes", activation,
                  err));
    bal_chain made = {
        .layer_count = layers->layer_count,
        .stage_count = problem->stage_count,
        .chunk_count = chunk_count_of(problem),
        .placement = problem->placement,
        .allow_empty_stages = problem->allow_empty_stages,
        .embedding = layers->embedding,
        .head = layers->head,
        .weight_before = weight,
        .state_before = state,
        .activation_before = activation,
        .transfer_ns = by_transfer ? problem->transfer_ns : NULL,
        .stage_memory_bytes = problem->stage_memory_bytes,
        .stage_inflight = problem->stage_inflight,
        .rank_memory_bytes = problem->rank_memory_bytes,
        .rank_peaks = problem->rank_peaks,
        .stage_time_factor_ppb = by_time ? problem->stage_time_factor_ppb : NULL,
        .stage_fixed_ns = by_time ? problem->stage_fixed_ns : NULL,
    };
    TRY(check_memory_sums(&made, err));
    TRY(bal_chain_bound_load_sum(&made, err));
    *chain = made;
    return STATUS_OK;
}

int64_t bal_chain_load_of_weight(const bal_chain *chain, int stage, int64_t weight)
{
    int64_t load = weight;
    if (chain->stage_time_factor_ppb != NULL) {
        const bal_wide product = (bal_wide)weight * chain->stage_time_factor_ppb[stage];
        load = (int64_t)((product + PPB / 2) / PPB);
    }
    return chain->stage_fixed_ns != NULL ? load + chain->stage_fixed_ns[stage] : load;
}

int64_t bal_chain_own_load(const bal_chain *chain, int stage, int begin, int end)
{
    if (begin == end) return 0;
    const int64_t weight = chain->weight_before[end] - chain->weight_before[begin];
    return bal_chain_load_of_weight(chain, stage, weight);
}

int64_t bal_chain_load(const bal_chain *chain, int stage, int begin, int end)
{
    if (begin == end) return 0;
    int64_t load = bal_chain_own_load(chain, stage, begin, end);
    if (chain->transfer_ns == NULL) return load;
    if (begin > 0) load += chain->transfer_ns[begin - 1];
    if (end < chain->layer_count) load += chain->transfer_ns[end - 1];
    return load;
}

int64_t bal_chain_memory_bytes(const bal_chain *chain, int stage, int begin, int end)
{
    const int64_t inflight = chain->stage_inflight != NULL ? chain->stage_inflight[stage] : 1;
    return chain->state_before[end] - chain->state_before[begin] +
           inflight * (chain->activation_before[end] - chain->activation_before[begin]);
}

bool bal_chain_fits(const bal_chain *chain, int stage, int begin, int end)
{
    if (chain->stage_memory_bytes == NULL || begin == end) return true;
    return bal_chain_memory_bytes(chain, stage, begin, end) <= chain->stage_memory_bytes[stage];
}

bool bal_chain_may_be_empty(const bal_chain *chain, int stage)
{
    if (!chain->allow_empty_stages) return false;
    if (stage == 0 && chain->embedding) return false;
    return stage != chain->stage_count - 1 || !chain->head;
}

int64_t bal_chain_weight_within(const bal_chain *chain, int stage, int64_t load)
{
    if (chain->stage_fixed_ns != NULL) load -= chain->stage_fixed_ns[stage];
    if (load < 0) return -1;
    if (chain->stage_time_factor_ppb == NULL) return load;
    // Rounded half up, w * factor / 10^9 <= load  <=>  w * factor + 10^9 / 2 < (load + 1) * 10^9.
    const bal_wide product = ((bal_wide)load + 1) * PPB - 1 - PPB / 2;
    const bal_wide weight = product / chain->stage_time_factor_ppb[stage];
    return weight > INT64_MAX ? INT64_MAX : (int64_t)weight;
}

void bal_chain_loads(const bal_chain *chain, const int *first_layer, int64_t *stage_load)
{
    for (int stage = 0; stage < chain->stage_count; stage++) {
        stage_load[stage] =
            bal_chain_load(chain, stage, first_layer[stage], first_layer[stage + 1]);
    }
}

int bal_chain_rank_count(const bal_chain *chain)
{
    return chain->stage_count / chain->chunk_count;
}

int bal_chain_stage_of(const bal_chain *chain, int rank, int chunk)
{
    return bal_stage_of(chain->placement, bal_chain_rank_count(chain), chain->chunk_count, rank,
                        chunk);
}

int64_t bal_chain_rank_load(const bal_chain *chain, const int *first_layer, int rank)
{
    int64_t load = 0;
    for (int chunk = 0; chunk < chain->chunk_count; chunk++) {
        const int stage = bal_chain_stage_of(chain, rank, chunk);
        load += bal_chain_load(chain, stage, first_layer[stage], first_layer[stage + 1]);
    }
    return load;
}

int64_t bal_chain_largest_load(const bal_chain *chain, const int *first_layer)
{
    int64_t largest = 0;
    for (int rank = 0; rank < bal_chain_rank_count(chain); rank++) {
        const int64_t load = bal_chain_rank_load(chain, first_layer, rank);
        if (load > largest) largest = load;
    }
    return largest;
}

const int64_t *bal_chain_turned(const int64_t *before, int count, arena *memory)
{
    int64_t *sums = arena_array(memory, (size_t)count + 1, sizeof *sums);
    for (int place = 0; place <= count; place++) {
        sums[place] = before[count] - before[count - place];
    }
    return sums;
}

int64_t bal_chain_rank_memory_bytes(const bal_chain *chain, int rank, const int *first_layer)
{
    const bal_rank_peaks *peaks = chain->rank_peaks;
    int64_t state = 0;
    int64_t separate = 0; // without peaks: every chunk at its own
    for (int chunk = 0; chunk < chain->chunk_count; chunk++) {
        const int stage = bal_chain_stage_of(chain, rank, chunk);
        const int begin = first_layer[stage];
        const int end = first_layer[stage + 1];
        state += chain->state_before[end] - chain->state_before[begin];
        separate += bal_chain_memory_bytes(chain, stage, begin, end);
    }
    if (peaks == NULL) return separate;
    int64_t most = 0;
    for (int peak = peaks->first_peak[rank]; peak < peaks->first_peak[rank + 1]; peak++) {
        const int64_t *held = bal_rank_peak(peaks, peak);
        int64_t bytes = 0;
        for (int chunk = 0; chunk < chain->chunk_count; chunk++) {
            const int stage = bal_chain_stage_of(chain, rank, chunk);
            bytes += held[chunk] * (chain->activation_before[first_layer[stage + 1]] -
                                    chain->activation_before[first_layer[stage]]);
        }
        if (bytes > most) most = bytes;
    }
    return state + most;
}

static status check_rank_memory(const bal_chain *chain, const int *first_layer, error_message *err)
{
    if (chain->rank_memory_bytes == NULL) return STATUS_OK;
    for (int rank = 0; rank < bal_chain_rank_count(chain); rank++) {
        const int64_t bytes = bal_chain_rank_memory_bytes(chain, rank, first_layer);
        if (bytes <= chain->rank_memory_bytes[rank]) continue;
        return error_set(err, STATUS_INFEASIBLE,
                         "rank %d with %d chunks needs %" PRId64 " bytes, its cap is %" PRId64,
                         rank, chain->chunk_count, bytes, chain->rank_memory_bytes[rank]);
    }
    return STATUS_OK;
}

status bal_chain_check(const bal_chain *chain, const int *first_layer, error_message *err)
{
    const int stages = chain->stage_count;
    if (first_layer[0] != 0 || first_layer[stages] != chain->layer_count) {
        return error_set(err, STATUS_INFEASIBLE, "the plan runs from layer %d to %d, not 0 to %d",
                         first_layer[0], first_layer[stages], chain->layer_count);
    }
    for (int stage = 0; stage < stages; stage++) {
        const int begin = first_layer[stage];
        const int end = first_layer[stage + 1];
        if (begin > end) {
            return error_set(err, STATUS_INFEASIBLE, "stage %d ends before it begins: [%d, %d)",
                             stage, begin, end);
        }
        if (begin == end && !bal_chain_may_be_empty(chain, stage)) {
            const char *rule = !chain->allow_empty_stages ? "empty stages are not allowed"
                               : stage == 0               ? "it must own the embedding"
                                                          : "it must own the head";
            return error_set(err, STATUS_INFEASIBLE, "stage %d is left empty: %s", stage, rule);
        }
        if (!bal_chain_fits(chain, stage, begin, end)) {
            return error_set(err, STATUS_INFEASIBLE,
                             "stage %d with layers [%d, %d) needs %" PRId64
                             " bytes, its cap is %" PRId64,
                             stage, begin, end, bal_chain_memory_bytes(chain, stage, begin, end),
                             chain->stage_memory_bytes[stage]);
        }
    }
    return check_rank_memory(chain, first_layer, err);
}

/// Whether the ranks could take all weights within load, were layers divisible.
static bool takes_total(const bal_chain *chain, int64_t load)
{
    // The runs of a rank's chunks are rounded apart, by half a unit each.
    const int chunks = chain->chunk_count;
    const bool rounds = chunks > 1 && chain->stage_time_factor_ppb != NULL;
    const int64_t within = rounds && load < INT64_MAX - chunks ? load + chunks : load;
    bal_wide taken = 0;
    for (int rank = 0; rank < bal_chain_rank_count(chain); rank++) {
        int64_t most = 0;
        for (int chunk = 0; chunk < chunks; chunk++) {
            const int stage = bal_chain_stage_of(chain, rank, chunk);
            const int64_t weight = bal_chain_weight_within(chain, stage, within);
            if (weight > most) most = weight;
        }
        taken += most;
    }
    return taken >= chain->weight_before[chain->layer_count];
}

/// The load of a layer alone on the rank where that is least.
static int64_t layer_load_min(const bal_chain *chain, int layer)
{
    int64_t least = INT64_MAX;
    for (int stage = 0; stage < chain->stage_count; stage++) {
        const int64_t load = bal_chain_own_load(chain, stage, layer, layer + 1);
        if (load < least) least = load;
    }
    return least;
}

int64_t bal_assignment_lower_bound(const bal_chain *chain)
{
    int64_t bound = 0;
    for (int layer = 0; layer < chain->layer_count; layer++) {
        const int64_t load = layer_load_min(chain, layer);
        if (load > bound) bound = load;
    }
    int64_t high = chain->load_sum_max;
    while (bound < high) {
        const int64_t middle = bound + (high - bound) / 2;
        if (takes_total(chain, middle)) {
            high = middle;
        } else {
            bound = middle + 1;
        }
    }
    return bound;
}
