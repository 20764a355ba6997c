/// Plays the rows of a study, and beside them what they are compared with.
#include "analysis/compare/compare.h"

#include "base/json.h"
#include "base/rng.h"
#include "sim/training_replay.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool ana_balancing_is_dynamic(const ana_balancing *balancing)
{
    return balancing->policy.kind != BAL_POLICY_NEVER;
}

const char *const ana_factor_names[ANA_FACTOR_COUNT] = {
    [ANA_FACTOR_ALGORITHM] = "algorithm", [ANA_FACTOR_STATIC] = "static",
    [ANA_FACTOR_PACKING] = "packing",     [ANA_FACTOR_DYNAMIC] = "dynamic",
    [ANA_FACTOR_REPACK] = "repacking",
};

void ana_course_add(ana_course *course, const bal_training_iteration *iteration)
{
    if (!iteration->was_asked) return;
    course->asked_count++;
    course->reason_counts[iteration->reason]++;
    if (iteration->action == BAL_ACTION_KEEP) return;
    course->acted_count++;
    if (course->move_count == ANA_COURSE_MAX) return;
    course->moves = arena_grow(course->memory, course->moves, (size_t)course->move_count,
                               sizeof *course->moves);
    course->moves[course->move_count++] = (ana_move){
        .iteration = iteration->iteration,
        .action = iteration->action,
        .reason = iteration->reason,
        .moved_layer_count = iteration->moved_layer_count,
        .moved_bytes = iteration->moved_bytes,
        .decision_ns = iteration->decision_ns,
        .migration_ns = iteration->migration_ns,
    };
}

/// A row while it is played.
typedef struct player {
    const ana_listener *listener;
    ana_row *row;
} player;

static bool wants_timeline(void *context, int iteration)
{
    const player *playing = context;
    const bal_record_sink *sink = &playing->listener->sink;
    return sink->wants_timeline != NULL && sink->wants_timeline(sink->context, iteration);
}

static status put_iteration(void *context, const bal_training_iteration *iteration,
                            error_message *err)
{
    const player *playing = context;
    const ana_listener *listener = playing->listener;
    if (listener->step != NULL) listener->step(listener->step_context);
    ana_course_add(&playing->row->course, iteration);
    ana_splits_add(&playing->row->splits, iteration);
    if (listener->sink.put == NULL) return STATUS_OK;
    return listener->sink.put(listener->sink.context, iteration, err);
}

void ana_row_rate(ana_row *row, const ana_setup *setup)
{
    const double units =
        setup->tokens_per_microbatch > 0 ? (double)setup->tokens_per_microbatch : 1.0;
    const double per_iteration = units * (double)setup->microbatch_count *
                                 (double)setup->study->run.round_count *
                                 (double)setup->study->parallel.data;
    const int64_t total_ns = row->result.total_ns;
    if (!row->result.executable) return;
    row->iteration_mean_ns = total_ns / setup->iteration_count;
    if (total_ns <= 0) return;
    row->per_second = per_iteration * (double)setup->iteration_count / ((double)total_ns / 1e9);
}

/// @param source in place of the study's; NULL: these
static status play_row(const ana_setup *setup, const ana_listener *listener,
                       const bal_cost_source *source, arena *memory, ana_row *row,
                       error_message *err)
{
    row->course = (ana_course){.memory = memory};
    row->splits = (ana_splits){.memory = memory,
                               .chunk_count = setup->stage_count / setup->machine.rank_count};
    player playing = {.listener = listener, .row = row};
    const bal_record_sink sink = {
        .context = &playing, .wants_timeline = wants_timeline, .put = put_iteration};
    bal_training training = ana_setup_training(setup, row->balancing, sink);
    if (source != NULL) {
        training.sources = source;
        training.source_count = 1;
    }
    if (listener->begin_row != NULL) {
        TRY(listener->begin_row(listener->sink.context, row->balancing, err));
    }
    error_message inner = {0};
    row->outcome = sim_training_replay(&training, NULL, memory, &row->result, &inner);
    if (row->outcome != STATUS_OK) {
        if (row->outcome != STATUS_INFEASIBLE) {
            return error_set(err, row->outcome, "%s: %.*s", row->balancing->label, 400,
                             inner.message);
        }
        snprintf(row->message, sizeof row->message, "%.*s", (int)sizeof row->message - 1,
                 inner.message);
        return STATUS_OK;
    }
    ana_row_rate(row, setup);
    if (row->result.total_ns <= JSON_INTEGER_MAX) return STATUS_OK;
    return error_set(err, STATUS_INVALID, // what is written must be readable again
                     "%s: total_ns %" PRId64 " of the run exceeds 2^53 = 9007199254740992",
                     row->balancing->label, row->result.total_ns);
}

static const ana_listener nobody = {0};

/// Plays what is no row of the study, for its length alone.
///
/// @param source   in place of the study's; NULL: these
/// @param total_ns out: 0 if no plan fits
static status play_beside(const ana_setup *setup, const bal_cost_source *source,
                          const ana_balancing *balancing, arena *memory, int64_t *total_ns,
                          error_message *err)
{
    ana_row row = {.balancing = balancing};
    TRY(play_row(setup, &nobody, source, memory, &row, err));
    *total_ns = row.result.total_ns;
    return STATUS_OK;
}

/// Rows whose plan may change and whose times are known.
static bool has_times(const ana_balancing *balancing)
{
    return ana_balancing_is_dynamic(balancing) && !balancing->balancer->owns_freely;
}

/// Plays a row that re-packs also without.
static status play_unpacked(const ana_setup *setup, arena *memory, ana_row *row, error_message *err)
{
    ana_balancing unpacked = *row->balancing;
    if (row->outcome != STATUS_OK || !has_times(row->balancing)) return STATUS_OK;
    if (unpacked.repack.options.kind == BAL_REPACK_NONE) return STATUS_OK;
    unpacked.repack.options.kind = BAL_REPACK_NONE;
    return play_beside(setup, NULL, &unpacked, memory, &row->unpacked_ns, err);
}

/// Plays `tuned` with the packing of sequences that a row has of its own.
static status play_packed(const ana_setup *setup, arena *memory, ana_row *row, error_message *err)
{
    const ana_balancing *of = row->balancing;
    ana_balancing packed = ana_balancing_default("tuned");
    if (row->outcome != STATUS_OK || !has_times(of) || of->packing == NULL) return STATUS_OK;
    packed.packing = of->packing;
    packed.dynamism = of->dynamism;
    packed.sources = of->sources;
    return play_beside(setup, NULL, &packed, memory, &row->packed_tuned_ns, err);
}

/// The row of a static baseline under its own weight; NULL: there is none.
static const ana_row *baseline_row(const ana_row *rows, int row_count, const char *name)
{
    for (int row = 0; row < row_count; row++) {
        const ana_balancing *of = rows[row].balancing;
        if (strcmp(of->balancer->name, name) != 0 || ana_balancing_is_dynamic(of)) continue;
        if (of->weight == of->balancer->weight && of->packing == NULL) return &rows[row];
    }
    return NULL;
}

static bool has_dynamic_row(const ana_study *study)
{
    for (int row = 0; row < study->balancing_count; row++) {
        if (has_times(&study->balancings[row])) return true;
    }
    return false;
}

/// The length of the run under a static baseline: of its row, or played for it.
static status baseline_ns(const ana_setup *setup, const ana_row *rows, const char *name,
                          arena *memory, int64_t *total_ns, error_message *err)
{
    const ana_row *row = baseline_row(rows, setup->study->balancing_count, name);
    *total_ns = row != NULL ? row->result.total_ns : 0;
    if (row != NULL || !has_dynamic_row(setup->study)) return STATUS_OK;
    const ana_balancing still = ana_balancing_default(name);
    return play_beside(setup, NULL, &still, memory, total_ns, err);
}

/// What dynamic rows are divided by.
static status play_baselines(const ana_setup *setup, arena *memory, ana_comparison *comparison,
                             error_message *err)
{
    TRY(baseline_ns(setup, comparison->rows, "even", memory, &comparison->even_ns, err));
    TRY(baseline_ns(setup, comparison->rows, "tuned", memory, &comparison->tuned_ns, err));
    if (!has_dynamic_row(setup->study) || setup->dynamism == NULL) return STATUS_OK;
    const ana_balancing even = ana_balancing_default("even");
    return play_beside(setup, &setup->still, &even, memory, &comparison->still_even_ns, err);
}

static double ratio(int64_t before_ns, int64_t after_ns)
{
    return before_ns > 0 && after_ns > 0 ? (double)before_ns / (double)after_ns : 0;
}

/// Divides the speed-up of a row into its factors.
static void divide(const ana_comparison *comparison, ana_row *row)
{
    const int64_t row_ns = row->result.total_ns;
    const int64_t still_ns = comparison->still_even_ns;
    const bool packs = row->unpacked_ns > 0 && row->unpacked_ns != row_ns;
    const int64_t unpacked_ns = packs ? row->unpacked_ns : row_ns;
    if (comparison->even_ns <= 0 || comparison->tuned_ns <= 0 || row_ns <= 0) return;
    row->factors[ANA_FACTOR_ALGORITHM] = ratio(still_ns, comparison->even_ns);
    row->factors[ANA_FACTOR_STATIC] = ratio(comparison->even_ns, comparison->tuned_ns);
    row->factors[ANA_FACTOR_PACKING] = ratio(comparison->tuned_ns, row->packed_tuned_ns);
    row->factors[ANA_FACTOR_DYNAMIC] =
        ratio(row->packed_tuned_ns > 0 ? row->packed_tuned_ns : comparison->tuned_ns, unpacked_ns);
    row->factors[ANA_FACTOR_REPACK] = packs ? ratio(unpacked_ns, row_ns) : 0;
    row->speed_up = ratio(still_ns > 0 ? still_ns : comparison->even_ns, row_ns);
}

static void relate(const ana_comparison *comparison, ana_row *rows)
{
    const int row_count = comparison->setup->study->balancing_count;
    const ana_row *even = baseline_row(rows, row_count, "even");
    const ana_row *tuned = baseline_row(rows, row_count, "tuned");
    const bool has_even = even != NULL && even->outcome == STATUS_OK;
    const bool has_tuned = tuned != NULL && tuned->outcome == STATUS_OK;
    for (int index = 0; index < row_count; index++) {
        ana_row *row = &rows[index];
        if (has_even) row->relative_to_even = row->per_second / even->per_second;
        if (has_tuned) row->relative_to_tuned = row->per_second / tuned->per_second;
        if (row->outcome == STATUS_OK && has_times(row->balancing)) divide(comparison, row);
    }
}

status ana_compare(const ana_setup *setup, const ana_listener *listener, arena *memory,
                   ana_comparison *comparison, error_message *err)
{
    const int row_count = setup->study->balancing_count;
    ana_row *rows = arena_array(memory, (size_t)row_count, sizeof *rows);
    if (listener == NULL) listener = &nobody;
    int feasible = 0;
    for (int row = 0; row < row_count; row++) {
        rows[row].balancing = &setup->study->balancings[row];
        TRY(play_row(setup, listener, NULL, memory, &rows[row], err));
        feasible += rows[row].outcome == STATUS_OK;
    }
    if (feasible == 0) return error_set(err, STATUS_INFEASIBLE, "%s", rows[0].message);
    ana_comparison compared = {.setup = setup, .rows = rows};
    for (int row = 0; row < row_count; row++) {
        TRY(play_unpacked(setup, memory, &rows[row], err));
        TRY(play_packed(setup, memory, &rows[row], err));
    }
    TRY(play_baselines(setup, memory, &compared, err));
    relate(&compared, rows);
    *comparison = compared;
    return STATUS_OK;
}

// The bootstrap of a gain.

enum { PURPOSE_BLOCKS = 0x67a1 };

/// Whether differences of the runs, lag iterations apart, still go together.
///
/// @param differences [count] less their mean
static bool is_correlated(const double *differences, int count, int lag)
{
    double products = 0;
    double power = 0;
    for (int index = 0; index < count; index++) {
        power += differences[index] * differences[index];
        if (index >= lag) products += differences[index] * differences[index - lag];
    }
    return products > power * 2 / sqrt(count);
}

static int block_length(const int64_t *baseline_ns, const int64_t *other_ns, int count,
                        arena *memory)
{
    const int longest = count / ANA_BOOTSTRAP_BLOCKS_MIN;
    double *differences = arena_array(memory, (size_t)count, sizeof *differences);
    int block = 1;
    for (int index = 0; index < count; index++) {
        differences[index] = (double)(baseline_ns[index] - other_ns[index]);
    }
    const double mean = gsl_stats_mean(differences, 1, (size_t)count);
    for (int index = 0; index < count; index++) {
        differences[index] -= mean;
    }
    while (block < longest && is_correlated(differences, count, block))
        block *= 2;
    while (block * block * block < count)
        block++;
    return block < longest ? block : longest;
}

/// What takes no time gains nothing.
static double gain_of(int64_t baseline_ns, int64_t other_ns)
{
    return other_ns > 0 ? (double)baseline_ns / (double)other_ns - 1 : 0;
}

/// The gain over blocks that are drawn until they are as many iterations as the run has.
static double draw_gain(const int64_t *baseline_ns, const int64_t *other_ns, int count, int block,
                        rng *generator)
{
    int64_t baseline = 0;
    int64_t other = 0;
    int begin = 0;
    for (int drawn = 0; drawn < count; drawn++) {
        if (drawn % block == 0) begin = (int)rng_below(generator, (uint64_t)count);
        const int index = (begin + drawn % block) % count;
        baseline += baseline_ns[index];
        other += other_ns[index];
    }
    return gain_of(baseline, other);
}

void ana_gain_interval_of(const int64_t *baseline_ns, const int64_t *other_ns, int count,
                          double tail, uint64_t seed, arena *memory, ana_gain_interval *interval)
{
    double gains[ANA_BOOTSTRAP_ROUNDS];
    rng generator = rng_init(seed, PURPOSE_BLOCKS);
    int64_t baseline = 0;
    int64_t other = 0;
    for (int index = 0; index < count; index++) {
        baseline += baseline_ns[index];
        other += other_ns[index];
    }
    const double gain = gain_of(baseline, other);
    *interval = (ana_gain_interval){.gain = gain, .low = gain, .high = gain, .is_short = true};
    if (count < ANA_BOOTSTRAP_COUNT_MIN) return;
    interval->is_short = false;
    interval->block = block_length(baseline_ns, other_ns, count, memory);
    for (int round = 0; round < ANA_BOOTSTRAP_ROUNDS; round++) {
        gains[round] = draw_gain(baseline_ns, other_ns, count, interval->block, &generator);
    }
    gsl_sort(gains, 1, ANA_BOOTSTRAP_ROUNDS);
    interval->low = gsl_stats_quantile_from_sorted_data(gains, 1, ANA_BOOTSTRAP_ROUNDS, tail);
    interval->high = gsl_stats_quantile_from_sorted_data(gains, 1, ANA_BOOTSTRAP_ROUNDS, 1 - tail);
}
