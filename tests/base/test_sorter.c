/// More records than memory holds: all come out, in order; and what is said where the disk fails.
#include "base/arena.h"
#include "base/rng.h"
#include "base/sorter.h"
#include "tests/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct item {
    int64_t key;
    int64_t place; // in which it was put
    int64_t rest;
} item;

static int compare_items(const void *a, const void *b)
{
    const item *left = a;
    const item *right = b;
    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

/// Puts items[count], and compares what comes out with what qsort makes of them.
static void expect_sorted(item *items, size_t count)
{
    const void *next = NULL;
    sorter *records = sorter_create(sizeof *items, compare_items);
    for (size_t each = 0; each < count; each++) {
        items[each].place = (int64_t)each;
        items[each].rest = ~items[each].key;
        require(sorter_put(records, &items[each], &why));
    }
    assert_int_equal(sorter_count(records), (int64_t)count);
    require(sorter_sort(records, &why));
    qsort(items, count, sizeof *items, compare_items);

    for (size_t each = 0; each < count; each++) {
        const status result = sorter_next(records, &next, &why);
        if (result != STATUS_OK || next == NULL || memcmp(next, &items[each], sizeof *items) != 0) {
            fail_msg("record %zu of %zu is another", each, count);
        }
    }

    require(sorter_next(records, &next, &why));
    assert_null(next);
    sorter_destroy(records);
}

TEST(any_number_of_records_in_any_order_comes_out_in_order)
{
    const size_t counts[] = {0, 1, 2, 1000, 21845, 21846, 43690, 43691, 200000, 2900000};
    rng random = rng_init(11, 0);
    for (size_t count = 0; count < sizeof counts / sizeof counts[0]; count++) {
        item *items = memory_array(counts[count] + 1, sizeof *items);
        for (int order = 0; order < 4; order++) {
            if (counts[count] > 1000000 && order != 2) continue; // more than 128 runs
            for (size_t each = 0; each < counts[count]; each++) {
                const int64_t place = (int64_t)each;
                const int64_t any = (int64_t)rng_below(&random, 100000);
                const int64_t keys[] = {any, place, -place, place + any % 50};
                items[each].key = keys[order];
            }
            expect_sorted(items, counts[count]);
        }
        free(items);
    }
}

TEST(no_sorter_holds_no_records)
{
    const void *next = state;

    assert_int_equal(sorter_count(NULL), 0);
    assert_int_equal(sorter_sort(NULL, NULL), STATUS_OK);
    assert_int_equal(sorter_next(NULL, &next, NULL), STATUS_OK);

    assert_null(next);
    sorter_destroy(NULL);
}

/// Puts records until that fails, at most a million.
static status fill(error_message *err)
{
    status result = STATUS_OK;
    sorter *records = sorter_create(sizeof(item), compare_items);
    for (int64_t each = 0; each < 1000000 && result == STATUS_OK; each++) {
        result = sorter_put(records, &(item){.key = -each}, err);
    }
    sorter_destroy(records);
    return result;
}

TEST(a_folder_that_is_not_there_is_named)
{
    setenv("TMPDIR", "/no/such/folder", 1);

    assert_int_equal(fill(&why), STATUS_IO);

    unsetenv("TMPDIR");
    assert_string_equal(why.message, "a temporary file in /no/such/folder: cannot be made: No such "
                                     "file or directory (TMPDIR names the folder)");
}

TEST(a_disk_that_is_full_is_one_message)
{
    struct rlimit before;
    char expected[256];
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 1500000, .rlim_max = before.rlim_max});

    const status result = fill(&why);

    setrlimit(RLIMIT_FSIZE, &before);
    snprintf(expected, sizeof expected,
             "a temporary file in %s: cannot be written: %s (TMPDIR names the folder)",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : P_tmpdir, strerror(EFBIG));
    assert_int_equal(result, STATUS_IO);
    assert_string_equal(why.message, expected);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
