#include "models/parallel.h"

#include "models/saturating.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const char *const recompute_names[MODEL_RECOMPUTE_COUNT] = {"none", "selective", "full"};
static const char *const sharding_names[MODEL_SHARDING_COUNT] = {"none", "optimizer", "gradients",
                                                                 "parameters"};
static const char *const order_names[MODEL_RANK_ORDER_COUNT] = {"pipeline-first", "data-first"};

static int find_name(const char *const *names, int count, const char *name)
{
    int index = 0;
    while (index < count && strcmp(names[index], name) != 0) {
        index++;
    }
    return index;
}

const char *model_recompute_name(model_recompute recompute)
{
    assert(recompute < MODEL_RECOMPUTE_COUNT);
    return recompute_names[recompute];
}

const char *model_sharding_name(model_sharding sharding)
{
    assert(sharding < MODEL_SHARDING_COUNT);
    return sharding_names[sharding];
}

const char *model_rank_order_name(model_rank_order order)
{
    assert(order < MODEL_RANK_ORDER_COUNT);
    return order_names[order];
}

model_recompute model_recompute_find(const char *name)
{
    return (model_recompute)find_name(recompute_names, MODEL_RECOMPUTE_COUNT, name);
}

model_sharding model_sharding_find(const char *name)
{
    return (model_sharding)find_name(sharding_names, MODEL_SHARDING_COUNT, name);
}

model_rank_order model_rank_order_find(const char *name)
{
    return (model_rank_order)find_name(order_names, MODEL_RANK_ORDER_COUNT, name);
}

static int filled(int degree)
{
    return degree == 0 ? 1 : degree;
}

model_parallel model_parallel_filled(model_parallel parallel)
{
    parallel.data = filled(parallel.data);
    parallel.tensor = filled(parallel.tensor);
    parallel.expert = filled(parallel.expert);
    parallel.context = filled(parallel.context);
    return parallel;
}

static status check_degrees(const model_parallel *parallel, error_message *err)
{
    const struct {
        const char *name;
        int value;
    } degrees[] = {{"data", parallel->data},
                   {"tensor", parallel->tensor},
                   {"expert", parallel->expert},
                   {"context", parallel->context}};
    for (size_t degree = 0; degree < sizeof degrees / sizeof degrees[0]; degree++) {
        if (degrees[degree].value >= 1 && degrees[degree].value <= MODEL_DEGREE_MAX) continue;
        return error_set(err, STATUS_INVALID, "%s %d is outside [1, %d]", degrees[degree].name,
                         degrees[degree].value, MODEL_DEGREE_MAX);
    }
    const int64_t gpus = model_parallel_gpu_count(parallel, 1);
    if (gpus <= MODEL_STAGE_GPUS_MAX) return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "data %d x tensor %d x context %d are %" PRId64 " GPUs a stage, at most %d are "
        "modelled",
        parallel->data, parallel->tensor, parallel->context, gpus, MODEL_STAGE_GPUS_MAX);
}

/// 0 of something divides by anything.
static status check_divides(const char *what, int count, const char *name, int degree,
                            error_message *err)
{
    if (count % degree == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s %d does not divide the %d %s", name, degree, count,
                     what);
}

static status check_tensor(const model_config *config, int tensor, error_message *err)
{
    TRY(check_divides("attention heads", config->head_count, "tensor", tensor, err));
    if (tensor % config->kv_head_count != 0) {
        TRY(check_divides("key-value heads", config->kv_head_count, "tensor", tensor, err));
    }
    TRY(check_divides("units of an MLP", config->ffn_size, "tensor", tensor, err));
    TRY(check_divides("units of an expert", config->expert_ffn_size, "tensor", tensor, err));
    return check_divides("units of the shared expert", config->shared_ffn_size, "tensor", tensor,
                         err);
}

static status check_expert(const model_parallel *parallel, const model_config *config,
                           error_message *err)
{
    const int expert = parallel->expert;
    if (expert == 1) return STATUS_OK;
    if (config->expert_count == 0) {
        return error_set(err, STATUS_INVALID, "expert %d: the model has no experts", expert);
    }
    TRY(check_divides("experts", config->expert_count, "expert", expert, err));
    const int64_t gpus = (int64_t)parallel->data * parallel->context;
    if (gpus % expert != 0) {
        return error_set(err, STATUS_INVALID,
                         "expert %d does not divide data %d x context %d = %" PRId64, expert,
                         parallel->data, parallel->context, gpus);
    }
    if (expert % parallel->context != 0 && parallel->context % expert != 0) {
        return error_set(err, STATUS_INVALID, "expert %d and context %d: neither divides the other",
                         expert, parallel->context);
    }
    return STATUS_OK;
}

status model_parallel_check(const model_parallel *parallel, const model_config *config,
                            error_message *err)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    TRY(check_degrees(&degrees, err));
    TRY(check_tensor(config, degrees.tensor, err));
    return check_expert(&degrees, config, err);
}

status model_parallel_check_sequence(const model_parallel *parallel, int sequence_length,
                                     error_message *err)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    const int64_t parts = degrees.context > 1 ? 2 * (int64_t)degrees.context : 1;
    if (sequence_length % parts != 0) {
        return error_set(err, STATUS_INVALID,
                         "context %d: 2 x %d parts do not divide the %d tokens of a sequence",
                         degrees.context, degrees.context, sequence_length);
    }
    if (degrees.sequence && sequence_length / degrees.context % degrees.tensor != 0) {
        return error_set(
            err, STATUS_INVALID,
            "tensor %d does not divide the %d tokens of a sequence that a rank has, as "
            "sequence parallelism needs",
            degrees.tensor, sequence_length / degrees.context);
    }
    return STATUS_OK;
}

int64_t model_parallel_gpu_count(const model_parallel *parallel, int pipeline)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    const int64_t stage =
        saturating_multiply((int64_t)degrees.data * degrees.tensor, degrees.context);
    return saturating_multiply(stage, pipeline);
}

status model_parallel_check_cluster(const model_parallel *parallel, int pipeline, int node_count,
                                    int gpus_per_node, error_message *err)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    const int64_t needed = model_parallel_gpu_count(parallel, pipeline);
    const int64_t gpus = (int64_t)node_count * gpus_per_node;
    if (needed <= gpus) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "data %d x tensor %d x context %d x pipeline %d need %" PRId64
                     " GPUs, %d nodes of %d have %" PRId64,
                     degrees.data, degrees.tensor, degrees.context, pipeline, needed, node_count,
                     gpus_per_node, gpus);
}

/// Ranks of a group, stride GPUs apart, with no more than run of them in a row.
static bal_group group_of(int64_t rank_count, int64_t stride, int64_t run,
                          const model_hardware *hardware)
{
    int64_t on_node = hardware->gpus_per_node / stride;
    if (on_node > run) on_node = run;
    if (on_node > rank_count) on_node = rank_count;
    if (on_node < 1) on_node = 1;
    return (bal_group){.rank_count = (int)rank_count,
                       .node_rank_count = (int)on_node,
                       .intra_node = hardware->intra_node,
                       .inter_node = hardware->inter_node};
}

/// GPUs of a stage that stand in a row: all of them, or those that share a layer's experts.
static int64_t stage_run(const model_parallel *degrees)
{
    const int64_t all = (int64_t)degrees->data * degrees->context;
    if (degrees->order == MODEL_RANK_ORDER_DATA_FIRST) return all;
    return degrees->expert > degrees->context ? degrees->expert : degrees->context;
}

model_groups model_parallel_groups(const model_parallel *parallel, const model_hardware *hardware)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    const int64_t tensor = degrees.tensor;
    const int64_t replicas = (int64_t)degrees.data * degrees.context;
    const int64_t run = stage_run(&degrees);
    const int64_t experts = degrees.expert;
    return (model_groups){
        .tensor = group_of(tensor, 1, tensor, hardware),
        .context = group_of(degrees.context, tensor, degrees.context, hardware),
        .expert = group_of(experts, tensor, experts, hardware),
        .replicas = group_of(replicas, tensor, run, hardware),
        .expert_replicas = group_of(replicas / experts, tensor * experts, run / experts, hardware),
    };
}

bal_machine model_parallel_machine(const model_parallel *parallel, const model_hardware *hardware,
                                   int rank_count)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    bal_machine machine = model_hardware_machine(hardware, rank_count);
    const int64_t per_node = hardware->gpus_per_node / (stage_run(&degrees) * degrees.tensor);
    machine.ranks_per_node = per_node > 1 ? (int)per_node : 1;
    return machine;
}
