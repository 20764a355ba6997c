/// file: what is written reads back, a failed write leaves the old file and nothing beside it, and
/// every refusal names the path. /dev/full stands for a full disk.
#include "base/arena.h"
#include "base/file.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/// A new, empty folder; its name goes into path [64].
static void make_folder(char path[64])
{
    snprintf(path, 64, "%s/dynmo-test-XXXXXX", P_tmpdir);
    assert_non_null(mkdtemp(path));
}

static int entries_in(const char *folder)
{
    int count = 0;
    DIR *stream = opendir(folder);
    assert_non_null(stream);
    while (readdir(stream) != NULL) {
        count++;
    }
    closedir(stream);
    return count - 2; // . and ..
}

TEST(what_is_written_reads_back)
{
    char folder[64];
    char path[80];
    make_folder(folder);
    snprintf(path, sizeof path, "%s/f", folder);
    static const char bytes[] = "a\0b\n";
    char *read = NULL;
    size_t length = 0;

    assert_ok(file_write(path, "old and longer", 14, NULL));
    assert_ok(file_write(path, bytes, 4, NULL));
    assert_ok(file_read(path, 4, &read, &length, NULL));

    assert_int_equal(length, 4);
    assert_memory_equal(read, bytes, 5);
    assert_int_equal(entries_in(folder), 1);
    free(read);
    unlink(path);
    rmdir(folder);
}

TEST(a_file_above_the_limit_is_invalid)
{
    char *read = NULL;
    size_t length = 7;

    assert_fails(file_read("/dev/zero", 100000, &read, &length, &why), STATUS_INVALID,
                 "/dev/zero: larger than 100000 bytes");
    assert_null(read);
    assert_int_equal(length, 7);
}

TEST(a_path_that_cannot_be_read_is_named_with_the_reason)
{
    char *read = NULL;
    size_t length = 0;
    int64_t bytes = 7;
    uint64_t hash = 7;

    assert_fails(file_read("absent/f", 10, &read, &length, &why), STATUS_IO,
                 "absent/f: No such file or directory");
    assert_fails(file_read("base", 10, &read, &length, &why), STATUS_IO, "base: Is a directory");
    assert_fails(file_hash_path("absent/f", &bytes, &hash, &why), STATUS_IO,
                 "absent/f: No such file or directory");
    assert_fails(file_hash_path("base", &bytes, &hash, &why), STATUS_IO, "base: Is a directory");
    assert_int_equal(hash, 7);
}

TEST(a_full_disk_is_an_error)
{
    assert_fails(file_write("/dev/full", "x", 1, &why), STATUS_IO,
                 "/dev/full: No space left on device");
}

TEST(a_failed_write_leaves_nothing_behind)
{
    char folder[64];
    char path[80];
    char *const absent = memory_array(5001, 1);
    make_folder(folder);
    snprintf(path, sizeof path, "%s/d/f", folder);

    assert_fails_naming(file_write(path, "x", 1, &why), STATUS_IO,
                        "/d/f: No such file or directory");
    memset(absent, 'p', 5000);
    assert_fails_naming(file_write(absent, "x", 1, &why), STATUS_IO, "ppp...: File name too long");

    assert_int_equal(entries_in(folder), 0);
    free(absent);
    rmdir(folder);
}

TEST(no_input_is_written_under_any_name)
{
    char folder[64];
    char path[80];
    char symbolic[80];
    char hard[80];
    char *read = NULL;
    size_t length = 0;
    make_folder(folder);
    snprintf(path, sizeof path, "%s/f", folder);
    snprintf(symbolic, sizeof symbolic, "%s/s", folder);
    snprintf(hard, sizeof hard, "%s/./h", folder);
    assert_ok(file_write(path, "whole", 5, NULL));
    assert_int_equal(symlink("f", symbolic), 0);
    assert_int_equal(link(path, hard), 0);
    assert_ok(file_read(symbolic, 10, &read, &length, NULL));

    const char *const names[] = {path, symbolic, hard};
    for (size_t name = 0; name < 3; name++) {
        assert_fails_naming(file_write(names[name], "x", 1, &why), STATUS_INVALID,
                            "is read here, so it cannot be written");
        assert_int_equal(file_check_writable(names[name], NULL), STATUS_INVALID);
    }

    free(read);
    assert_ok(file_read(path, 10, &read, &length, NULL));
    assert_string_equal(read, "whole");
    free(read);
    assert_int_equal(unlink(path) | unlink(symbolic) | unlink(hard) | rmdir(folder), 0);
}

TEST(an_output_keeps_its_mode_and_links_and_takes_up_what_was_left)
{
    char folder[64];
    char path[80];
    char other[80];
    char left[96];
    struct stat about;
    make_folder(folder);
    snprintf(path, sizeof path, "%s/f", folder);
    snprintf(other, sizeof other, "%s/s", folder);
    snprintf(left, sizeof left, "%s/f.partial", folder);
    assert_ok(file_write(path, "old", 3, NULL));
    assert_ok(file_write(left, "of a killed process", 19, NULL));
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("f", other), 0);

    assert_ok(file_write(other, "new", 3, NULL));

    assert_int_equal(lstat(other, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_int_equal(stat(other, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0640);
    assert_int_equal(about.st_size, 3);
    assert_int_equal(entries_in(folder), 2);
    assert_int_equal(unlink(path) | unlink(other) | rmdir(folder), 0);
}

TEST(the_hash_is_fnv_1a_however_the_bytes_arrive)
{
    char path[64];
    make_folder(path);
    char file[80];
    snprintf(file, sizeof file, "%s/f", path);
    int64_t bytes = 0;
    uint64_t hash = 0;
    assert_ok(file_write(file, "foobar", 6, NULL));

    assert_ok(file_hash_path(file, &bytes, &hash, NULL));

    assert_true(hash == UINT64_C(0x85944171f73967e8)); // the authors' test vector
    assert_true(file_hash(file_hash(FILE_HASH_START, "foo", 3), "bar", 3) == hash);
    unlink(file);
    rmdir(path);
}

TEST(a_file_in_a_folder_that_is_not_there_cannot_be_written)
{
    assert_ok(file_check_writable("file", &why));
    assert_int_equal(file_check_writable("/file", &why),
                     access("/", W_OK) == 0 ? STATUS_OK : STATUS_IO);
    assert_fails(file_check_writable("nowhere/file", &why), STATUS_IO,
                 "nowhere/file: No such file or directory");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
