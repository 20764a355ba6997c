/// kept_run: the same command goes on where it was interrupted and answers from the store when it
/// is finished; anything that its results depend on makes another run.
#include "analysis/shards/kept_run.h"
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
    atomic_llong run_count;
    int64_t next; // to be put
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
    (void)why;
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
    all->next++;
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
    ana_spread spread = {.thread_count = 3, .interrupt = &all->flag};
    const ana_items items = {.count = ITEMS, .context = all, .run = run, .put = put};
    ok(ana_kept_run_open(options, &kept, &err));
    const ana_kept_state state = kept->state;
    spread.kept = kept;
    err.code = ana_spread_run(&spread, &items, report, &err);
    assert_int_equal(err.code, wanted);
    ok(ana_kept_run_finish(kept, &err, NULL));
    return state;
}

static void an_interrupted_run_goes_on_where_it_was(void **state)
{
    (void)state;
    ana_spread_report report;
    const ana_kept_options options = options_default();
    work first = {.interrupt_at = 700};
    work second = {.interrupt_at = -1};

    assert_int_equal(play(&options, &first, STATUS_BACKEND, &report), ANA_KEPT_NEW);
    assert_true(first.next > 0 && first.next < ITEMS);
    assert_int_equal(play(&options, &second, STATUS_OK, &report), ANA_KEPT_RESUMED);

    assert_int_equal(report.recalled_item_count, first.next);
    assert_int_equal(second.next, ITEMS);
    assert_int_equal(atomic_load(&second.run_count), ITEMS - first.next);
}

/// Opens without doing anything.
static ana_kept_state state_of(const ana_kept_options *options)
{
    ana_kept_run *kept = NULL;
    ok(ana_kept_run_open(options, &kept, &err));
    const ana_kept_state state = kept->state;
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

    other = options;
    other.config_json = "{\"trace\":\"s.db\"}"; // which changes meanwhile
    assert_int_equal(state_of(&other), ANA_KEPT_NEW);
    assert_int_equal(state_of(&other), ANA_KEPT_COMPLETE);

    unlink(model);
    assert_ok(file_write(model, "{ }", 3, NULL)); // a file that it names
    assert_int_equal(state_of(&options), ANA_KEPT_NEW);
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

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(an_interrupted_run_goes_on_where_it_was),
        IN_FOLDER(what_results_depend_on_makes_another_run),
        IN_FOLDER(the_path_of_a_file_outlives_the_configuration),
        IN_FOLDER(a_configuration_that_is_no_json_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
