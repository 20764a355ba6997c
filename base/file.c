#include "base/file.h"
#include "base/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *text, const char *ending)
{
    char *joined = memory_array(strlen(text) + strlen(ending) + 1, 1);
    strcpy(joined, text);
    strcat(joined, ending);
    return joined;
}

/// The regular files that this process has opened to read. What is written at its end may be a
/// name for one of them, by another path or a link, which only the system can tell.
static struct {
    pthread_mutex_t lock;
    struct input {
        dev_t device;
        ino_t inode;
        char *path;
    } * files; // [count]
    size_t count;
} inputs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_same(const struct input *input, const struct stat *about)
{
    return input->inode == about->st_ino && input->device == about->st_dev;
}

static bool is_noted(const char *path, const struct stat *about)
{
    for (size_t at = 0; at < inputs.count; at++) {
        const struct input *input = &inputs.files[at];
        if (is_same(input, about) && strcmp(input->path, path) == 0) return true;
    }
    return false;
}

static void note(const char *path, const struct stat *about)
{
    if (!S_ISREG(about->st_mode)) return;
    pthread_mutex_lock(&inputs.lock);
    if (!is_noted(path, about)) {
        inputs.files = memory_grow(inputs.files, inputs.count, sizeof *inputs.files);
        inputs.files[inputs.count++] = (struct input){about->st_dev, about->st_ino, join(path, "")};
    }
    pthread_mutex_unlock(&inputs.lock);
}

void file_note_input(const char *path)
{
    struct stat about;
    const char *file = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    if (stat(file, &about) == 0) note(file, &about);
}

/// Whether the file is a noted one that is still there: another may have got its number since.
static bool is_input(const struct stat *about)
{
    bool is_found = false;
    pthread_mutex_lock(&inputs.lock);
    for (size_t at = 0; at < inputs.count && !is_found; at++) {
        struct stat now;
        const struct input *input = &inputs.files[at];
        is_found = is_same(input, about) && stat(input->path, &now) == 0 && is_same(input, &now);
    }
    pthread_mutex_unlock(&inputs.lock);
    return is_found;
}

/// The file that a write to path makes or replaces, where links lead, by its whole name.
static char *place_of(const char *path)
{
    char resolved[PATH_MAX];
    if (realpath(path, resolved) != NULL) return join(resolved, "");
    const char *slash = strrchr(path, '/');
    char *folder = join(slash != NULL ? path : "./", "");
    folder[slash != NULL ? slash + 1 - path : 2] = '\0';
    char *end = realpath(folder, resolved) != NULL ? join(resolved, "/") : join(folder, "");
    char *place = join(end, slash != NULL ? slash + 1 : path);
    free(folder);
    free(end);
    return place;
}

static const char partial[] = ".partial";

status file_check_output(const char *path, error_message *err)
{
    struct stat about;
    char *place = place_of(path);
    char *beside = join(place, partial);
    const bool is_read = stat(place, &about) == 0 && is_input(&about);
    const bool is_partial_read = stat(beside, &about) == 0 && is_input(&about);
    free(place);
    free(beside);
    if (!is_read && !is_partial_read) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%.180s%s: is read here, so it cannot be written", path,
                     is_read ? "" : partial);
}

/// Whether a write to place makes or replaces other.
static bool takes(const char *place, const char *other)
{
    struct stat about;
    const size_t length = strlen(place);
    if (stat(place, &about) == 0 && !S_ISREG(about.st_mode)) return false; // a pipe, a terminal
    return strncmp(place, other, length) == 0 &&
           (other[length] == '\0' || strcmp(other + length, partial) == 0);
}

bool file_outputs_collide(const char *path, const char *other)
{
    char *places[] = {place_of(path), place_of(other)};
    const bool collide = takes(places[0], places[1]) || takes(places[1], places[0]);
    free(places[0]);
    free(places[1]);
    return collide;
}

status file_open(const char *path, FILE **stream, error_message *err)
{
    struct stat about;
    FILE *opened = fopen(path, "rb");
    if (opened == NULL) return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    if (fstat(fileno(opened), &about) == 0) note(path, &about);
    *stream = opened;
    return STATUS_OK;
}

static status too_large(const char *path, size_t max_bytes, error_message *err)
{
    return error_set(err, STATUS_INVALID, "%s: larger than %zu bytes", path, max_bytes);
}

static status read_stream(FILE *stream, const char *path, size_t max_bytes, char **bytes,
                          size_t *length, error_message *err)
{
    size_t capacity = 1 << 16;
    size_t used = 0;
    char *buffer = memory_array(1, capacity);
    for (;;) {
        used += fread(buffer + used, 1, capacity - used - 1, stream);
        if (ferror(stream)) {
            free(buffer);
            return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
        }
        if (used > max_bytes) {
            free(buffer);
            return too_large(path, max_bytes, err);
        }
        if (feof(stream)) break;
        if (capacity - used > 1) continue;
        capacity *= 2;
        buffer = memory_resize(buffer, capacity, 1);
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
        file_note_input(path);
        return read_stream(stdin, "standard input", max_bytes, bytes, length, err);
    }
    FILE *stream = NULL;
    struct stat about;
    TRY(file_open(path, &stream, err));
    const bool has_size = fstat(fileno(stream), &about) == 0 && S_ISREG(about.st_mode);
    const status result = has_size && (uint64_t)about.st_size > max_bytes
                              ? too_large(path, max_bytes, err)
                              : read_stream(stream, path, max_bytes, bytes, length, err);
    fclose(stream);
    return result;
}

struct file_output {
    FILE *stream;
    char *path;   // as messages name it
    char *target; // where it goes, by its whole name; NULL: written in place
    char *beside; // what is renamed to target
};

static status failed(const char *path, error_message *err)
{
    const bool is_long = strlen(path) > 180; // the reason has to stand in the message, too
    return error_set(err, STATUS_IO, "%.180s%s: %s", path, is_long ? "..." : "", strerror(errno));
}

/// Opens what stands beside a target until it is whole. What a killed process left there is used
/// again; of several that write the same target at once, each waits for the one before.
///
/// @return -1 where it cannot
static int open_beside(const char *beside, mode_t mode)
{
    for (;;) {
        struct stat own;
        struct stat there;
        const int file = open(beside, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode);
        if (file < 0) return -1;
        flock(file, LOCK_EX); // where there are no locks, the last one wins
        if (fstat(file, &own) == 0 && stat(beside, &there) == 0 && own.st_ino == there.st_ino &&
            own.st_dev == there.st_dev && ftruncate(file, 0) == 0) {
            return file;
        }
        close(file); // the one before has renamed it
    }
}

/// Opens a regular file, or one that is not there yet.
static status open_whole(file_output *output, const struct stat *existing, error_message *err)
{
    output->target = place_of(output->path);
    output->beside = join(output->target, partial);
    const int file = open_beside(output->beside, 0666);
    if (file < 0) return failed(output->path, err);
    if (existing != NULL) (void)fchmod(file, existing->st_mode & 07777); // else that of a new file
    output->stream = fdopen(file, "wb");
    return output->stream != NULL ? STATUS_OK : failed(output->path, err);
}

static void release(file_output *output)
{
    free(output->path);
    free(output->target);
    free(output->beside);
    free(output);
}

status file_output_open(const char *path, file_output **output, error_message *err)
{
    struct stat about;
    struct stat link;
    const bool is_there = stat(path, &about) == 0;
    const bool is_link_to_nothing = !is_there && lstat(path, &link) == 0;
    TRY(file_check_output(path, err));
    file_output *opened = memory_array(1, sizeof *opened);
    opened->path = join(path, "");
    status result = STATUS_OK;
    if ((is_there && !S_ISREG(about.st_mode)) || is_link_to_nothing) {
        opened->stream = fopen(path, "wb"); // a pipe or /dev/null
        if (opened->stream == NULL) result = failed(path, err);
    } else {
        result = open_whole(opened, is_there ? &about : NULL, err);
    }
    if (result != STATUS_OK) {
        release(opened);
        return result;
    }
    *output = opened;
    return STATUS_OK;
}

FILE *file_output_stream(file_output *output)
{
    return output->stream;
}

status file_output_close(file_output *output, bool is_kept, error_message *err)
{
    const int locked = dup(fileno(output->stream)); // until it has its name
    const bool was_written = fflush(output->stream) == 0 && ferror(output->stream) == 0;
    const int reason = errno;
    const bool is_closed = fclose(output->stream) == 0;
    status result = STATUS_OK;
    if (!was_written) errno = reason;
    if (is_kept && !(was_written && is_closed)) result = failed(output->path, err);
    if (output->beside != NULL) {
        const bool is_whole = is_kept && result == STATUS_OK;
        if (is_whole && rename(output->beside, output->target) != 0) {
            result = failed(output->path, err);
        }
        if (!is_whole || result != STATUS_OK) unlink(output->beside);
    }
    if (locked >= 0) close(locked);
    release(output);
    return result;
}

status file_write(const char *path, const char *bytes, size_t length, error_message *err)
{
    if (strcmp(path, "-") == 0) {
        if ((length > 0 && fwrite(bytes, 1, length, stdout) != length) || fflush(stdout) != 0) {
            return error_set(err, STATUS_IO, "standard output: %s", strerror(errno));
        }
        return STATUS_OK;
    }
    file_output *output = NULL;
    TRY(file_output_open(path, &output, err));
    if (length > 0) (void)fwrite(bytes, 1, length, output->stream); // close tells
    return file_output_close(output, true, err);
}

status file_check_writable(const char *path, error_message *err)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder) {
        return error_set(err, STATUS_IO, "%.60s...: %s", path, strerror(ENAMETOOLONG));
    }
    struct stat about;
    TRY(file_check_output(path, err));
    const bool is_special = stat(path, &about) == 0 && !S_ISREG(about.st_mode);
    if (is_special && !S_ISDIR(about.st_mode) && access(path, W_OK) == 0) return STATUS_OK;
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
    FILE *stream = NULL;
    TRY(file_open(path, &stream, err));
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
    memcpy(joined, file, folder);
    memcpy(joined + folder, path, strlen(path) + 1);
    return joined;
}
