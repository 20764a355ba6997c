#include "analysis/export/frameworks.h"

#include <inttypes.h>

ana_launch ana_launch_of(const ana_setup *setup)
{
    const ana_study *study = setup->study;
    const bool has_model = setup->model_costs.shape.sequence_length > 0;
    model_parallel parallel = model_parallel_filled(study->parallel);
    parallel.sequence = parallel.sequence && parallel.tensor > 1; // else there is nothing to divide
    if (has_model) { // as chosen where the study does not say
        parallel.expert_deduplication = setup->model_costs.shape.parallel.expert_deduplication;
    }
    const int size = has_model ? setup->model_costs.shape.microbatch_size : study->microbatch_size;
    return (ana_launch){
        .is_known = true,
        .parallel = parallel,
        .dtype = has_model ? setup->model_costs.shape.dtype : study->dtype,
        .microbatch_size = size,
        .sequence_length =
            has_model ? setup->model_costs.shape.sequence_length : study->sequence_length,
        .prediction_layer_count = has_model ? setup->model_costs.config.prediction_layer_count : 0,
        .global_batch = (int64_t)size * setup->microbatch_count * parallel.data *
                        (study->run.round_count > 0 ? study->run.round_count : 1),
        .rank_count = study->stage_count,
        .chunk_count = setup->stage_count / study->stage_count,
        .has_experts = has_model && setup->model_costs.config.expert_count > 0,
        .has_mixers = has_model && setup->model_costs.config.mamba_head_count > 0,
        .overlaps_experts = parallel.expert > 1 && parallel.expert_overlap > 0,
        .overlaps_reduction =
            parallel.data > 1 && study->run.reduction_overlap != BAL_REDUCTION_EXPOSED,
    };
}

/// Appends a framework's words for something. @param words NULL: it has none
static status append_words(const char *words, const char *what, const char *name,
                           const char *framework, text_buffer *out, error_message *err)
{
    if (words == NULL) {
        return error_set(err, STATUS_UNSUPPORTED, "%s %s: no option of %s is known for it", what,
                         name, framework);
    }
    text_append(out, words);
    return STATUS_OK;
}

/// @param words of each dtype
static status append_dtype(const ana_launch *launch, const char *const *words,
                           const char *framework, text_buffer *out, error_message *err)
{
    if (launch->dtype == MODEL_DTYPE_UNKNOWN) return STATUS_OK;
    return append_words(words[launch->dtype], "dtype", model_dtype_name(launch->dtype), framework,
                        out, err);
}

/// @param words of each way to recompute
static status append_recompute(const ana_launch *launch, const char *const *words,
                               const char *framework, text_buffer *out, error_message *err)
{
    const model_recompute recompute = launch->parallel.recompute;
    if (launch->parallel.recompute_layers > 0 && recompute != MODEL_RECOMPUTE_NONE) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "recompute_layers %d: no option of %s spreads them over the model",
                         launch->parallel.recompute_layers, framework);
    }
    return append_words(words[recompute], "recompute", model_recompute_names[recompute], framework,
                        out, err);
}

/// Frameworks write stages of unlike layers in words of their own (Megatron's hybrid patterns).
static status check_layers(const ana_launch *launch, const char *framework, error_message *err)
{
    if (!launch->has_mixers) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "state-space mixers: layers of %s's layouts are all alike", framework);
}

/// Megatron hides experts' exchange under another microbatch's work, so with one stage or several
/// chunks (transformer_config.py); iterations with experts become graphs only where each expert has
/// room for a fixed number of rows, which is not modelled.
static status check_kernels(const ana_launch *launch, const char *framework, error_message *err)
{
    const model_parallel *parallel = &launch->parallel;
    TRY(check_layers(launch, framework, err));
    if (parallel->cuda_graphs && launch->has_experts) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "cuda_graphs: of a model with experts %s needs a capacity for each, which "
                         "no study has",
                         framework);
    }
    if (!launch->overlaps_experts) return STATUS_OK;
    if (parallel->recompute == MODEL_RECOMPUTE_FULL ||
        (launch->rank_count > 1 && launch->chunk_count == 1)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "expert_overlap %.4g: %s takes one stage or several chunks for it, and no "
                         "full recomputation",
                         parallel->expert_overlap, framework);
    }
    return STATUS_OK;
}

static status refuse_graphs(const ana_launch *launch, const char *framework, error_message *err)
{
    if (!launch->parallel.cuda_graphs) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "cuda_graphs: no option of %s is known for it",
                     framework);
}

bool ana_launch_sends_once(const ana_launch *launch)
{
    return launch->parallel.expert_deduplication > 0.5;
}

/// "    --name value", or "name=value" for a member.
static void append_degree(text_buffer *out, const char *form, const char *name, int64_t value,
                          int64_t silent)
{
    if (value != silent) text_format(out, form, name, value);
}

// Their arguments are refused with another format of checkpoints, and where the environment has
// CUDA_DEVICE_MAX_CONNECTIONS=1.
#define MEGATRON_FSDP                                                                              \
    "    --use-megatron-fsdp --ckpt-format fsdp_dtensor --data-parallel-sharding-strategy "
#define BRIDGE_FSDP                                                                                \
    "ddp.use_megatron_fsdp=true\ncheckpoint.ckpt_format=fsdp_dtensor\n"                            \
    "ddp.data_parallel_sharding_strategy="

status ana_launch_megatron(const ana_launch *launch, text_buffer *out, error_message *err)
{
    static const char *const dtypes[MODEL_DTYPE_COUNT] = {
        [MODEL_DTYPE_BFLOAT16] = "    --bf16\n",
        [MODEL_DTYPE_FLOAT16] = "    --fp16\n",
        [MODEL_DTYPE_FLOAT32] = "",
        [MODEL_DTYPE_FLOAT8] = "    --bf16 --fp8-format hybrid --fp8-recipe tensorwise\n",
        [MODEL_DTYPE_MXFLOAT8] = "    --bf16 --fp8-format e4m3 --fp8-recipe mxfp8\n",
        [MODEL_DTYPE_NVFLOAT4] = "    --bf16 --fp4-format e2m1 --fp4-recipe nvfp4\n",
    };
    static const char *const recompute[MODEL_RECOMPUTE_COUNT] = {
        "", "    --recompute-granularity selective\n",
        "    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1\n",
        "    --recompute-granularity selective --recompute-modules layernorm\n"};
    static const char *const sharding[MODEL_SHARDING_COUNT] = {
        "", "    --use-distributed-optimizer\n", MEGATRON_FSDP "optim_grads\n",
        MEGATRON_FSDP "optim_grads_params\n"};
    const char *form = "    --%s %" PRId64 "\n";
    const model_parallel *parallel = &launch->parallel;
    if (!launch->is_known) return STATUS_OK;
    append_degree(out, form, "tensor-model-parallel-size", parallel->tensor, 1);
    if (parallel->sequence) text_append(out, "    --sequence-parallel\n");
    append_degree(out, form, "context-parallel-size", parallel->context, 1);
    append_degree(out, form, "expert-model-parallel-size", parallel->expert, 1);
    if (parallel->expert > 1) {
        append_degree(out, form, "expert-tensor-parallel-size", parallel->expert_tensor, 0);
    }
    if (parallel->expert > 1) { // Megatron's own default gathers all tokens
        text_append(out, ana_launch_sends_once(launch)
                             ? "    --moe-token-dispatcher-type flex "
                               "--moe-flex-dispatcher-backend deepep\n"
                             : "    --moe-token-dispatcher-type alltoall\n");
    }
    TRY(check_kernels(launch, "Megatron-LM", err));
    if (launch->overlaps_experts) text_append(out, "    --overlap-moe-expert-parallel-comm\n");
    if (parallel->cuda_graphs) {
        text_append(out,
                    "    --cuda-graph-impl full_iteration --no-check-for-nan-in-loss-and-grad\n");
    }
    append_degree(out, form, "mtp-num-layers", launch->prediction_layer_count, 0);
    append_degree(out, form, "seq-length", launch->sequence_length, 0);
    append_degree(out, form, "micro-batch-size", launch->microbatch_size, 0);
    append_degree(out, form, "global-batch-size", launch->global_batch, 0);
    TRY(append_recompute(launch, recompute, "Megatron-LM", out, err));
    text_append(out, sharding[parallel->sharding]);
    if (launch->overlaps_reduction) text_append(out, "    --overlap-grad-reduce\n");
    if (parallel->order == MODEL_RANK_ORDER_PIPELINE_FIRST) {
        text_append(out, "    --use-tp-pp-dp-mapping\n");
    }
    return append_dtype(launch, dtypes, "Megatron-LM", out, err);
}

status ana_launch_bridge(const ana_launch *launch, text_buffer *out, error_message *err)
{
    static const char *const dtypes[MODEL_DTYPE_COUNT] = {
        [MODEL_DTYPE_BFLOAT16] = "mixed_precision=bf16_mixed\n",
        [MODEL_DTYPE_FLOAT16] = "mixed_precision=fp16_mixed\n",
        [MODEL_DTYPE_FLOAT8] = "mixed_precision=bf16_with_fp8_current_scaling_mixed\n",
        [MODEL_DTYPE_MXFLOAT8] = "mixed_precision=bf16_with_mxfp8_mixed\n",
        [MODEL_DTYPE_NVFLOAT4] = "mixed_precision=bf16_with_nvfp4_mixed\n",
    };
    static const char *const recompute[MODEL_RECOMPUTE_COUNT] = {
        "", "model.recompute_granularity=selective\n",
        ("model.recompute_granularity=full\nmodel.recompute_num_layers=1\n"
         "model.recompute_method=uniform\n"),
        "model.recompute_granularity=selective\nmodel.recompute_modules=[layernorm]\n"};
    static const char *const sharding[MODEL_SHARDING_COUNT] = {
        "ddp.use_distributed_optimizer=false\n", "ddp.use_distributed_optimizer=true\n",
        BRIDGE_FSDP "optim_grads\n", BRIDGE_FSDP "optim_grads_params\n"};
    const char *form = "%s=%" PRId64 "\n";
    const model_parallel *parallel = &launch->parallel;
    if (!launch->is_known) return STATUS_OK;
    append_degree(out, form, "model.tensor_model_parallel_size", parallel->tensor, 0);
    text_format(out, "model.sequence_parallel=%s\n", parallel->sequence ? "true" : "false");
    append_degree(out, form, "model.context_parallel_size", parallel->context, 0);
    append_degree(out, form, "model.expert_model_parallel_size", parallel->expert, 1);
    append_degree(out, form, "model.expert_tensor_parallel_size", parallel->expert_tensor, 0);
    if (parallel->expert > 1) {
        text_append(out, ana_launch_sends_once(launch)
                             ? "model.moe_token_dispatcher_type=flex\n"
                               "model.moe_flex_dispatcher_backend=deepep\n"
                             : "model.moe_token_dispatcher_type=alltoall\n");
    }
    TRY(check_kernels(launch, "Megatron-Bridge", err));
    if (launch->overlaps_experts) {
        text_append(out, "comm_overlap.overlap_moe_expert_parallel_comm=true\n");
    }
    if (parallel->cuda_graphs) {
        text_append(out, "model.cuda_graph_impl=full_iteration\n"
                         "rerun_state_machine.check_for_nan_in_loss=false\n");
    }
    append_degree(out, form, "model.mtp_num_layers", launch->prediction_layer_count, 0);
    append_degree(out, form, "model.seq_length", launch->sequence_length, 0);
    append_degree(out, form, "train.micro_batch_size", launch->microbatch_size, 0);
    append_degree(out, form, "train.global_batch_size", launch->global_batch, 0);
    TRY(append_recompute(launch, recompute, "Megatron-Bridge", out, err));
    text_append(out, sharding[parallel->sharding]);
    if (launch->overlaps_reduction) text_append(out, "ddp.overlap_grad_reduce=true\n");
    if (parallel->order == MODEL_RANK_ORDER_PIPELINE_FIRST) {
        text_append(out, "dist.use_tp_pp_dp_mapping=true\n");
    }
    return append_dtype(launch, dtypes, "Megatron-Bridge", out, err);
}

status ana_launch_torchtitan(const ana_launch *launch, text_buffer *out, error_message *err)
{
    const char *form = "    %s=%" PRId64 ",\n";
    const model_parallel *parallel = &launch->parallel;
    if (!launch->is_known) return STATUS_OK;
    TRY(refuse_graphs(launch, "torchtitan", err));
    TRY(check_layers(launch, "torchtitan", err));
    if (parallel->expert > 1 && parallel->expert_tensor > 1) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "expert_tensor %d: torchtitan does not divide experts by tensors",
                         parallel->expert_tensor);
    }
    // Weights that are gathered once an iteration, as those of which the optimizer alone is shared,
    // are FSDP's that are not let go after F.
    static const char *const reshards[MODEL_SHARDING_COUNT] = {
        [MODEL_SHARDING_NONE] = "",
        [MODEL_SHARDING_OPTIMIZER] = "    fsdp_reshard_after_forward=\"never\",\n",
        [MODEL_SHARDING_PARAMETERS] = "    fsdp_reshard_after_forward=\"always\",\n"};
    const bool shards = parallel->sharding != MODEL_SHARDING_NONE;
    const int sharing = (shards ? parallel->data : 1) * parallel->context * parallel->tensor;
    if (parallel->expert > 1 && sharing % parallel->expert != 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "expert %d, sharding %s: torchtitan spreads experts over GPUs that share "
                         "parameters, context and tensors, here %d",
                         parallel->expert, model_sharding_names[parallel->sharding], sharing);
    }
    text_format(out, form, shards ? "data_parallel_shard_degree" : "data_parallel_replicate_degree",
                (int64_t)parallel->data);
    if (!shards) append_degree(out, form, "data_parallel_shard_degree", 1, 0);
    TRY(append_words(reshards[parallel->sharding], "sharding",
                     model_sharding_names[parallel->sharding], "torchtitan", out, err));
    append_degree(out, form, "tensor_parallel_degree", parallel->tensor, 1);
    append_degree(out, form, "context_parallel_degree", parallel->context, 1);
    append_degree(out, form, "expert_parallel_degree", parallel->expert, 1);
    append_degree(out, form, "pipeline_parallel_microbatch_size", launch->microbatch_size, 0);
    return STATUS_OK;
}

status ana_launch_torchtitan_rest(const ana_launch *launch, text_buffer *out, error_message *err)
{
    static const char *const dtypes[MODEL_DTYPE_COUNT] = {[MODEL_DTYPE_BFLOAT16] = ""};
    static const char *const recompute[MODEL_RECOMPUTE_COUNT] = {
        [MODEL_RECOMPUTE_NONE] = "activation_checkpoint = None\n",
        [MODEL_RECOMPUTE_FULL] = "activation_checkpoint = \"FullAC\"\n",
        [MODEL_RECOMPUTE_EARLY_STOP] = "activation_checkpoint = \"FullAC\"  # and compile, which "
                                       "leaves out what B needs not\n",
        [MODEL_RECOMPUTE_OPERATORS] = "activation_checkpoint = \"SelectiveAC\"\n"};
    if (!launch->is_known) return STATUS_OK;
    text_append(out, "# A class of torchtitan.distributed.activation_checkpoint.\n");
    TRY(append_recompute(launch, recompute, "torchtitan", out, err));
    return append_dtype(launch, dtypes, "torchtitan", out, err);
}

status ana_launch_deepspeed(const ana_launch *launch, int microbatch_count, text_buffer *out,
                            error_message *err)
{
    static const char *const dtypes[MODEL_DTYPE_COUNT] = {
        [MODEL_DTYPE_BFLOAT16] = "    \"bf16\": {\"enabled\": True},\n",
        [MODEL_DTYPE_FLOAT16] = "    \"fp16\": {\"enabled\": True},\n",
        [MODEL_DTYPE_FLOAT32] = "",
    };
    static const char *const recompute[MODEL_RECOMPUTE_COUNT] = {
        [MODEL_RECOMPUTE_NONE] = "",
        [MODEL_RECOMPUTE_FULL] = "# PipelineModule(..., activation_checkpoint_interval=...)\n"
                                 "ACTIVATION_CHECKPOINT_INTERVAL = 1\n"};
    const model_parallel *parallel = &launch->parallel;
    if (!launch->is_known) return STATUS_OK;
    TRY(refuse_graphs(launch, "DeepSpeed", err));
    if (parallel->tensor > 1 || parallel->context > 1 || parallel->expert > 1 ||
        parallel->sharding > MODEL_SHARDING_OPTIMIZER) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "tensor %d, context %d, expert %d, sharding %s: DeepSpeed's pipeline "
                         "takes replicas alone, and shards no more than the optimizer",
                         parallel->tensor, parallel->context, parallel->expert,
                         model_sharding_names[parallel->sharding]);
    }
    text_format(out,
                "\n\nCONFIG = {\n"
                "    \"train_micro_batch_size_per_gpu\": %d,\n"
                "    \"gradient_accumulation_steps\": %d,\n"
                "    \"zero_optimization\": {\"stage\": %d},\n",
                launch->microbatch_size, microbatch_count, (int)parallel->sharding);
    TRY(append_dtype(launch, dtypes, "DeepSpeed", out, err));
    text_append(out, "}\n");
    if (launch->overlaps_reduction) {
        text_append(out, "# Predicted with gradients reduced beside the backward; DeepSpeed's "
                         "pipeline reduces them after it.\n");
    }
    return append_recompute(launch, recompute, "DeepSpeed", out, err);
}
