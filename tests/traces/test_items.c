/// items: a run of items is found by its identity, keeps what was committed when its writer is
/// killed, goes on as another process's, and is read back in order.
#include "tests/traces/folder_store.h"
#include "traces/store/runs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static trace_run *begin(trace_store *store, const char *identity)
{
    trace_run *items = NULL;
    const trace_run_info info = {.name = "study",
                                 .command_line = "dynmo study s.json",
                                 .config_json = "{}",
                                 .identity = identity};
    require(trace_run_begin(store, &info, NULL, 0, &items, &why));
    return items;
}

static void put(trace_run *items, int pass, int64_t item)
{
    char text[32];
    const int length = snprintf(text, sizeof text, "%lld", (long long)(item * item));
    require(trace_run_put_item(items, pass, item, text, (size_t)length, &why));
}

typedef struct taken {
    int64_t count;
    int64_t last;
    int64_t enough;
} taken;

static status take(void *context, int64_t item, const char *bytes, size_t length,
                   error_message *err)
{
    taken *all = context;
    assert_true(item > all->last);
    assert_int_equal(strlen(bytes), length);
    assert_int_equal(atoll(bytes), item * item);
    all->last = item;
    all->count++;
    if (all->count == all->enough) return error_set(err, STATUS_INVALID, "enough");
    return STATUS_OK;
}

IN_FOLDER(results_are_read_back_in_order_pass_by_pass)
{
    trace_store *store = open_store(TRACE_WRITE);
    trace_run *items = begin(store, "a");
    taken all = {.last = -1};
    const int64_t order[] = {5, 2, 9, 0, 7};
    for (int at = 0; at < 5; at++) {
        put(items, 1, order[at]);
    }
    put(items, 0, 3);

    require(trace_items_read(store, trace_run_id(items), 1, &all, take, &why));

    assert_int_equal(all.count, 5);
    assert_int_equal(all.last, 9);
    all = (taken){.last = -1, .enough = 2};
    assert_int_equal(trace_items_read(store, trace_run_id(items), 1, &all, take, &why),
                     STATUS_INVALID);
    assert_int_equal(all.count, 2);
    require(trace_run_finish(items, NULL, &why));
    trace_store_close(store);
}

static status take_bytes(void *context, int64_t item, const char *bytes, size_t length,
                         error_message *err)
{
    assert_int_equal(length, 3);
    assert_memory_equal(bytes, "\0\xff", 3);
    *(bool *)context = true;
    return STATUS_OK;
}

IN_FOLDER(a_result_may_be_any_bytes_and_is_replaced_by_a_second)
{
    trace_store *store = open_store(TRACE_WRITE);
    trace_run *items = begin(store, "a");
    bool is_taken = false;
    require(trace_run_put_item(items, 0, 1, NULL, 0, &why));
    require(trace_run_put_item(items, 0, 1, "\0\xff", 3, &why));

    require(trace_items_read(store, trace_run_id(items), 0, &is_taken, take_bytes, &why));

    assert_true(is_taken);
    require(trace_run_finish(items, NULL, &why));
    trace_store_close(store);
}

IN_FOLDER(the_newest_run_of_an_identity_is_found)
{
    trace_store *store = open_store(TRACE_WRITE);
    trace_run_info info;
    int64_t run_id = -1;
    require(trace_run_finish(begin(store, "a"), NULL, &why));
    require(
        trace_run_finish(begin(store, "a"), &(error_message){STATUS_BACKEND, "interrupted"}, &why));
    require(trace_run_finish(begin(store, "b"), NULL, &why));

    require(trace_items_find(store, "a", memory, &run_id, &info, &why));

    assert_int_equal(run_id, 2);
    assert_int_equal(info.status, TRACE_FAILED);
    assert_string_equal(info.message, "interrupted");
    require(trace_items_find(store, "b", memory, &run_id, &info, &why));
    assert_int_equal(run_id, 3);
    assert_int_equal(info.status, TRACE_COMPLETE);
    require(trace_items_find(store, "c", memory, &run_id, &info, &why));
    assert_int_equal(run_id, 0);
    trace_store_close(store);
}

IN_FOLDER(a_run_that_is_being_written_is_not_taken)
{
    trace_store *store = open_store(TRACE_WRITE);
    trace_run *items = begin(store, "a");
    trace_run *other = NULL;

    assert_fails_naming(trace_run_resume(store, trace_run_id(items), &other, &why), STATUS_INVALID,
                        "run 1 is being written by another process");
    require(trace_run_finish(items, NULL, &why));
    trace_store_close(store);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
