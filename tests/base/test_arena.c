/// arena: arrays are zero, aligned and apart; reset reuses the blocks; a host without memory ends
/// the process with one message.
#include "base/arena.h"
#include "tests/test.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(arrays_are_zero_aligned_and_do_not_overlap)
{
    arena *memory = arena_create(256);

    for (int round = 0; round < 2; round++) {
        char *arrays[20];
        for (int index = 0; index < 20; index++) {
            const size_t bytes = (size_t)(index * 37 % 300);
            arrays[index] = arena_array(memory, bytes, 1);
            assert_non_null(arrays[index]);
            assert_int_equal((uintptr_t)arrays[index] % alignof(max_align_t), 0);
            for (size_t at = 0; at < bytes; at++) {
                assert_int_equal(arrays[index][at], 0);
            }
            memset(arrays[index], index + 1, bytes);
        }
        for (int index = 0; index < 20; index++) {
            for (size_t at = 0; at < (size_t)(index * 37 % 300); at++) {
                assert_int_equal(arrays[index][at], index + 1);
            }
        }
        arena_reset(memory);
    }

    arena_destroy(memory);
}

TEST(an_arena_within_another_ends_with_it)
{
    arena *owner = arena_create(64);
    arena *within = arena_within(owner, 64);
    arena *deeper = arena_within(within, 64); // a leak or a double free is the sanitizers' to find
    memset(arena_array(within, 100, 1), 1, 100);
    memset(arena_array(deeper, 100, 1), 1, 100);
    arena_reset(within);
    memset(arena_array(arena_within(owner, 64), 100, 1), 1, 100);
    arena_reset(owner);
    memset(arena_array(arena_within(owner, 64), 100, 1), 1, 100);
    arena_destroy(owner);
}

static int released_things;

/// Things are numbers: each is released once, after those that were handed over later.
static void release_number(void *number)
{
    assert_int_equal(*(const int *)number, released_things--);
}

TEST(what_an_arena_owns_ends_with_it_the_last_first)
{
    int numbers[] = {1, 2, 3};
    arena *memory = arena_create(64);
    for (int round = 0; round < 2; round++) {
        arena_own(memory, &numbers[0], release_number);
        arena_own(memory, &numbers[1], release_number);
        arena_own(arena_within(memory, 64), &numbers[2], release_number); // before its owner's
        released_things = 3;
        arena_reset(memory);
        assert_int_equal(released_things, 0);
    }
    arena_destroy(memory);
    assert_int_equal(released_things, 0);
}

static void take_from_arena(void)
{
    arena_array(arena_create(64), SIZE_MAX / 2, 8);
}

static void take_from_heap(void)
{
    memory_array(SIZE_MAX / 2, 4);
}

static void grow(void)
{
    memory_resize(memory_array(1, 8), SIZE_MAX / 2, 2);
}

/// Runs act in a process of its own, checks that it ends with exit code 1 and keeps what it says.
static void expect_end(void (*act)(void), char said[200])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        act();
        _Exit(0);
    }
    close(ends[1]);
    const ssize_t length = read(ends[0], said, 199);
    close(ends[0]);
    assert_true(length > 0);
    said[length] = '\0';
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 1);
}

TEST(more_memory_than_there_is_ends_the_process_with_its_size)
{
    char said[200];

    expect_end(take_from_arena, said);
    assert_string_equal(said, "dynmo: error: out of memory for 9223372036854775807 x 8 bytes\n");

    expect_end(take_from_heap, said);
    assert_string_equal(said, "dynmo: error: out of memory for 9223372036854775807 x 4 bytes\n");

    expect_end(grow, said);
    assert_string_equal(said, "dynmo: error: out of memory for 9223372036854775807 x 2 bytes\n");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
