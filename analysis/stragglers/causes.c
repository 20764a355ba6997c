#include "analysis/stragglers/causes.h"

#include "balance/partition/partition.h"
#include "base/text.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MIN = 3 };

/// What is enough to speak of a cause, besides its gain.
static const double worker_factor_min = 1.05;
static const double worker_errors_min = 5;  // standard errors above its peers
static const double few_steps_error = 0.05; // at least, where steps are too few to estimate it
static const double link_factor_min = 2;

/// What causes are found with.
typedef struct finding {
    const ana_op_run *run;
    const ana_slowdowns *slowdowns;
    const ana_stage_layers *layers;
    ana_work_times times;
    double *stage_factor; // [stage_count] that a new split multiplies a stage's times by
    bool *is_slow;        // [worker_count]
    bool *is_slow_link;   // [worker_count][name_count]
    arena *memory;
    ana_causes *causes;
} finding;

static bool is_collection(const char *name)
{
    return strcmp(name, "gc") == 0 || strstr(name, "garbage") != NULL;
}

/// Without messages a launch that is late cannot be told from one that waits for a message.
static bool has_messages(const ana_op_run *run)
{
    for (int name = 0; name < run->table->name_count; name++) {
        const trace_op_kind kind = run->table->kinds[name];
        if (kind >= TRACE_OP_SEND_FORWARD && kind <= TRACE_OP_RECV_BACKWARD) return true;
    }
    return run->stage_count == 1;
}

/// By what an op's own time is multiplied where a cause is mended.
static double mended(const finding *of, ana_cause_kind cause, int step, int op)
{
    const ana_op_run *run = of->run;
    const trace_op *each = &run->steps[step].ops[op];
    const ana_work *work = of->times.work_of[step][op];
    const double own_ns = (double)run->steps[step].own_ns[op];
    switch (cause) {
    case ANA_CAUSE_WORKER:
        return work != NULL && of->is_slow[each->rank] ? 1 / of->times.factor[each->rank] : 1;
    case ANA_CAUSE_STAGE:
        return work != NULL ? of->stage_factor[each->stage] : 1;
    case ANA_CAUSE_LENGTHS: {
        if (work == NULL) return 1;
        const double length = of->times.length[work->group];
        const double usual = of->times.usual_length[step * ANA_WORK_KINDS + work->kind];
        return length > 0 ? usual / length : 1;
    }
    case ANA_CAUSE_HOST:
        if (is_collection(run->table->names[each->name - 1])) return 0;
        if (work == NULL || !ana_work_is_held_up(&of->times, work)) return 1;
        return ana_work_expected_ns(&of->times, work) / own_ns;
    default: {
        const int link = each->rank * run->table->name_count + each->name - 1;
        const double ideal_ns = (double)run->ideal_ns[each->name - 1];
        return of->is_slow_link[link] && own_ns > ideal_ns ? ideal_ns / own_ns : 1;
    }
    }
}

/// Lengths of the steps with some causes mended, in ns. @param factors [op_count] scratch or kept
static int64_t replay_mended(const finding *of, int step, const bool *is_mended, double *factors)
{
    const ana_op_step *each = &of->run->steps[step];
    int64_t *duration_ns = memory_array((size_t)each->op_count, sizeof *duration_ns);
    for (int op = 0; op < each->op_count; op++) {
        factors[op] = 1;
        for (int cause = 0; cause < ANA_CAUSE_COUNT; cause++) {
            if (is_mended[cause]) factors[op] *= mended(of, (ana_cause_kind)cause, step, op);
        }
        duration_ns[op] = (int64_t)(factors[op] * (double)each->own_ns[op] + 0.5);
    }
    const ana_replay replay = {.duration_ns = duration_ns};
    const int64_t length_ns = ana_op_step_length(each, &replay);
    free(duration_ns);
    return length_ns;
}

/// An interval by Student's t of the ratio of two sums, where steps are too few to be drawn.
static void few_steps_interval(const int64_t *before_ns, const int64_t *after_ns, int count,
                               ana_gain_interval *interval)
{
    double sum_ns = 0;
    double squares = 0;
    for (int step = 0; step < count; step++) {
        sum_ns += (double)after_ns[step];
    }
    for (int step = 0; step < count; step++) {
        const double off_ns =
            (double)before_ns[step] - (1 + interval->gain) * (double)after_ns[step];
        squares += off_ns * off_ns;
    }
    const double error = sqrt(squares * count / (count - 1)) / sum_ns;
    const double reach = gsl_cdf_tdist_Pinv(0.975, count - 1) * error;
    interval->low = interval->gain - reach;
    interval->high = interval->gain + reach;
    interval->is_short = false;
}

/// Too few steps for an interval: each must say so, lest a cold one speaks for the others. Stages
/// alone may differ between steps, as layers freeze or are pruned.
static void gain_of_each(const int64_t *before_ns, const int64_t *after_ns, int count,
                         ana_gain_interval *interval)
{
    for (int step = 0; step < count; step++) {
        if (after_ns[step] <= 0) continue;
        const double gain = (double)before_ns[step] / (double)after_ns[step] - 1;
        if (gain < interval->low) interval->low = gain;
        if (gain > interval->high) interval->high = gain;
    }
}

/// The gain of mending one cause. Pauses of the host are what the replay of all others leaves out.
static void measure_gain(finding *of, ana_cause *cause)
{
    const int count = of->run->step_count;
    bool is_mended[ANA_CAUSE_COUNT] = {false};
    int64_t *before_ns = memory_array((size_t)count, sizeof *before_ns);
    int64_t *after_ns = memory_array((size_t)count, sizeof *after_ns);
    const bool with_delays = cause->kind == ANA_CAUSE_HOST && has_messages(of->run);
    is_mended[cause->kind] = true;
    for (int step = 0; step < count; step++) {
        double *factors = memory_array((size_t)of->run->steps[step].op_count, sizeof *factors);
        const ana_straggler_step *replayed = &of->slowdowns->steps[step];
        before_ns[step] = with_delays ? replayed->delayed_ns : replayed->replayed_ns;
        after_ns[step] = replay_mended(of, step, is_mended, factors);
        free(factors);
    }
    ana_gain_interval_of(before_ns, after_ns, count, 0.025, 1, of->memory, &cause->gain);
    if (cause->gain.is_short && count >= STEPS_MIN) {
        few_steps_interval(before_ns, after_ns, count, &cause->gain);
    } else if (cause->gain.is_short && cause->kind != ANA_CAUSE_STAGE) {
        gain_of_each(before_ns, after_ns, count, &cause->gain);
    }
    free(before_ns);
    free(after_ns);
}

/// One slow worker, or several.
static bool find_workers(finding *of, text_buffer *evidence)
{
    const ana_op_run *run = of->run;
    int count = 0;
    int slowest = 0;
    of->is_slow = arena_array(of->memory, (size_t)run->worker_count, sizeof(bool));
    for (int worker = 0; worker < run->worker_count; worker++) {
        const double factor = of->times.factor[worker];
        double error = of->times.factor_error[worker];
        if (run->step_count < STEPS_MIN && error < few_steps_error) error = few_steps_error;
        of->is_slow[worker] =
            factor >= worker_factor_min && factor - 1 >= worker_errors_min * error;
        count += of->is_slow[worker];
        const bool is_slower = factor > of->times.factor[slowest];
        if (of->is_slow[worker] > of->is_slow[slowest] ||
            (is_slower && of->is_slow[worker] == of->is_slow[slowest])) {
            slowest = worker;
        }
    }
    text_format(
        evidence,
        "%d of %d workers take longer than the other replicas of their stage in every step; "
        "replica %d, stage %d takes %.2f times as long, +- %.3f (the run slows down %.3f times "
        "by it alone)",
        count, run->worker_count, slowest / run->stage_count, slowest % run->stage_count,
        of->times.factor[slowest], 2 * of->times.factor_error[slowest],
        of->slowdowns->by[ANA_SLOW_WORKER][slowest]);
    return count > 0;
}

/// Layers that make the longest stage as short as can be: equal layers, one after the other, go to
/// where they end first.
static void split_layers(finding *of, const double *extra_ns, double layer_ns)
{
    const int stages = of->run->stage_count;
    ana_stage_split *split = &of->causes->split;
    int left = -stages;
    split->layers = arena_array(of->memory, (size_t)stages, sizeof *split->layers);
    for (int stage = 0; stage < stages; stage++) {
        left += of->layers->counts[stage];
        split->layers[stage] = 1;
    }
    for (; left > 0; left--) {
        int best = 0;
        for (int stage = 1; stage < stages; stage++) {
            const double load = extra_ns[stage] + layer_ns * split->layers[stage];
            if (load < extra_ns[best] + layer_ns * split->layers[best]) best = stage;
        }
        split->layers[best]++;
    }
    for (int stage = 0; stage < stages; stage++) {
        of->stage_factor[stage] =
            (extra_ns[stage] + layer_ns * split->layers[stage]) / (double)split->stage_ns[stage];
    }
}

/// The split of the layers' own times whose longest stage is shortest.
static void split_times(finding *of)
{
    const int stages = of->run->stage_count;
    ana_stage_split *split = &of->causes->split;
    int layer_count = 0;
    int64_t bottleneck_ns = 0;
    for (int stage = 0; stage < stages; stage++) {
        layer_count += of->layers->counts[stage];
    }
    int64_t *before = arena_array(of->memory, (size_t)layer_count + 1, sizeof *before);
    int64_t *zeros = arena_array(of->memory, (size_t)layer_count + 1, sizeof *zeros);
    int *first_layer = arena_array(of->memory, (size_t)stages + 1, sizeof *first_layer);
    for (int layer = 0; layer < layer_count; layer++) {
        before[layer + 1] = before[layer] + of->layers->layer_ns[layer];
    }
    bal_chain chain = {.layer_count = layer_count,
                       .stage_count = stages,
                       .weight_before = before,
                       .state_before = zeros,
                       .activation_before = zeros};
    if (bal_chain_bound_load_sum(&chain, NULL) != STATUS_OK ||
        bal_partition_bottleneck(&chain, of->memory, first_layer, &bottleneck_ns, NULL) !=
            STATUS_OK) {
        return;
    }
    split->layers = arena_array(of->memory, (size_t)stages, sizeof *split->layers);
    for (int stage = 0, first = 0; stage < stages; stage++) {
        const int end = first + of->layers->counts[stage];
        const int64_t now_ns = before[end] - before[first];
        const int64_t then_ns = before[first_layer[stage + 1]] - before[first_layer[stage]];
        split->layers[stage] = first_layer[stage + 1] - first_layer[stage];
        of->stage_factor[stage] = now_ns > 0 ? (double)then_ns / (double)now_ns : 1;
        first = end;
    }
}

/// What each stage takes of one microbatch.
static void find_split(finding *of)
{
    const int stages = of->run->stage_count;
    ana_stage_split *split = &of->causes->split;
    double *scratch = memory_array((size_t)stages * 2, sizeof *scratch);
    double *extra_ns = scratch + stages;
    double mean_ns = 0;
    split->stage_ns = arena_array(of->memory, (size_t)stages, sizeof *split->stage_ns);
    of->stage_factor = arena_array(of->memory, (size_t)stages, sizeof *of->stage_factor);
    for (int stage = 0; stage < stages; stage++) {
        double sum_ns = 0;
        for (int part = stage; part < of->times.part_count; part += stages) {
            for (int kind = 0; kind < ANA_WORK_KINDS; kind++) {
                sum_ns += of->times.mean_ns[kind * of->times.part_count + part];
            }
        }
        split->stage_ns[stage] = (int64_t)(sum_ns + 0.5);
        mean_ns += sum_ns / stages;
        scratch[stage] = sum_ns / (of->layers->counts != NULL ? of->layers->counts[stage] : 1);
    }
    const double unit_ns = ana_lower_median(scratch, stages);
    split->unit_ns = (int64_t)(unit_ns + 0.5);
    for (int stage = 0; stage < stages; stage++) {
        const double stage_ns = (double)split->stage_ns[stage];
        const bool is_end = stage == 0 || stage == stages - 1;
        const double more_ns =
            stage_ns - unit_ns * (of->layers->counts != NULL ? of->layers->counts[stage] : 1);
        extra_ns[stage] = of->layers->counts != NULL || (is_end && more_ns > 0) ? more_ns : 0;
        of->stage_factor[stage] = stage_ns > 0 ? mean_ns / stage_ns : 1;
    }
    if (of->layers->layer_ns != NULL) {
        split_times(of);
    } else if (of->layers->counts != NULL && unit_ns > 0) {
        split_layers(of, extra_ns, unit_ns);
    }
    free(scratch);
}

static void say_layers(const int *layers, int stage_count, const char *before, text_buffer *out)
{
    text_append(out, before);
    for (int stage = 0; stage < stage_count; stage++) {
        text_format(out, " %d", layers[stage]);
    }
}

static bool find_stages(finding *of, text_buffer *evidence)
{
    const int stages = of->run->stage_count;
    const ana_stage_split *split = &of->causes->split;
    int longest = 0;
    find_split(of);
    for (int stage = 1; stage < stages; stage++) {
        if (split->stage_ns[stage] > split->stage_ns[longest]) longest = stage;
    }
    of->causes->all[ANA_CAUSE_STAGE].name = longest == stages - 1 ? "last stage too long"
                                            : longest == 0        ? "first stage too long"
                                                                  : "stages of unequal length";
    text_format(evidence, "stage %d takes %s of a microbatch, an ordinary %s %s", longest,
                text_duration(split->stage_ns[longest]).text,
                of->layers->counts != NULL ? "layer" : "one", text_duration(split->unit_ns).text);
    of->causes->all[ANA_CAUSE_STAGE].is_bound = split->layers == NULL;
    if (split->layers == NULL) {
        text_append(evidence, "; with --layers dynmo stragglers tells which split of whole layers "
                              "comes nearest to stages of one length, and its gain");
        return stages > 1;
    }
    say_layers(split->layers, stages,
               of->layers->has_ends ? "; layers per stage that mend it, with embedding and head:"
                                    : "; layers per stage that mend it:",
               evidence);
    if (of->layers->layer_ns != NULL) {
        say_layers(of->layers->counts, stages, ", in place of", evidence);
    }
    return stages > 1;
}

static bool find_lengths(finding *of, text_buffer *evidence)
{
    double largest = 0;
    double sum = 0;
    double squares = 0;
    const double count = of->times.group_count;
    for (int group = 0; group < of->times.group_count; group++) {
        const double length = of->times.length[group];
        if (length > largest) largest = length;
        sum += length;
        squares += length * length;
    }
    const double mean = count > 0 ? sum / count : 1;
    const double variance = count > 0 ? squares / count - mean * mean : 0;
    const bool across = of->times.part_count > 1;
    text_format(evidence,
                "F%s and backward%s of one microbatch correlate with %.2f; microbatches scatter by "
                "%.0f %% on all stages alike, the longest takes %.1f times the mean",
                across ? " on the first" : "", across ? " on the last stage" : "",
                of->times.correlation, 100 * sqrt(variance > 0 ? variance : 0), largest / mean);
    return of->times.correlation >= ANA_LENGTHS_CORRELATION_MIN;
}

static bool find_pauses(finding *of, text_buffer *evidence)
{
    double collected_ns = 0;
    double delayed_ns = 0;
    double held_up_ns = 0;
    int held_up_count = 0; // ops that took longer than the limit of the rest
    const double steps = of->run->step_count;
    for (int step = 0; step < of->run->step_count; step++) {
        const ana_op_step *each = &of->run->steps[step];
        delayed_ns += (double)(of->slowdowns->steps[step].delayed_ns -
                               of->slowdowns->steps[step].replayed_ns);
        for (int op = 0; op < each->op_count; op++) {
            if (is_collection(of->run->table->names[each->ops[op].name - 1])) {
                collected_ns += (double)each->own_ns[op];
            }
            const ana_work *work = of->times.work_of[step][op];
            if (work == NULL || !ana_work_is_held_up(&of->times, work)) continue;
            held_up_count++;
            held_up_ns += (double)work->own_ns - ana_work_expected_ns(&of->times, work);
        }
    }
    text_format(evidence,
                "late launches%s lengthen a step by %s; garbage is collected for %s per worker and "
                "step; %d of %d F and backwards were held up, by %s in the mean, unlike the other "
                "stages of their microbatch",
                has_messages(of->run) ? "" : " and messages, which were not recorded,",
                text_duration((int64_t)(delayed_ns / steps)).text,
                text_duration((int64_t)(collected_ns / steps / of->run->worker_count)).text,
                held_up_count, (int)of->times.work_count,
                text_duration(held_up_count > 0 ? (int64_t)(held_up_ns / held_up_count) : 0).text);
    return true;
}

/// Median travel of what workers share under one name. @param medians_ns [worker_count] out
static void find_travel(const ana_op_run *run, int name, double *medians_ns)
{
    double *values = memory_array((size_t)run->table->op_count + 1, sizeof *values);
    int *places = memory_array((size_t)run->worker_count + 2, sizeof *places);
    for (int64_t op = 0; op < run->table->op_count; op++) {
        const trace_table_op *each = &run->table->ops[op];
        if (each->name == name + 1) places[each->rank + 2]++;
    }
    for (int worker = 2; worker <= run->worker_count; worker++) {
        places[worker] += places[worker - 1];
    }
    for (int step = 0; step < run->step_count; step++) {
        const ana_op_step *each = &run->steps[step];
        for (int op = 0; op < each->op_count; op++) {
            if (each->ops[op].name != name + 1) continue;
            values[places[each->ops[op].rank + 1]++] = (double)each->own_ns[op];
        }
    }
    for (int worker = 0; worker < run->worker_count; worker++) {
        medians_ns[worker] =
            ana_lower_median(values + places[worker], places[worker + 1] - places[worker]);
    }
    free(values);
    free(places);
}

/// Travel of what every worker and name shares with others, against all that share it.
static bool find_links(finding *of, text_buffer *evidence)
{
    const ana_op_run *run = of->run;
    const int names = run->table->name_count;
    double *medians_ns = memory_array((size_t)run->worker_count, sizeof *medians_ns);
    double slowest = 0;
    int slowest_link = 0;
    int count = 0;
    of->is_slow_link =
        arena_array(of->memory, (size_t)run->worker_count * (size_t)names, sizeof(bool));
    for (int name = 0; name < names; name++) {
        const double ideal_ns = (double)run->ideal_ns[name];
        if (!ana_op_is_shared(run->table->kinds[name]) || ideal_ns <= 0) continue;
        find_travel(run, name, medians_ns);
        for (int worker = 0; worker < run->worker_count; worker++) {
            const double factor = medians_ns[worker] / ideal_ns;
            of->is_slow_link[worker * names + name] = factor > link_factor_min;
            count += factor > link_factor_min;
            if (factor <= slowest) continue;
            slowest = factor;
            slowest_link = worker * names + name;
        }
    }
    const int worker = slowest_link / names;
    text_format(
        evidence,
        "%s of replica %d, stage %d travels %.1f times as long as the median of all, %s; %d "
        "pairs of worker and kind take more than %g times",
        run->table->names[slowest_link % names], worker / run->stage_count,
        worker % run->stage_count, slowest, text_duration(run->ideal_ns[slowest_link % names]).text,
        count, link_factor_min);
    free(medians_ns);
    return count > 0;
}

static int compare_causes(const void *a, const void *b)
{
    const ana_cause *left = a;
    const ana_cause *right = b;
    if (left->is_named != right->is_named) return left->is_named ? -1 : 1;
    if (left->gain.gain != right->gain.gain) return left->gain.gain > right->gain.gain ? -1 : 1;
    return (left->kind > right->kind) - (left->kind < right->kind);
}

/// Factors of all ops with all named causes mended.
static void mend_all(finding *of)
{
    bool is_mended[ANA_CAUSE_COUNT] = {false};
    ana_causes *causes = of->causes;
    causes->mending = arena_array(of->memory, (size_t)of->run->step_count, sizeof *causes->mending);
    for (int each = 0; each < causes->named_count; each++) {
        is_mended[causes->all[each].kind] = true;
    }
    for (int step = 0; step < of->run->step_count; step++) {
        double *factors =
            arena_array(of->memory, (size_t)of->run->steps[step].op_count, sizeof *factors);
        replay_mended(of, step, is_mended, factors);
        causes->mending[step] = factors;
    }
}

void ana_causes_of(const ana_op_run *run, const ana_slowdowns *slowdowns,
                   const ana_stage_layers *layers, arena *memory, ana_causes *causes)
{
    static const struct {
        const char *name;
        bool (*find)(finding *of, text_buffer *evidence); // whether the evidence holds
    } kinds[ANA_CAUSE_COUNT] = {
        [ANA_CAUSE_WORKER] = {"slow worker", find_workers},
        [ANA_CAUSE_STAGE] = {NULL, find_stages}, // named by what it finds
        [ANA_CAUSE_LENGTHS] = {"sequence lengths", find_lengths},
        [ANA_CAUSE_HOST] = {"pauses of the host", find_pauses},
        [ANA_CAUSE_LINK] = {"slow link", find_links},
    };
    finding of = {
        .run = run, .slowdowns = slowdowns, .layers = layers, .memory = memory, .causes = causes};
    *causes = (ana_causes){0};
    ana_work_times_of(run, memory, &of.times);
    causes->correlation = of.times.correlation;
    causes->worker_factor = of.times.factor;
    causes->untold = has_messages(run) ? 0 : slowdowns->launch_slowdown - 1;
    for (int kind = 0; kind < ANA_CAUSE_COUNT; kind++) {
        ana_cause *cause = &causes->all[kind];
        text_buffer evidence = {0};
        cause->kind = (ana_cause_kind)kind;
        if (kinds[kind].name != NULL) cause->name = kinds[kind].name;
        const bool holds = kinds[kind].find(&of, &evidence);
        cause->evidence = text_keep(&evidence, memory);
        measure_gain(&of, cause);
        cause->is_named = holds && cause->gain.low >= ANA_CAUSE_GAIN_MIN;
        causes->named_count += cause->is_named;
    }
    qsort(causes->all, ANA_CAUSE_COUNT, sizeof *causes->all, compare_causes);
    mend_all(&of);
}

const ana_cause *ana_cause_of(const ana_causes *causes, ana_cause_kind kind)
{
    int place = 0;
    while (causes->all[place].kind != kind)
        place++;
    return &causes->all[place];
}

/// What the F and backwards from begin on, of its iteration, take by worker and name.
///
/// @param sums_ns [worker x name_count + name] out
/// @return the first op of the next iteration
static int64_t sum_step(const trace_op_table *table, int64_t begin, double *sums_ns)
{
    int64_t op = begin;
    for (; op < table->op_count && table->ops[op].iteration == table->ops[begin].iteration; op++) {
        const trace_table_op *at = &table->ops[op];
        const int name = at->name - 1;
        if (table->kinds[name] > TRACE_OP_BACKWARD) continue;
        sums_ns[at->rank * table->name_count + name] += (double)(at->end_ns - at->begin_ns);
    }
    return op;
}

/// Passes over a first step that is warm-up.
static void pass_cold_step(ana_stragglers *of, arena *memory)
{
    trace_op_table *table = &of->table;
    const int cells = table->replica_count * table->stage_count * table->name_count;
    double *first_ns = arena_array(memory, (size_t)cells, sizeof *first_ns);
    double *next_ns = arena_array(memory, (size_t)cells, sizeof *next_ns);
    const int64_t next = sum_step(table, 0, first_ns);
    int count = 0;
    of->cold_factor = 0;
    if (next == table->op_count) return;
    sum_step(table, next, next_ns);
    for (int cell = 0; cell < cells; cell++) {
        if (first_ns[cell] > 0 && next_ns[cell] > 0) {
            first_ns[count++] = first_ns[cell] / next_ns[cell];
        }
    }
    const double factor = ana_lower_median(first_ns, count);
    if (factor < ANA_COLD_FACTOR_MIN) return;
    of->cold_factor = factor;
    of->cold_step = table->ops[0].iteration;
    of->next_step = table->ops[next].iteration;
    if (of->next_step != of->cold_step + 1) return;
    table->ops += next;
    table->op_count -= next;
}

status ana_stragglers_read(const char *path, const char *trace, const int *layers, int layer_count,
                           arena *memory, ana_stragglers *of, error_message *err)
{
    TRY(trace_op_table_read(path, trace, memory, &of->table, err));
    pass_cold_step(of, memory);
    const status made = ana_op_run_make(&of->table, memory, &of->run, err);
    if (made == STATUS_FORMAT) return STATUS_INVALID; // read, but the ops do not fit together
    TRY(made);
    if (layers != NULL && layer_count != of->run.stage_count) {
        return error_set(err, STATUS_INVALID, "--layers: %d numbers, the run has %d stages",
                         layer_count, of->run.stage_count);
    }
    ana_slowdowns_of(&of->run, memory, &of->slowdowns);
    ana_stage_layers known;
    TRY(ana_stage_layers_of_trace(path, trace, &of->run, layers, memory, &known, err));
    ana_causes_of(&of->run, &of->slowdowns, &known, memory, &of->causes);
    return STATUS_OK;
}
