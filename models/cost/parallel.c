#include "models/cost/parallel.h"

#include "models/cost/saturating.h"

#include <inttypes.h>
#include <stdio.h>

const char *const model_recompute_names[MODEL_RECOMPUTE_COUNT] = {
    "none",   "selective", "full",    "norms",     "activation",
    "latent", "mlp",       "offload", "operators", "early-stop"};
const char *const model_sharding_names[MODEL_SHARDING_COUNT] = {"none", "optimizer", "gradients",
                                                                "parameters"};
const char *const model_rank_order_names[MODEL_RANK_ORDER_COUNT] = {"data-first", "pipeline-first"};

unsigned model_layer_remakes(const model_parallel *parallel, int layer, int layer_count)
{
    enum {
        NORMS = MODEL_REMAKES_NORMS,
        ACTIVATION = NORMS | MODEL_REMAKES_ACTIVATION,
        LATENT = ACTIVATION | MODEL_REMAKES_LATENT
    };
    static const unsigned remakes[MODEL_RECOMPUTE_COUNT] = {
        [MODEL_RECOMPUTE_SELECTIVE] = MODEL_REMAKES_CORE,
        [MODEL_RECOMPUTE_FULL] = MODEL_REMAKES_LAYER,
        [MODEL_RECOMPUTE_NORMS] = NORMS,
        [MODEL_RECOMPUTE_ACTIVATION] = ACTIVATION,
        [MODEL_RECOMPUTE_LATENT] = LATENT,
        [MODEL_RECOMPUTE_MLP] = LATENT | MODEL_REMAKES_MLP,
        [MODEL_RECOMPUTE_OFFLOAD] = MODEL_REMAKES_NOTHING,
        [MODEL_RECOMPUTE_OPERATORS] = ACTIVATION | MODEL_REMAKES_PRODUCTS,
        [MODEL_RECOMPUTE_EARLY_STOP] = MODEL_REMAKES_LAYER | MODEL_REMAKES_NO_END,
    };
    const int64_t chosen = parallel->recompute_layers;
    const bool is_chosen =
        chosen == 0 || (layer + 1) * chosen / layer_count > layer * chosen / layer_count;
    return is_chosen ? remakes[parallel->recompute] : 0;
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
    if (parallel.expert_tensor == 0) parallel.expert_tensor = parallel.tensor;
    return parallel;
}

status model_parallel_check_degrees(const model_parallel *parallel, error_message *err)
{
    const model_parallel filled_in = model_parallel_filled(*parallel);
    TRY(check_int_range("data", filled_in.data, 1, MODEL_DEGREE_MAX, err));
    TRY(check_int_range("tensor", filled_in.tensor, 1, MODEL_DEGREE_MAX, err));
    TRY(check_int_range("expert", filled_in.expert, 1, MODEL_DEGREE_MAX, err));
    TRY(check_int_range("expert_tensor", filled_in.expert_tensor, 1, MODEL_DEGREE_MAX, err));
    TRY(check_int_range("context", filled_in.context, 1, MODEL_DEGREE_MAX, err));
    const int64_t gpus = model_parallel_gpu_count(parallel, 1);
    if (gpus <= MODEL_STAGE_GPUS_MAX) return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "data %d x tensor %d x context %d are %" PRId64 " GPUs a stage, at most %d are "
        "modelled",
        filled_in.data, filled_in.tensor, filled_in.context, gpus, MODEL_STAGE_GPUS_MAX);
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
    return check_divides("units of the shared expert", config->shared_ffn_size, "tensor", tensor,
                         err);
}

/// Experts over fewer GPUs each than the rest of a layer.
static status check_expert_tensor(const model_parallel *parallel, const model_config *config,
                                  error_message *err)
{
    const int tensor = parallel->tensor;
    const int expert_tensor = parallel->expert_tensor;
    const char *name = expert_tensor == tensor ? "tensor" : "expert_tensor";
    TRY(check_divides("units of an expert", config->expert_ffn_size, name, expert_tensor, err));
    if (expert_tensor == tensor) return STATUS_OK;
    if (config->expert_count == 0) {
        return error_set(err, STATUS_INVALID, "expert_tensor %d: the model has no experts",
                         expert_tensor);
    }
    TRY(check_divides("GPUs of tensor", tensor, "expert_tensor", expert_tensor, err));
    if (parallel->sequence) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "expert_tensor %d differs from tensor %d, which needs sequence parallelism: "
                     "without it all tensor ranks have the same tokens",
                     expert_tensor, tensor);
}

/// GPUs of a stage that share an expert's matrices count as one.
static int64_t replica_groups(const model_parallel *filled_in)
{
    return (int64_t)filled_in->context * (filled_in->tensor / filled_in->expert_tensor);
}

bool model_parallel_spreads_experts(const model_parallel *parallel)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    return replica_groups(&degrees) * degrees.data % degrees.expert == 0;
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
    const int folded = parallel->tensor / parallel->expert_tensor;
    const int64_t replica = replica_groups(parallel);
    char fold[64] = "";
    if (folded > 1) {
        snprintf(fold, sizeof fold, " x tensor %d / expert_tensor %d", parallel->tensor,
                 parallel->expert_tensor);
    }
    if (!model_parallel_spreads_experts(parallel)) {
        return error_set(err, STATUS_INVALID,
                         "expert %d does not divide data %d x context %d%s = %" PRId64, expert,
                         parallel->data, parallel->context, fold, replica * parallel->data);
    }
    if (expert % replica != 0 && replica % expert != 0) {
        return error_set(err, STATUS_INVALID,
                         "expert %d and context %d%s: neither divides the other", expert,
                         parallel->context, fold);
    }
    return STATUS_OK;
}

status model_parallel_check(const model_parallel *parallel, const model_config *config,
                            error_message *err)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    TRY(model_parallel_check_degrees(&degrees, err));
    TRY(check_tensor(config, degrees.tensor, err));
    TRY(check_expert_tensor(&degrees, config, err));
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

/// A link at the rate that collectives reach of it.
static bal_link reached(bal_link link, double efficiency)
{
    if (efficiency > 0) link.bytes_per_s = (int64_t)((double)link.bytes_per_s * efficiency);
    return link;
}

/// Ranks of a group, stride GPUs apart, no more of them in a row than fit into run GPUs.
static bal_group group_of(int64_t rank_count, int64_t stride, int64_t run,
                          const model_hardware *hardware)
{
    int64_t on_node = (hardware->gpus_per_node < run ? hardware->gpus_per_node : run) / stride;
    if (on_node > rank_count) on_node = rank_count;
    if (on_node < 1) on_node = 1;
    return (bal_group){
        .rank_count = (int)rank_count,
        .node_rank_count = (int)on_node,
        .intra_node = reached(hardware->intra_node, hardware->intra_efficiency),
        .inter_node = reached(hardware->inter_node, hardware->inter_efficiency),
    };
}

/// GPUs of a stage that stand in a row: all of them, or those of a replica and those that share a
/// layer's experts.
static int64_t stage_run(const model_parallel *degrees)
{
    const int64_t replica = (int64_t)degrees->tensor * degrees->context;
    const int64_t holders = (int64_t)degrees->expert * degrees->expert_tensor;
    if (degrees->order == MODEL_RANK_ORDER_DATA_FIRST) return replica * degrees->data;
    return holders > replica ? holders : replica;
}

model_groups model_parallel_groups(const model_parallel *parallel, const model_hardware *hardware)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    const int64_t tensor = degrees.tensor;
    const int64_t expert_tensor = degrees.expert_tensor;
    const int64_t replicas = (int64_t)degrees.data * degrees.context;
    const int64_t holders = degrees.expert * expert_tensor;
    const int64_t run = stage_run(&degrees);
    return (model_groups){
        .tensor = group_of(tensor, 1, run, hardware),
        .context = group_of(degrees.context, tensor, run, hardware),
        .expert = group_of(degrees.expert, expert_tensor, run, hardware),
        .expert_tensor = group_of(expert_tensor, 1, run, hardware),
        .replicas = group_of(replicas, tensor, run, hardware),
        .expert_replicas = group_of(replicas * tensor / holders, holders, run, hardware),
    };
}

model_expert_span model_parallel_expert_span(const model_parallel *parallel)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    const int64_t replica = (int64_t)degrees.tensor * degrees.context;
    const int64_t holders = (int64_t)degrees.expert * degrees.expert_tensor;
    if (holders >= replica) return (model_expert_span){(int)(holders / replica), 1};
    return (model_expert_span){1, (int)(replica / holders)};
}

bal_machine model_parallel_machine(const model_parallel *parallel, const model_hardware *hardware,
                                   int rank_count)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    bal_machine machine = model_hardware_machine(hardware, rank_count);
    const int64_t per_node = hardware->gpus_per_node / stage_run(&degrees);
    machine.ranks_per_node = per_node > 1 ? (int)per_node : 1;
    return machine;
}

static int64_t share_of(int64_t parameters, int bytes, bool is_sharded, int replica_count)
{
    const int64_t all = saturating_multiply(parameters, bytes);
    if (!is_sharded || all == INT64_MAX) return all;
    return all / replica_count + (all % replica_count > 0);
}

int64_t model_state_bytes(int64_t parameters, model_parameter_bytes bytes, model_sharding sharding,
                          int replica_count)
{
    const int64_t weights =
        share_of(parameters, bytes.weight, sharding >= MODEL_SHARDING_PARAMETERS, replica_count);
    const int64_t gradients =
        share_of(parameters, bytes.gradient, sharding >= MODEL_SHARDING_GRADIENTS, replica_count);
    const int64_t optimizer =
        share_of(parameters, bytes.optimizer, sharding >= MODEL_SHARDING_OPTIMIZER, replica_count);
    return saturating_add(saturating_add(weights, gradients), optimizer);
}

model_replica_traffic model_replica_traffic_of(int64_t parameters, model_parameter_bytes bytes,
                                               model_sharding sharding, const bal_group *replicas)
{
    model_replica_traffic traffic = {0};
    if (parameters == 0) return traffic;
    const int64_t gradient_bytes = saturating_multiply(parameters, bytes.gradient);
    const int64_t weight_bytes = saturating_multiply(parameters, bytes.weight);
    const int64_t scatter_ns = bal_group_reduce_scatter_ns(replicas, gradient_bytes);
    const int64_t gather_ns = bal_group_all_gather_ns(replicas, weight_bytes);
    switch (sharding) {
    case MODEL_SHARDING_PARAMETERS:
        traffic.forward_ns = gather_ns;
        traffic.backward_ns = gather_ns;
        traffic.gradient_ns = scatter_ns;
        break;
    case MODEL_SHARDING_GRADIENTS:
        traffic.gradient_ns = scatter_ns;
        traffic.step_ns = gather_ns;
        break;
    case MODEL_SHARDING_OPTIMIZER:
        traffic.step_ns = scatter_ns + gather_ns;
        break;
    default:
        traffic.step_ns = bal_group_all_reduce_ns(replicas, gradient_bytes);
        break;
    }
    if (traffic.step_ns > INT64_MAX / 4) traffic.step_ns = INT64_MAX / 4;
    return traffic;
}
