#include "analysis/whatif/point.h"

#include "balance/partition/plan_book.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "models/cost/parallel.h"
#include "sim/training_replay.h"

#include <gsl/gsl_cdf.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/// Whether a key of a case only says how it is drawn, charged, or, within a step, summed.
static bool is_left_out(const char *key, bool keeps_steps)
{
    static const char *const names[] = {"seed",    "load_model", "context", "tile_rows",
                                        "packing", "across",     "order",   "window"};
    const int count = keeps_steps ? (int)(sizeof names / sizeof names[0]) : 4;
    return text_find(key, names, count) < count;
}

/// Sequences that are packed within a window of one step stay in their step.
static void write_dynamism(json_value dynamism, json_writer *writer)
{
    int window = 1;
    const json_value given = json_member(dynamism, "window");
    if (!json_is_missing(given)) (void)json_int(given, 1, INT32_MAX, &window, NULL);
    json_begin_object(writer);
    json_value member = json_element(dynamism, 0);
    for (; member.node != NULL; member = json_next(member)) {
        if (is_left_out(json_key(member), window == 1)) continue;
        json_put_value(writer, json_key(member), member);
    }
    json_end_object(writer);
}

static const char *text_or_none(const char *text)
{
    return text != NULL ? text : "";
}

/// The sequences of a microbatch; those of a trace are counted as one unless the study says.
static int microbatch_size(const ana_setup *setup)
{
    if (setup->study->trace_path == NULL) return setup->model_costs.shape.microbatch_size;
    return setup->study->microbatch_size > 0 ? setup->study->microbatch_size : 1;
}

/// What decides what a model computes, whatever its file is called.
static void write_model(const model_config *config, text_buffer *out)
{
    const int sizes[] = {
        config->layer_count,       config->hidden_size,        config->head_count,
        config->kv_head_count,     config->query_key_dim,      config->value_dim,
        config->kv_rank,           config->query_rank,         config->rope_dim,
        config->ffn_size,          config->expert_count,       config->expert_top_k,
        config->expert_ffn_size,   config->expert_latent_size, config->shared_ffn_size,
        config->vocabulary_size,   config->sliding_window,     config->prediction_layer_count,
        (int)config->norm,         config->expert_group_count, config->expert_group_top_k,
        config->mamba_head_count,  config->mamba_head_dim,     config->mamba_state_size,
        config->mamba_group_count, config->mamba_conv_size,    config->mamba_chunk_size,
    };
    const bool features[] = {
        config->has_learned_positions,
        config->has_tied_embeddings,
        config->has_gated_mlp,
        config->has_query_key_value_bias,
        config->has_attention_output_bias,
        config->has_mlp_bias,
        config->has_query_key_norm,
        config->has_embedding_dropout,
        config->has_attention_dropout,
        config->has_residual_dropout,
    };
    text_append(out, config->model_type);
    text_append_bytes(out, (const char *)sizes, sizeof sizes);
    text_append_bytes(out, (const char *)features, sizeof features);
    text_append_bytes(out, (const char *)config->is_moe,
                      (size_t)config->layer_count * sizeof *config->is_moe);
    if (config->layer_parts == NULL) return;
    text_append_bytes(out, (const char *)config->layer_parts, (size_t)config->layer_count);
}

static void write_training(const ana_setup *setup, text_buffer *out)
{
    const ana_study *study = setup->study;
    const bool is_traced = study->trace_path != NULL;
    const int64_t sequences = study->batch_tolerance > 0 && study->global_batch > 0
                                  ? study->global_batch
                                  : (int64_t)microbatch_size(setup) * setup->microbatch_count *
                                        study->run.round_count * study->parallel.data;
    text_format(out, "%s|%s|%d|", text_or_none(study->trace_path), text_or_none(study->trace_name),
                setup->first_iteration);
    if (!is_traced) write_model(&setup->model_costs.config, out);
    text_format(out, "%d|%d|",
                is_traced ? study->sequence_length : setup->model_costs.shape.sequence_length,
                is_traced ? 0 : (int)setup->model_costs.shape.dtype);
    text_format(out, "%" PRId64 "|%" PRId64 "|", sequences, study->token_count);
    json_writer writer = json_writer_init(out);
    write_dynamism(study->dynamism, &writer);
}

static uint64_t training_of(const ana_setup *setup)
{
    text_buffer training = {0};
    write_training(setup, &training);
    const uint64_t hash = file_hash(FILE_HASH_START, training.bytes, training.length);
    text_free(&training);
    return hash;
}

enum { WORKER_BLOCK_BYTES = 1 << 18, TRACE_BYTES_MAX = 1 << 28 };

const char *const ana_refusal_names[ANA_REFUSAL_COUNT] = {
    [ANA_REFUSAL_NONE] = "none",
    [ANA_REFUSAL_MEMORY] = "out of memory",
    [ANA_REFUSAL_STAGES] = "more stages than layers",
    [ANA_REFUSAL_BATCH] = "global batch not divisible",
    [ANA_REFUSAL_GPUS] = "too few GPUs",
    [ANA_REFUSAL_SCHEDULE] = "rule of the schedule",
    [ANA_REFUSAL_MODEL] = "model cannot be trained so",
    [ANA_REFUSAL_LOADS] = "loads without times",
    [ANA_REFUSAL_VALUES] = "values that do not go together",
    [ANA_REFUSAL_LIMIT] = "beyond the deadline or the budget",
    [ANA_REFUSAL_FRAMEWORK] = "cannot be exported",
};

struct ana_point_worker {
    arena *memory;       // of one evaluation
    json_document *base; // of the study evaluated last, with its changes; NULL: none
    char *base_text;
    char *base_name;
    ana_setup_cache *cache;
    sim_order_book *orders; // of all evaluations: points share schedules
    bal_peak_book peaks;    // likewise
    bal_plan_book plans;    // likewise
    ana_bound_book bounds;  // likewise
    ana_study study;
    ana_setup setup;
    bool has_study;
    bool has_setup;
    bool has_plan;
    bal_plan plan;            // of the last iteration that was played
    int *first_layer, *ranks; // of it
    bal_schedule order;       // of it
};

static char *copy(const char *text)
{
    return strcpy(memory_array(strlen(text) + 1, 1), text);
}

static void close_base(void *context)
{
    ana_point_worker *worker = context;
    json_close(worker->base);
    free(worker->base_text);
    free(worker->base_name);
    worker->base = NULL;
    worker->base_text = worker->base_name = NULL;
}

void *ana_point_worker_create(arena *memory)
{
    ana_point_worker *worker = arena_array(memory, 1, sizeof *worker);
    arena_own(memory, worker, close_base);
    worker->memory = arena_within(memory, WORKER_BLOCK_BYTES);
    worker->orders = sim_order_book_create(arena_within(memory, 1 << 16));
    worker->peaks.memory = arena_within(memory, 1 << 16);
    worker->plans.memory = arena_within(memory, 1 << 16);
    worker->bounds.costs.memory = arena_within(memory, 1 << 14);
    worker->cache = ana_setup_cache_create(memory, TRACE_BYTES_MAX);
    return worker;
}

const ana_setup *ana_point_worker_setup(const ana_point_worker *worker)
{
    return worker->has_setup ? &worker->setup : NULL;
}

const bal_plan *ana_point_worker_plan(const ana_point_worker *worker)
{
    return worker->has_plan ? &worker->plan : NULL;
}

const ana_study *ana_point_worker_study(const ana_point_worker *worker)
{
    return worker->has_study ? &worker->study : NULL;
}

/// Makes a failure an outcome, unless it is one of the whole study. The message goes without the
/// study's path, which all points share.
static status refuse(ana_point_worker *worker, const char *name, ana_refusal refusal,
                     const error_message *inner, ana_point *point, error_message *err)
{
    const size_t length = strlen(name);
    const char *message = inner->message;
    if (inner->code != STATUS_INVALID && inner->code != STATUS_INFEASIBLE &&
        inner->code != STATUS_FORMAT) {
        return error_set(err, inner->code, "%s", inner->message);
    }
    if (strncmp(message, name, length) == 0 && strncmp(message + length, ": ", 2) == 0) {
        message += length + 2;
    }
    point->refusal = refusal;
    point->message = arena_string(worker->memory, message);
    return STATUS_OK;
}

/// Forgets the study that was opened before.
static void close_setup(ana_point_worker *worker)
{
    worker->has_setup = worker->has_study = worker->has_plan = false;
    arena_reset(worker->memory);
}

/// Opens the setup of a study that was read.
static status open_setup(ana_point_worker *worker, error_message *err)
{
    worker->has_study = true;
    TRY(ana_setup_open(&worker->study, worker->cache, worker->memory, &worker->setup, err));
    worker->has_setup = true;
    return STATUS_OK;
}

/// Reads the study of a point. Points that follow each other are mostly changes of one text.
static status read_study(ana_point_worker *worker, const char *name, const char *text,
                         const char *changes, error_message *err)
{
    if (worker->base == NULL || strcmp(worker->base_text, text) != 0 ||
        strcmp(worker->base_name, name) != 0) {
        close_base(worker);
        TRY(json_open_bytes(name, text, strlen(text), &worker->base, err));
        worker->base_text = copy(text);
        worker->base_name = copy(name);
    }
    json_revert(worker->base);
    TRY(json_apply(worker->base, changes, err));
    return ana_study_open_document(arena_string(worker->memory, name), worker->base, worker->memory,
                                   &worker->study, err);
}

/// Opens study and setup, as far as they can be.
static status open_all(ana_point_worker *worker, const char *name, const char *text,
                       const char *changes, error_message *err)
{
    close_setup(worker);
    TRY(read_study(worker, name, text, changes, err));
    return open_setup(worker, err);
}

/// Opens them; if they cannot be opened the point says why.
static status open_point(ana_point_worker *worker, const char *name, const char *text,
                         const char *changes, ana_point *point, error_message *err)
{
    error_message inner = {0};
    if (open_all(worker, name, text, changes, &inner) == STATUS_OK) return STATUS_OK;
    const bool is_of_values = !worker->has_study || inner.code == STATUS_FORMAT;
    return refuse(worker, name, is_of_values ? ANA_REFUSAL_VALUES : worker->setup.refusal, &inner,
                  point, err);
}

/// Bytes that a GPU holds beside what layers and activations fill.
static int64_t working_bytes(const ana_setup *setup)
{
    const model_costs *costs = &setup->model_costs;
    return setup->study->trace_path == NULL ? costs->working_bytes + costs->reserve_bytes : 0;
}

static int fullest_rank(const bal_training_result *result, int rank_count)
{
    int fullest = 0;
    for (int rank = 1; rank < rank_count; rank++) {
        if (result->peak_memory_bytes[rank] > result->peak_memory_bytes[fullest]) fullest = rank;
    }
    return fullest;
}

/// The point whose plan does not fit, from a play that did not look at memory.
static status refuse_memory(ana_point_worker *worker, const bal_training_result *result,
                            ana_point *point, error_message *err)
{
    const ana_setup *setup = &worker->setup;
    const int rank = fullest_rank(result, setup->machine.rank_count);
    const int64_t working = working_bytes(setup);
    const int64_t limit = setup->machine.rank_memory_bytes;
    const int64_t missing = result->peak_memory_bytes[rank] - limit;
    error_message inner = {0};
    if (missing <= 0) return STATUS_OK; // only because the balancer was told of the limit
    point->rank = rank;
    point->missing_bytes = missing;
    error_set(&inner, STATUS_INFEASIBLE,
              "out of memory on rank %d by %s: it needs %s, a GPU has %s", rank,
              text_size(missing).text, text_size(result->peak_memory_bytes[rank] + working).text,
              text_size(limit + working).text);
    return refuse(worker, setup->study->path, ANA_REFUSAL_MEMORY, &inner, point, err);
}

/// Plays the run with what points share.
static status replay(ana_point_worker *worker, bal_training *training, bal_training_result *result,
                     error_message *err)
{
    training->peak_book = &worker->peaks;
    training->plan_book = &worker->plans;
    training->skips_bound = true;
    return sim_training_replay(training, worker->orders, worker->memory, result, err);
}

/// Plays the run as if memory had no end: what is missing is memory if that is played, else layers.
static status explain_infeasible(ana_point_worker *worker, bal_training *training,
                                 const error_message *inner, ana_point *point, error_message *err)
{
    const char *path = worker->setup.study->path;
    bal_training_result result;
    error_message without = {0};
    if (training->machine.rank_memory_bytes == 0) {
        return refuse(worker, path, ANA_REFUSAL_STAGES, inner, point, err);
    }
    training->machine.rank_memory_bytes = 0;
    const status again = replay(worker, training, &result, &without);
    if (again == STATUS_INFEASIBLE) {
        return refuse(worker, path, ANA_REFUSAL_STAGES, &without, point, err);
    }
    TRY(refuse(worker, path, ANA_REFUSAL_MEMORY, inner, point, err));
    return again == STATUS_OK && result.executable ? refuse_memory(worker, &result, point, err)
                                                   : STATUS_OK;
}

/// How many iterations the whole training has; 0: tokens of a microbatch are not known.
static double step_count(const ana_setup *setup)
{
    const int64_t wanted =
        setup->study->token_count > 0 ? setup->study->token_count : ANA_TOKENS_DEFAULT;
    const int64_t tokens = setup->tokens_per_microbatch * setup->microbatch_count;
    const int64_t replicas = (int64_t)setup->study->parallel.data * setup->study->run.round_count;
    if (tokens == 0 || tokens > INT64_MAX / replicas) return 0;
    const int64_t step = tokens * replicas;
    return (double)(wanted / step + (wanted % step != 0));
}

static void fill_times(const ana_setup *setup, const bal_training_result *result, ana_point *point)
{
    static const double ns_per_hour = 3.6e12;
    const double units =
        setup->tokens_per_microbatch > 0 ? (double)setup->tokens_per_microbatch : 1.0;
    const double total_ns = (double)result->total_ns;
    const double price = setup->study->price_per_gpu_hour;
    point->iteration_ns = total_ns / setup->iteration_count;
    point->per_second = total_ns > 0
                            ? units * setup->microbatch_count * setup->study->run.round_count *
                                  setup->study->parallel.data * 1e9 / point->iteration_ns
                            : 0;
    point->gpu_count = (double)setup->gpu_count;
    point->used_gpu_count =
        (double)model_parallel_gpu_count(&setup->study->parallel, setup->study->stage_count);
    if (total_ns > 0) point->gpu_count -= (double)result->idle_gpu_ns / total_ns;
    point->train_ns = step_count(setup) * point->iteration_ns;
    point->gpu_hours = point->train_ns / ns_per_hour * point->gpu_count;
    point->cost = price < 0 ? -1 : point->gpu_hours * price;
}

/// What the model computes of a step, three times its forward, over the GPUs that are paid for.
static void fill_flop(const ana_setup *setup, ana_point *point)
{
    const ana_study *study = setup->study;
    const model_costs *costs = &setup->model_costs;
    if (study->trace_path != NULL || !json_is_missing(study->dynamism)) return;
    const double rate = (double)setup->hardware.flop_per_s[costs->shape.dtype];
    const double microbatches =
        (double)setup->microbatch_count * study->run.round_count * study->parallel.data;
    point->flop_per_s =
        3 * costs->forward_flop * microbatches * 1e9 / (point->iteration_ns * point->gpu_count);
    point->flop_share = rate > 0 ? point->flop_per_s / rate : 0;
}

static void fill(const ana_setup *setup, const bal_training_result *result, int64_t bound_ns,
                 ana_point *point)
{
    fill_times(setup, result, point);
    point->rank = fullest_rank(result, setup->machine.rank_count);
    point->peak_memory_bytes = result->peak_memory_bytes[point->rank] + working_bytes(setup);
    point->free_bytes =
        setup->machine.rank_memory_bytes > 0
            ? setup->machine.rank_memory_bytes - result->peak_memory_bytes[point->rank]
            : -1;
    fill_flop(setup, point);
    point->reserve_bytes = setup->study->trace_path == NULL ? setup->model_costs.reserve_bytes : 0;
    point->bubble_ratio = result->bubble_ratio;
    point->imbalance_ratio = result->imbalance_ratio;
    point->bound_ns = (double)bound_ns / setup->iteration_count;
}

static bal_schedule kept_order(const bal_schedule *order, arena *memory)
{
    bal_schedule kept = *order;
    const size_t op_count = (size_t)order->first_op[order->rank_count];
    const size_t ends = (size_t)order->rank_count + 1;
    int *first_op = arena_array(memory, ends, sizeof *first_op);
    bal_op *ops = arena_array(memory, op_count, sizeof *ops);
    kept.first_op = memcpy(first_op, order->first_op, ends * sizeof *first_op);
    kept.ops = memcpy(ops, order->ops, op_count * sizeof *ops);
    return kept;
}

/// Keeps the plan of an iteration in place of the one before; of the last one with its order, where
/// that was searched.
static status keep_plan(void *context, const bal_training_iteration *iteration, error_message *err)
{
    ana_point_worker *worker = context;
    (void)err;
    worker->has_plan = iteration->first_layer != NULL;
    if (!worker->has_plan) return STATUS_OK;
    worker->plan = ana_setup_plan(&worker->setup, iteration);
    const size_t bounds = (size_t)worker->plan.rank_count * (size_t)worker->plan.chunk_count + 1;
    worker->plan.first_layer =
        memcpy(worker->first_layer, iteration->first_layer, bounds * sizeof *worker->first_layer);
    worker->plan.stage_ranks = memcpy(worker->ranks, iteration->machine_rank,
                                      (size_t)worker->plan.rank_count * sizeof *worker->ranks);
    if (iteration->searched == NULL || iteration->iteration + 1 < worker->setup.iteration_count) {
        return STATUS_OK;
    }
    worker->order = kept_order(iteration->searched, worker->memory);
    worker->plan.order = &worker->order;
    return STATUS_OK;
}

static status play(ana_point_worker *worker, ana_point *point, error_message *err)
{
    const ana_setup *setup = &worker->setup;
    const ana_balancing *row = &setup->study->balancings[0];
    const bal_record_sink sink = {.context = worker, .put = keep_plan};
    bal_training training = ana_setup_training(setup, row, sink);
    bal_training_result result;
    error_message inner = {0};
    int64_t bound_ns = 0;
    worker->first_layer =
        arena_array(worker->memory, (size_t)setup->stage_count + 1, sizeof *worker->first_layer);
    worker->ranks =
        arena_array(worker->memory, (size_t)setup->machine.rank_count, sizeof *worker->ranks);
    point->training = training_of(setup);
    if (setup->machine.rank_count == 1 && setup->stage_count > 1) {
        error_set(&inner, STATUS_INVALID,
                  "pipeline.stages: 1: chunks are for pipelines of two stages or more");
        return refuse(worker, setup->study->path, ANA_REFUSAL_SCHEDULE, &inner, point, err);
    }
    const status played = replay(worker, &training, &result, &inner);
    if (played == STATUS_INFEASIBLE) {
        return explain_infeasible(worker, &training, &inner, point, err);
    }
    if (played != STATUS_OK) {
        return refuse(worker, setup->study->path, ANA_REFUSAL_SCHEDULE, &inner, point, err);
    }
    if (!result.executable) {
        const error_message loads = {STATUS_INVALID,
                                     "a balancer that gives layers owners has no stages to play"};
        return refuse(worker, setup->study->path, ANA_REFUSAL_LOADS, &loads, point, err);
    }
    if (!result.fits) return refuse_memory(worker, &result, point, err);
    TRY(ana_run_bound(setup, row, &worker->bounds, worker->memory, &bound_ns, err));
    fill(setup, &result, bound_ns, point);
    return STATUS_OK;
}

status ana_point_evaluate(ana_point_worker *worker, const char *name, const char *text,
                          const char *changes, ana_point *point, error_message *err)
{
    *point = (ana_point){.cost = -1};
    TRY(open_point(worker, name, text, changes, point, err));
    return point->refusal == ANA_REFUSAL_NONE ? play(worker, point, err) : STATUS_OK;
}

void ana_point_note_frameworks(ana_point_worker *worker, ana_framework wanted, ana_point *point)
{
    const bool is_played =
        point->refusal == ANA_REFUSAL_NONE || point->refusal == ANA_REFUSAL_MEMORY;
    if (!worker->has_plan || !is_played) return;
    const ana_launch launch = ana_launch_of(&worker->setup);
    for (int each = ANA_FRAMEWORK_ANY + 1; each < ANA_FRAMEWORK_COUNT; each++) {
        const ana_framework framework = (ana_framework)each;
        error_message inner = {0};
        if (ana_export_check(framework, &worker->plan, &launch, worker->memory, &inner) ==
            STATUS_OK) {
            point->frameworks |= 1u << framework;
        } else if (framework == wanted) {
            point->refusal = ANA_REFUSAL_FRAMEWORK;
            point->missing_bytes = 0;
            point->message = arena_format(worker->memory, "%s: %s", ana_framework_names[framework],
                                          inner.message);
        }
    }
}

status ana_point_check(ana_point_worker *worker, const char *name, const char *text,
                       const char *changes, error_message *err)
{
    error_message inner = {0};
    close_setup(worker);
    status opened =
        ana_study_open_text(name, text, changes, worker->memory, &worker->study, &inner);
    if (opened == STATUS_OK) opened = open_setup(worker, &inner);
    if (opened == STATUS_INVALID || opened == STATUS_INFEASIBLE) return STATUS_OK;
    return opened == STATUS_OK ? STATUS_OK : error_set(err, opened, "%s", inner.message);
}

double ana_point_fits(const ana_point *point)
{
    const double peak = (double)point->peak_memory_bytes;
    if (point->free_bytes < 0 || peak <= 0) return 1;
    return gsl_cdf_gaussian_P(log1p((double)point->free_bytes / peak) - 0.07, 0.10);
}

void ana_point_scale(ana_point *point, double factor)
{
    point->iteration_ns *= factor;
    point->bound_ns *= factor;
    point->per_second /= factor;
    point->flop_per_s /= factor;
    point->flop_share /= factor;
    point->train_ns *= factor;
    point->gpu_hours *= factor;
    if (point->cost > 0) point->cost *= factor;
}

void ana_point_write(const ana_point *point, text_buffer *out)
{
    ana_point written = *point;
    written.message = NULL;
    text_append_bytes(out, (const char *)&written, sizeof written);
    if (point->message != NULL) text_append(out, point->message);
}

status ana_point_read(const char *bytes, size_t length, arena *memory, ana_point *point,
                      error_message *err)
{
    ana_point read;
    if (length >= sizeof read) memcpy(&read, bytes, sizeof read);
    if (length < sizeof read || (unsigned)read.refusal >= ANA_REFUSAL_COUNT ||
        read.message != NULL) {
        return error_set(err, STATUS_FORMAT, "a result of %zu bytes is not one of a point", length);
    }
    const size_t said = length - sizeof read;
    if (said > 0)
        read.message = memcpy(arena_array(memory, said + 1, 1), bytes + sizeof read, said);
    *point = read;
    return STATUS_OK;
}
