#include "analysis/converge/trials/discrete_trials.h"

#include "analysis/converge/converge_records.h"
#include "balance/partition/balancer.h"
#include "balance/partition/bounds.h"
#include "balance/partition/partition.h"
#include "balance/schedule/schedule.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum { DIGITS = 9, NAME_WIDTH = 20, WIDE_NAME_WIDTH = 22 };
static const double confidence = 0.95;

/// Whom an instance is given to; those of several chunks last, the more of them the earlier.
static const struct {
    const char *name;
    int chunk_count_max; // 1: one chunk per rank
    bal_placement placement;
} contestants[] = {
    {"even", 1, BAL_PLACEMENT_LOOP},
    {"partition", 1, BAL_PLACEMENT_LOOP},
    {"diffusion", 1, BAL_PLACEMENT_LOOP},
    {"diffusion-published", 1, BAL_PLACEMENT_LOOP},
    {"diffusion-coded", 1, BAL_PLACEMENT_LOOP},
    {"interleaved-partition", BAL_CHUNKS_MAX, BAL_PLACEMENT_LOOP},
    {"v-partition", 2, BAL_PLACEMENT_V},
};
enum { CONTESTANT_COUNT = sizeof contestants / sizeof contestants[0] };

/// What is kept of one balancer on one instance.
typedef struct trial {
    double assignment_ratio;
    double contiguous_ratio;
    double transfers; // per layer
} trial;

typedef struct cell {
    const ana_layer_family *family;
    int family_number;
    int layer_count;
    int stage_count;
} cell;

typedef struct trials_run {
    const ana_trial_question *question;
    int chunk_count;    // of those that have several
    int balancer_count; // of the contestants, from the first
    int cell_count;
    cell *cells;
    trial *results; // [cell_count][instance_count][balancer_count]
} trials_run;

static status list_cells(trials_run *run, arena *memory, error_message *err)
{
    const ana_trial_question *question = run->question;
    int family_count = 0;
    const ana_layer_family *families = ana_layer_families(&family_count);
    const int sizes = question->layer_count_count * question->stage_count_count;
    run->cells = arena_array(memory, (size_t)(family_count * sizes), sizeof *run->cells);
    for (int family = 0; family < family_count; family++) {
        if (question->family != NULL && question->family != &families[family]) continue;
        for (int size = 0; size < sizes; size++) {
            const int layers = question->layer_counts[size / question->stage_count_count];
            const int stages = question->stage_counts[size % question->stage_count_count];
            if (stages * run->chunk_count > layers) continue;
            run->cells[run->cell_count++] = (cell){&families[family], family, layers, stages};
        }
    }
    if (run->cell_count > 0) return STATUS_OK;
    if (run->chunk_count > 1) {
        return error_set(err, STATUS_INVALID,
                         "%d chunks on each of %d stages exceed every number of layers: %d",
                         run->chunk_count, question->stage_counts[0], question->layer_counts[0]);
    }
    return error_set(err, STATUS_INVALID,
                     "every number of stages exceeds every number of layers: %d stages, %d layers",
                     question->stage_counts[0], question->layer_counts[0]);
}

/// The layers of an instance do not depend on the other cells, nor on the stages: what is compared
/// is compared on the same layers.
static void draw_layers(const trials_run *run, const cell *place, int instance, int64_t *weight)
{
    const uint64_t purpose = (uint64_t)place->family_number << 56 |
                             (uint64_t)place->layer_count << 32 | (uint32_t)instance;
    rng generator = rng_init(run->question->seed, purpose);
    place->family->draw(&generator, place->layer_count, weight);
}

static status try_instance(const trials_run *run, const cell *place, int instance, arena *memory,
                           trial *out, error_message *err)
{
    const size_t layers = (size_t)place->layer_count;
    int64_t *weight = arena_array(memory, layers, sizeof *weight);
    int *cuts = arena_array(memory, (size_t)place->stage_count + 1, sizeof *cuts);
    draw_layers(run, place, instance, weight);
    const bal_problem problem = {
        .layers = {.layer_count = place->layer_count, .microbatch_count = 1, .forward_ns = weight},
        .stage_count = place->stage_count};
    bal_chain chain;
    int64_t optimum = 0;
    TRY(bal_chain_of(&problem, memory, &chain, err));
    TRY(bal_partition_bottleneck(&chain, memory, cuts, &optimum, err));
    const double lower = (double)bal_assignment_lower_bound(&chain);
    for (int index = 0; index < run->balancer_count; index++) {
        bal_problem asked = problem;
        bal_answer answer;
        if (contestants[index].chunk_count_max > 1) {
            asked.chunk_count = run->chunk_count;
            asked.stage_count *= run->chunk_count;
            asked.placement = contestants[index].placement;
        }
        TRY(bal_balance(bal_balancer_find(contestants[index].name), &asked, memory, &answer, err));
        out[index] = (trial){.assignment_ratio = (double)answer.bottleneck_ns / lower,
                             .contiguous_ratio = (double)answer.bottleneck_ns / (double)optimum,
                             .transfers = (double)answer.transfer_count / place->layer_count};
    }
    return STATUS_OK;
}

/// Makes a record: a trial per balancer.
static status play(const void *context, arena *memory, void **state, int group, int index,
                   void *record, error_message *err)
{
    (void)state;
    const trials_run *run = context;
    arena_reset(memory);
    return try_instance(run, &run->cells[group], index, memory, record, err);
}

/// What a balancer came to in the cells [begin, end).
/// @param values [3 * instances of all cells] scratch
static void fill_row(const trials_run *run, int begin, int end, int balancer, double *values,
                     ana_trial_row *row)
{
    const int64_t instances = run->question->instance_count;
    const int64_t count = (end - begin) * instances;
    double *const any = values;
    double *const contiguous = values + count;
    double *const transfers = values + 2 * count;
    row->balancer = contestants[balancer].name;
    for (int64_t index = 0; index < count; index++) {
        const int64_t at = begin * instances + index;
        const trial *tried = &run->results[at * run->balancer_count + balancer];
        const int stages = run->cells[at / instances].stage_count;
        if (tried->contiguous_ratio > 1) row->worse_count++;
        if (tried->assignment_ratio * (stages + 1) > 2.0 * stages) row->above_guarantee_count++;
        any[index] = tried->assignment_ratio;
        contiguous[index] = tried->contiguous_ratio;
        transfers[index] = tried->transfers;
    }
    row->assignment_ratio = ana_sample_of(any, count, confidence);
    row->contiguous_ratio = ana_sample_of(contiguous, count, confidence);
    row->transfers = ana_sample_of(transfers, count, confidence);
    ana_share_interval(row->worse_count, count, confidence, &row->worse_low, &row->worse_high);
}

/// First the rows of all cells together, then cell by cell.
static void summarise(const trials_run *run, arena *memory, ana_trials *trials)
{
    const size_t count = (size_t)run->cell_count * (size_t)run->question->instance_count;
    double *values = arena_array(memory, 3 * count, sizeof *values);
    trials->cell_count = run->cell_count;
    trials->row_count = run->balancer_count * (run->cell_count + 1);
    trials->rows = arena_array(memory, (size_t)trials->row_count, sizeof *trials->rows);
    for (int index = 0; index < trials->row_count; index++) {
        ana_trial_row *row = &trials->rows[index];
        const int balancer = index % run->balancer_count;
        const int place = index / run->balancer_count - 1;
        if (place < 0) {
            fill_row(run, 0, run->cell_count, balancer, values, row);
            continue;
        }
        fill_row(run, place, place + 1, balancer, values, row);
        row->family = run->cells[place].family;
        row->layer_count = run->cells[place].layer_count;
        row->stage_count = run->cells[place].stage_count;
    }
}

static bool takes_part(int contestant, int chunk_count)
{
    const int most = contestants[contestant].chunk_count_max;
    return most == 1 || (chunk_count > 1 && chunk_count <= most);
}

static status prepare(trials_run *run, arena *memory, error_message *err)
{
    const ana_trial_question *question = run->question;
    run->chunk_count = question->chunk_count > 1 ? question->chunk_count : 1;
    while (run->balancer_count < CONTESTANT_COUNT &&
           takes_part(run->balancer_count, run->chunk_count)) {
        run->balancer_count++;
    }
    TRY(list_cells(run, memory, err));
    const int64_t instances = run->cell_count * (int64_t)question->instance_count;
    if (instances > ANA_TRIAL_INSTANCES_MAX) {
        return error_set(
            err, STATUS_INVALID,
            "%d families and sizes with %d instances each make %" PRId64 ", more than %d",
            run->cell_count, question->instance_count, instances, ANA_TRIAL_INSTANCES_MAX);
    }
    run->results =
        arena_array(memory, (size_t)instances * (size_t)run->balancer_count, sizeof *run->results);
    return STATUS_OK;
}

status ana_trials_run(const ana_trial_question *question, ana_spread *spread, arena *memory,
                      ana_trials *trials, error_message *err)
{
    trials_run run = {.question = question};
    ana_trials made = {.question = *question};
    TRY(prepare(&run, memory, err));
    const ana_record_plays plays = {.group_count = run.cell_count,
                                    .group_length = question->instance_count,
                                    .record_bytes =
                                        (size_t)run.balancer_count * sizeof *run.results,
                                    .context = &run,
                                    .play = play};
    TRY(ana_records_play(&plays, spread, run.results, NULL, err));
    summarise(&run, memory, &made);
    *trials = made;
    return STATUS_OK;
}

static void append_row(const ana_trial_row *row, int name_width, text_buffer *out)
{
    const ana_sample *any = &row->assignment_ratio;
    const ana_sample *cut = &row->contiguous_ratio;
    const double worse = (double)row->worse_count / (double)any->count;
    text_format(out, "  %-*s  %7.4f  %6.4f  %6.4f", name_width, row->balancer, any->mean, any->p95,
                any->max);
    text_format(out, "  %7.4f  %6.4f  %6.4f", cut->mean, cut->p95, cut->max);
    text_format(out, "  %6.1f %% (%5.1f - %5.1f)  %6.3f  %6.3f\n", 100 * worse,
                100 * row->worse_low, 100 * row->worse_high, row->transfers.mean,
                row->transfers.max);
}

static void append_head(const char *title, int name_width, text_buffer *out)
{
    text_format(out, "\n%s\n  %-*s  %23s  %23s  %24s  %14s\n", title, name_width, "",
                "load / any assignment", "load / contiguous", "worse than contiguous",
                "transfers/layer");
    text_format(out, "  %-*s  %7s  %6s  %6s  %7s  %6s  %6s  %24s  %6s  %6s\n", name_width,
                "balancer", "mean", "p95", "max", "mean", "p95", "max", "share (95 % interval)",
                "mean", "max");
}

void ana_trials_append(const ana_trials *trials, text_buffer *out)
{
    const int balancers = trials->row_count / (trials->cell_count + 1);
    const int chunks = trials->question.chunk_count;
    const int name_width = chunks > 1 ? WIDE_NAME_WIDTH : NAME_WIDTH;
    text_format(out,
                "%d instances each of %d families and sizes, seed %" PRIu64
                ", from the even split; any assignment: its lower bound\n",
                trials->question.instance_count, trials->cell_count, trials->question.seed);
    if (chunks > 1) {
        text_format(out, "ranks of %d chunks: %s; all others: of one\n", chunks,
                    chunks == 2 ? "interleaved-partition and v-partition"
                                : "interleaved-partition");
    }
    for (int index = 0; index < trials->row_count; index++) {
        const ana_trial_row *row = &trials->rows[index];
        if (index == 0) append_head("all", name_width, out);
        if (index > 0 && index % balancers == 0) {
            text_buffer title = {0};
            text_format(&title, "%s, %d layers on %d stages: %s", row->family->name,
                        row->layer_count, row->stage_count, row->family->rule);
            append_head(title.bytes, name_width, out);
            text_free(&title);
        }
        append_row(row, name_width, out);
    }
}

static void write_sample(const char *key, const ana_sample *sample, json_writer *writer)
{
    json_write_key(writer, key);
    json_begin_object(writer);
    json_put_rounded(writer, "mean", sample->mean, DIGITS);
    json_put_rounded(writer, "mean_low", sample->mean_low, DIGITS);
    json_put_rounded(writer, "mean_high", sample->mean_high, DIGITS);
    json_put_rounded(writer, "median", sample->median, DIGITS);
    json_put_rounded(writer, "p95", sample->p95, DIGITS);
    json_put_rounded(writer, "p95_low", sample->p95_low, DIGITS);
    json_put_rounded(writer, "p95_high", sample->p95_high, DIGITS);
    json_put_rounded(writer, "max", sample->max, DIGITS);
    json_end_object(writer);
}

static void write_row(const ana_trial_row *row, json_writer *writer)
{
    json_begin_object(writer);
    json_put_string(writer, "family", row->family != NULL ? row->family->name : "all");
    if (row->family != NULL) {
        json_put_int64(writer, "layers", row->layer_count);
        json_put_int64(writer, "stages", row->stage_count);
    }
    json_put_string(writer, "balancer", row->balancer);
    json_put_int64(writer, "instances", row->assignment_ratio.count);
    write_sample("assignment_ratio", &row->assignment_ratio, writer);
    write_sample("contiguous_ratio", &row->contiguous_ratio, writer);
    write_sample("transfers_per_layer", &row->transfers, writer);
    json_put_int64(writer, "worse_than_contiguous", row->worse_count);
    json_put_rounded(writer, "worse_share_low", row->worse_low, DIGITS);
    json_put_rounded(writer, "worse_share_high", row->worse_high, DIGITS);
    json_put_int64(writer, "above_guarantee_of_lower_bound", row->above_guarantee_count);
    json_end_object(writer);
}

void ana_trials_write(const ana_trials *trials, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "instances_per_cell", trials->question.instance_count);
    json_put_int64(writer, "cells", trials->cell_count);
    if (trials->question.chunk_count > 1) {
        json_put_int64(writer, "chunks", trials->question.chunk_count);
    }
    json_write_key(writer, "rows");
    json_begin_array(writer);
    for (int row = 0; row < trials->row_count; row++) {
        write_row(&trials->rows[row], writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}
