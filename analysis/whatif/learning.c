#include "analysis/whatif/learning.h"

#include "base/file.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

const char *const ana_learning_names[ANA_LEARNING_COUNT] = {"bit-identical", "other rounding",
                                                            "other training"};

/// The case of dynamism without what only says how it is drawn or charged.
static void write_dynamism(json_value dynamism, json_writer *writer)
{
    static const char *const drawn[] = {"seed", "load_model"};
    json_begin_object(writer);
    json_value member = json_element(dynamism, 0);
    for (; member.node != NULL; member = json_next(member)) {
        if (strcmp(json_key(member), drawn[0]) == 0 || strcmp(json_key(member), drawn[1]) == 0) {
            continue;
        }
        json_write_key(writer, json_key(member));
        json_write_value(writer, member);
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
        config->layer_count,     config->hidden_size,     config->head_count,
        config->kv_head_count,   config->query_key_dim,   config->value_dim,
        config->kv_rank,         config->query_rank,      config->rope_dim,
        config->ffn_size,        config->expert_count,    config->expert_top_k,
        config->expert_ffn_size, config->shared_ffn_size, config->vocabulary_size,
        config->sliding_window,  (int)config->norm,
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
    text_format(out, "%s|", config->model_type);
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
        text_format(out, "%d|", sizes[size]);
    }
    for (size_t feature = 0; feature < sizeof features / sizeof features[0]; feature++) {
        text_append(out, features[feature] ? "1" : "0");
    }
    for (int layer = 0; layer < config->layer_count; layer++) {
        text_append(out, config->is_moe[layer] ? "e" : "d");
    }
}

static void write_training(const ana_setup *setup, text_buffer *out)
{
    const ana_study *study = setup->study;
    const bool is_traced = study->trace_path != NULL;
    const int64_t sequences = (int64_t)microbatch_size(setup) * setup->microbatch_count *
                              study->round_count * study->parallel.data;
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

static void write_rounding(const ana_setup *setup, const ana_balancing *row, text_buffer *out)
{
    const ana_study *study = setup->study;
    const model_parallel parallel = model_parallel_filled(study->parallel);
    const bal_repack_options *repack = &row->repack.options;
    const bool packs = repack->kind != BAL_REPACK_NONE;
    text_format(out, "%d|%d|%d|%d|%d|%d|%d|", parallel.data, parallel.tensor, parallel.expert,
                parallel.expert_tensor, parallel.context, (int)parallel.sequence,
                (int)parallel.sharding);
    // The order of the ranks in a ring of two is the same.
    text_format(out, "%d|", parallel.data > 2 ? (int)parallel.order : 0);
    text_format(out, "%d|%d|%s|", setup->microbatch_count * study->round_count,
                microbatch_size(setup), text_or_none(study->attention));
    text_format(out, "%d|%d|%s", packs && repack->use == BAL_RELEASED_REPLICATE,
                packs && repack->chooses_microbatches, text_or_none(study->hardware));
}

status ana_learning_settings_of(const ana_setup *setup, const ana_balancing *row,
                                ana_learning_settings *settings, error_message *err)
{
    text_buffer training = {0};
    text_buffer rounding = {0};
    write_training(setup, &training);
    write_rounding(setup, row, &rounding);
    const bool failed = training.failed || rounding.failed;
    if (!failed) {
        settings->training = file_hash(FILE_HASH_START, training.bytes, training.length);
        settings->rounding = file_hash(FILE_HASH_START, rounding.bytes, rounding.length);
    }
    text_free(&training);
    text_free(&rounding);
    return failed ? error_set(err, STATUS_NO_MEMORY, "out of memory") : STATUS_OK;
}

ana_learning ana_learning_beside(const ana_learning_settings *reference,
                                 const ana_learning_settings *point)
{
    if (reference->training != point->training) return ANA_LEARNING_DIFFERENT;
    return reference->rounding != point->rounding ? ANA_LEARNING_ROUNDING : ANA_LEARNING_IDENTICAL;
}
