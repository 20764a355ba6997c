/// What a sequence of n tokens costs, fitted to the microbatches of a trace whose sequences are
/// known: a n + b n^2 in blocks, a n in embedding and head, which do not attend.
#include "analysis/study/setup.h"
#include "models/lengths/context_sharding.h"

#include <gsl/gsl_sort_double.h>
#include <math.h>
#include <string.h>

enum { SAMPLES_MAX = 4096, SAMPLES_MIN = 6, ROUNDS = 20 };

/// Of attention's share of a block, beyond which nothing can be said of lengths: 95 % of fits.
static const double share_error_max = 0.1;

/// Microbatches whose sequences and times are known, at most SAMPLES_MAX.
typedef struct recorded {
    int count;
    double *tokens;  // [count]
    double *pairs;   // [count] as model_causal_pairs counts them
    double *time_ns; // [layer][pass][SAMPLES_MAX]
    double *scratch; // [SAMPLES_MAX]
} recorded;

/// A line through the origin over tokens and pairs.
typedef struct length_fit {
    double token_ns;             // a >= 0
    double pair_ns;              // b >= 0
    double pair_error;           // standard error of b
    double deviation;            // of what is left, ns
    double time_ns[SAMPLES_MAX]; // that it is fitted to
    double weight[SAMPLES_MAX];
} length_fit;

/// The case's base and what stands in for its recorded times.
typedef struct fitted_costs {
    bal_cost_source recorded;
    int64_t *time_ns[MODEL_PASS_COUNT]; // [layer_count]
    bool was_asked;
} fitted_costs;

static double *times_of(const recorded *of, int layer, int pass)
{
    return of->time_ns + ((size_t)layer * MODEL_PASS_COUNT + (size_t)pass) * SAMPLES_MAX;
}

static status add_microbatch(recorded *to, model_dynamism *packed, int64_t window, int step,
                             int column, const bal_layer_costs *costs, error_message *err)
{
    model_documents documents;
    const int sample = to->count++;
    TRY(model_dynamism_documents(packed, step, 0, column, &documents, err));
    for (int document = 0; document < documents.count; document++) {
        to->tokens[sample] += documents.tokens[document];
        to->pairs[sample] += model_causal_pairs(documents.tokens[document], window);
    }
    for (int layer = 0; layer < costs->layer_count; layer++) {
        for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
            times_of(to, layer, pass)[sample] =
                (double)costs->arrays[pass][layer * costs->microbatch_count + column];
        }
    }
    return STATUS_OK;
}

/// Iterations without a sample of their own show the costs of the one before and are passed over.
static status collect(const ana_setup *setup, const model_dynamism_base *base,
                      model_dynamism *packed, arena *memory, recorded *to, error_message *err)
{
    const bal_cost_source *source = &base->source;
    const int window = base->config->sliding_window;
    const size_t cells = (size_t)source->layer_count * MODEL_PASS_COUNT * SAMPLES_MAX;
    to->tokens = arena_array(memory, SAMPLES_MAX, sizeof *to->tokens);
    to->pairs = arena_array(memory, SAMPLES_MAX, sizeof *to->pairs);
    to->scratch = arena_array(memory, SAMPLES_MAX, sizeof *to->scratch);
    to->time_ns = arena_array(memory, cells, sizeof *to->time_ns);
    for (int iteration = 0; iteration < base->iteration_count; iteration++) {
        bal_layer_costs costs;
        bool changed = false;
        TRY(source->costs_at(source->context, iteration, &costs, &changed, err));
        if (costs.microbatch_count != base->microbatch_count) {
            return error_set(err, STATUS_INVALID,
                             "trace.packing: the trace has times of %d microbatches, the training "
                             "%d; each must have been recorded by itself",
                             costs.microbatch_count, base->microbatch_count);
        }
        const int step = iteration + setup->first_iteration - setup->first_recorded;
        if (iteration == 0) changed = step == 0; // it was asked for before
        for (int column = 0; column < costs.microbatch_count; column++) {
            if (!changed || to->count == SAMPLES_MAX) break;
            TRY(add_microbatch(to, packed, window, step, column, &costs, err));
        }
    }
    return STATUS_OK;
}

/// Least squares of time_ns with the weights at hand; b is held where nothing tells it.
static void solve(const recorded *of, bool has_pairs, length_fit *fit)
{
    double tt = 0, tp = 0, pp = 0, ty = 0, py = 0;
    for (int sample = 0; sample < of->count; sample++) {
        const double weight = fit->weight[sample];
        const double tokens = of->tokens[sample];
        const double pairs = of->pairs[sample];
        tt += weight * tokens * tokens;
        tp += weight * tokens * pairs;
        pp += weight * pairs * pairs;
        ty += weight * tokens * fit->time_ns[sample];
        py += weight * pairs * fit->time_ns[sample];
    }
    const double apart = pp - tp * tp / tt; // of the pairs that tokens do not explain
    const bool is_told = has_pairs && apart > 1e-9 * pp;
    const double pair_ns = is_told ? (py - tp * ty / tt) / apart : 0;
    fit->pair_ns = fmin(fmax(pair_ns, 0), pp > 0 ? py / pp : 0);
    fit->token_ns = fmax((ty - fit->pair_ns * tp) / tt, 0);
    fit->pair_error = is_told ? 1 / sqrt(apart) : INFINITY; // for a deviation of 1
}

/// Weighted least squares again and again, with Huber's weights of what is left: a pause of the
/// machine counts little.
static void fit_lengths(const recorded *of, bool has_pairs, length_fit *fit)
{
    for (int sample = 0; sample < of->count; sample++) {
        fit->weight[sample] = 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        solve(of, has_pairs, fit);
        for (int sample = 0; sample < of->count; sample++) {
            of->scratch[sample] = fabs(fit->time_ns[sample] - fit->token_ns * of->tokens[sample] -
                                       fit->pair_ns * of->pairs[sample]);
            fit->weight[sample] = of->scratch[sample];
        }
        gsl_sort(of->scratch, 1, (size_t)of->count);
        fit->deviation = 1.4826 * of->scratch[of->count / 2];
        for (int sample = 0; sample < of->count; sample++) {
            const double beyond = fit->weight[sample] / (1.345 * fit->deviation);
            fit->weight[sample] = beyond > 1 ? 1 / beyond : 1;
        }
    }
    if (isfinite(fit->pair_error)) fit->pair_error *= fit->deviation;
}

/// Of layers [first, end), their passes [pass, pass_end) together.
///
/// @param time_ns [count] out
static void sum_times(const recorded *of, int first, int end, int pass, int pass_end,
                      double *time_ns)
{
    memset(time_ns, 0, (size_t)of->count * sizeof *time_ns);
    for (int layer = first; layer < end; layer++) {
        for (int at = pass; at < pass_end; at++) {
            for (int sample = 0; sample < of->count; sample++) {
                time_ns[sample] += times_of(of, layer, at)[sample];
            }
        }
    }
}

/// How often a layer takes what its kind takes, over the weights of its kind.
static double part_of(const recorded *of, const double *one_ns, const length_fit *kind)
{
    double one = 0;
    double all = 0;
    for (int sample = 0; sample < of->count; sample++) {
        one += kind->weight[sample] * one_ns[sample];
        all += kind->weight[sample] * kind->time_ns[sample];
    }
    return all > 0 ? one / all : 0;
}

/// Puts the base's microbatch into the costs of layers [first, end), which are of a kind.
///
/// @param attention [MODEL_PASS_COUNT][layer_count] out: its share of these costs
static void fit_kind(const recorded *of, const model_dynamism_base *base, int first, int end,
                     fitted_costs *costs, double *const *attention, length_fit *fit)
{
    const int length = base->shape->sequence_length;
    const double pairs = model_causal_pairs(length, base->config->sliding_window);
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        sum_times(of, first, end, pass, pass + 1, fit->time_ns);
        fit_lengths(of, first == base->transformer_first, fit);
        const double whole_ns = fit->token_ns * length + fit->pair_ns * pairs;
        for (int layer = first; layer < end; layer++) {
            const double part = part_of(of, times_of(of, layer, pass), fit);
            costs->time_ns[pass][layer] = llround(part * whole_ns * base->shape->microbatch_size);
            attention[pass][layer] = whole_ns > 0 ? fit->pair_ns * pairs / whole_ns : 0;
        }
    }
}

static double relative_error(const recorded *of, const length_fit *fit)
{
    double left = 0;
    double all = 0;
    for (int sample = 0; sample < of->count; sample++) {
        const double time_ns = fit->time_ns[sample];
        const double wrong =
            time_ns - fit->token_ns * of->tokens[sample] - fit->pair_ns * of->pairs[sample];
        left += wrong * wrong;
        all += time_ns;
    }
    return sqrt(left / of->count) / (all / of->count);
}

/// Of F, B and W of all blocks together.
///
/// @return STATUS_INVALID: what attention has of a block is not told
static status judge(const recorded *of, const model_dynamism_base *base, length_fit *fit,
                    model_assumption_list *inputs, error_message *err)
{
    double low = INFINITY, high = 0, tokens = 0, pairs = 0;
    sum_times(of, base->transformer_first, base->transformer_end, 0, MODEL_PASS_COUNT,
              fit->time_ns);
    fit_lengths(of, false, fit);
    const double by_tokens = relative_error(of, fit);
    fit_lengths(of, true, fit);
    for (int sample = 0; sample < of->count; sample++) {
        const double mean = of->pairs[sample] / of->tokens[sample]; // by tokens
        low = fmin(low, mean);
        high = fmax(high, mean);
        tokens += of->tokens[sample];
        pairs += of->pairs[sample];
    }
    const double time_ns = fit->token_ns * tokens + fit->pair_ns * pairs;
    const double share = fit->pair_ns * pairs / time_ns;
    const double uncertain = 1.96 * fit->pair_error * pairs / time_ns;
    if (of->count < SAMPLES_MIN || !(uncertain <= share_error_max)) {
        return error_set(err, STATUS_INVALID,
                         "trace.packing: %d recorded microbatches, whose sequences have %.0f to "
                         "%.0f tokens (means over tokens), leave attention's share of a block "
                         "uncertain by +- %.2g, at most %g is taken",
                         of->count, low, high, uncertain, share_error_max);
    }
    model_assume(inputs, "trace.attention", MODEL_ORIGIN_FITTED, NULL,
                 "%.3f +- %.3f of a block's F + B + W over %d microbatches of %.0f tokens in the "
                 "mean, sequences of %.0f to %.0f (means over tokens); error of a microbatch %.1f "
                 "%%, of tokens alone %.1f %%",
                 share, uncertain, of->count, tokens / of->count, low, high,
                 100 * relative_error(of, fit), 100 * by_tokens);
    return STATUS_OK;
}

static status costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                       error_message *err)
{
    fitted_costs *fitted = context;
    TRY(fitted->recorded.costs_at(fitted->recorded.context, iteration, costs, changed, err));
    *changed = !fitted->was_asked;
    fitted->was_asked = true;
    costs->microbatch_count = 1;
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        costs->arrays[pass] = fitted->time_ns[pass];
    }
    return STATUS_OK;
}

/// What is not attention's is in no part.
static void fit_costs(ana_setup *setup, const recorded *of, const model_dynamism_base *base,
                      fitted_costs *costs, length_fit *fit, arena *memory)
{
    const size_t layers = (size_t)base->source.layer_count;
    const int first[] = {0, base->transformer_first, base->transformer_end, (int)layers};
    const double *none = arena_array(memory, layers, sizeof *none);
    double *attention[MODEL_PASS_COUNT];
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        costs->time_ns[pass] = arena_array(memory, layers, sizeof *costs->time_ns[pass]);
        attention[pass] = arena_array(memory, layers, sizeof *attention[pass]);
        for (int part = 0; part < MODEL_PART_COUNT; part++) {
            setup->shares.share[pass][part] = part == MODEL_PART_ATTENTION ? attention[pass] : none;
        }
    }
    for (int kind = 0; kind < 3; kind++) {
        fit_kind(of, base, first[kind], first[kind + 1], costs, attention, fit);
    }
}

status ana_setup_fit_lengths(ana_setup *setup, model_dynamism_base *base, arena *memory,
                             error_message *err)
{
    fitted_costs *costs = arena_array(memory, 1, sizeof *costs);
    length_fit *fit = arena_array(memory, 1, sizeof *fit);
    model_dynamism *packed = NULL;
    recorded of = {0};
    if (base->parallel.context > 1) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "trace.packing: training.context_parallel is %d; which of a group's ranks "
                         "was recorded is known for 1 only",
                         base->parallel.context);
    }
    base->packing = setup->study->trace_packing;
    TRY(model_dynamism_open(setup->study->dynamism, base, memory, &packed, err));
    base->packing = NULL;
    TRY(collect(setup, base, packed, memory, &of, err));
    TRY(judge(&of, base, fit, &setup->study->inputs, err));
    fit_costs(setup, &of, base, costs, fit, memory);
    costs->recorded = setup->source;
    setup->source.context = costs;
    setup->source.costs_at = costs_at;
    setup->still = base->source = setup->source;
    return STATUS_OK;
}
