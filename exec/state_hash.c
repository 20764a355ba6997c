#include "exec/state_hash.h"

#include "base/file.h"

#include <stdlib.h>

static status hash_layer(exec_device *device, int layer, int64_t *hash, error_message *err)
{
    const int64_t byte_count = device->table->packed_bytes(device, layer);
    void *bytes = malloc((size_t)byte_count);
    if (bytes == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for the state of layer %d", layer);
    }
    const status result = device->table->pack(device, layer, bytes, err);
    if (result == STATUS_OK) {
        *hash = (int64_t)file_hash(FILE_HASH_START, bytes, (size_t)byte_count);
    }
    free(bytes);
    return result;
}

static status hash_own_layers(exec_device *device, int64_t *layer_hash, error_message *err)
{
    exec_layer_report report;
    device->table->report(device, &report);
    for (int row = 0; row < report.layer_count; row++) {
        const int layer = report.layer[row];
        TRY(hash_layer(device, layer, &layer_hash[layer], err));
    }
    return STATUS_OK;
}

status exec_state_hash(exec_device *device, int layer_count, const exec_group *pipeline,
                       uint64_t *hash, error_message *err)
{
    int64_t *layer_hash = calloc((size_t)layer_count, sizeof *layer_hash);
    if (layer_hash == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d layers", layer_count);
    }
    // The sum has one number that is not zero for every layer.
    status result = hash_own_layers(device, layer_hash, err);
    if (result == STATUS_OK) {
        result = exec_group_sum_int64(pipeline, layer_hash, layer_count, err);
    }
    if (result == STATUS_OK) {
        *hash = file_hash(FILE_HASH_START, layer_hash, (size_t)layer_count * sizeof *layer_hash);
    }
    free(layer_hash);
    return result;
}
