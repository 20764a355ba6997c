#include "analysis/diagnosis/diagnosis.h"
#include "balance/costs/layer_costs.h"

#include <gsl/gsl_statistics_double.h>
#include <gsl/gsl_statistics_int.h>
#include <math.h>
#include <stdlib.h>

enum { SHOWN_LAYERS = 6, DIGITS = 9 };

/// Sums over the iterations.
typedef struct expert_sums {
    int layer_count, expert_count, rank_count;
    double *share;       // [layer_count][expert_count] of the layer's tokens
    double *over_mean;   // [layer_count] busiest rank over the mean
    int *busiest_counts; // [layer_count][rank_count] iterations in which the rank was it
    int *count;          // [layer_count] iterations with tokens
} expert_sums;

static void add_layer(const int64_t *tokens, int layer, expert_sums *of)
{
    const int each = of->expert_count / of->rank_count;
    int64_t all = 0;
    int64_t most = -1;
    int busiest = 0;
    for (int rank = 0; rank < of->rank_count; rank++) {
        int64_t own = 0;
        for (int expert = rank * each; expert < (rank + 1) * each; expert++) {
            own += tokens[expert];
        }
        if (own > most) busiest = rank;
        if (own > most) most = own;
        all += own;
    }
    if (all == 0) return;
    for (int expert = 0; expert < of->expert_count; expert++) {
        of->share[(size_t)layer * (size_t)of->expert_count + (size_t)expert] +=
            (double)tokens[expert] / (double)all;
    }
    of->over_mean[layer] += (double)most * of->rank_count / (double)all;
    of->busiest_counts[(size_t)layer * (size_t)of->rank_count + (size_t)busiest]++;
    of->count[layer]++;
}

/// The experts of a layer with most tokens, each above the mean.
static void find_hot(const expert_sums *of, int layer, ana_expert_layer *made)
{
    double *share = of->share + (size_t)layer * (size_t)of->expert_count;
    for (; made->hot_count < ANA_HOT_EXPERTS; made->hot_count++) {
        const int hottest = (int)gsl_stats_max_index(share, 1, (size_t)of->expert_count);
        const double times = share[hottest] / of->count[layer] * of->expert_count;
        if (times <= 1) return;
        made->hot[made->hot_count] = hottest;
        made->times[made->hot_count] = times;
        share[hottest] = 0;
    }
}

static int slowest_first(const void *left, const void *right)
{
    const ana_expert_layer *a = left;
    const ana_expert_layer *b = right;
    if (a->max_over_mean != b->max_over_mean) return a->max_over_mean < b->max_over_mean ? 1 : -1;
    return a->layer - b->layer;
}

static void finish(const expert_sums *of, arena *memory, ana_expert_imbalance *made)
{
    ana_expert_layer *layers = arena_array(memory, (size_t)of->layer_count, sizeof *layers);
    for (int layer = 0; layer < of->layer_count; layer++) {
        if (of->count[layer] == 0) continue;
        ana_expert_layer *each = &layers[made->layer_count++];
        each->layer = layer;
        each->max_over_mean = of->over_mean[layer] / of->count[layer];
        each->busiest_rank = (int)gsl_stats_int_max_index(
            of->busiest_counts + (size_t)layer * (size_t)of->rank_count, 1, (size_t)of->rank_count);
        find_hot(of, layer, each);
        made->max_over_mean += each->max_over_mean;
    }
    if (made->layer_count > 0) made->max_over_mean /= made->layer_count;
    qsort(layers, (size_t)made->layer_count, sizeof *layers, slowest_first);
    made->layers = layers;
    made->expert_count = of->expert_count;
    made->rank_count = of->rank_count;
}

status ana_expert_imbalance_of(model_dynamism *dynamism, const ana_series *series, int rank_count,
                               arena *memory, ana_expert_imbalance *made, error_message *err)
{
    expert_sums of = {.rank_count = rank_count};
    *made = (ana_expert_imbalance){.expert_count = 0};
    for (int index = 0; dynamism != NULL && index < series->count; index++) {
        model_expert_tokens tokens;
        TRY(model_dynamism_expert_tokens(dynamism, series->iteration[index], 0, &tokens, err));
        if (tokens.expert_count == 0 || tokens.expert_count % rank_count != 0) return STATUS_OK;
        if (of.share == NULL) {
            const size_t layers = (size_t)tokens.layer_count;
            of.layer_count = tokens.layer_count;
            of.expert_count = tokens.expert_count;
            of.share = arena_array(memory, layers * (size_t)of.expert_count, sizeof *of.share);
            of.over_mean = arena_array(memory, layers, sizeof *of.over_mean);
            of.count = arena_array(memory, layers, sizeof *of.count);
            of.busiest_counts =
                arena_array(memory, layers * (size_t)rank_count, sizeof *of.busiest_counts);
        }
        for (int layer = 0; layer < of.layer_count; layer++) {
            add_layer(tokens.tokens + (size_t)layer * (size_t)of.expert_count, layer, &of);
        }
    }
    if (of.share != NULL) finish(&of, memory, made);
    return STATUS_OK;
}

void ana_expert_imbalance_print(const ana_expert_imbalance *of, text_buffer *out)
{
    if (of->layer_count == 0) return;
    text_format(
        out,
        "\nExperts: %d of a layer on %d ranks, tokens of an iteration; layer 0 is the embedding\n"
        "  the busiest rank has %.2f times the mean, over %d layers; the worst:\n",
        of->expert_count, of->rank_count, of->max_over_mean, of->layer_count);
    for (int index = 0; index < of->layer_count && index < SHOWN_LAYERS; index++) {
        const ana_expert_layer *each = &of->layers[index];
        text_format(out, "  layer %d: rank %d of %d has %.2f times the mean;", each->layer,
                    each->busiest_rank, of->rank_count, each->max_over_mean);
        for (int hot = 0; hot < each->hot_count; hot++) {
            text_format(out, "%s %d (%.2f times)", hot == 0 ? " hot experts" : ",", each->hot[hot],
                        each->times[hot]);
        }
        text_append(out, "\n");
    }
}

void ana_expert_imbalance_write(const ana_expert_imbalance *of, json_writer *writer)
{
    if (of->layer_count == 0) return;
    json_put_object(writer, "experts");
    json_put_int64(writer, "experts_of_a_layer", of->expert_count);
    json_put_int64(writer, "ranks", of->rank_count);
    json_put_rounded(writer, "max_over_mean", of->max_over_mean, DIGITS);
    json_put_array(writer, "layers");
    for (int index = 0; index < of->layer_count; index++) {
        const ana_expert_layer *each = &of->layers[index];
        json_begin_object(writer);
        json_put_int64(writer, "layer", each->layer);
        json_put_int64(writer, "busiest_rank", each->busiest_rank);
        json_put_rounded(writer, "max_over_mean", each->max_over_mean, DIGITS);
        json_put_int_array(writer, "hot_experts", each->hot, each->hot_count);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

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
