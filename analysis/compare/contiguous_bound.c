#include "analysis/compare/compare.h"

/// Prefix sums over the layers: [layer_count + 1].
typedef struct prefixes {
    int64_t *first_forward;  // shortest F of a microbatch
    int64_t *first_backward; // shortest B
    int64_t *chain;          // F and B of all microbatches
    int64_t *work;           // F, B and W of all microbatches
} prefixes;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static status sum_layer(const bal_layer_costs *costs, int layer, int microbatch_count,
                        prefixes *sums, error_message *err)
{
    const int64_t *forward = costs->forward_ns + (size_t)layer * (size_t)costs->microbatch_count;
    const int64_t *input =
        costs->backward_input_ns + (size_t)layer * (size_t)costs->microbatch_count;
    const int64_t *weight =
        costs->backward_weight_ns + (size_t)layer * (size_t)costs->microbatch_count;
    int64_t shortest_forward = INT64_MAX;
    int64_t shortest_input = INT64_MAX;
    int64_t chain = sums->chain[layer];
    int64_t work = sums->work[layer];
    const int64_t longest = larger(larger(forward[0], input[0]), weight[0]);
    int begin = 0;
    if (costs->microbatch_count == 1 && longest <= (INT64_MAX / 4 - work) / 3 / microbatch_count) {
        shortest_forward = forward[0];
        shortest_input = input[0];
        chain += (forward[0] + input[0]) * microbatch_count;
        work += (forward[0] + input[0] + weight[0]) * microbatch_count;
        begin = microbatch_count; // all are done
    }
    for (int microbatch = begin; microbatch < microbatch_count; microbatch++) {
        const int column = microbatch % costs->microbatch_count;
        const int64_t limit = (INT64_MAX / 4 - work) / 3;
        if (forward[column] > limit || input[column] > limit || weight[column] > limit) {
            return error_set(err, STATUS_INVALID, "the work of an iteration does not fit 64 bits");
        }
        shortest_forward = smaller(shortest_forward, forward[column]);
        shortest_input = smaller(shortest_input, input[column]);
        chain += forward[column] + input[column];
        work += forward[column] + input[column] + weight[column];
    }
    sums->first_forward[layer + 1] = sums->first_forward[layer] + shortest_forward;
    sums->first_backward[layer + 1] = sums->first_backward[layer] + shortest_input;
    sums->chain[layer + 1] = chain;
    sums->work[layer + 1] = work;
    return STATUS_OK;
}

/// Of a stage that owns layers [begin, end), not empty.
static int64_t stage_bound(const prefixes *sums, int begin, int end)
{
    const int64_t reached = sums->first_forward[begin];
    return larger(reached + sums->work[end] - sums->work[begin],
                  reached + sums->chain[end] - sums->chain[begin] + sums->first_backward[begin]);
}

status ana_bound_contiguous(const bal_layer_costs *costs, int rank_count, int microbatch_count,
                            arena *memory, ana_contiguous_bound *bound, error_message *err)
{
    const int layers = costs->layer_count;
    const size_t entries = (size_t)layers + 1;
    int64_t *all = arena_array(memory, 5 * entries, sizeof *all);
    int64_t *best = all + 4 * entries;
    prefixes sums = {all, all + entries, all + 2 * entries, all + 3 * entries};
    for (int layer = 0; layer < layers; layer++) {
        TRY(sum_layer(costs, layer, microbatch_count, &sums, err));
        best[layer + 1] = INT64_MAX; // no rank can hold a layer yet
    }
    // best[end]: of the first layers [0, end) on the ranks so far. Ends descend, so that what
    // stands in front is still that of one rank less; best[end] itself stays where the rank is
    // empty.
    for (int rank = 0; rank < rank_count; rank++) {
        for (int end = layers; end > 0; end--) {
            for (int begin = end - 1; begin >= 0; begin--) {
                const int64_t last = stage_bound(&sums, begin, end);
                if (sums.work[end] - sums.work[begin] >= best[end]) break;
                best[end] = smaller(best[end], larger(best[begin], last));
            }
        }
    }
    *bound = (ana_contiguous_bound){.makespan_ns = best[layers], .work_ns = sums.work[layers]};
    for (int layer = 0; layer < layers; layer++) {
        bound->longest_ns = larger(bound->longest_ns, sums.work[layer + 1] - sums.work[layer]);
    }
    return STATUS_OK;
}

int64_t ana_reduction_share_ns(const bal_layer_costs *costs, int rank_count)
{
    int64_t sum = 0;
    for (int layer = 0; costs->reduction_ns != NULL && layer < costs->layer_count; layer++) {
        if (costs->reduction_ns[layer] > INT64_MAX / 4 - sum) return 0;
        sum += costs->reduction_ns[layer];
    }
    return sum / rank_count;
}
