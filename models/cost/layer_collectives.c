#include "models/cost/layer_collectives.h"

#include "models/cost/saturating.h"

enum { STATISTIC_BYTES = 4, STATISTICS = 3 }; // largest logit, sum of exponentials, target's logit

/// Bytes of a vector of this width for each of so many tokens.
static int64_t vector_bytes(const model_shape *shape, int64_t tokens, int64_t width)
{
    const int64_t row_bytes = width * model_dtype_bytes(model_dtype_wide(shape->dtype));
    return saturating_multiply(tokens, row_bytes);
}

/// A block whose first matrix is divided by columns and whose last one by rows. Whole: F sums its
/// outputs, B the gradients of its inputs. With sequence parallelism inputs are gathered and
/// outputs scattered, and B does so the other way round; that it gathers the inputs again for W
/// hides behind its products. Source: Korthikanti et al., arXiv 2205.05198, section 4.2.
static int64_t block_ns(const model_shape *shape, const bal_group *tensor, int64_t in_width,
                        int64_t out_width, model_pass pass)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return 0;
    const int64_t in_bytes = vector_bytes(shape, model_shape_tokens(shape), in_width);
    const int64_t out_bytes = vector_bytes(shape, model_shape_tokens(shape), out_width);
    if (!shape->parallel.sequence) {
        const bool is_forward = pass == MODEL_PASS_FORWARD;
        return bal_group_all_reduce_ns(tensor, is_forward ? out_bytes : in_bytes);
    }
    return saturating_add(bal_group_all_gather_ns(tensor, in_bytes),
                          bal_group_reduce_scatter_ns(tensor, out_bytes));
}

/// What attention gathers: hidden vectors, or what latent attention has compressed them to.
static int64_t attention_input_width(const model_config *config)
{
    if (config->kv_rank == 0) return config->hidden_size;
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
        vector_bytes(shape, model_shape_routed_tokens(shape), hidden * config->expert_top_k);
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

/// Every token of a GPU goes to its k experts and comes back; B sends the gradients.
static int64_t exchange_ns(const model_config *config, const model_shape *shape,
                           const bal_group *group, int layer, model_pass pass)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT || !config->is_moe[layer]) return 0;
    const int64_t bytes =
        saturating_multiply(model_message_bytes(config, shape), config->expert_top_k);
    const int64_t one_way_ns = bal_group_all_to_all_ns(group, bytes);
    return saturating_add(one_way_ns, one_way_ns);
}

model_collectives model_layer_collectives(const model_config *config, const model_shape *shape,
                                          const model_groups *groups, int layer, model_pass pass,
                                          int64_t attention_ns)
{
    const int64_t attention_block_ns =
        block_ns(shape, &groups->tensor, attention_input_width(config), config->hidden_size, pass);
    return (model_collectives){
        .tensor_ns = saturating_add(attention_block_ns, mlp_ns(config, shape, groups, layer, pass)),
        .context_ns = ring_ns(config, shape, &groups->context, pass, attention_ns),
        .expert_ns = exchange_ns(config, shape, &groups->expert, layer, pass),
    };
}

model_collectives model_embedding_collectives(const model_config *config, const model_shape *shape,
                                              const model_groups *groups, model_pass pass)
{
    const int64_t bytes = vector_bytes(shape, model_shape_tokens(shape), config->hidden_size);
    const bool is_divided = shape->parallel.sequence;
    model_collectives collectives = {0};
    if (pass == MODEL_PASS_FORWARD) {
        collectives.tensor_ns = is_divided ? bal_group_reduce_scatter_ns(&groups->tensor, bytes)
                                           : bal_group_all_reduce_ns(&groups->tensor, bytes);
    } else if (pass == MODEL_PASS_BACKWARD_INPUT && is_divided) {
        collectives.tensor_ns = bal_group_all_gather_ns(&groups->tensor, bytes);
    }
    return collectives;
}

model_collectives model_head_collectives(const model_config *config, const model_shape *shape,
                                         const model_groups *groups, model_pass pass)
{
    const int64_t bytes = vector_bytes(shape, model_shape_tokens(shape), config->hidden_size);
    const bool is_divided = shape->parallel.sequence;
    model_collectives collectives = {0};
    if (pass == MODEL_PASS_FORWARD) {
        const int64_t statistic_bytes =
            saturating_multiply(model_shape_tokens(shape), STATISTIC_BYTES);
        collectives.tensor_ns = saturating_multiply(
            bal_group_all_reduce_ns(&groups->tensor, statistic_bytes), STATISTICS);
        if (is_divided) {
            collectives.tensor_ns = saturating_add(collectives.tensor_ns,
                                                   bal_group_all_gather_ns(&groups->tensor, bytes));
        }
    } else if (pass == MODEL_PASS_BACKWARD_INPUT) {
        collectives.tensor_ns = is_divided ? bal_group_reduce_scatter_ns(&groups->tensor, bytes)
                                           : bal_group_all_reduce_ns(&groups->tensor, bytes);
    }
    return collectives;
}
