/// kept_run: the same command goes on where it was interrupted and answers from the store when it
/// is finished; anything that its results depend on makes another run.
#include "analysis/shards/kept_run.h"
#include "analysis/shards/merge.h"
#include "base/file.h"
#include "tests/assert_close.h"
#include "traces/store/runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = 3000 };

static char folder[64];
static char store[96];
static char model[96];
static error_message err;

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/dynmo-test-XXXXXX", P_tmpdir);
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(store, sizeof store, "%s/s.db", folder);
    snprintf(model, sizeof model, "%s/model.json", folder);
    return file_write(model, "{}", 2, NULL) == STATUS_OK ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(store);
    unlink(model);
    return rmdir(folder);
}

static void ok(status result)
{
    if (result != STATUS_OK) fail_msg("%s", err.message);
}

typedef struct work {
    atomic_bool flag;
    int64_t interrupt_at;
    int64_t fail_at;
    atomic_llong run_count;
    int64_t next; // to be put
    int shard_count;
} work;

static status run(void *context, void *worker, int64_t item, text_buffer *result,
                  error_message *why)
{
    const struct timespec nap = {.tv_nsec = 50000000};
    work *all = context;
    (void)worker;
    atomic_fetch_add(&all->run_count, 1);
    if (item == all->interrupt_at) atomic_store(&all->flag, true);
    // Those after it take so long that nobody comes to the last.
    if (all->interrupt_at >= 0 && item > all->interrupt_at) nanosleep(&nap, NULL);
    if (item == all->fail_at) return error_set(why, STATUS_IO, "item fails");
    text_format(result, "{\"square\":%" PRId64 "}", item * item);
    return STATUS_OK;
}

static status put(void *context, int64_t item, const text_buffer *result, error_message *why)
{
    work *all = context;
    char wanted[40];
    (void)why;
    snprintf(wanted, sizeof wanted, "{\"square\":%" PRId64 "}", item * item);
    assert_string_equal(result->bytes, wanted);
    assert_int_equal(item, all->next);
    all->next += all->shard_count > 0 ? all->shard_count : 1;
    return STATUS_OK;
}

static ana_kept_options options_default(void)
{
    return (ana_kept_options){.store = store,
                              .name = "study",
                              .command_line = "dynmo study s.json",
                              .tool_version = "1",
                              .settings = "draws=64",
                              .config_json = "{\"model\":\"model.json\",\"a\":[1,[{\"b\":null}]]}",
                              .config_path = model, // any file of the folder
                              .seed = 1};
}

/// Opens, does the items and finishes. @return the state in which the run was found
static ana_kept_state play(const ana_kept_options *options, work *all, status wanted,
                           ana_spread_report *report)
{
    ana_kept_run *kept = NULL;
    ana_spread spread = {.thread_count = 3, .interrupt = &all->flag, .shard = options->shard};
    const ana_items items = {.count = ITEMS, .context = all, .run = run, .put = put};
    ok(ana_kept_run_open(options, &kept, &err));
    const ana_kept_state state = ana_kept_run_state(kept);
    spread.kept = kept;
    err.code = ana_spread_run(&spread, &items, report, &err);
    assert_int_equal(err.code, wanted);
    ok(ana_kept_run_finish(kept, &err, NULL));
    return state;
}

static work uninterrupted(void)
{
    return (work){.interrupt_at = -1, .fail_at = -1};
}

static void an_interrupted_run_goes_on_where_it_was(void **state)
{
    (void)state;
    ana_spread_report report;
    const ana_kept_options options = options_default();
    work first = {.interrupt_at = 700, .fail_at = -1};
    work second = uninterrupted();

    assert_int_equal(play(&options, &first, STATUS_BACKEND, &report), ANA_KEPT_NEW);
    assert_true(first.next > 0 && first.next < ITEMS);
    assert_int_equal(play(&options, &second, STATUS_OK, &report), ANA_KEPT_RESUMED);

    assert_int_equal(report.recalled_item_count, first.next);
    assert_int_equal(second.next, ITEMS);
    assert_int_equal(atomic_load(&second.run_count), ITEMS - first.next);
}

static void a_run_that_failed_goes_on_behind_what_it_had(void **state)
{
    (void)state;
    ana_spread_report report;
    const ana_kept_options options = options_default();
    work first = {.interrupt_at = -1, .fail_at = 900};
    work second = uninterrupted();

    assert_int_equal(play(&options, &first, STATUS_IO, &report), ANA_KEPT_NEW);
    assert_int_equal(first.next, 900);
    assert_int_equal(play(&options, &second, STATUS_OK, &report), ANA_KEPT_RESUMED);

    assert_int_equal(atomic_load(&second.run_count), ITEMS - 900);
    assert_int_equal(second.next, ITEMS);
}

static void a_finished_run_is_not_done_again_unless_asked_for(void **state)
{
    (void)state;
    ana_spread_report report;
    ana_kept_options options = options_default();
    work first = uninterrupted();
    work second = uninterrupted();
    work third = uninterrupted();

    assert_int_equal(play(&options, &first, STATUS_OK, &report), ANA_KEPT_NEW);
    assert_int_equal(play(&options, &second, STATUS_OK, &report), ANA_KEPT_COMPLETE);
    assert_int_equal(atomic_load(&second.run_count), 0);
    assert_int_equal(second.next, ITEMS);
    options.is_anew = true;
    assert_int_equal(play(&options, &third, STATUS_OK, &report), ANA_KEPT_NEW);

    assert_int_equal(atomic_load(&third.run_count), ITEMS);
}

/// Opens without doing anything.
static ana_kept_state state_of(const ana_kept_options *options)
{
    ana_kept_run *kept = NULL;
    ok(ana_kept_run_open(options, &kept, &err));
    const ana_kept_state state = ana_kept_run_state(kept);
    ok(ana_kept_run_finish(kept, NULL, NULL));
    return state;
}

static void what_results_depend_on_makes_another_run(void **state)
{
    (void)state;
    const ana_kept_options options = options_default();
    assert_int_equal(state_of(&options), ANA_KEPT_NEW);
    assert_int_equal(state_of(&options), ANA_KEPT_COMPLETE);

    ana_kept_options other = options;
    other.settings = "draws=32";
    assert_int_equal(state_of(&other), ANA_KEPT_NEW);
    other = options;
    other.seed = 2;
    assert_int_equal(state_of(&other), ANA_KEPT_NEW);
    other = options;
    other.tool_version = "2";
    assert_int_equal(state_of(&other), ANA_KEPT_NEW);
    other = options;
    other.config_json = "{\"model\":\"model.json\"}";
    assert_int_equal(state_of(&other), ANA_KEPT_NEW);
    other = options;
    other.command_line = "dynmo study s.json --json";
    assert_int_equal(state_of(&other), ANA_KEPT_COMPLETE);

    unlink(model);
    assert_ok(file_write(model, "{ }", 3, NULL)); // a file that it names
    assert_int_equal(state_of(&options), ANA_KEPT_NEW);
}

static void a_configuration_may_name_the_store_itself(void **state)
{
    (void)state;
    ana_kept_options options = options_default();
    options.config_json = "{\"trace\":\"s.db\"}";

    assert_int_equal(state_of(&options), ANA_KEPT_NEW);
    assert_int_equal(state_of(&options), ANA_KEPT_COMPLETE);
}

static void the_path_of_a_file_outlives_the_configuration(void **state)
{
    (void)state;
    ana_kept_options options = options_default();
    text_buffer config = {0};
    arena *memory = arena_create(4096);
    trace_store *opened = NULL;
    trace_input_file *files = NULL;
    int count = 0;
    text_format(&config, "{\"model\":\"%s\"}", model); // absolute: not joined with a folder
    options.config_json = config.bytes;
    options.config_path = NULL;

    assert_int_equal(state_of(&options), ANA_KEPT_NEW);
    ok(trace_store_open(store, TRACE_READ, &opened, &err));
    ok(trace_run_inputs(opened, 1, memory, &files, &count, &err));

    assert_int_equal(count, 1);
    assert_string_equal(files[0].path, model);
    trace_store_close(opened);
    arena_destroy(memory);
    text_free(&config);
}

static void a_configuration_that_is_no_json_is_refused(void **state)
{
    (void)state;
    ana_kept_run *kept = NULL;
    ana_kept_options options = options_default();
    options.config_json = "{";

    assert_int_equal(ana_kept_run_open(&options, &kept, &err), STATUS_FORMAT);

    assert_null(kept);
}

static char shard_stores[3][128];

static void play_shards(int count)
{
    for (int index = 0; index < count; index++) {
        ana_spread_report report;
        ana_kept_options options = options_default();
        work part = uninterrupted();
        snprintf(shard_stores[index], sizeof shard_stores[index], "%s/%d.db", folder, index);
        options.store = shard_stores[index];
        options.shard = (ana_shard){.index = index, .count = 3};
        part.next = index;
        part.shard_count = 3;
        assert_int_equal(play(&options, &part, STATUS_OK, &report), ANA_KEPT_NEW);
        assert_int_equal(report.item_count, ITEMS / 3);
    }
}

static void remove_shards(int count)
{
    for (int index = 0; index < count; index++) {
        unlink(shard_stores[index]);
    }
}

static status merge(int count, ana_merged *merged)
{
    const char *paths[] = {shard_stores[0], shard_stores[1], shard_stores[2]};
    arena *memory = arena_create(4096);
    const status code = ana_shards_merge(store, paths, count, memory, merged, &err);
    arena_destroy(memory);
    return code;
}

static void merged_shards_are_the_whole(void **state)
{
    (void)state;
    ana_merged merged;
    ana_spread_report report;
    const ana_kept_options options = options_default();
    work whole = uninterrupted();
    play_shards(3);

    assert_ok(merge(3, &merged));
    assert_int_equal(merged.item_count, ITEMS);
    assert_int_equal(merged.shard_count, 3);
    assert_int_equal(play(&options, &whole, STATUS_OK, &report), ANA_KEPT_RESUMED);

    assert_int_equal(atomic_load(&whole.run_count), 0);
    assert_int_equal(whole.next, ITEMS);
    assert_int_equal(state_of(&options), ANA_KEPT_COMPLETE);
    remove_shards(3);
}

static void missing_shards_are_named(void **state)
{
    (void)state;
    ana_merged merged;
    play_shards(2);

    assert_int_equal(merge(1, &merged), STATUS_IO);
    assert_string_equal(err.message, "2 of 3 shards of 'study' missing: 1, 2");
    assert_int_equal(access(store, F_OK), -1);

    ana_kept_options other = options_default();
    ana_kept_run *kept = NULL;
    other.store = shard_stores[1];
    other.settings = "draws=32";
    other.shard = (ana_shard){.index = 2, .count = 3};
    unlink(shard_stores[1]);
    ok(ana_kept_run_open(&other, &kept, &err));
    ok(ana_kept_run_finish(kept, NULL, NULL));
    assert_int_equal(merge(2, &merged), STATUS_INVALID);
    assert_non_null(strstr(err.message, "1.db: holds shards of another study than 'study'"));
    remove_shards(2);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(an_interrupted_run_goes_on_where_it_was),
        IN_FOLDER(a_run_that_failed_goes_on_behind_what_it_had),
        IN_FOLDER(a_finished_run_is_not_done_again_unless_asked_for),
        IN_FOLDER(what_results_depend_on_makes_another_run),
        IN_FOLDER(a_configuration_may_name_the_store_itself),
        IN_FOLDER(merged_shards_are_the_whole),
        IN_FOLDER(missing_shards_are_named),
        IN_FOLDER(the_path_of_a_file_outlives_the_configuration),
        IN_FOLDER(a_configuration_that_is_no_json_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
