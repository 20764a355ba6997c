#include "analysis/diagnosis/diagnosis.h"

#include "balance/costs/layer_costs.h"

#include <math.h>

/// Sums over the microbatches of all iterations.
typedef struct moments {
    double forward, backward, product; // squares, and the product, of deviations
    double total;                      // squares of deviations over the mean
    double largest;                    // over the mean, summed over the iterations
    int64_t count;
} moments;

/// What one microbatch took.
typedef struct microbatch {
    double forward;  // on the first half of the layers
    double backward; // on the other half
    double total;
} microbatch;

static microbatch microbatch_of(const bal_layer_costs *costs, int column)
{
    const int half = costs->layer_count / 2;
    microbatch made = {0};
    for (int layer = 0; layer < costs->layer_count; layer++) {
        const int64_t cell = (int64_t)layer * costs->microbatch_count + column;
        const double forward = (double)costs->forward_ns[cell];
        const double backward =
            (double)costs->backward_input_ns[cell] + (double)costs->backward_weight_ns[cell];
        if (layer < half || half == 0) made.forward += forward;
        if (layer >= half) made.backward += backward;
        made.total += forward + backward;
    }
    return made;
}

static void add_iteration(const bal_layer_costs *costs, moments *sums)
{
    const int count = costs->microbatch_count;
    microbatch mean = {0};
    double largest = 0;
    for (int column = 0; column < count; column++) {
        const microbatch each = microbatch_of(costs, column);
        mean.forward += each.forward / count;
        mean.backward += each.backward / count;
        mean.total += each.total / count;
        largest = fmax(largest, each.total);
    }
    if (mean.total <= 0) return;
    for (int column = 0; column < count; column++) {
        const microbatch each = microbatch_of(costs, column);
        const double forward = each.forward - mean.forward;
        const double backward = each.backward - mean.backward;
        sums->forward += forward * forward;
        sums->backward += backward * backward;
        sums->product += forward * backward;
        sums->total += pow(each.total / mean.total - 1, 2);
    }
    sums->largest += largest / mean.total * count;
    sums->count += count;
}

ana_data_imbalance ana_data_imbalance_of(const ana_series *series)
{
    moments sums = {0};
    for (int index = 0; index < series->count; index++) {
        if (series->costs[index].microbatch_count > 1) add_iteration(&series->costs[index], &sums);
    }
    if (sums.forward <= 0 || sums.backward <= 0) return (ana_data_imbalance){.is_known = false};
    return (ana_data_imbalance){.is_known = true,
                                .correlation = sums.product / sqrt(sums.forward * sums.backward),
                                .scatter_ratio = sqrt(sums.total / (double)sums.count),
                                .largest_over_mean = sums.largest / (double)sums.count};
}

status ana_alike_take(const ana_setup *setup, const ana_series *series, const int *first_layer,
                      arena *memory, int64_t *taken_ns, error_message *err)
{
    ana_series alike = *series;
    alike.costs = arena_array(memory, (size_t)series->count, sizeof *alike.costs);
    for (int index = 0; index < series->count; index++) {
        bal_layer_times means;
        bal_layer_times_init(&means, series->layer_count, memory);
        TRY(bal_layer_times_fill(&means, &series->costs[index], err));
        alike.costs[index] = bal_layer_times_costs(&means, &series->costs[index]);
    }
    return ana_plan_takes(setup, &alike, first_layer, memory, taken_ns, err);
}
