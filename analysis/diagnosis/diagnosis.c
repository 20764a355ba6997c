/// Plays the rows of a diagnosis and weighs them against the best kept split and a bound.
#include "analysis/diagnosis/diagnosis.h"

#include <string.h>

// The rules of the verdict.

ana_ground ana_ground_of(const ana_evidence *evidence)
{
    const double threshold = evidence->threshold_ratio;
    const ana_gain_interval *best = &evidence->best;
    if (evidence->is_uniform) return ANA_GROUND_UNIFORM;
    if (best->is_short) return ANA_GROUND_SHORT;
    if (evidence->is_of_stages) return ANA_GROUND_STAGES;
    const bool is_proven = evidence->bound.high < threshold;
    const bool is_noise = best->high < threshold;
    if (is_proven || is_noise || evidence->best_over_kept.high < threshold) {
        if (evidence->is_coarse) return ANA_GROUND_COARSE; // the bound is of these layers, too
        return is_proven ? ANA_GROUND_PROVEN : is_noise ? ANA_GROUND_NOISE : ANA_GROUND_ONE_SPLIT;
    }
    if (best->low > threshold) {
        return evidence->knows_state ? ANA_GROUND_GAIN : ANA_GROUND_STATE_UNKNOWN;
    }
    return ANA_GROUND_INTERVAL;
}

const ana_ground_words ana_grounds[ANA_GROUND_COUNT] = {
    [ANA_GROUND_UNIFORM] =
        {"uniform", ANA_VERDICT_UNDECIDABLE,
         "In every iteration all layers take the same time to the nanosecond: they were "
         "not measured one by one. Record layer by layer."},
    [ANA_GROUND_SHORT] =
        {"short", ANA_VERDICT_UNDECIDABLE,
         "Too few sampled iterations to tell drift from noise. Record at least 20, each "
         "one rather than every n-th."},
    [ANA_GROUND_STAGES] =
        {"stages", ANA_VERDICT_UNDECIDABLE,
         "Every stage was recorded as one layer: no other split can be tried. Record "
         "layer by layer; of a run of which every op was recorded, `dynmo stragglers` "
         "says what slowed it and which split would mend it."},
    [ANA_GROUND_PROVEN] =
        {"proven", ANA_VERDICT_NOT_WORTHWHILE,
         "No contiguous plan can gain that, known beforehand and free to move: proven "
         "for every iteration."},
    [ANA_GROUND_COARSE] =
        {"coarse", ANA_VERDICT_UNDECIDABLE,
         "No policy gains that, but fewer than 4 layers per stage were recorded, and one of them "
         "is much to move. Record every layer of the model by itself. If these are all, "
         "set the best kept split below and leave it."},
    [ANA_GROUND_NOISE] = {"noise", ANA_VERDICT_NOT_WORTHWHILE,
                          "No policy gains that over the split named below. Set it and leave it."},
    [ANA_GROUND_ONE_SPLIT] =
        {"one-split", ANA_VERDICT_NOT_WORTHWHILE,
         "No policy gains that over the best kept split below. Split by the mean of "
         "many iterations, not by the first, and leave it."},
    [ANA_GROUND_STATE_UNKNOWN] =
        {"state-unknown", ANA_VERDICT_UNDECIDABLE,
         "It would be, but the trace does not say how many bytes a layer moves with. "
         "Record parameters, or give --layer-state."},
    [ANA_GROUND_GAIN] = {"gain", ANA_VERDICT_WORTHWHILE,
                         "The low end of its gain is above that, with migration paid."},
    [ANA_GROUND_INTERVAL] = {"interval", ANA_VERDICT_UNDECIDABLE,
                             "The interval of the best policy includes that."},
};

const char *const ana_verdict_names[] = {"worthwhile", "not worthwhile", "undecidable"};

int64_t ana_iterations_to_decide(const ana_evidence *evidence, int count)
{
    const ana_gain_interval *best = &evidence->best;
    const double threshold = evidence->threshold_ratio;
    const bool is_above = best->gain > threshold;
    const double distance = is_above ? best->gain - threshold : threshold - best->gain;
    const double half = is_above ? best->gain - best->low : best->high - best->gain;
    const double factor = distance > 0 ? half / distance : INT32_MAX;
    const double wanted = factor * factor * count;
    return wanted < INT32_MAX ? (int64_t)wanted + 1 : INT32_MAX;
}

const char ana_diagnosis_rows[] = "[{\"balancer\":\"even\"},{\"balancer\":\"tuned\"},"
                                  "{\"balancer\":\"partition\",\"policy\":\"on-change\"},"
                                  "{\"balancer\":\"partition\",\"policy\":\"every:1\"},"
                                  "{\"balancer\":\"partition\",\"policy\":\"every:10\"},"
                                  "{\"balancer\":\"partition\",\"policy\":\"every:100\"},"
                                  "{\"balancer\":\"partition\",\"policy\":\"threshold:0.05\"},"
                                  "{\"balancer\":\"partition\",\"policy\":\"shadow\"},"
                                  "{\"balancer\":\"diffusion\",\"policy\":\"on-change\"},"
                                  "{\"balancer\":\"diffusion\",\"policy\":\"every:10\"},"
                                  "{\"balancer\":\"diffusion\",\"policy\":\"threshold:0.05\"}]";

ana_diagnosis_options ana_diagnosis_options_default(void)
{
    return (ana_diagnosis_options){.threshold_ratio = 0.01, .tail_probability = 0.025, .seed = 1};
}

/// Lengths of the iterations of every row, as they are played.
typedef struct played {
    int row_count;
    int count;            // iterations
    int row;              // that is being played; -1: none yet
    double spacing;       // of the series
    int64_t *ns;          // [row_count][count]
    int64_t *overhead_ns; // [row_count] sums
} played;

static status begin_row(void *context, const ana_balancing *balancing, error_message *err)
{
    (void)balancing;
    (void)err;
    ((played *)context)->row++;
    return STATUS_OK;
}

/// Moving happens once, however many iterations of the run an iteration of the series stands for.
static status put_iteration(void *context, const bal_training_iteration *iteration,
                            error_message *err)
{
    (void)err;
    played *of = context;
    const int64_t overhead =
        iteration->migration_ns + iteration->decision_ns + iteration->profile_ns;
    const int64_t weighed = (int64_t)((double)overhead / of->spacing + 0.5);
    of->ns[(size_t)of->row * (size_t)of->count + (size_t)iteration->iteration] =
        iteration->iteration_ns - overhead + weighed;
    of->overhead_ns[of->row] += weighed;
    return STATUS_OK;
}

static const int64_t *row_ns(const played *of, int row)
{
    return of->ns + (size_t)row * (size_t)of->count;
}

static int64_t total_ns(const played *of, int row)
{
    int64_t total = 0;
    for (int index = 0; index < of->count; index++) {
        total += row_ns(of, row)[index];
    }
    return total;
}

static status play_rows(const ana_setup *setup, const ana_listener *steps, played *of,
                        arena *memory, ana_comparison *comparison, error_message *err)
{
    const size_t rows = (size_t)of->row_count;
    ana_listener listener = *steps;
    of->row = -1;
    of->ns = arena_array(memory, rows * (size_t)of->count, sizeof *of->ns);
    of->overhead_ns = arena_array(memory, rows, sizeof *of->overhead_ns);
    listener.begin_row = begin_row;
    listener.sink = (bal_record_sink){.context = of, .put = put_iteration};
    return ana_compare(setup, &listener, memory, comparison, err);
}

/// The better of the rows that keep their plan, which all gains are over: what anybody can have
/// without moving a layer.
static status find_baseline(const played *of, const ana_comparison *comparison, int *baseline,
                            error_message *err)
{
    int64_t least_ns = INT64_MAX;
    *baseline = -1;
    for (int row = 0; row < of->row_count; row++) {
        const ana_row *each = &comparison->rows[row];
        if (each->outcome != STATUS_OK || ana_balancing_is_dynamic(each->balancing)) continue;
        if (total_ns(of, row) > least_ns) continue;
        least_ns = total_ns(of, row);
        *baseline = row;
    }
    if (*baseline >= 0) return STATUS_OK;
    return error_set(err, STATUS_INFEASIBLE, "%s: %.*s", comparison->rows[0].balancing->label, 400,
                     comparison->rows[0].message);
}

/// The gain of one run over another, with its interval.
static ana_gain_interval gain_over(const ana_diagnosis *made, const int64_t *from_ns,
                                   const int64_t *to_ns, int count, double tail, arena *memory)
{
    ana_gain_interval interval;
    ana_gain_interval_of(from_ns, to_ns, count, tail, made->options.seed, memory, &interval);
    return interval;
}

/// Several rows compete to be the best; the interval of each is so wide that all hold together.
static double tail_of_rows(const ana_diagnosis *made, int row_count)
{
    int dynamic = 0;
    for (int row = 0; row < row_count; row++) {
        dynamic += ana_balancing_is_dynamic(made->comparison.rows[row].balancing);
    }
    return made->options.tail_probability / (dynamic > 0 ? dynamic : 1);
}

static void weigh_rows(const played *of, arena *memory, ana_diagnosis *made)
{
    ana_row_gain *rows = arena_array(memory, (size_t)of->row_count, sizeof *rows);
    const double tail = tail_of_rows(made, of->row_count);
    made->best = -1;
    for (int row = 0; row < of->row_count; row++) {
        ana_row_gain *gain = &rows[row];
        gain->row = &made->comparison.rows[row];
        if (gain->row->outcome != STATUS_OK) continue;
        gain->total_ns = total_ns(of, row);
        gain->overhead_ns = of->overhead_ns[row];
        gain->interval =
            gain_over(made, row_ns(of, made->baseline), row_ns(of, row), of->count, tail, memory);
        if (!ana_balancing_is_dynamic(gain->row->balancing)) continue;
        if (made->best < 0 || gain->total_ns < rows[made->best].total_ns) made->best = row;
    }
    made->rows = rows;
    if (made->best >= 0) made->evidence.best = rows[made->best].interval;
}

/// The split that is kept: what the search finds, unless the baseline is faster or it does not fit.
///
/// @param taken [count] out: what iterations take under it
static status choose_kept(const played *of, arena *memory, ana_diagnosis *made, int64_t *taken,
                          error_message *err)
{
    const int stages = made->setup->stage_count;
    const int64_t *baseline = row_ns(of, made->baseline);
    int *first_layer = arena_array(memory, (size_t)stages + 1, sizeof *first_layer);
    int64_t gained_ns = 0;
    TRY(ana_kept_split_of(made->series, stages, memory, first_layer, err));
    const status result =
        ana_plan_takes(made->setup, made->series, first_layer, memory, taken, err);
    if (result != STATUS_OK && result != STATUS_INFEASIBLE) return result;
    for (int index = 0; index < of->count; index++) {
        gained_ns += baseline[index] - taken[index];
    }
    made->kept_first_layer = first_layer;
    if (result == STATUS_OK && gained_ns >= 0) return STATUS_OK;
    made->kept_first_layer = made->rows[made->baseline].row->splits.steps[0].first_layer;
    memcpy(taken, baseline, (size_t)of->count * sizeof *taken);
    return STATUS_OK;
}

/// What is proven, and what the best split that is kept takes.
static status weigh_plans(const played *of, arena *memory, ana_diagnosis *made, error_message *err)
{
    const size_t count = (size_t)of->count;
    const double tail = made->options.tail_probability;
    const int64_t *baseline = row_ns(of, made->baseline);
    int64_t *taken = arena_array(memory, count, sizeof *taken);
    TRY(ana_contiguous_bounds_of(made->setup, made->series, taken, err));
    made->evidence.bound = gain_over(made, baseline, taken, of->count, tail, memory);
    TRY(choose_kept(of, memory, made, taken, err));
    made->kept = gain_over(made, baseline, taken, of->count, tail, memory);
    if (made->best < 0) return STATUS_OK;
    made->evidence.best_over_kept = gain_over(made, taken, row_ns(of, made->best), of->count,
                                              tail_of_rows(made, of->row_count), memory);
    return STATUS_OK;
}

/// Whether, in every iteration, all layers but embedding and head take the same time to the ns.
static bool is_uniform(const ana_series *series)
{
    for (int index = 0; index < series->count; index++) {
        const int first = series->costs[index].embedding ? 1 : 0;
        const int end = series->layer_count - (series->costs[index].head ? 1 : 0);
        for (int layer = first + 1; layer < end; layer++) {
            if (ana_series_load_ns(series, index, layer) !=
                ana_series_load_ns(series, index, first)) {
                return false;
            }
        }
    }
    return true;
}

static bool has_bytes(const int64_t *bytes, int layer_count)
{
    for (int layer = 0; bytes != NULL && layer < layer_count; layer++) {
        if (bytes[layer] > 0) return true;
    }
    return false;
}

/// Puts stated bytes where the trace has none.
static void fill_state(ana_series *series, int64_t layer_bytes, arena *memory)
{
    int64_t *bytes = arena_array(memory, (size_t)series->layer_count, sizeof *bytes);
    for (int layer = 0; layer < series->layer_count; layer++) {
        bytes[layer] = layer_bytes;
    }
    for (int index = 0; index < series->count; index++) {
        series->costs[index].state_bytes = bytes;
    }
}

const char *const ana_mend_names[ANA_MEND_COUNT] = {"nothing", "data", "layers",
                                                    "worker",  "host", "link"};

/// Of steps whose ops are recorded at least so many say what microbatches are like. Costs of layers
/// are means over the replicas, in which unlike lengths vanish.
enum { LENGTH_STEPS_MIN = 8 };

bool ana_ops_tell_lengths(const ana_diagnosis *of)
{
    const ana_stragglers *known = of->options.stragglers;
    return known != NULL && known->run.step_count >= LENGTH_STEPS_MIN;
}

/// What microbatches that are alike would gain.
static status weigh_microbatches(const played *of, arena *memory, ana_diagnosis *made,
                                 error_message *err)
{
    const ana_splits *baseline = &made->rows[made->baseline].row->splits;
    if (ana_ops_tell_lengths(made)) {
        const ana_causes *causes = &made->options.stragglers->causes;
        made->data = (ana_data_imbalance){.is_known = true, .correlation = causes->correlation};
        made->alike = ana_cause_of(causes, ANA_CAUSE_LENGTHS)->gain;
        return STATUS_OK;
    }
    made->data = ana_data_imbalance_of(made->series);
    if (!made->data.is_known) return STATUS_OK;
    int64_t *taken = arena_array(memory, (size_t)of->count, sizeof *taken);
    TRY(ana_alike_take(made->setup, made->series, baseline->steps[0].first_layer, memory, taken,
                       err));
    made->alike = gain_over(made, row_ns(of, made->baseline), taken, of->count,
                            made->options.tail_probability, memory);
    return STATUS_OK;
}

/// Which is to be mended first.
static void choose_mend(ana_diagnosis *made)
{
    static const ana_cause_kind others[ANA_MEND_COUNT] = {[ANA_MEND_WORKER] = ANA_CAUSE_WORKER,
                                                          [ANA_MEND_HOST] = ANA_CAUSE_HOST,
                                                          [ANA_MEND_LINK] = ANA_CAUSE_LINK};
    const ana_stragglers *known = made->options.stragglers;
    const double best = made->best >= 0 ? made->evidence.best.gain : 0;
    double gains[ANA_MEND_COUNT] = {0};
    gains[ANA_MEND_LAYERS] = best > made->kept.gain ? best : made->kept.gain;
    if (made->evidence.is_of_stages) {
        gains[ANA_MEND_LAYERS] = ana_ops_tell_lengths(made)
                                     ? ana_cause_of(&known->causes, ANA_CAUSE_STAGE)->gain.gain
                                     : 0;
    }
    if (made->data.correlation >= ANA_LENGTHS_CORRELATION_MIN) {
        gains[ANA_MEND_DATA] = made->alike.gain;
    }
    for (int mend = ANA_MEND_WORKER; known != NULL && mend < ANA_MEND_COUNT; mend++) {
        const ana_cause *cause = ana_cause_of(&known->causes, others[mend]);
        if (cause->is_named) gains[mend] = cause->gain.gain;
    }
    for (int mend = ANA_MEND_DATA; mend < ANA_MEND_COUNT; mend++) {
        if (gains[mend] < made->options.threshold_ratio) continue;
        if (gains[mend] > gains[made->mend]) made->mend = (ana_mend)mend;
    }
}

/// A layer is much to move where a stage has fewer, and the trace may have taken several for one.
enum { LAYERS_PER_STAGE_MIN = 4 };

static status check_setup(const ana_setup *setup, error_message *err)
{
    if (setup->source_count > 1) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%d replicas have loads of their own; a diagnosis looks at one",
                         setup->source_count);
    }
    if (setup->stage_count == setup->machine.rank_count) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "schedule %s puts %d stages on a rank; a diagnosis needs one",
                     setup->study->run.schedule, setup->stage_count / setup->machine.rank_count);
}

/// The setup with the series in place of its costs.
static status read_series(const ana_setup *setup, arena *memory, ana_diagnosis *made,
                          error_message *err)
{
    ana_series *series = arena_array(memory, 1, sizeof *series);
    bal_cost_source *source = arena_array(memory, 1, sizeof *source);
    ana_setup *own = arena_array(memory, 1, sizeof *own);
    TRY(ana_series_read(&setup->source, setup->iteration_count, ANA_SERIES_COUNT_MAX, memory,
                        series, err));
    if (setup->study->trace_path != NULL && setup->study->first_iteration < 0) {
        made->cold_factor = ana_series_cold_factor(series, memory);
        if (made->cold_factor > 0) *series = ana_series_after_first(series);
    }
    made->evidence.knows_state = has_bytes(series->costs[0].state_bytes, series->layer_count);
    if (!made->evidence.knows_state && made->options.layer_state_bytes > 0) {
        fill_state(series, made->options.layer_state_bytes, memory);
        made->evidence.knows_state = true;
    }
    *source = ana_series_source(series);
    *own = *setup;
    own->source = own->still = *source;
    own->sources = source;
    own->source_count = 1;
    own->iteration_count = series->count;
    own->dynamism = NULL;
    made->setup = own;
    made->series = series;
    made->spacing = ana_series_spacing(series);
    made->evidence.is_uniform = setup->study->trace_path != NULL && is_uniform(series);
    made->evidence.is_of_stages = setup->study->trace_path != NULL && setup->stage_count > 1 &&
                                  series->costs[0].layer_count <= setup->stage_count;
    made->evidence.is_coarse = !setup->layers_are_whole && setup->stage_count > 1 &&
                               series->layer_count < LAYERS_PER_STAGE_MIN * setup->stage_count;
    return STATUS_OK;
}

status ana_diagnose(ana_setup *setup, const ana_diagnosis_options *options,
                    void (*step)(void *context), void *step_context, arena *memory,
                    ana_diagnosis *diagnosis, error_message *err)
{
    ana_diagnosis made = {.options = *options,
                          .evidence.threshold_ratio = options->threshold_ratio};
    const ana_listener steps = {.step = step, .step_context = step_context};
    TRY(check_setup(setup, err));
    TRY(read_series(setup, memory, &made, err));
    played of = {.row_count = setup->study->balancing_count,
                 .count = made.series->count,
                 .spacing = made.spacing};
    TRY(play_rows(made.setup, &steps, &of, memory, &made.comparison, err));
    TRY(find_baseline(&of, &made.comparison, &made.baseline, err));
    weigh_rows(&of, memory, &made);
    TRY(weigh_plans(&of, memory, &made, err));
    TRY(ana_expert_imbalance_of(setup->dynamism, made.series, setup->study->parallel.expert, memory,
                                &made.experts, err));
    TRY(weigh_microbatches(&of, memory, &made, err));
    choose_mend(&made);
    made.ground = ana_ground_of(&made.evidence);
    *diagnosis = made;
    return STATUS_OK;
}
