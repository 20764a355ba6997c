#include "exec/run/checkpoint_file.h"

#include "base/file.h"
#include "exec/transport/packet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { VERSION = 1, BYTE_ORDER_MARK = 0x01020304, LAYERS_MAX = 1 << 20 };
#define LAYER_BYTES_MAX (INT64_C(1) << 40)

typedef struct file_head {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    int64_t layer_count;
    int64_t iteration;
} file_head;
static const char magic[8] = "dynmo-c";

typedef struct layer_entry {
    int64_t byte_count;
    uint64_t hash;
} layer_entry;

static void fill(const exec_checkpoint *checkpoint, exec_packet *file)
{
    file_head head = {
        .byte_order = BYTE_ORDER_MARK,
        .version = VERSION,
        .layer_count = checkpoint->layer_count,
        .iteration = checkpoint->iteration,
    };
    memcpy(head.magic, magic, sizeof magic);
    exec_packet_put(file, &head, (int64_t)sizeof head);
    for (int layer = 0; layer < checkpoint->layer_count; layer++) {
        const layer_entry entry = {
            .byte_count = checkpoint->byte_count[layer],
            .hash = file_hash(FILE_HASH_START, checkpoint->layers[layer],
                              (size_t)checkpoint->byte_count[layer]),
        };
        exec_packet_put(file, &entry, (int64_t)sizeof entry);
    }
    for (int layer = 0; layer < checkpoint->layer_count; layer++) {
        exec_packet_put(file, checkpoint->layers[layer], checkpoint->byte_count[layer]);
    }
    const uint64_t hash = file_hash(FILE_HASH_START, file->bytes, (size_t)file->byte_count);
    exec_packet_put(file, &hash, (int64_t)sizeof hash);
}

status exec_checkpoint_write(const char *path, const exec_checkpoint *checkpoint,
                             error_message *err)
{
    exec_packet file = {0};
    fill(checkpoint, &file);
    const status written = file_write(path, (const char *)file.bytes, (size_t)file.byte_count, err);
    exec_packet_free(&file);
    return written;
}

static status cut_off(const char *name, size_t length, error_message *err)
{
    return error_set(err, STATUS_FORMAT, "%s: the checkpoint is cut off at %zu bytes", name,
                     length);
}

static status check_head(const file_head *head, const char *name, error_message *err)
{
    if (memcmp(head->magic, magic, sizeof magic) != 0) {
        return error_set(err, STATUS_FORMAT, "%s: this is not a checkpoint", name);
    }
    if (head->byte_order != BYTE_ORDER_MARK) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: the checkpoint is of a machine with another byte order", name);
    }
    if (head->version != VERSION) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: checkpoint version %" PRIu32 ", known is %d",
                         name, head->version, VERSION);
    }
    if (head->layer_count < 1 || head->layer_count > LAYERS_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: %" PRId64 " layers are outside [1, %d]", name,
                         head->layer_count, LAYERS_MAX);
    }
    if (head->iteration < 0 || head->iteration > INT32_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: iteration %" PRId64 " is outside [0, %d]", name,
                         head->iteration, INT32_MAX);
    }
    return STATUS_OK;
}

static status check_layer_bytes(int64_t count, int layer, const char *name, error_message *err)
{
    if (count >= 0 && count <= LAYER_BYTES_MAX) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: layer %d has %" PRId64 " bytes", name, layer, count);
}

/// Finds the layers after the entries.
///
/// @param at     where the first layer begins
/// @param length of everything but the last hash
static status find_layers(const unsigned char *bytes, size_t at, size_t length,
                          const layer_entry *entries, int layer_count, const char *name,
                          const void **layers, int64_t *byte_count, error_message *err)
{
    for (int layer = 0; layer < layer_count; layer++) {
        const int64_t count = entries[layer].byte_count;
        TRY(check_layer_bytes(count, layer, name, err));
        const size_t left = length - at;
        if ((uint64_t)count > left || ((size_t)count + 7) / 8 * 8 > left) {
            return cut_off(name, length, err);
        }
        if (file_hash(FILE_HASH_START, bytes + at, (size_t)count) != entries[layer].hash) {
            return error_set(err, STATUS_FORMAT, "%s: layer %d has other bytes than were written",
                             name, layer);
        }
        layers[layer] = bytes + at;
        byte_count[layer] = count;
        at += ((size_t)count + 7) / 8 * 8;
    }
    if (at == length) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: %zu bytes follow the last layer", name, length - at);
}

status exec_checkpoint_parse(const void *bytes, size_t length, const char *name, arena *memory,
                             exec_checkpoint *checkpoint, error_message *err)
{
    const file_head *head = bytes;
    uint64_t hash;
    if (length < sizeof *head) return cut_off(name, length, err);
    TRY(check_head(head, name, err));
    const int count = (int)head->layer_count;
    const size_t entries_end = sizeof *head + (size_t)count * sizeof(layer_entry);
    if (length < entries_end + sizeof hash) return cut_off(name, length, err);
    const layer_entry *entries = (const void *)((const unsigned char *)bytes + sizeof *head);
    const void **layers = arena_array(memory, (size_t)count, sizeof *layers);
    int64_t *byte_count = arena_array(memory, (size_t)count, sizeof *byte_count);
    const size_t end = length - sizeof hash;
    TRY(find_layers(bytes, entries_end, end, entries, count, name, layers, byte_count, err));
    memcpy(&hash, (const unsigned char *)bytes + end, sizeof hash);
    if (hash != file_hash(FILE_HASH_START, bytes, end)) {
        return error_set(err, STATUS_FORMAT, "%s: the checkpoint has other bytes than were written",
                         name);
    }
    *checkpoint = (exec_checkpoint){.iteration = (int)head->iteration,
                                    .layer_count = count,
                                    .layers = layers,
                                    .byte_count = byte_count};
    return STATUS_OK;
}

/// Looks at the head, then at the sizes of the layers: a file is read whole only if it is as long
/// as it says.
///
/// @param length out
static status check_beginning(FILE *stream, const char *path, size_t *length, error_message *err)
{
    file_head head;
    layer_entry entry;
    uint64_t sum = sizeof head + sizeof(uint64_t);
    if (fread(&head, sizeof head, 1, stream) != 1) {
        return cut_off(path, (size_t)ftell(stream), err);
    }
    TRY(check_head(&head, path, err));
    for (int64_t layer = 0; layer < head.layer_count; layer++) {
        if (fread(&entry, sizeof entry, 1, stream) != 1) {
            return cut_off(path, (size_t)ftell(stream), err);
        }
        TRY(check_layer_bytes(entry.byte_count, (int)layer, path, err));
        sum += sizeof entry + ((uint64_t)entry.byte_count + 7) / 8 * 8;
    }
    *length = (size_t)sum;
    return STATUS_OK;
}

/// Reads a file that says how long it is.
///
/// @param bytes out: [length] carved from memory
static status read_whole(FILE *stream, const char *path, arena *memory, void **bytes,
                         size_t *length, error_message *err)
{
    struct stat about;
    size_t stated = 0;
    TRY(check_beginning(stream, path, &stated, err));
    if (fstat(fileno(stream), &about) != 0 || fseek(stream, 0, SEEK_SET) != 0) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    const size_t there = (size_t)about.st_size;
    if (there < stated) return cut_off(path, there, err);
    if (there > stated) {
        return error_set(err, STATUS_FORMAT, "%s: %zu bytes follow the last layer", path,
                         there - stated);
    }
    *bytes = arena_array(memory, stated, 1);
    *length = fread(*bytes, 1, stated, stream);
    if (ferror(stream)) return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    return STATUS_OK;
}

status exec_checkpoint_read(const char *path, arena *memory, exec_checkpoint *checkpoint,
                            error_message *err)
{
    FILE *stream = NULL;
    void *bytes = NULL;
    size_t length = 0;
    TRY(file_open(path, &stream, err));
    const status result = read_whole(stream, path, memory, &bytes, &length, err);
    fclose(stream);
    TRY(result);
    return exec_checkpoint_parse(bytes, length, path, memory, checkpoint, err);
}
