/// The parallelism around the pipeline: over how many GPUs a stage is spread, what each of them
/// keeps, and which of them talk to each other over which links.
///
/// A stage of the pipeline is data x tensor x context GPUs. Tensor and context divide the work of
/// one microbatch, data multiplies the microbatches. Experts are spread over the same GPUs in their
/// own way: expert_tensor of them share the matrices of an expert, and expert x expert_tensor x
/// (expert replicas) = data x tensor x context (Megatron's parallel folding; Liu et al., arXiv
/// 2504.14960).
#pragma once

#include "balance/costs/machine.h"
#include "base/status.h"
#include "models/cost/config.h"
#include "models/cost/hardware.h"

#include <stdbool.h>
#include <stdint.h>

/// What is computed again in the backward pass instead of kept. From norms to mlp each frees more
/// bytes and takes longer than the one before; in Megatron these are lists of --recompute-modules.
typedef enum model_recompute {
    MODEL_RECOMPUTE_NONE,
    MODEL_RECOMPUTE_SELECTIVE,  ///< the attention core
    MODEL_RECOMPUTE_FULL,       ///< the layer; only its input is kept
    MODEL_RECOMPUTE_NORMS,      ///< outputs of norms (layernorm)
    MODEL_RECOMPUTE_ACTIVATION, ///< and of activation functions, those of experts too (moe_act)
    MODEL_RECOMPUTE_LATENT,     ///< and queries, keys and values of latent attention (mla_up_proj)
    MODEL_RECOMPUTE_MLP,        ///< and MLP or experts as a whole, their exchange too (mlp, moe)
    MODEL_RECOMPUTE_OFFLOAD,    ///< nothing: what is kept waits in the host's memory, sent there
                                ///< beside F and back beside B (cpu_offloading_num_layers)
    MODEL_RECOMPUTE_OPERATORS,  ///< all but the core and every second product: queries, values and
                                ///< the first of the MLP are kept (torchtitan's SelectiveAC,
                                ///< compiled); of dense models with plain attention
    MODEL_RECOMPUTE_EARLY_STOP, ///< the layer up to the last operator whose inputs B needs
                                ///< (PyTorch's checkpoint that is not reentrant; compiled, any):
                                ///< not the last product and its sum, or of experts the way back of
                                ///< tokens
    MODEL_RECOMPUTE_COUNT
} model_recompute;

/// Parts of a layer that are computed again, of which a model_recompute is made.
enum {
    MODEL_REMAKES_CORE = 1 << 0,
    MODEL_REMAKES_NORMS = 1 << 1,
    MODEL_REMAKES_ACTIVATION = 1 << 2,
    MODEL_REMAKES_LATENT = 1 << 3,
    MODEL_REMAKES_MLP = 1 << 4,
    MODEL_REMAKES_LAYER = 1 << 5,
    MODEL_REMAKES_NOTHING = 1 << 6,  // what is kept is on the host
    MODEL_REMAKES_PRODUCTS = 1 << 7, // every second, with rotation and the residual between
    MODEL_REMAKES_NO_END = 1 << 8,   // of the layer
};

/// What replicas keep a share of instead of a copy.
typedef enum model_sharding {
    MODEL_SHARDING_NONE,
    MODEL_SHARDING_OPTIMIZER,  ///< ZeRO-1: optimizer state
    MODEL_SHARDING_GRADIENTS,  ///< ZeRO-2: and gradients
    MODEL_SHARDING_PARAMETERS, ///< ZeRO-3, FSDP: and weights
    MODEL_SHARDING_COUNT
} model_sharding;

/// Which GPUs stand next to each other, from the innermost dimension outwards.
typedef enum model_rank_order {
    MODEL_RANK_ORDER_DATA_FIRST,     ///< tensor, context, expert, data, pipeline: replicas fill
                                     ///< nodes (what launchers do; the default)
    MODEL_RANK_ORDER_PIPELINE_FIRST, ///< tensor, context, expert, pipeline, data: stages fill nodes
                                     ///< (Megatron's --use-tp-pp-dp-mapping)
    MODEL_RANK_ORDER_COUNT
} model_rank_order;

/// "none", "selective", "full", "norms", "activation", "latent", "mlp", "offload", "operators",
/// "early-stop";
/// "none", "optimizer", "gradients", "parameters"; "data-first", "pipeline-first".
extern const char *const model_recompute_names[MODEL_RECOMPUTE_COUNT];
extern const char *const model_sharding_names[MODEL_SHARDING_COUNT];
extern const char *const model_rank_order_names[MODEL_RANK_ORDER_COUNT];

/// Degrees and choices. Zero-initialise, then fill by name: a degree of 0 means 1.
typedef struct model_parallel {
    int data;
    int tensor;
    int expert;
    int expert_tensor; // 0: as tensor
    int context;
    bool sequence; // what tensor parallelism leaves whole (norms, residuals) is divided by tokens
    model_recompute recompute;
    int recompute_layers; // of the model, spread evenly over it; 0: all of them
    model_sharding sharding;
    model_rank_order order;
    bool eager;             // layers run operator by operator, as PyTorch does uncompiled: gated
                            // activations keep their parts, tensor groups what they gather
    bool fused_norms;       // but norms and rotation are kernels of a library
    bool eager_loss;        // the loss is made so
    bool blocking_launches; // host and GPU take turns (CUDA_LAUNCH_BLOCKING)
    bool cuda_graphs;       // iterations are replayed as a whole: the host starts no kernels
    double tensor_overlap;  // share of what tensor parallelism sums of gradients in B that hides
                            // behind W
    double expert_overlap;  // share of all-to-alls that hides behind other work
    double expert_deduplication; // share of the copies of a token for one GPU, or node, that are
                                 // not sent: 0 all-to-all, a copy for each expert; 1 DeepEP;
                                 // below 0: what
                                 // model_costs_build takes to be usual
} model_parallel;

/// Megatron sends off a gradient's sum before it multiplies for W: of a layer of 22 billion
/// parameters on eight A100 about 0.7 of it hides (from the published times of the layer with and
/// without, Korthikanti et al., arXiv 2205.05198, table 4).
#define MODEL_TENSOR_OVERLAP_DEFAULT 0.7

/// The MODEL_REMAKES_... of one layer out of layer_count.
unsigned model_layer_remakes(const model_parallel *parallel, int layer, int layer_count);

enum { MODEL_DEGREE_MAX = 1 << 16, MODEL_STAGE_GPUS_MAX = 1 << 24 };

/// The same with every degree of 0 replaced by what it means. Negative degrees stay.
model_parallel model_parallel_filled(model_parallel parallel);

/// Whether the degrees are within their limits, whatever they divide.
///
/// @return STATUS_INVALID naming a degree outside [1, MODEL_DEGREE_MAX], or more than
///         MODEL_STAGE_GPUS_MAX GPUs a stage
status model_parallel_check_degrees(const model_parallel *parallel, error_message *err);

/// Whether the model can be divided so.
///
/// @return as model_parallel_check_degrees; STATUS_INVALID naming the degree, what it must divide
///         and both values: heads, key-value heads (unless they divide tensor: then some GPUs hold
///         the same ones) or the width of an MLP not divisible by tensor, or of an expert by
///         expert_tensor; experts not divisible by expert; expert > 1, or expert_tensor other than
///         tensor, in a model without experts; GPUs of a stage not divisible by expert x
///         expert_tensor, or neither of that and tensor x context dividing the other; expert_tensor
///         that does not divide tensor, or differs from it without sequence parallelism.
status model_parallel_check(const model_parallel *parallel, const model_config *config,
                            error_message *err);

/// Whether expert divides data x context x tensor / expert_tensor, whatever the model.
bool model_parallel_spreads_experts(const model_parallel *parallel);

/// Whether sequence_length tokens can be divided: by context, by 2 x context if that is above 1 (a
/// rank takes an early and a late part, so that the causal mask leaves all the same work), and the
/// rest by tensor with sequence parallelism.
///
/// @return STATUS_INVALID naming both values
status model_parallel_check_sequence(const model_parallel *parallel, int sequence_length,
                                     error_message *err);

/// GPUs of the whole run: data x tensor x context x pipeline. Saturates at INT64_MAX.
int64_t model_parallel_gpu_count(const model_parallel *parallel, int pipeline);

/// Whether a cluster has these GPUs.
///
/// @param node_count, gpus_per_node >= 1
/// @return STATUS_INVALID naming the product and what there is
status model_parallel_check_cluster(const model_parallel *parallel, int pipeline, int node_count,
                                    int gpus_per_node, error_message *err);

/// The groups that a GPU belongs to, as collectives see them. In the order pipeline-first replicas
/// that hold the same experts stand on different nodes, as if every pipeline filled whole nodes.
typedef struct model_groups {
    bal_group tensor;
    bal_group context;
    bal_group expert;          // GPUs that hold the experts of a layer together, one of each
                               // expert_tensor group
    bal_group expert_tensor;   // GPUs that share the matrices of an expert
    bal_group replicas;        // data x context GPUs with the same dense parameters
    bal_group expert_replicas; // GPUs with the same part of the same experts
} model_groups;

/// @param parallel checked by model_parallel_check
model_groups model_parallel_groups(const model_parallel *parallel, const model_hardware *hardware);

/// Whose tokens meet in one group of experts: those of several replicas, or those of a part of one.
typedef struct model_expert_span {
    int replica_count; // of the pipeline, whose tokens one group has
    int group_count;   // of experts, among which a replica's tokens are divided; one of both is 1
} model_expert_span;

/// @param parallel checked by model_parallel_check
model_expert_span model_parallel_expert_span(const model_parallel *parallel);

/// The machine of one pipeline of rank_count stages. A rank stands for the tensor x context GPUs of
/// a stage, each of which sends its own share over its own link; memory is of one GPU.
bal_machine model_parallel_machine(const model_parallel *parallel, const model_hardware *hardware,
                                   int rank_count);

/// Bytes of a parameter: the weight that layers multiply by, its gradient, and all else that the
/// optimizer keeps (a copy of the weight in 32 bits, moments).
typedef struct model_parameter_bytes {
    int weight;
    int gradient;
    int optimizer;
} model_parameter_bytes;

/// Bytes that a GPU keeps of parameters that replica_count GPUs hold: what is sharded is divided by
/// them and rounded up. Saturates at INT64_MAX.
int64_t model_state_bytes(int64_t parameters, model_parameter_bytes bytes, model_sharding sharding,
                          int replica_count);

/// When and how long replicas exchange what they share of a layer.
typedef struct model_replica_traffic {
    int64_t step_ns;     // at the end of an iteration
    int64_t forward_ns;  // before F of a microbatch: gathering weights
    int64_t backward_ns; // before B: gathering them again
    int64_t gradient_ns; // after W: reduce-scatter of gradients
} model_replica_traffic;

/// Traffic of parameters between the replicas that hold them.
///
/// none: an all-reduce of gradients at the step. optimizer: gradients are scattered and weights
/// gathered at the step. gradients: as no rank keeps all gradients, they are scattered after every
/// W; weights are gathered at the step. parameters: weights are gathered before F and B, gradients
/// scattered after W; nothing is left for the step. Saturates at INT64_MAX / 4.
model_replica_traffic model_replica_traffic_of(int64_t parameters, model_parameter_bytes bytes,
                                               model_sharding sharding, const bal_group *replicas);
