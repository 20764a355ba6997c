#include "base/file.h"
#include "base/arena.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static status read_stream(FILE *stream, const char *path, size_t max_bytes, char **bytes,
                          size_t *length, error_message *err)
{
    size_t capacity = 1 << 16;
    size_t used = 0;
    char *buffer = memory_array(1, capacity);
    while (buffer != NULL) {
        used += fread(buffer + used, 1, capacity - used - 1, stream);
        if (ferror(stream)) {
            free(buffer);
            return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
        }
        if (used > max_bytes) {
            free(buffer);
            return error_set(err, STATUS_INVALID, "%s: larger than %zu bytes", path, max_bytes);
        }
        if (feof(stream)) break;
        if (capacity - used > 1) continue;
        capacity *= 2;
        char *larger = memory_resize(buffer, capacity, 1);
        if (larger == NULL) free(buffer);
        buffer = larger;
    }
    buffer[used] = '\0';
    *bytes = buffer;
    *length = used;
    return STATUS_OK;
}

status file_read(const char *path, size_t max_bytes, char **bytes, size_t *length,
                 error_message *err)
{
    if (strcmp(path, "-") == 0) {
        return read_stream(stdin, "standard input", max_bytes, bytes, length, err);
    }
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    const status result = read_stream(stream, path, max_bytes, bytes, length, err);
    fclose(stream);
    return result;
}

static bool write_and_close(FILE *stream, const char *bytes, size_t length)
{
    const bool written = fwrite(bytes, 1, length, stream) == length && fflush(stream) == 0;
    const int reason = errno;
    const bool closed = fclose(stream) == 0;
    if (!written) errno = reason;
    return written && closed;
}

static status write_in_place(const char *path, const char *bytes, size_t length, error_message *err)
{
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || !write_and_close(stream, bytes, length)) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    return STATUS_OK;
}

status file_write(const char *path, const char *bytes, size_t length, error_message *err)
{
    if (strcmp(path, "-") == 0) {
        if (fwrite(bytes, 1, length, stdout) != length || fflush(stdout) != 0) {
            return error_set(err, STATUS_IO, "standard output: %s", strerror(errno));
        }
        return STATUS_OK;
    }
    struct stat existing;
    if (stat(path, &existing) == 0 && !S_ISREG(existing.st_mode)) {
        return write_in_place(path, bytes, length, err); // a pipe or /dev/null
    }
    char beside[4096];
    const int needed = snprintf(beside, sizeof beside, "%s.%ld.partial", path, (long)getpid());
    if (needed < 0 || (size_t)needed >= sizeof beside) {
        return error_set(err, STATUS_IO, "%.80s...: path longer than %zu bytes", path,
                         sizeof beside);
    }
    FILE *stream = fopen(beside, "wb");
    if (stream == NULL) return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    if (!write_and_close(stream, bytes, length) || rename(beside, path) != 0) {
        const int reason = errno;
        unlink(beside);
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(reason));
    }
    return STATUS_OK;
}

status file_check_writable(const char *path, error_message *err)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder) {
        return error_set(err, STATUS_IO, "%.60s...: %s", path, strerror(ENAMETOOLONG));
    }
    memcpy(folder, slash == NULL ? "." : path, length);
    folder[length] = '\0';
    if (access(folder, W_OK | X_OK) == 0) return STATUS_OK;
    return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
}

uint64_t file_hash(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    for (size_t index = 0; index < length; index++) {
        hash = (hash ^ at[index]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

status file_hash_path(const char *path, int64_t *bytes, uint64_t *hash, error_message *err)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    uint64_t running = FILE_HASH_START;
    int64_t total = 0;
    unsigned char block[1 << 16];
    for (size_t count; (count = fread(block, 1, sizeof block, stream)) > 0;) {
        running = file_hash(running, block, count);
        total += (int64_t)count;
    }
    const bool failed = ferror(stream) != 0;
    fclose(stream);
    if (failed) return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    *hash = running;
    *bytes = total;
    return STATUS_OK;
}

const char *file_path_beside(const char *file, const char *path, arena *memory)
{
    const char *slash = file != NULL ? strrchr(file, '/') : NULL;
    if (path[0] == '/' || slash == NULL) return path;
    const size_t folder = (size_t)(slash + 1 - file);
    char *joined = arena_array(memory, folder + strlen(path) + 1, 1);
    if (joined == NULL) return NULL;
    memcpy(joined, file, folder);
    memcpy(joined + folder, path, strlen(path) + 1);
    return joined;
}
