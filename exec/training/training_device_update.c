/// What a device that learns does with its gradients: sums over replicas, norm, update.
#include "exec/model/moe_half.h"
#include "exec/training/training_device_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/// Numbers of a layer's gradient that several ranks sum, the same on each.
typedef struct shared_sum {
    const exec_group *group;
    float *values; // [copy_count][count] the sum is in the first; of each rank all are added
    size_t count;
    int copy_count;
} shared_sum;

enum { SUMS_MAX = 2 };

/// What all replicas have, then experts, which are summed by those that have them: a copy for each
/// rank that sent rows.
///
/// @return how many there are
static int list_sums(const exec_layer *layer, const exec_group *replicas, shared_sum *sums)
{
    const exec_expert_exchange *exchange = layer->model->expert_exchange;
    const size_t apart = exchange != NULL ? layer->expert_parameter_count : 0;
    const size_t everywhere = layer->held_count - apart;
    sums[0] = (shared_sum){replicas, layer->gradient, everywhere, 1};
    if (apart == 0) return 1;
    sums[1] = (shared_sum){&exchange->owners, layer->gradient + everywhere, apart,
                           exchange->member_count};
    return 2;
}

/// Sums one layer's gradient, through host memory where it is not such.
static status reduce_layer(exec_layer *layer, const exec_group *replicas, error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const bool is_staged = !kernels->table->has_host_memory;
    const size_t count = layer->held_count + layer->expert_gradient_count;
    float *gradient = is_staged ? memory_array(count, sizeof *gradient) : layer->gradient;
    shared_sum sums[SUMS_MAX];
    status result = STATUS_OK;
    if (is_staged) {
        kernels->table->to_host(kernels, gradient, layer->gradient, count * sizeof *gradient);
    }
    const int sum_count = list_sums(layer, replicas, sums);
    for (int index = 0; index < sum_count && result == STATUS_OK; index++) {
        const shared_sum *sum = &sums[index];
        result = exec_group_sum_float(sum->group, gradient + (sum->values - layer->gradient),
                                      (int64_t)sum->count, sum->copy_count, err);
    }
    if (result == STATUS_OK && is_staged) {
        kernels->table->to_device(kernels, layer->gradient, gradient,
                                  layer->held_count * sizeof *gradient);
    }
    if (result == STATUS_OK) result = kernels->table->finish(kernels, err);
    if (is_staged) free(gradient);
    return result;
}

/// A part of what is summed, as large as any: that of a rank, which adds it.
typedef struct gradient_part {
    size_t begin, count;
} gradient_part;

static gradient_part part_of(const shared_sum *sum, int rank)
{
    const size_t ranks = (size_t)sum->group->rank_count;
    const size_t largest = (sum->count + ranks - 1) / ranks;
    const size_t begin = largest * (size_t)rank;
    if (begin >= sum->count) return (gradient_part){0, 0};
    return (gradient_part){begin, sum->count - begin < largest ? sum->count - begin : largest};
}

/// Where a rank's copy of this rank's part lies among what has been received.
static float *place_of(const shared_sum *sum, float *received, int rank, int copy)
{
    const size_t room = part_of(sum, 0).count;
    return received + ((size_t)rank * (size_t)sum->copy_count + (size_t)copy) * room;
}

/// Numbers that a rank receives, with room for its own.
static size_t received_count(const shared_sum *sum)
{
    const size_t ranks = (size_t)sum->group->rank_count;
    return ranks > 1 ? part_of(sum, 0).count * ranks * (size_t)sum->copy_count : 0;
}

/// Sends each other rank all copies of its part and receives all of the own one, or with received
/// NULL sends the sum of the own part and receives those of the others in place.
static status exchange_parts(const exec_layer *layer, const shared_sum *sum, float *received,
                             error_message *err)
{
    const exec_group *group = sum->group;
    const int copies = received != NULL ? sum->copy_count : 1;
    exec_transfer *transfers =
        memory_array(2 * (size_t)group->rank_count * (size_t)copies, sizeof *transfers);
    const gradient_part own = part_of(sum, group->self);
    int count = 0;
    for (int other = 0; other < group->rank_count; other++) {
        const gradient_part part = part_of(sum, other);
        const gradient_part sent = received != NULL ? part : own;
        const gradient_part taken = received != NULL ? own : part;
        if (other == group->self) continue;
        for (int copy = 0; copy < copies; copy++) {
            float *from = sum->values + (size_t)copy * sum->count + sent.begin;
            float *to =
                received != NULL ? place_of(sum, received, other, copy) : sum->values + part.begin;
            const int rank = group->rank[other];
            const int64_t unit = sizeof(float);
            if (sent.count > 0) {
                transfers[count++] = (exec_transfer){rank, true, from, (int64_t)sent.count * unit};
            }
            if (taken.count > 0) {
                transfers[count++] = (exec_transfer){rank, false, to, (int64_t)taken.count * unit};
            }
        }
    }
    exec_endpoint *endpoint = group->endpoint;
    const status result = endpoint->transport->exchange(
        endpoint, layer->kernels->table->stream(layer->kernels), transfers, count, err);
    free(transfers);
    return result;
}

/// Adds from device to device: every rank adds a part over all ranks, in their order as the host
/// would, and gives it to the others.
///
/// @param received [received_count] device memory
static status exchange_sum(const exec_layer *layer, const shared_sum *sum, float *received,
                           error_message *err)
{
    exec_kernels *kernels = layer->kernels;
    const int self = sum->group->self;
    const gradient_part own = part_of(sum, self);
    float *own_sum = sum->values + own.begin;
    float *total = self == 0 ? own_sum : received;
    if (sum->group->rank_count > 1) TRY(exchange_parts(layer, sum, received, err));
    for (int at = 1; at < sum->group->rank_count * sum->copy_count && own.count > 0; at++) {
        const int rank = at / sum->copy_count, copy = at % sum->copy_count;
        const float *added = rank == self ? own_sum + (size_t)copy * sum->count
                                          : place_of(sum, received, rank, copy);
        kernels->table->add_floats(kernels, total, added, own.count);
    }
    if (total != own_sum && own.count > 0) {
        kernels->table->copy(kernels, own_sum, total, own.count * sizeof *total);
    }
    return sum->group->rank_count > 1 ? exchange_parts(layer, sum, NULL, err) : STATUS_OK;
}

/// Sums one layer's gradient from device to device.
static status exchange_layer(const exec_layer *layer, const exec_group *replicas, float *received,
                             error_message *err)
{
    shared_sum sums[SUMS_MAX];
    const int sum_count = list_sums(layer, replicas, sums);
    for (int index = 0; index < sum_count; index++) {
        TRY(exchange_sum(layer, &sums[index], received, err));
    }
    return STATUS_OK;
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
    return exec_exchange_is_on_device(learner->kernels, replicas->endpoint);
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
        shared_sum sums[SUMS_MAX];
        const int sum_count = list_sums(learner->layers[row], replicas, sums);
        for (int index = 0; index < sum_count; index++) {
            const size_t count = received_count(&sums[index]);
            if (count > largest) largest = count;
        }
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
