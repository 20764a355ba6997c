#include "models/cost/layer_work.h"

#include "models/cost/saturating.h"

#include <math.h>

enum { STATISTIC_BYTES = 4, STATISTICS = 3 }; // largest logit, sum of exponentials, target's logit

/// Bytes of a vector of this width for each of so many tokens.
static int64_t vector_bytes(const model_shape *shape, int64_t tokens, int64_t width)
{
    const int64_t row_bytes = width * model_dtype_bytes(model_dtype_wide(shape->dtype));
    return saturating_multiply(tokens, row_bytes);
}

/// What is left of a collective of which a share hides.
static int64_t exposed_ns(int64_t ns, double overlap)
{
    return overlap > 0 ? (int64_t)llround((double)ns * (1 - overlap)) : ns;
}

/// Vectors summed up; with sequence parallelism each GPU gets its own tokens.
static int64_t summed_ns(const model_shape *shape, const bal_group *tensor, int64_t width)
{
    const int64_t bytes = vector_bytes(shape, model_shape_tokens(shape), width);
    return shape->parallel.sequence ? bal_group_reduce_scatter_ns(tensor, bytes)
                                    : bal_group_all_reduce_ns(tensor, bytes);
}

/// A block whose first matrix is divided by columns and whose last one by rows. Whole: F sums its
/// outputs, B the gradients of its inputs. With sequence parallelism inputs are gathered and
/// outputs scattered, and B does so the other way round; that it gathers the inputs again for W
/// hides behind its products. Source: Korthikanti et al., arXiv 2205.05198, section 4.2.
static int64_t block_ns(const model_shape *shape, const bal_group *tensor, int64_t in_width,
                        int64_t out_width, model_pass pass)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return 0;
    const bool is_forward = pass == MODEL_PASS_FORWARD;
    const double overlap = is_forward ? 0 : shape->parallel.tensor_overlap;
    if (!shape->parallel.sequence) {
        return exposed_ns(summed_ns(shape, tensor, is_forward ? out_width : in_width), overlap);
    }
    const int64_t in_bytes = vector_bytes(shape, model_shape_tokens(shape), in_width);
    return saturating_add(bal_group_all_gather_ns(tensor, in_bytes),
                          exposed_ns(summed_ns(shape, tensor, out_width), overlap));
}

/// What attention gathers: hidden vectors, or what latent attention has compressed them to.
static int64_t attention_input_width(const model_config *config)
{
    if (config->kv_rank == 0 || config->head_count == 0) return config->hidden_size;
    const int64_t query = config->query_rank > 0 ? config->query_rank : config->hidden_size;
    return query + config->kv_rank + config->rope_dim;
}

/// With sequence parallelism the rows for experts are gathered after they have been sent, k of them
/// per token (Megatron's all-to-all dispatcher), among the GPUs that share an expert; a shared
/// expert is a block of its own then.
static int64_t mlp_ns(const model_config *config, const model_shape *shape,
                      const model_groups *groups, int layer, model_pass pass)
{
    const int64_t hidden = config->hidden_size;
    if (!config->is_moe[layer] || !shape->parallel.sequence) {
        return block_ns(shape, &groups->tensor, hidden, hidden, pass);
    }
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return 0;
    const int64_t routed_bytes =
        vector_bytes(shape, model_shape_routed_tokens(shape),
                     model_config_expert_width(config) * (int64_t)config->expert_top_k);
    const int64_t routed_ns =
        saturating_add(bal_group_all_gather_ns(&groups->expert_tensor, routed_bytes),
                       bal_group_reduce_scatter_ns(&groups->expert_tensor, routed_bytes));
    if (config->shared_ffn_size == 0) return routed_ns;
    return saturating_add(routed_ns, block_ns(shape, &groups->tensor, hidden, hidden, pass));
}

/// Ring attention: in each of the context - 1 steps keys and values go on to the next rank, in B
/// with their gradients, while the core works on those at hand.
/// Source: Liu, Zaharia & Abbeel, Ring Attention, arXiv 2310.01889, section 3.
static int64_t ring_ns(const model_config *config, const model_shape *shape, const bal_group *group,
                       model_pass pass, int64_t attention_ns)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT || group->rank_count == 1) return 0;
    const model_config slice = model_gpu_slice(config, &shape->parallel);
    const int64_t width = (int64_t)slice.kv_head_count * (slice.query_key_dim + slice.value_dim);
    const int64_t bytes = vector_bytes(shape, model_shape_tokens(shape),
                                       pass == MODEL_PASS_FORWARD ? width : 2 * width);
    const int64_t step_ns = bal_group_ring_step_ns(group, bytes);
    const int64_t hidden_ns = attention_ns / group->rank_count;
    const int64_t exposed_ns = step_ns > hidden_ns ? step_ns - hidden_ns : 0;
    return saturating_multiply(exposed_ns, group->rank_count - 1);
}

/// How often a GPU sends a token to another GPU of its node, and over the network, in the mean over
/// balanced routing.
typedef struct token_copies {
    double intra;
    double inter;
} token_copies;

/// An all-to-all sends a copy to each expert. DeepEP and HybridEP send a token once to each node
/// that it reaches, whence it is handed on, and once to each GPU, however many of its experts are
/// there. Models whose experts stand in groups, of which a token meets some, reach fewer nodes.
/// Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.2; its kernels are DeepEP.
static token_copies count_copies(const model_config *config, const model_parallel *parallel,
                                 const bal_group *group)
{
    const double on_node = group->node_rank_count;
    const double nodes = group->rank_count / on_node;
    const double share = config->expert_group_count > 1
                             ? (double)config->expert_group_top_k / config->expert_group_count
                             : 1;
    const double top_k = config->expert_top_k;
    const double once = parallel->expert_deduplication;
    const double gpus_met = model_places_met(fmax(group->rank_count * share, on_node), top_k);
    const double nodes_met = model_places_met(fmax(nodes * share, 1), top_k);
    const double intra = once * gpus_met + (1 - once) * top_k / nodes;
    const double inter = once * nodes_met + (1 - once) * top_k;
    return (token_copies){intra * (on_node - 1) / on_node, inter * (nodes - 1) / nodes};
}

/// One way: copies over the links of a node and of the network at once, all partners at a time.
static int64_t one_way_ns(const bal_group *group, token_copies copies, double bytes)
{
    if (group->rank_count == 1) return 0;
    const int64_t intra_ns =
        bal_link_transfer_ns(group->intra_node, (int64_t)llround(fmin(copies.intra * bytes, 1e18)));
    if (group->node_rank_count == group->rank_count) return intra_ns;
    const int64_t inter_ns =
        bal_link_transfer_ns(group->inter_node, (int64_t)llround(fmin(copies.inter * bytes, 1e18)));
    return intra_ns > inter_ns ? intra_ns : inter_ns;
}

/// The tokens' rows come back from their experts, as wide as they are summed up; B does not need
/// them, unless they are expanded.
static int64_t return_ns(const model_config *config, const model_shape *shape,
                         const bal_group *group, int layer)
{
    if (!config->is_moe[layer] || config->expert_latent_size > 0) return 0;
    const double bytes = (double)model_expert_row_bytes(config, shape);
    return exposed_ns(one_way_ns(group, count_copies(config, &shape->parallel, group), bytes),
                      shape->parallel.expert_overlap);
}

/// Every token of a GPU goes to its experts and comes back; B sends the gradients. Where kernels
/// know the nodes and products are of 8 bits, F sends 8 bits out; what is summed up stays wide.
static int64_t exchange_ns(const model_config *config, const model_shape *shape,
                           const bal_group *group, int layer, model_pass pass)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT || !config->is_moe[layer]) return 0;
    const double bytes = (double)model_expert_row_bytes(config, shape);
    const token_copies copies = count_copies(config, &shape->parallel, group);
    const bool is_narrow = pass == MODEL_PASS_FORWARD && config->expert_group_count > 1 &&
                           model_dtype_is_narrow(shape->dtype);
    return exposed_ns(saturating_add(one_way_ns(group, copies, is_narrow ? bytes / 2 : bytes),
                                     one_way_ns(group, copies, bytes)),
                      shape->parallel.expert_overlap);
}

model_collectives model_layer_collectives(const model_config *config, const model_shape *shape,
                                          const model_groups *groups, int layer, model_pass pass,
                                          int64_t attention_ns)
{
    const model_config view = model_config_layer(config, layer);
    const bool has_mixer = view.head_count > 0 || view.mamba_head_count > 0;
    const bool has_mlp = view.ffn_size > 0 || view.is_moe[layer];
    const int64_t mixer_ns =
        block_ns(shape, &groups->tensor, attention_input_width(&view), view.hidden_size, pass);
    const int64_t mlp_tensor_ns = has_mlp ? mlp_ns(&view, shape, groups, layer, pass) : 0;
    return (model_collectives){
        .tensor_ns = saturating_add(has_mixer ? mixer_ns : 0, mlp_tensor_ns),
        .mlp_tensor_ns = mlp_tensor_ns,
        .context_ns =
            view.head_count > 0 ? ring_ns(&view, shape, &groups->context, pass, attention_ns) : 0,
        .expert_ns = exchange_ns(config, shape, &groups->expert, layer, pass),
        .last_tensor_ns =
            view.is_moe[layer] ? 0 : summed_ns(shape, &groups->tensor, view.hidden_size),
        .last_expert_ns = return_ns(config, shape, &groups->expert, layer),
    };
}

/// Hidden vectors that every rank has a part of: summed up, or gathered where sequence parallelism
/// divides them.
static int64_t vectors_ns(const model_config *config, const model_shape *shape,
                          const bal_group *tensor, bool are_summed)
{
    const int64_t bytes = vector_bytes(shape, model_shape_tokens(shape), config->hidden_size);
    if (!shape->parallel.sequence) return are_summed ? bal_group_all_reduce_ns(tensor, bytes) : 0;
    return are_summed ? bal_group_reduce_scatter_ns(tensor, bytes)
                      : bal_group_all_gather_ns(tensor, bytes);
}

model_collectives model_embedding_collectives(const model_config *config, const model_shape *shape,
                                              const model_groups *groups, model_pass pass)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return (model_collectives){0};
    const bool is_forward = pass == MODEL_PASS_FORWARD;
    return (model_collectives){.tensor_ns = vectors_ns(config, shape, &groups->tensor, is_forward)};
}

model_collectives model_head_collectives(const model_config *config, const model_shape *shape,
                                         const model_groups *groups, model_pass pass)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return (model_collectives){0};
    const bool is_forward = pass == MODEL_PASS_FORWARD;
    const int64_t bytes = saturating_multiply(model_shape_tokens(shape), STATISTIC_BYTES);
    const int64_t loss_ns =
        is_forward
            ? saturating_multiply(bal_group_all_reduce_ns(&groups->tensor, bytes), STATISTICS)
            : 0;
    return (model_collectives){
        .tensor_ns =
            saturating_add(loss_ns, vectors_ns(config, shape, &groups->tensor, !is_forward))};
}
