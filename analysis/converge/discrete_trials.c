#include "analysis/converge/discrete_trials.h"

#include "balance/bounds.h"
#include "balance/partition/balancer.h"
#include "balance/partition/partition.h"
#include "balance/schedule/schedule.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum { BATCH = 32, ARENA_BYTES = 1 << 18 };
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
    int batch_count; // per cell
    trial *results;  // [cell_count][instance_count][balancer_count]
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
    int64_t *zeros = arena_array(memory, layers, sizeof *zeros);
    int *cuts = arena_array(memory, (size_t)place->stage_count + 1, sizeof *cuts);
    draw_layers(run, place, instance, weight);
    const bal_problem problem = {.layers = {.layer_count = place->layer_count,
                                            .microbatch_count = 1,
                                            .forward_ns = weight,
                                            .backward_input_ns = zeros,
                                            .backward_weight_ns = zeros},
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

static status begin_worker(void *context, void **worker, error_message *err)
{
    (void)err;
    (void)context;
    *worker = arena_create(ARENA_BYTES);
    return STATUS_OK;
}

static void end_worker(void *context, void *worker)
{
    (void)context;
    arena_destroy(worker);
}

/// An item is a batch of instances of one cell.
static int batch_begin(const trials_run *run, int64_t item, const cell **place)
{
    *place = &run->cells[item / run->batch_count];
    return (int)(item % run->batch_count) * BATCH;
}

/// Bytes of all balancers on so many instances.
static size_t trials_bytes(const trials_run *run, int instance_count)
{
    return (size_t)instance_count * (size_t)run->balancer_count * sizeof(trial);
}

static status run_batch(void *context, void *worker, int64_t item, text_buffer *result,
                        error_message *err)
{
    const trials_run *run = context;
    const cell *place = NULL;
    const int begin = batch_begin(run, item, &place);
    for (int instance = begin; instance < begin + BATCH; instance++) {
        trial tried[CONTESTANT_COUNT] = {0};
        if (instance >= run->question->instance_count) break;
        arena_reset(worker);
        TRY(try_instance(run, place, instance, worker, tried, err));
        text_append_bytes(result, (const char *)tried, trials_bytes(run, 1));
    }
    return STATUS_OK;
}

static status put_batch(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    trials_run *run = context;
    const cell *place = NULL;
    const int begin = batch_begin(run, item, &place);
    const int left = run->question->instance_count - begin;
    const int64_t first = (place - run->cells) * (int64_t)run->question->instance_count + begin;
    if (result->length != trials_bytes(run, left < BATCH ? left : BATCH)) {
        return error_set(err, STATUS_FORMAT, "a result of %zu bytes is not one of trials",
                         result->length);
    }
    memcpy(&run->results[first * run->balancer_count], result->bytes, result->length);
    return STATUS_OK;
}

/// The values of one balancer in the cells [begin, end), by their place in a trial.
static void gather(const trials_run *run, int begin, int end, int balancer, size_t field,
                   double *values)
{
    const int64_t instances = run->question->instance_count;
    for (int64_t index = begin * instances; index < end * instances; index++) {
        const trial *tried = &run->results[index * run->balancer_count + balancer];
        memcpy(values++, (const char *)tried + field, sizeof *values);
    }
}

/// Instances of a balancer that ended above the contiguous optimum, and above the guarantee.
static void count_worse(const trials_run *run, int begin, int end, int balancer, ana_trial_row *row)
{
    const int64_t instances = run->question->instance_count;
    for (int64_t index = begin * instances; index < end * instances; index++) {
        const trial *tried = &run->results[index * run->balancer_count + balancer];
        const int stages = run->cells[index / instances].stage_count;
        if (tried->contiguous_ratio > 1) row->worse_count++;
        if (tried->assignment_ratio * (stages + 1) > 2.0 * stages) row->above_guarantee_count++;
    }
    ana_share_interval(row->worse_count, (end - begin) * instances, confidence, &row->worse_low,
                       &row->worse_high);
}

static void fill_row(const trials_run *run, int begin, int end, int balancer, double *values,
                     ana_trial_row *row)
{
    const int64_t count = (end - begin) * (int64_t)run->question->instance_count;
    row->balancer = contestants[balancer].name;
    gather(run, begin, end, balancer, offsetof(trial, assignment_ratio), values);
    row->assignment_ratio = ana_sample_of(values, count, confidence);
    gather(run, begin, end, balancer, offsetof(trial, contiguous_ratio), values);
    row->contiguous_ratio = ana_sample_of(values, count, confidence);
    gather(run, begin, end, balancer, offsetof(trial, transfers), values);
    row->transfers = ana_sample_of(values, count, confidence);
    count_worse(run, begin, end, balancer, row);
}

static void summarise(const trials_run *run, arena *memory, ana_trials *trials)
{
    const int64_t count = run->cell_count * (int64_t)run->question->instance_count;
    double *values = arena_array(memory, (size_t)count, sizeof *values);
    trials->cell_count = run->cell_count;
    trials->row_count = run->balancer_count * (run->cell_count + 1);
    trials->rows = arena_array(memory, (size_t)trials->row_count, sizeof *trials->rows);
    ana_trial_row *row = trials->rows;
    for (int balancer = 0; balancer < run->balancer_count; balancer++, row++) {
        fill_row(run, 0, run->cell_count, balancer, values, row);
    }
    for (int index = 0; index < run->cell_count; index++) {
        for (int balancer = 0; balancer < run->balancer_count; balancer++, row++) {
            fill_row(run, index, index + 1, balancer, values, row);
            row->family = run->cells[index].family;
            row->layer_count = run->cells[index].layer_count;
            row->stage_count = run->cells[index].stage_count;
        }
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
    run->batch_count = (question->instance_count + BATCH - 1) / BATCH;
    run->results =
        arena_array(memory, (size_t)instances * (size_t)run->balancer_count, sizeof *run->results);
    return STATUS_OK;
}

status ana_trials_run(const ana_trial_question *question, ana_spread *spread, arena *memory,
                      ana_trials *trials, ana_spread_report *report, error_message *err)
{
    trials_run run = {.question = question};
    ana_trials made = {.question = *question};
    TRY(prepare(&run, memory, err));
    const ana_items items = {.count = run.cell_count * (int64_t)run.batch_count,
                             .context = &run,
                             .begin_worker = begin_worker,
                             .end_worker = end_worker,
                             .run = run_batch,
                             .put = put_batch};
    TRY(ana_spread_run(spread, &items, report, err));
    if (ana_spread_is_leader(spread)) summarise(&run, memory, &made);
    *trials = made;
    return STATUS_OK;
}
