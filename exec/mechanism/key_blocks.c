#include "exec/mechanism/key_blocks.h"

#include <math.h>

const char *const exec_row_order_names[EXEC_ROW_ORDER_COUNT] = {"sorted", "text"};

exec_sparse_attention_options exec_sparse_attention_options_default(void)
{
    return (exec_sparse_attention_options){
        .order = EXEC_ROWS_SORTED, .bit_count = 4, .affinity = 1, .block_rows = 16};
}

status exec_sparse_attention_options_check(const exec_sparse_attention_options *options,
                                           error_message *err)
{
    if (options->order < 0 || options->order >= EXEC_ROW_ORDER_COUNT) {
        return error_set(err, STATUS_INVALID, "order %d is outside [0, %d]", options->order,
                         EXEC_ROW_ORDER_COUNT - 1);
    }
    if (options->bit_count < 1 || options->bit_count > EXEC_HASH_BITS_MAX) {
        return error_set(err, STATUS_INVALID, "bit_count %d is outside [1, %d]", options->bit_count,
                         EXEC_HASH_BITS_MAX);
    }
    if (!(options->affinity >= 0) || !isfinite(options->affinity)) {
        return error_set(err, STATUS_INVALID, "affinity %g is negative or not finite",
                         options->affinity);
    }
    const int rows = options->block_rows;
    if (rows == 0 || rows == 16 || rows == 32 || rows == 64) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "block_rows %d is none of 0, 16, 32, 64", rows);
}
