#include "analysis/export/export_torchtitan.h"

#include <stdio.h>
#include <string.h>

enum { MODULE_BYTES = 256 };

static status check_name(const char *what, const char *name, error_message *err)
{
    for (const char *at = name; *at != '\0'; at++) {
        if ((unsigned char)*at >= ' ' && *at != '"' && *at != '\\' && *at != 0x7f) continue;
        return error_set(err, STATUS_INVALID,
                         "%s '%.80s' has a quote, a backslash or a control character", what, name);
    }
    if (strlen(name) < MODULE_BYTES - 16) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s '%.40s...' is longer than %d bytes", what, name,
                     MODULE_BYTES - 17);
}

static status check_names(const ana_torchtitan_names *names, error_message *err)
{
    for (int name = 0; name < names->embedding_count; name++) {
        TRY(check_name("embedding", names->embeddings[name], err));
    }
    TRY(check_name("block", names->block, err));
    TRY(check_name("norm", names->norm, err));
    TRY(check_name("head", names->head, err));
    TRY(check_name("path", names->schedule_csv, err));
    const char *place = strstr(names->block, "{}");
    if (place != NULL && strstr(place + 2, "{}") == NULL) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "block '%s' needs {} once, where the number of the block stands",
                     names->block);
}

static void block_name(const ana_torchtitan_names *names, int block, char out[MODULE_BYTES])
{
    const char *place = strstr(names->block, "{}");
    snprintf(out, MODULE_BYTES, "%.*s%d%s", (int)(place - names->block), names->block, block,
             place + 2);
}

/// The modules of a stage, one after another: counts up to the end, where NULL comes back.
static const char *module_at(const ana_exported_stage *stage, const ana_torchtitan_names *names,
                             int index, char scratch[MODULE_BYTES])
{
    if (stage->has_embedding) {
        if (index < names->embedding_count) return names->embeddings[index];
        index -= names->embedding_count;
    }
    if (index < stage->block_count) {
        block_name(names, stage->first_block + index, scratch);
        return scratch;
    }
    index -= stage->block_count;
    if (!stage->has_head) return NULL;
    const char *const ends[] = {names->norm, names->head};
    for (size_t end = 0; end < sizeof ends / sizeof ends[0]; end++) {
        if (ends[end][0] == '\0') continue;
        if (index-- == 0) return ends[end];
    }
    return NULL;
}

status ana_torchtitan_check(const bal_plan *plan, const ana_exported_stage *stages,
                            const ana_torchtitan_names *names, error_message *err)
{
    char scratch[MODULE_BYTES];
    if (plan->placement != BAL_PLACEMENT_LOOP && plan->placement != BAL_PLACEMENT_V) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "placement %s has every stage on two ranks; torchtitan has each on one",
                         bal_placement_name(plan->placement));
    }
    TRY(check_names(names, err));
    for (int stage = 0; stage < plan->rank_count * plan->chunk_count; stage++) {
        if (module_at(&stages[stage], names, 0, scratch) != NULL) continue;
        return error_set(err, STATUS_UNSUPPORTED,
                         "stage %d owns no module: torchtitan's optimizer takes no part without "
                         "parameters",
                         stage);
    }
    return STATUS_OK;
}

/// The name from which torchtitan takes where stages are.
static const char *schedule_name(const bal_plan *plan)
{
    if (plan->chunk_count == 1) return "1F1B";
    return plan->placement == BAL_PLACEMENT_V ? "ZBVZeroBubble" : "Interleaved1F1B";
}

void ana_export_torchtitan(const bal_plan *plan, const ana_exported_stage *stages,
                           const ana_torchtitan_names *names, text_buffer *out)
{
    char scratch[MODULE_BYTES];
    text_append(out, "# Settings of torchtitan's ParallelismConfig.\n");
    ana_exported_head_write(plan, NULL, out);
    text_append(out, "# The order is in the CSV; of the schedule's name only the placement "
                     "counts.\n");
    text_format(out,
                "# training.local_batch_size is %d * parallelism.pipeline_parallel_microbatch_size."
                "\n",
                plan->microbatch_count);
    text_format(out,
                "parallelism = dict(\n"
                "    pipeline_parallel_degree=%d,\n"
                "    pipeline_parallel_schedule=\"%s\",\n"
                "    pipeline_parallel_schedule_csv=\"%s\",\n"
                "    module_fqns_per_model_part=[\n",
                plan->rank_count, schedule_name(plan), names->schedule_csv);
    for (int stage = 0; stage < plan->rank_count * plan->chunk_count; stage++) {
        text_append(out, "        [");
        const char *module = NULL;
        for (int index = 0; (module = module_at(&stages[stage], names, index, scratch)) != NULL;
             index++) {
            text_format(out, "%s\"%s\"", index > 0 ? ", " : "", module);
        }
        text_append(out, "],\n");
    }
    text_append(out, "    ],\n)\n");
}

void ana_export_torchtitan_json(const bal_plan *plan, const ana_exported_stage *stages,
                                const ana_torchtitan_names *names, json_writer *writer)
{
    char scratch[MODULE_BYTES];
    json_begin_object(writer);
    json_put_int64(writer, "pipeline_parallel_degree", plan->rank_count);
    json_put_string(writer, "pipeline_parallel_schedule", schedule_name(plan));
    json_put_string(writer, "pipeline_parallel_schedule_csv", names->schedule_csv);
    json_write_key(writer, "module_fqns_per_model_part");
    json_begin_array(writer);
    for (int stage = 0; stage < plan->rank_count * plan->chunk_count; stage++) {
        const char *module = NULL;
        json_begin_array(writer);
        for (int index = 0; (module = module_at(&stages[stage], names, index, scratch)) != NULL;
             index++) {
            json_write_string(writer, module);
        }
        json_end_array(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}
