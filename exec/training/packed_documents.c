#include "exec/training/packed_documents.h"

#include <assert.h>

exec_packed_rows exec_packing_rows(const exec_packing *packing, int iteration, int replica,
                                   int microbatch)
{
    assert(iteration < packing->iteration_count && microbatch < packing->microbatch_count);
    const int64_t place =
        ((int64_t)iteration * packing->replica_count + replica) * packing->microbatch_count +
        microbatch;
    const int64_t first = packing->first_document[place];
    return (exec_packed_rows){
        .document_count = (int)(packing->first_document[place + 1] - first),
        .first_row = packing->first_row + first + place,
        .number = packing->number + first,
    };
}

int64_t exec_packing_tokens(const exec_packing *packing, int iteration)
{
    int64_t tokens = 0;
    for (int replica = 0; replica < packing->replica_count; replica++) {
        for (int microbatch = 0; microbatch < packing->microbatch_count; microbatch++) {
            const exec_packed_rows rows =
                exec_packing_rows(packing, iteration, replica, microbatch);
            tokens += rows.first_row[rows.document_count];
        }
    }
    return tokens;
}

void exec_packing_draw(const exec_packed_rows *rows, const exec_training_text *text, uint64_t seed,
                       int *token, int *target, int *position)
{
    for (int document = 0; document < rows->document_count; document++) {
        const int first = rows->first_row[document];
        const int64_t number = rows->number[document];
        const exec_text_batch batch = {.seed = seed,
                                       .iteration = (int)(number >> 31),
                                       .microbatch = (int)(number & INT32_MAX),
                                       .sequence_count = 1,
                                       .sequence_length = rows->first_row[document + 1] - first};
        exec_training_text_draw(text, &batch, token + first, target + first);
        for (int row = 0; row < batch.sequence_length; row++) {
            position[first + row] = row;
        }
    }
}
