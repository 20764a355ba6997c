/// What a device that learns does with its gradients: sums over replicas, norm, update.
#include "exec/model/moe_half.h"
#include "exec/training/training_device_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/// Sums one layer's gradient, through host memory where it is not such.
static status reduce_layer(exec_layer *layer, const exec_group *replicas, error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const bool is_staged = !kernels->table->has_host_memory;
    const size_t bytes = layer->held_count * sizeof(float);
    float *gradient = is_staged ? memory_array(1, bytes) : layer->gradient;
    if (is_staged) kernels->table->to_host(kernels, gradient, layer->gradient, bytes);
    const exec_expert_exchange *exchange = layer->model->expert_exchange;
    const int64_t apart = exchange != NULL ? (int64_t)layer->expert_parameter_count : 0;
    const int64_t everywhere = (int64_t)layer->held_count - apart;
    status result = exec_group_sum_float(replicas, gradient, everywhere, 1, err);
    if (result == STATUS_OK && apart > 0) {
        result = exec_group_sum_float(&exchange->owners, gradient + everywhere, apart,
                                      exchange->member_count, err);
    }
    if (result == STATUS_OK && is_staged) {
        kernels->table->to_device(kernels, layer->gradient, gradient, bytes);
    }
    if (result == STATUS_OK) result = kernels->table->finish(kernels, err);
    if (is_staged) free(gradient);
    return result;
}

/// A part of a layer's gradient, as large as any.
typedef struct gradient_part {
    float *values;
    size_t count;
} gradient_part;

static gradient_part part_of(const exec_layer *layer, int part, int part_count)
{
    const size_t largest = (layer->held_count + (size_t)part_count - 1) / (size_t)part_count;
    const size_t begin = largest * (size_t)part;
    if (begin >= layer->held_count) return (gradient_part){layer->gradient, 0};
    const size_t rest = layer->held_count - begin;
    return (gradient_part){layer->gradient + begin, rest < largest ? rest : largest};
}

/// Sends part `to` of the gradient, or its own, to each other replica, and receives into memory of
/// as many parts, or in place.
static status exchange_parts(const exec_layer *layer, const exec_group *replicas, float *received,
                             error_message *err)
{
    const int parts = replicas->rank_count, self = replicas->self;
    exec_transfer *transfers = memory_array(2 * (size_t)parts, sizeof *transfers);
    const gradient_part own = part_of(layer, self, parts);
    int count = 0;
    for (int other = 0; other < parts; other++) {
        const gradient_part part = part_of(layer, other, parts);
        const gradient_part sent = received != NULL ? part : own;
        const gradient_part taken =
            received != NULL
                ? (gradient_part){received + (size_t)other * part_of(layer, 0, parts).count,
                                  own.count}
                : part;
        const int rank = replicas->rank[other];
        if (other == self) continue;
        if (sent.count > 0) {
            transfers[count++] =
                (exec_transfer){rank, true, sent.values, (int64_t)(sent.count * sizeof(float))};
        }
        if (taken.count > 0) {
            transfers[count++] =
                (exec_transfer){rank, false, taken.values, (int64_t)(taken.count * sizeof(float))};
        }
    }
    exec_endpoint *endpoint = replicas->endpoint;
    const status result = endpoint->transport->exchange(
        endpoint, layer->kernels->table->stream(layer->kernels), transfers, count, err);
    free(transfers);
    return result;
}

/// Numbers that a layer's replicas send to a rank which adds its part of them, its own too.
static size_t received_count(const exec_layer *layer, const exec_group *replicas)
{
    return part_of(layer, 0, replicas->rank_count).count * (size_t)replicas->rank_count;
}

/// Sums one layer's gradient from device to device: every replica adds a part of it over the
/// replicas, in their order as the host would, and gives it to the others.
///
/// @param received [received_count] device memory
static status exchange_layer(exec_layer *layer, const exec_group *replicas, float *received,
                             error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const int parts = replicas->rank_count;
    const size_t room = part_of(layer, 0, parts).count;
    const gradient_part own = part_of(layer, replicas->self, parts);
    status result = exchange_parts(layer, replicas, received, err);
    const size_t bytes = own.count * sizeof(float);
    float *own_copy = received + room * (size_t)replicas->self;
    if (own.count > 0) kernels->table->copy(kernels, own_copy, own.values, bytes);
    for (int other = 1; other < parts && own.count > 0; other++) {
        kernels->table->add_floats(kernels, received, received + room * (size_t)other, own.count);
    }
    if (own.count > 0) kernels->table->copy(kernels, own.values, received, bytes);
    return result == STATUS_OK ? exchange_parts(layer, replicas, NULL, err) : result;
}

int64_t exec_learner_now_ns(const exec_device *device)
{
    const exec_learner *learner = (const exec_learner *)device;
    struct timespec time;
    clock_gettime(learner->kernels->table->mark == NULL ? learner->clock : CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// Whether gradients go from GPU to GPU.
static bool is_on_device(const exec_learner *learner, const exec_group *replicas)
{
    return learner->kernels->table->stream != NULL &&
           replicas->endpoint->transport->exchange != NULL;
}

bool exec_learner_can_overlap(const exec_learner *learner, const exec_group *replicas)
{
    if (learner->model.expert_exchange != NULL) return false;
    if (learner->kernels->table->has_host_memory) return true;
    return is_on_device(learner, replicas) && learner->kernels->table->beside != NULL;
}

/// Memory for what the replicas send of any layer: one after the other uses it.
static status take_received(exec_learner *learner, const exec_group *replicas, error_message *err)
{
    size_t largest = 0;
    if (learner->received != NULL) return STATUS_OK;
    for (int row = 0; row < learner->report.layer_count; row++) {
        const size_t count = received_count(learner->layers[row], replicas);
        if (count > largest) largest = count;
    }
    learner->received = exec_buffers_take(learner->buffers, largest * sizeof(float));
    return learner->kernels->table->check(learner->kernels, err);
}

static void give_received(exec_learner *learner)
{
    exec_buffers_give(learner->buffers, learner->received);
    learner->received = NULL;
}

static status exchange_beside(exec_learner *learner, exec_layer *layer, error_message *err)
{
    exec_kernels *kernels = learner->kernels;
    TRY(take_received(learner, learner->replicas, err));
    kernels->table->beside(kernels, true);
    const status result = exchange_layer(layer, learner->replicas, learner->received, err);
    kernels->table->beside(kernels, false);
    return result;
}

status exec_learner_begin_sum(exec_learner *learner, exec_layer *layer, error_message *err)
{
    if (layer->is_frozen) return STATUS_OK;
    if (is_on_device(learner, learner->replicas)) return exchange_beside(learner, layer, err);
    return exec_group_sum_begin(learner->replicas, layer->gradient, (int64_t)layer->held_count,
                                &learner->sums[learner->sum_count++], err);
}

status exec_learner_advance_sums(exec_learner *learner, bool waits, error_message *err)
{
    for (; learner->sum_done < learner->sum_count; learner->sum_done++) {
        exec_group_sum *sum = &learner->sums[learner->sum_done];
        TRY(exec_group_sum_advance(sum, waits, err));
        if (!sum->is_done) break;
    }
    return STATUS_OK;
}

/// Waits for what ops have begun.
static status end_sums(exec_learner *learner, error_message *err)
{
    exec_kernels *kernels = learner->kernels;
    if (learner->received == NULL) return exec_learner_advance_sums(learner, true, err);
    kernels->table->await_beside(kernels);
    give_received(learner);
    return kernels->table->finish(kernels, err);
}

status exec_learner_reduce(exec_device *device, const exec_group *replicas, error_message *err)
{
    exec_learner *learner = (exec_learner *)device;
    const bool exchanges = is_on_device(learner, replicas);
    learner->replica_count = replicas->rank_count;
    if (learner->overlap != BAL_REDUCTION_EXPOSED) return end_sums(learner, err);
    if (exchanges) TRY(take_received(learner, replicas, err));
    for (int row = 0; row < learner->report.layer_count; row++) {
        exec_layer *layer = learner->layers[row];
        if (layer->is_frozen) continue;
        TRY(exchanges ? exchange_layer(layer, replicas, learner->received, err)
                      : reduce_layer(layer, replicas, err));
    }
    give_received(learner);
    return exchanges ? learner->kernels->table->finish(learner->kernels, err) : STATUS_OK;
}

/// The gradients are sums over microbatches of all replicas; this makes them means.
static double mean_scale(const exec_learner *learner)
{
    return 1.0 / ((double)learner->microbatch_count * learner->replica_count);
}

/// One number per layer, each from the rank that has the layer, and one per expert, added in model
/// order: the same bits however the layers and experts lie on ranks.
static status gradient_norm(exec_learner *learner, const exec_group *pipeline, double *norm,
                            error_message *err)
{
    double *square_sum = learner->square_sum;
    const int count = learner->layer_count * learner->norm_columns;
    const exec_expert_exchange *exchange = learner->model.expert_exchange;
    memset(square_sum, 0, (size_t)count * sizeof *square_sum);
    for (int row = 0; row < learner->report.layer_count; row++) {
        exec_layer *layer = learner->layers[row];
        double *of_layer = square_sum + layer->index * learner->norm_columns;
        const double sum = exec_layer_square_norm(layer);
        if (exchange == NULL || exchange->member == 0) of_layer[0] = sum; // all have the same
        if (layer->expert_parameter_count == 0 || layer->is_frozen) continue;
        exec_experts_square_norms(layer, of_layer + 1);
    }
    if (exchange != NULL) TRY(exec_group_sum_double(&exchange->members, square_sum, count, err));
    TRY(exec_group_sum_double(pipeline, square_sum, count, err));
    double sum = 0;
    for (int index = 0; index < count; index++) {
        sum += square_sum[index];
    }
    *norm = sqrt(sum) * mean_scale(learner);
    return STATUS_OK;
}

static const uint8_t *keep_of(const exec_learner *learner, const exec_layer *layer)
{
    return learner->mechanism->keep != NULL ? learner->mechanism->keep(layer) : NULL;
}

/// Pruned weights have no gradient, also where their layer is computed with as if they were there:
/// the norm, and so clipping, does not depend on how.
static void mask_gradients(const exec_learner *learner)
{
    exec_kernels *kernels = learner->kernels;
    for (int row = 0; row < learner->report.layer_count; row++) {
        exec_layer *layer = learner->layers[row];
        const uint8_t *keep = keep_of(learner, layer);
        if (keep == NULL) continue;
        kernels->table->mask(kernels, layer->gradient, keep, layer->parameter_count);
    }
}

status exec_learner_step(exec_device *device, const exec_group *pipeline, double *norm,
                         error_message *err)
{
    exec_learner *learner = (exec_learner *)device;
    mask_gradients(learner);
    TRY(gradient_norm(learner, pipeline, norm, err));
    const double limit = learner->model.clip_norm;
    const double clipping = limit > 0 && *norm > limit ? limit / *norm : 1;
    const float scale = (float)(mean_scale(learner) * clipping);
    for (int row = 0; row < learner->report.layer_count; row++) {
        exec_layer *layer = learner->layers[row];
        exec_layer_update(layer, scale, keep_of(learner, layer));
    }
    return learner->kernels->table->finish(learner->kernels, err);
}

status exec_learner_adapt(exec_device *device, int iteration, const exec_group *pipeline,
                          bool *changed, error_message *err)
{
    exec_learner *learner = (exec_learner *)device;
    *changed = false;
    if (learner->mechanism->adapt == NULL) return STATUS_OK;
    const exec_layer_set set = {.model = &learner->model,
                                .layers = learner->layers,
                                .layer_count = learner->report.layer_count,
                                .model_layer_count = learner->layer_count};
    TRY(learner->mechanism->adapt(&set, iteration, pipeline, changed, err));
    return learner->kernels->table->finish(learner->kernels, err);
}

bool exec_learner_loss(const exec_device *device, double *loss)
{
    const exec_learner *learner = (const exec_learner *)device;
    const int head = learner->layer_count - 1;
    if (learner->held[head].layer == NULL) return false;
    const int rows = exec_model_row_count(&learner->model);
    double sum = 0;
    // The only time that an iteration waits for its losses.
    learner->kernels->table->to_host(learner->kernels, learner->read_loss, learner->loss,
                                     (size_t)rows * (size_t)learner->microbatch_count *
                                         sizeof *learner->loss);
    for (int microbatch = 0; microbatch < learner->microbatch_count; microbatch++) {
        double of_rows = 0;
        const int count = exec_learner_row_count(learner, microbatch);
        for (int row = 0; row < count; row++) {
            of_rows += (double)learner->read_loss[microbatch * rows + row];
        }
        sum += learner->packing != NULL ? of_rows * learner->row_weight : of_rows / rows;
    }
    *loss = sum / learner->microbatch_count;
    return true;
}
