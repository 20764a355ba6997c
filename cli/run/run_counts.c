#include "cli/run/run_counts.h"
#include "base/arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cli_run_counts {
    FILE *file;
    const char *path;
    int expert_count;
};

status cli_run_counts_open(const cli_run_request *request, const exec_model *model,
                           cli_run_counts **counts, error_message *err)
{
    if (model->mechanism != EXEC_MOE) {
        return error_set(err, STATUS_INVALID,
                         "--counts: only mechanism moe has experts; the study trains with '%s'",
                         exec_mechanism_names[model->mechanism]);
    }
    cli_run_counts *made = memory_array(1, sizeof *made);
    made->path = request->counts;
    made->expert_count = model->moe.expert_count;
    made->file = fopen(request->counts, "w");
    if (made->file == NULL) {
        free(made);
        return error_set(err, STATUS_IO, "%s: %s", request->counts, strerror(errno));
    }
    fprintf(made->file, "iteration,layer,microbatch");
    for (int expert = 0; expert < made->expert_count; expert++) {
        fprintf(made->file, ",expert_%d", expert);
    }
    fprintf(made->file, "\n");
    *counts = made;
    return STATUS_OK;
}

/// One row. False if the layer has no experts: embedding and head.
static bool put_row(const cli_run_counts *counts, int iteration, int block, int microbatch,
                    const int64_t *tokens)
{
    int64_t sum = 0;
    for (int expert = 0; expert < counts->expert_count; expert++) {
        sum += tokens[expert];
    }
    if (sum == 0) return false;
    fprintf(counts->file, "%d,%d,%d", iteration, block, microbatch);
    for (int expert = 0; expert < counts->expert_count; expert++) {
        fprintf(counts->file, ",%" PRId64, tokens[expert]);
    }
    fprintf(counts->file, "\n");
    return true;
}

status cli_run_counts_put(cli_run_counts *counts, const exec_measured *measured, error_message *err)
{
    const bal_layer_costs *layers = &measured->played->replicas[0];
    const int microbatches = measured->played->schedule->microbatch_count;
    const int64_t *tokens = measured->load_count;
    int block = 0;
    for (int layer = 0; tokens != NULL && layer < layers->layer_count; layer++) {
        bool has_experts = false;
        for (int microbatch = 0; microbatch < microbatches; microbatch++) {
            const int64_t row = (int64_t)layer * microbatches + microbatch;
            has_experts |= put_row(counts, measured->record->iteration, block, microbatch,
                                   tokens + row * measured->load_columns);
        }
        block += has_experts;
    }
    if (!ferror(counts->file)) return STATUS_OK;
    return error_set(err, STATUS_IO, "%s: cannot write: %s", counts->path, strerror(errno));
}

status cli_run_counts_close(cli_run_counts *counts, error_message *err)
{
    const bool failed = ferror(counts->file) != 0;
    const bool closed = fclose(counts->file) == 0;
    const char *path = counts->path;
    free(counts);
    if (!failed && closed) return STATUS_OK;
    return error_set(err, STATUS_IO, "%s: cannot write all of it: %s", path, strerror(errno));
}
