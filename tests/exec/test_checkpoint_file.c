/// Checkpoints: what is written is read back; what is cut off, changed or something else is
/// refused, and says so.
#include "base/file.h"
#include "exec/run/checkpoint_file.h"
#include "tests/assert_close.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char first_state[] = "eleven byte";
static const double second_state[] = {1.5, -2.5, 0.0};
static const void *const states[] = {first_state, second_state, NULL};
static const int64_t byte_counts[] = {11, sizeof second_state, 0};
static const exec_checkpoint three_layers = {
    .iteration = 7, .layer_count = 3, .layers = states, .byte_count = byte_counts};

/// A file of the three layers; its path is the test's state.
static int write_file(void **state)
{
    static char path[64];
    snprintf(path, sizeof path, "test.%ld.checkpoint", (long)getpid());
    *state = path;
    return exec_checkpoint_write(path, &three_layers, NULL) == STATUS_OK ? 0 : -1;
}

static int remove_file(void **state)
{
    return remove(*state);
}

static void what_is_written_is_read_back(void **state)
{
    arena *memory = arena_create(1 << 10);
    exec_checkpoint checkpoint;

    assert_int_equal(exec_checkpoint_read(*state, memory, &checkpoint, NULL), STATUS_OK);

    assert_int_equal(checkpoint.iteration, 7);
    assert_int_equal(checkpoint.layer_count, 3);
    assert_int_equal(checkpoint.byte_count[0], 11);
    assert_memory_equal(checkpoint.layers[0], first_state, 11);
    assert_int_equal(checkpoint.byte_count[1], sizeof second_state);
    assert_memory_equal(checkpoint.layers[1], second_state, sizeof second_state);
    assert_int_equal((uintptr_t)checkpoint.layers[1] % 8, 0);
    assert_int_equal(checkpoint.byte_count[2], 0);
    arena_destroy(memory);
}

/// Parses a copy of so many bytes, of which one may have been changed.
static status parse_changed(const char *path, size_t length, size_t changed, error_message *err)
{
    char *bytes = NULL;
    size_t whole = 0;
    exec_checkpoint checkpoint = {.iteration = -7};
    assert_int_equal(file_read(path, 1 << 20, &bytes, &whole, NULL), STATUS_OK);
    if (length > whole) length = whole;
    if (changed < length) bytes[changed] = (char)(bytes[changed] ^ 0x40);
    arena *memory = arena_create(1 << 10);
    const status parsed = exec_checkpoint_parse(bytes, length, "file", memory, &checkpoint, err);
    if (parsed != STATUS_OK) assert_int_equal(checkpoint.iteration, -7);
    arena_destroy(memory);
    free(bytes);
    return parsed;
}

enum { ALL = 1 << 20 };

static void a_file_that_is_cut_off_is_refused(void **state)
{
    int64_t whole = 0;
    uint64_t hash = 0;
    assert_int_equal(file_hash_path(*state, &whole, &hash, NULL), STATUS_OK);
    for (size_t length = 0; length < (size_t)whole; length++) {
        error_message err = {0};
        assert_int_equal(parse_changed(*state, length, ALL, &err), STATUS_FORMAT);
        assert_true(err.message[0] != '\0');
    }
    error_message err = {0};
    (void)parse_changed(*state, 20, ALL, &err);
    assert_string_equal(err.message, "file: the checkpoint is cut off at 20 bytes");
}

static void a_changed_byte_is_refused_wherever_it_is(void **state)
{
    int64_t whole = 0;
    uint64_t hash = 0;
    assert_int_equal(file_hash_path(*state, &whole, &hash, NULL), STATUS_OK);
    for (size_t changed = 0; changed < (size_t)whole; changed++) {
        assert_int_not_equal(parse_changed(*state, ALL, changed, NULL), STATUS_OK);
    }
    error_message err = {0};
    // After a head of 32 bytes and three entries of 16 begins the first layer.
    assert_int_equal(parse_changed(*state, ALL, 32 + 3 * 16 + 2, &err), STATUS_FORMAT);
    assert_string_equal(err.message, "file: layer 0 has other bytes than were written");
    assert_int_equal(parse_changed(*state, ALL, 12, &err), STATUS_UNSUPPORTED);
    assert_int_equal(parse_changed(*state, ALL, 0, &err), STATUS_FORMAT);
    assert_string_equal(err.message, "file: this is not a checkpoint");
}

static void a_file_that_is_missing_is_named(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 10);
    exec_checkpoint checkpoint;
    error_message err = {0};

    assert_int_equal(exec_checkpoint_read("no-such.checkpoint", memory, &checkpoint, &err),
                     STATUS_IO);

    assert_non_null(strstr(err.message, "no-such.checkpoint"));
    arena_destroy(memory);
}

static void a_failed_write_leaves_the_file_before(void **state)
{
    arena *memory = arena_create(1 << 10);
    exec_checkpoint checkpoint;
    char nowhere[128];
    error_message err = {0};
    snprintf(nowhere, sizeof nowhere, "no-such-folder/%s", (const char *)*state);

    assert_int_equal(exec_checkpoint_write(nowhere, &three_layers, &err), STATUS_IO);

    assert_int_equal(exec_checkpoint_read(*state, memory, &checkpoint, NULL), STATUS_OK);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_file_that_is_cut_off_is_refused),
        cmocka_unit_test(a_changed_byte_is_refused_wherever_it_is),
        cmocka_unit_test(a_file_that_is_missing_is_named),
        cmocka_unit_test(a_failed_write_leaves_the_file_before),
    };
    return cmocka_run_group_tests(tests, write_file, remove_file);
}
