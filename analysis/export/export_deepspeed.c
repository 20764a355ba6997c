#include "analysis/export/export_deepspeed.h"

#include "analysis/export/exported_stages.h"

#include <limits.h>

status ana_deepspeed_parts_of(const bal_plan *plan, int before, int behind, arena *memory,
                              ana_deepspeed_parts *parts, error_message *err)
{
    const int stage_count = plan->rank_count;
    if (plan->chunk_count > 1) {
        return error_set(err, STATUS_UNSUPPORTED, "chunks %d: DeepSpeed has one stage per rank",
                         plan->chunk_count);
    }
    const int64_t total = (int64_t)before + plan->first_layer[stage_count] + behind;
    if (total > INT_MAX) {
        return error_set(err, STATUS_INVALID, "%lld LayerSpecs exceed %d", (long long)total,
                         INT_MAX);
    }
    int *made = arena_array(memory, (size_t)stage_count + 1, sizeof *made);
    for (int stage = 1; stage < stage_count; stage++) {
        made[stage] = before + plan->first_layer[stage];
    }
    made[0] = 0;
    made[stage_count] = (int)total;
    for (int stage = 0; stage < stage_count; stage++) {
        if (made[stage] < made[stage + 1]) continue;
        return error_set(err, STATUS_UNSUPPORTED,
                         "stage %d owns no layer: DeepSpeed trains no stage without parameters",
                         stage);
    }
    *parts = (ana_deepspeed_parts){.stage_count = stage_count, .parts = made};
    return STATUS_OK;
}

void ana_export_deepspeed(const bal_plan *plan, const ana_deepspeed_parts *parts, text_buffer *out)
{
    ana_exported_head_write(plan, "1f1b", out);
    text_format(out, "# gradient_accumulation_steps is %d.\n", plan->microbatch_count);
    text_append(out, "from deepspeed.pipe import PipelineModule\n\n\n"
                     "class PlannedPipelineModule(PipelineModule):\n"
                     "    \"\"\"A PipelineModule whose stages are PARTS of its layers.\"\"\"\n\n"
                     "    PARTS = [");
    for (int stage = 0; stage <= parts->stage_count; stage++) {
        text_format(out, "%s%d", stage > 0 ? ", " : "", parts->parts[stage]);
    }
    text_append(out,
                "]\n\n"
                "    def _partition_layers(self, method=\"uniform\"):\n"
                "        if len(self._layer_specs) != self.PARTS[-1]:\n"
                "            raise ValueError(f\"{len(self._layer_specs)} layers, the plan has "
                "{self.PARTS[-1]}\")\n"
                "        if self.num_stages != len(self.PARTS) - 1:\n"
                "            raise ValueError(f\"{self.num_stages} stages, the plan has "
                "{len(self.PARTS) - 1}\")\n"
                "        self.parts = list(self.PARTS)\n"
                "        stage = self._topo.get_coord(self.global_rank).pipe\n"
                "        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])\n");
}

void ana_export_deepspeed_json(const ana_deepspeed_parts *parts, json_writer *writer)
{
    json_begin_object(writer);
    json_put_int64(writer, "num_stages", parts->stage_count);
    json_write_key(writer, "parts");
    json_write_int_array(writer, parts->parts, parts->stage_count + 1);
    json_end_object(writer);
}
