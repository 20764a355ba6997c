#include "balance/control/rank_speed.h"

#include "balance/partition/chain.h"

#include <stdlib.h>
#include <string.h>

enum { PPB = 1000000000, WINDOW = 16, FIT_STEPS_MAX = 200 };

static const double level_factor = 0.1;   // of the mean, once it has enough terms
static const double noise_factor = 0.1;   // of the mean variance
static const double noise_floor2 = 1e-10; // measurements are no better than this
static const double jump_limit2 = 25.0;   // a layer this many variances off its level has jumped
static const double jump_least2 = 0.05 * 0.05; // and by at least this
static const double prior_precision = 1.0 / (0.15 * 0.15);
static const double factor_limit2 = 3.0;  // factors this many variances off 1 are 1
static const double factor_least2 = 4e-6; // and closer than 0.2 %

void bal_rank_speed_init(bal_rank_speed *speed, int rank_count, int layer_count, arena *memory)
{
    const size_t layers = (size_t)layer_count;
    const size_t ranks = (size_t)rank_count;
    bal_rank_speed made = {.rank_count = rank_count,
                           .layer_count = layer_count,
                           .event_age = -1,
                           .evidence_max = 4 * layer_count,
                           .is_uniform = true};
    made.rank_of_layer = arena_array(memory, layers * 4, sizeof *made.rank_of_layer);
    made.level_ns = arena_array(memory, layers * 5, sizeof *made.level_ns);
    made.evidence = arena_array(memory, layers * 4, sizeof *made.evidence);
    made.speed = arena_array(memory, ranks * 5, sizeof *made.speed);
    made.part = arena_array(memory, ranks, sizeof *made.part);
    made.factor_ppb = arena_array(memory, ranks, sizeof *made.factor_ppb);
    made.level_count = made.rank_of_layer + layers;
    made.event_from = made.rank_of_layer + 2 * layers;
    made.event_row = made.rank_of_layer + 3 * layers;
    made.share = made.level_ns + layers;
    made.before_ns = made.level_ns + 2 * layers;
    made.before_variance = made.level_ns + 3 * layers;
    made.after_sum = made.level_ns + 4 * layers;
    made.scratch = made.speed + ranks;
    for (int rank = 0; rank < rank_count; rank++) {
        made.speed[rank] = 1;
        made.factor_ppb[rank] = PPB;
    }
    *speed = made;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/// Median of values, which are put in order; 1 where there are none.
static double median_of(double *values, int count)
{
    if (count == 0) return 1;
    qsort(values, (size_t)count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/// What layers that stay have in common: the median of time over reference.
static double common_share(bal_rank_speed *speed, const bal_layer_times *times,
                           const double *reference_ns, const int *moved_from)
{
    int count = 0;
    for (int layer = 0; layer < speed->layer_count; layer++) {
        if (moved_from[layer] >= 0 || reference_ns[layer] <= 0) continue;
        speed->share[count++] = (double)bal_layer_time_ns(times, layer) / reference_ns[layer];
    }
    return median_of(speed->share, count);
}

static bool is_jump(const bal_rank_speed *speed, double deviation)
{
    const double square = deviation * deviation;
    return square > jump_limit2 * speed->noise2 && square > jump_least2;
}

/// Drops the evidence of ranks all of whose layers have jumped in this iteration, and what is being
/// collected.
static void forget_ranks(bal_rank_speed *speed, const double *has_jumped)
{
    for (int row = 0; row < speed->evidence_count; row++) {
        bal_speed_evidence *entry = &speed->evidence[row];
        if (entry->from < 0) continue;
        if (has_jumped[entry->from] > 0 || has_jumped[entry->to] > 0) entry->from = -1;
    }
    if (speed->event_age >= 0) speed->event_age = WINDOW;
}

/// Learns from the squared deviations of layers that stay, which are put in order, how much times
/// scatter: by their median, as a few layers that change are not noise.
static void learn_noise(bal_rank_speed *speed, double *squares, int count)
{
    if (count > 0) {
        const double variance = 2 * median_of(squares, count); // 2.2 if normal, 1.3 if uniform
        const double plain = 1.0 / (speed->iteration_count + 1);
        const double factor = plain > noise_factor ? plain : noise_factor;
        speed->noise2 += factor * (variance - speed->noise2);
    }
    if (speed->noise2 < noise_floor2) speed->noise2 = noise_floor2;
}

/// Takes a time into the mean of its layer; after a jump the mean begins anew.
static void follow_level(bal_rank_speed *speed, int layer, double time, bool jumped)
{
    if (jumped || speed->level_count[layer] == 0) {
        speed->level_ns[layer] = time;
        speed->level_count[layer] = 1;
        return;
    }
    const double plain = 1.0 / (speed->level_count[layer] + 1);
    const double factor = plain > level_factor ? plain : level_factor;
    speed->level_ns[layer] += factor * (time - speed->level_ns[layer]);
    speed->level_count[layer]++;
}

/// Follows the levels of all layers.
/// @return whether what was known of a rank was forgotten
static bool follow_levels(bal_rank_speed *speed, const bal_layer_times *times)
{
    const double common = common_share(speed, times, speed->level_ns, speed->event_from);
    double *has_jumped = speed->scratch;                    // [rank_count] all of its layers
    double *has_layer = speed->scratch + speed->rank_count; // [rank_count] that was there before
    int count = 0;
    for (int rank = 0; rank < speed->rank_count; rank++) {
        has_jumped[rank] = 1;
        has_layer[rank] = 0;
    }
    for (int layer = 0; layer < speed->layer_count; layer++) {
        const double time = (double)bal_layer_time_ns(times, layer);
        const double expected = speed->level_ns[layer] * common;
        const bool is_known = speed->level_count[layer] > 0;
        const double deviation = expected > 0 ? time / expected - 1 : 0;
        const bool jumped = is_known && is_jump(speed, deviation);
        const int rank = speed->rank_of_layer[layer];
        if (is_known) {
            speed->share[count++] = deviation * deviation;
            has_layer[rank] = 1;
            if (!jumped) has_jumped[rank] = 0;
        }
        follow_level(speed, layer, time, jumped);
    }
    learn_noise(speed, speed->share, count);
    bool forgets = false;
    for (int rank = 0; rank < speed->rank_count; rank++) {
        if (has_layer[rank] == 0) has_jumped[rank] = 0;
        forgets = forgets || has_jumped[rank] > 0;
    }
    if (forgets) forget_ranks(speed, has_jumped);
    return forgets;
}

/// The row that the next evidence goes to: the oldest once the ring is full.
static int next_row(bal_rank_speed *speed)
{
    const int row = speed->evidence_next;
    speed->evidence_next = (row + 1) % speed->evidence_max;
    if (speed->evidence_count < speed->evidence_max) speed->evidence_count++;
    return row;
}

/// Notes which layers have moved since the last iteration, if any.
static void begin_event(bal_rank_speed *speed, const int *rank_of_layer)
{
    if (memcmp(rank_of_layer, speed->rank_of_layer,
               (size_t)speed->layer_count * sizeof *rank_of_layer) == 0) {
        return;
    }
    const int count_max = 20; // iterations that the mean is worth at the most: 2 / level_factor
    speed->event_age = 0;
    for (int layer = 0; layer < speed->layer_count; layer++) {
        const int from = speed->rank_of_layer[layer];
        const int seen = speed->level_count[layer];
        const int count = seen < count_max ? seen : count_max;
        speed->before_ns[layer] = speed->level_ns[layer];
        speed->before_variance[layer] = count > 0 ? speed->noise2 / count : 1;
        speed->event_from[layer] = from != rank_of_layer[layer] ? from : -1;
        if (speed->event_from[layer] < 0) continue;
        speed->after_sum[layer] = 0;
        speed->event_row[layer] = next_row(speed);
        speed->evidence[speed->event_row[layer]].from = -1;
        speed->level_count[layer] = 0; // begins anew on the new rank
    }
    memcpy(speed->rank_of_layer, rank_of_layer, (size_t)speed->layer_count * sizeof *rank_of_layer);
}

/// Adds an iteration to the evidence of the layers that moved last.
static void add_evidence(bal_rank_speed *speed, const bal_layer_times *times)
{
    const double common = common_share(speed, times, speed->before_ns, speed->event_from);
    if (common <= 0) return;
    speed->event_age++;
    for (int layer = 0; layer < speed->layer_count; layer++) {
        if (speed->event_from[layer] < 0 || speed->before_ns[layer] <= 0) continue;
        speed->after_sum[layer] += (double)bal_layer_time_ns(times, layer) / common;
        const double ratio = speed->after_sum[layer] / speed->event_age / speed->before_ns[layer];
        if (ratio <= 0) continue;
        speed->evidence[speed->event_row[layer]] = (bal_speed_evidence){
            .from = speed->event_from[layer],
            .to = speed->rank_of_layer[layer],
            .ratio = ratio,
            .variance = speed->before_variance[layer] + speed->noise2 / speed->event_age,
        };
    }
}

/// out = (the matrix of the fit) * in.
static void multiply(const bal_rank_speed *speed, const double *in, double *out)
{
    for (int rank = 0; rank < speed->rank_count; rank++) {
        out[rank] = prior_precision * in[rank];
    }
    for (int row = 0; row < speed->evidence_count; row++) {
        const bal_speed_evidence *entry = &speed->evidence[row];
        if (entry->from < 0) continue;
        // Both factors of a ratio share its error: the weight of (s_to ratio - s_from).
        const double weight = 2 / ((1 + entry->ratio * entry->ratio) * entry->variance);
        const double residual = in[entry->to] * entry->ratio - in[entry->from];
        out[entry->to] += weight * entry->ratio * residual;
        out[entry->from] -= weight * residual;
    }
}

static double dot(const double *left, const double *right, int count)
{
    double sum = 0;
    for (int index = 0; index < count; index++) {
        sum += left[index] * right[index];
    }
    return sum;
}

/// Fits the speeds, from those of the last fit on.
static void fit(bal_rank_speed *speed)
{
    const int count = speed->rank_count;
    double *residual = speed->scratch;
    double *direction = residual + count;
    double *product = direction + count;
    multiply(speed, speed->speed, product);
    for (int rank = 0; rank < count; rank++) {
        residual[rank] = prior_precision - product[rank];
        direction[rank] = residual[rank];
    }
    double square = dot(residual, residual, count);
    const double small = 1e-16 * prior_precision * prior_precision * count;
    for (int step = 0; step < 4 * count && step < FIT_STEPS_MAX && square > small; step++) {
        multiply(speed, direction, product);
        const double length = square / dot(direction, product, count);
        for (int rank = 0; rank < count; rank++) {
            speed->speed[rank] += length * direction[rank];
            residual[rank] -= length * product[rank];
        }
        const double next = dot(residual, residual, count);
        for (int rank = 0; rank < count; rank++) {
            direction[rank] = residual[rank] + next / square * direction[rank];
        }
        square = next;
    }
}

static int part_of(const int *part, int rank)
{
    while (part[rank] != rank) {
        rank = part[rank];
    }
    return rank;
}

/// Finds the connected parts of the graph of evidence.
static void find_parts(bal_rank_speed *speed)
{
    for (int rank = 0; rank < speed->rank_count; rank++) {
        speed->part[rank] = rank;
    }
    for (int row = 0; row < speed->evidence_count; row++) {
        const bal_speed_evidence *entry = &speed->evidence[row];
        if (entry->from < 0) continue;
        const int from = part_of(speed->part, entry->from);
        const int to = part_of(speed->part, entry->to);
        if (from < to) {
            speed->part[to] = from;
        } else {
            speed->part[from] = to;
        }
    }
    for (int rank = 0; rank < speed->rank_count; rank++) {
        speed->part[rank] = part_of(speed->part, rank);
    }
}

/// Writes the factors of one part: its median factor is 1.
static void set_factors(bal_rank_speed *speed, int part)
{
    double *factors = speed->scratch;
    int count = 0;
    for (int rank = part; rank < speed->rank_count; rank++) {
        if (speed->part[rank] != part) continue;
        const double s = speed->speed[rank] > 0.1 ? speed->speed[rank] : 0.1;
        factors[count++] = 1 / s;
    }
    qsort(factors, (size_t)count, sizeof *factors, compare);
    const double median = factors[(count - 1) / 2];
    for (int rank = part; rank < speed->rank_count; rank++) {
        if (speed->part[rank] != part) continue;
        const double s = speed->speed[rank] > 0.1 ? speed->speed[rank] : 0.1;
        const double factor = 1 / (s * median);
        const double square = (factor - 1) * (factor - 1);
        const bool is_one = square < factor_least2 || square < factor_limit2 * speed->noise2;
        speed->factor_ppb[rank] = is_one ? PPB : (int64_t)(factor * PPB + 0.5);
        speed->is_uniform = speed->is_uniform && is_one;
    }
}

static void refit(bal_rank_speed *speed)
{
    fit(speed);
    find_parts(speed);
    speed->is_uniform = true;
    for (int rank = 0; rank < speed->rank_count; rank++) {
        if (speed->part[rank] == rank) set_factors(speed, rank);
    }
}

void bal_rank_speed_observe(bal_rank_speed *speed, const bal_layer_times *times,
                            const int *rank_of_layer)
{
    const size_t bytes = (size_t)speed->layer_count * sizeof *rank_of_layer;
    if (speed->iteration_count == 0) {
        memcpy(speed->rank_of_layer, rank_of_layer, bytes);
        memset(speed->event_from, -1, bytes);
    }
    begin_event(speed, rank_of_layer);
    const bool collects = speed->event_age >= 0 && speed->event_age < WINDOW;
    if (collects) add_evidence(speed, times);
    const bool forgets = follow_levels(speed, times);
    speed->iteration_count++;
    if (collects || forgets) refit(speed);
}

const int64_t *bal_rank_speed_factors_ppb(const bal_rank_speed *speed)
{
    return speed->is_uniform ? NULL : speed->factor_ppb;
}

static int64_t divided(int64_t ns, int64_t factor_ppb)
{
    return (int64_t)((double)ns / ((double)factor_ppb / PPB) + 0.5);
}

void bal_rank_speed_correct(const bal_rank_speed *speed, const int *rank_of_layer,
                            bal_layer_times *times)
{
    if (speed->is_uniform) return;
    for (int layer = 0; layer < speed->layer_count; layer++) {
        const int64_t factor = speed->factor_ppb[rank_of_layer[layer]];
        if (factor == PPB) continue;
        times->forward_ns[layer] = divided(times->forward_ns[layer], factor);
        times->backward_input_ns[layer] = divided(times->backward_input_ns[layer], factor);
        times->backward_weight_ns[layer] = divided(times->backward_weight_ns[layer], factor);
    }
}

static status scale(const bal_speed_evaluator *at, const int64_t *times,
                    const bal_layer_costs *layers, const bal_placed_partition *plan,
                    const int64_t **out, error_message *err)
{
    const int columns = layers->microbatch_count;
    int64_t *scaled =
        arena_array(at->memory, (size_t)layers->layer_count * (size_t)columns, sizeof *scaled);
    for (int stage = 0; stage < bal_placed_stage_count(plan); stage++) {
        const int64_t factor = at->rank_factor_ppb[bal_placed_machine_rank(plan, stage)];
        const int64_t begin = (int64_t)plan->first_layer[stage] * columns;
        const int64_t end = (int64_t)plan->first_layer[stage + 1] * columns;
        for (int64_t index = begin; index < end; index++) {
            const bal_wide ns = ((bal_wide)times[index] * factor + PPB / 2) / PPB;
            if (ns > INT64_MAX) {
                return error_set(err, STATUS_INVALID,
                                 "the time of layer %d on rank %d does not fit 64 bits",
                                 (int)(index / columns), bal_placed_machine_rank(plan, stage));
            }
            scaled[index] = (int64_t)ns;
        }
    }
    *out = scaled;
    return STATUS_OK;
}

/// The layers at the speeds of their ranks.
static status slow_down(const bal_speed_evaluator *at, const bal_layer_costs *layers,
                        const bal_placed_partition *plan, bal_layer_costs *out, error_message *err)
{
    *out = *layers;
    arena_reset(at->memory);
    const int64_t **arrays[BAL_COST_ARRAY_COUNT];
    bal_layer_costs_list(out, arrays);
    for (int pass = 0; pass < BAL_COST_TIMES_COUNT; pass++) {
        TRY(scale(at, *arrays[pass], layers, plan, arrays[pass], err));
    }
    return STATUS_OK;
}

static status evaluate(void *context, const bal_layer_costs *layers,
                       const bal_placed_partition *plan, int64_t *iteration_ns, error_message *err)
{
    const bal_speed_evaluator *at = context;
    bal_layer_costs slowed;
    TRY(slow_down(at, layers, plan, &slowed, err));
    return at->inner->iteration_ns(at->inner->context, &slowed, plan, iteration_ns, err);
}

static status evaluate_of(void *context, const bal_layer_costs *layers,
                          const bal_placed_partition *plan, int microbatch_count,
                          int64_t *iteration_ns, error_message *err)
{
    const bal_speed_evaluator *at = context;
    bal_layer_costs slowed;
    TRY(slow_down(at, layers, plan, &slowed, err));
    return at->inner->iteration_ns_of(at->inner->context, &slowed, plan, microbatch_count,
                                      iteration_ns, err);
}

bal_evaluator bal_speed_evaluator_of(bal_speed_evaluator *context)
{
    return (bal_evaluator){
        .context = context,
        .iteration_ns = evaluate,
        .iteration_ns_of = context->inner->iteration_ns_of != NULL ? evaluate_of : NULL,
    };
}
