/// kept_run: what makes another run, and what is kept of its files. That a command goes on where it
/// was, and of shards, is shown by tests/cli/study_store.sh and shards.sh.
#include "analysis/shards/kept_run.h"
#include "base/file.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static char store[96];
static char model[96];

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "%s/dynmo-test-XXXXXX", P_tmpdir);
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(store, sizeof store, "%s/s.db", folder);
    snprintf(model, sizeof model, "%s/model.json", folder);
    return file_write(model, "{}", 2, NULL) == STATUS_OK ? 0 : -1;
}

static int remove_folder(void **state)
{
    unlink(store);
    unlink(model);
    return rmdir(folder);
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

/// Opens without doing anything.
static ana_kept_state state_of(const ana_kept_options *options)
{
    ana_kept_run *kept = NULL;
    require(ana_kept_run_open(options, &kept, &why));
    const ana_kept_state state = kept->state;
    require(ana_kept_run_finish(kept, NULL, NULL));
    return state;
}

#define IN_FOLDER(test) TEST_BETWEEN(test, make_folder, remove_folder)

IN_FOLDER(what_results_depend_on_makes_another_run)
{
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
    unlink(model);
    assert_ok(file_write(model, "{ }", 3, NULL)); // a file that it names
    assert_int_equal(state_of(&options), ANA_KEPT_NEW);
}

IN_FOLDER(a_configuration_of_no_json_or_of_the_store_itself_is_refused)
{
    ana_kept_run *kept = NULL;
    ana_kept_options options = options_default();
    options.config_json = "{";

    assert_int_equal(ana_kept_run_open(&options, &kept, &why), STATUS_FORMAT);

    options.config_json = "{\"trace\":\"s.db\"}"; // which changes meanwhile
    assert_fails_naming(ana_kept_run_open(&options, &kept, &why), STATUS_INVALID,
                        "--store: what is asked for reads");
    assert_null(kept);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
