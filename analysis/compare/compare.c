/// Plays the rows of a study, and beside them what they are compared with.
#include "analysis/compare/compare.h"

#include "base/json.h"
#include "sim/training_replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static double rate(const ana_setup *setup, int64_t total_ns)
{
    const double units =
        setup->tokens_per_microbatch > 0 ? (double)setup->tokens_per_microbatch : 1.0;
    const double per_iteration = units * (double)setup->microbatch_count *
                                 (double)setup->study->round_count *
                                 (double)setup->study->parallel.data;
    if (total_ns <= 0) return 0;
    return per_iteration * (double)setup->iteration_count / ((double)total_ns / 1e9);
}

bool ana_balancing_is_dynamic(const ana_balancing *balancing)
{
    return balancing->policy.kind != BAL_POLICY_NEVER;
}

/// Told what an iteration did: a row, the listener, or only who counts.
typedef struct player {
    const ana_listener *listener;
    ana_row *row; // NULL: not a row of the study
} player;

static bool wants_timeline(void *context, int iteration)
{
    const player *playing = context;
    const bal_record_sink *sink = &playing->listener->sink;
    return playing->row != NULL && sink->wants_timeline != NULL &&
           sink->wants_timeline(sink->context, iteration);
}

static status put_iteration(void *context, const bal_training_iteration *iteration,
                            error_message *err)
{
    const player *playing = context;
    const ana_listener *listener = playing->listener;
    if (listener->step != NULL) listener->step(listener->step_context);
    if (playing->row == NULL) return STATUS_OK;
    TRY(ana_course_add(&playing->row->course, iteration));
    ana_splits_add(&playing->row->splits, iteration);
    if (listener->sink.put == NULL) return STATUS_OK;
    return listener->sink.put(listener->sink.context, iteration, err);
}

static bal_record_sink iteration_sink(player *playing)
{
    return (bal_record_sink){
        .context = playing, .wants_timeline = wants_timeline, .put = put_iteration};
}

/// What is written must be readable again: JSON ends at 2^53, which as a time are 104 days.
static status check_readable(const ana_row *row, const ana_setup *setup, error_message *err)
{
    const bal_training_result *result = &row->result;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"total_ns", result->total_ns},
        {"moved_bytes", result->moved_bytes},
        {"peak_memory_bytes", ana_row_peak_bytes(row, setup)},
        {"bottleneck_ns", result->bottleneck_ns},
    };
    for (size_t each = 0; each < sizeof numbers / sizeof numbers[0]; each++) {
        if (numbers[each].value <= JSON_INTEGER_MAX) continue;
        return error_set(err, STATUS_INVALID,
                         "%s: %s %" PRId64 " of the run exceeds 2^53 = 9007199254740992",
                         row->balancing->label, numbers[each].name, numbers[each].value);
    }
    return STATUS_OK;
}

const double ana_quantile_shares[ANA_QUANTILE_COUNT] = {0.05, 0.5, 0.95, 1};

bool ana_study_is_disturbed(const ana_study *study)
{
    const bal_disturbance *disturbance = &study->disturbance;
    return bal_disturbance_is_drawn_per_op(disturbance) ||
           bal_disturbance_has_rank_factors(disturbance) || disturbance->link_count > 0;
}

void ana_row_rate(ana_row *row, const ana_setup *setup)
{
    if (!row->result.executable) return;
    row->iteration_mean_ns = row->result.total_ns / setup->iteration_count;
    row->per_second = rate(setup, row->result.total_ns);
}

static status play_row(const ana_setup *setup, const ana_listener *listener, arena *memory,
                       ana_row *row, error_message *err)
{
    ana_course_init(&row->course, memory);
    ana_splits_init(&row->splits, setup->stage_count / setup->machine.rank_count, memory);
    player playing = {.listener = listener, .row = row};
    const bal_training training =
        ana_setup_training(setup, row->balancing, iteration_sink(&playing));
    if (listener->begin_row != NULL) {
        TRY(listener->begin_row(listener->sink.context, row->balancing, err));
    }
    error_message inner = {0};
    row->outcome = sim_training_replay(&training, memory, &row->result, &inner);
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
    for (int share = 0; share < ANA_QUANTILE_COUNT; share++) {
        row->iteration_quantile_ns[share] =
            ana_course_quantile_ns(&row->course, ana_quantile_shares[share]);
    }
    return check_readable(row, setup, err);
}

/// Plays what is no row of the study, for its length alone.
///
/// @param total_ns out: 0 if no plan fits
static status play_beside(const ana_setup *setup, const bal_cost_source *source,
                          const ana_balancing *balancing, const ana_listener *listener,
                          arena *memory, int64_t *total_ns, error_message *err)
{
    player playing = {.listener = listener};
    bal_training training = ana_setup_training(setup, balancing, iteration_sink(&playing));
    bal_training_result result;
    error_message inner = {0};
    if (source != NULL) {
        training.sources = source;
        training.source_count = 1;
    }
    *total_ns = 0;
    const status outcome = sim_training_replay(&training, memory, &result, &inner);
    if (outcome == STATUS_OK) *total_ns = result.total_ns;
    if (outcome == STATUS_OK || outcome == STATUS_INFEASIBLE) return STATUS_OK;
    return error_set(err, outcome, "%s: %.*s", balancing->label, 400, inner.message);
}

/// Rows whose plan may change and whose times are known.
static bool has_times(const ana_balancing *balancing)
{
    return ana_balancing_is_dynamic(balancing) && !balancing->balancer->owns_freely;
}

static bool looks_ahead(const ana_setup *setup, const ana_balancing *balancing)
{
    return setup->study->foresight && has_times(balancing) &&
           balancing->information == BAL_INFORMATION_PROFILE;
}

static bool packs(const ana_balancing *balancing)
{
    return has_times(balancing) && balancing->repack.options.kind != BAL_REPACK_NONE;
}

static status play_beside_row(const ana_setup *setup, const ana_listener *listener, arena *memory,
                              ana_row *row, error_message *err)
{
    if (row->outcome != STATUS_OK) return STATUS_OK;
    row->informed_ns[row->balancing->information] = row->result.total_ns;
    for (int information = 0;
         looks_ahead(setup, row->balancing) && information < BAL_INFORMATION_COUNT; information++) {
        if (information == BAL_INFORMATION_PROFILE) continue;
        ana_balancing other = *row->balancing;
        other.information = (bal_information)information;
        TRY(play_beside(setup, NULL, &other, listener, memory, &row->informed_ns[information],
                        err));
    }
    if (!packs(row->balancing)) return STATUS_OK;
    ana_balancing unpacked = *row->balancing;
    unpacked.repack.options.kind = BAL_REPACK_NONE;
    return play_beside(setup, NULL, &unpacked, listener, memory, &row->unpacked_ns, err);
}

/// The row of a static baseline under its own weight; NULL if there is none.
static bool is_baseline(const ana_balancing *balancing, const char *name)
{
    return strcmp(balancing->balancer->name, name) == 0 && !ana_balancing_is_dynamic(balancing) &&
           balancing->weight == balancing->balancer->weight && balancing->packing == NULL;
}

static const ana_row *baseline_row(const ana_row *rows, int row_count, const char *name)
{
    for (int row = 0; row < row_count; row++) {
        if (is_baseline(rows[row].balancing, name) && rows[row].outcome == STATUS_OK) {
            return &rows[row];
        }
    }
    return NULL;
}

static bool has_row(const ana_study *study, const char *name)
{
    for (int row = 0; row < study->balancing_count; row++) {
        if (is_baseline(&study->balancings[row], name)) return true;
    }
    return false;
}

static bool has_dynamic_row(const ana_study *study)
{
    for (int row = 0; row < study->balancing_count; row++) {
        if (has_times(&study->balancings[row])) return true;
    }
    return false;
}

int64_t ana_compare_iteration_count(const ana_setup *setup)
{
    const ana_study *study = setup->study;
    int64_t replays = study->balancing_count;
    for (int row = 0; row < study->balancing_count; row++) {
        if (looks_ahead(setup, &study->balancings[row])) replays += BAL_INFORMATION_COUNT - 1;
        replays += packs(&study->balancings[row]);
    }
    if (has_dynamic_row(study)) {
        replays += !has_row(study, "even") + !has_row(study, "tuned") + (setup->dynamism != NULL);
    }
    return replays * setup->iteration_count;
}

/// The length of the run under a static baseline: of its row, or played for it.
static status baseline_ns(const ana_setup *setup, const ana_row *rows, const char *name,
                          const ana_listener *listener, arena *memory, int64_t *total_ns,
                          error_message *err)
{
    const ana_row *row = baseline_row(rows, setup->study->balancing_count, name);
    *total_ns = row != NULL ? row->result.total_ns : 0;
    if (has_row(setup->study, name) || !has_dynamic_row(setup->study)) return STATUS_OK;
    const ana_balancing still = ana_balancing_default(name);
    return play_beside(setup, NULL, &still, listener, memory, total_ns, err);
}

/// What dynamic rows are divided by.
static status play_baselines(const ana_setup *setup, const ana_listener *listener, arena *memory,
                             ana_comparison *comparison, error_message *err)
{
    TRY(baseline_ns(setup, comparison->rows, "even", listener, memory, &comparison->even_ns, err));
    TRY(baseline_ns(setup, comparison->rows, "tuned", listener, memory, &comparison->tuned_ns,
                    err));
    if (!has_dynamic_row(setup->study) || setup->dynamism == NULL) return STATUS_OK;
    const ana_balancing even = ana_balancing_default("even");
    return play_beside(setup, &setup->still, &even, listener, memory, &comparison->still_even_ns,
                       err);
}

static void relate(const ana_comparison *comparison, ana_row *rows)
{
    const int row_count = comparison->setup->study->balancing_count;
    const ana_row *even = baseline_row(rows, row_count, "even");
    const ana_row *tuned = baseline_row(rows, row_count, "tuned");
    for (int index = 0; index < row_count; index++) {
        ana_row *row = &rows[index];
        if (even != NULL) row->relative_to_even = row->per_second / even->per_second;
        if (tuned != NULL) row->relative_to_tuned = row->per_second / tuned->per_second;
        if (row->outcome != STATUS_OK || !has_times(row->balancing)) continue;
        const ana_factor_times times = {.still_even_ns = comparison->still_even_ns,
                                        .even_ns = comparison->even_ns,
                                        .tuned_ns = comparison->tuned_ns,
                                        .unpacked_ns = row->unpacked_ns,
                                        .row_ns = row->result.total_ns};
        row->factors = ana_factors_of(&times);
    }
}

status ana_compare(const ana_setup *setup, const ana_listener *listener, arena *memory,
                   ana_comparison *comparison, error_message *err)
{
    static const ana_listener nobody = {0};
    const int row_count = setup->study->balancing_count;
    ana_row *rows = arena_array(memory, (size_t)row_count, sizeof *rows);
    if (listener == NULL) listener = &nobody;
    int feasible = 0;
    for (int row = 0; row < row_count; row++) {
        rows[row].balancing = &setup->study->balancings[row];
        TRY(play_row(setup, listener, memory, &rows[row], err));
        feasible += rows[row].outcome == STATUS_OK;
    }
    if (feasible == 0) return error_set(err, STATUS_INFEASIBLE, "%s", rows[0].message);
    ana_comparison compared = {.setup = setup, .rows = rows};
    for (int row = 0; row < row_count; row++) {
        TRY(play_beside_row(setup, listener, memory, &rows[row], err));
    }
    TRY(play_baselines(setup, listener, memory, &compared, err));
    relate(&compared, rows);
    *comparison = compared;
    return STATUS_OK;
}
