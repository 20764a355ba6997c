/// The packed sequences that `dynmo run` trains on.
#include "cli/run/run.h"

#include <string.h>

/// A run whose microbatches are asked for one after the other.
typedef struct asking {
    model_dynamism *dynamism;
    const exec_packing *packing;
    int64_t microbatch_count; // of the run
} asking;

static status ask(const asking *run, int64_t place, model_documents *documents, error_message *err)
{
    const int microbatches = run->packing->microbatch_count;
    const int64_t row = place / microbatches;
    return model_dynamism_documents(run->dynamism, (int)(row / run->packing->replica_count),
                                    (int)(row % run->packing->replica_count),
                                    (int)(place % microbatches), documents, err);
}

static status count_documents(const asking *run, int64_t *count, error_message *err)
{
    *count = 0;
    for (int64_t place = 0; place < run->microbatch_count; place++) {
        model_documents documents;
        TRY(ask(run, place, &documents, err));
        *count += documents.count;
        if (*count <= CLI_RUN_DOCUMENTS_MAX) continue;
        return error_set(err, STATUS_UNSUPPORTED,
                         "training.iterations %d have more than %d sequences to be packed",
                         run->packing->iteration_count, CLI_RUN_DOCUMENTS_MAX);
    }
    return STATUS_OK;
}

/// @param first_row [documents + 1] out
static status lay_rows(const model_documents *documents, int longest, int *first_row,
                       error_message *err)
{
    first_row[0] = 0;
    for (int document = 0; document < documents->count; document++) {
        const int tokens = documents->tokens[document];
        if (tokens > longest) {
            return error_set(err, STATUS_UNSUPPORTED,
                             "a sequence of %d tokens to be packed, but "
                             "training.sequence_length is %d",
                             tokens, longest);
        }
        first_row[document + 1] = first_row[document] + tokens;
    }
    return STATUS_OK;
}

static status lay_all(const asking *run, arena *memory, int longest, exec_packing *packing,
                      error_message *err)
{
    int64_t count = 0;
    TRY(count_documents(run, &count, err));
    const size_t places = (size_t)run->microbatch_count;
    int64_t *first_document = arena_array(memory, places + 1, sizeof *first_document);
    int *first_row = arena_array(memory, (size_t)count + places, sizeof *first_row);
    int64_t *number = arena_array(memory, (size_t)count, sizeof *number);
    for (int64_t place = 0; place < run->microbatch_count; place++) {
        const int64_t first = first_document[place];
        model_documents documents;
        TRY(ask(run, place, &documents, err));
        TRY(lay_rows(&documents, longest, first_row + first + place, err));
        memcpy(number + first, documents.number, (size_t)documents.count * sizeof *number);
        first_document[place + 1] = first + documents.count;
        const int rows = first_row[first + place + documents.count];
        if (rows > packing->row_max) packing->row_max = rows;
    }
    packing->first_document = first_document;
    packing->first_row = first_row;
    packing->number = number;
    return STATUS_OK;
}

status cli_run_packing_make(const cli_run_request *request, const cli_run_study *opened,
                            arena *memory, exec_model *model, exec_packing *packing,
                            error_message *err)
{
    model_dynamism *dynamism = ana_setup_dynamism(&opened->setup, opened->row);
    if (dynamism == NULL || strcmp(model_dynamism_name(dynamism), "lengths") != 0) {
        return STATUS_OK;
    }
    *packing = (exec_packing){.iteration_count = opened->setup.iteration_count,
                              .replica_count = opened->study.parallel.data,
                              .microbatch_count = opened->setup.microbatch_count};
    const asking run = {dynamism, packing,
                        (int64_t)packing->iteration_count * packing->replica_count *
                            packing->microbatch_count};
    status result = lay_all(&run, memory, model->sequence_length, packing, err);
    model->packed_rows = packing->row_max;
    if (result == STATUS_OK) result = exec_model_check(model, err);
    return result == STATUS_OK ? result : error_prefix(err, result, "%s", request->path);
}
