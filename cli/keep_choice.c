#include "cli/keep_choice.h"

#include "cli/version.h"

#include <inttypes.h>
#include <stdio.h>

static void tell_state(const char *store, const ana_kept_run *kept)
{
    switch (ana_kept_run_state(kept)) {
    case ANA_KEPT_NEW:
        return;
    case ANA_KEPT_RESUMED:
        fprintf(stderr, "going on with run %" PRId64 " of %s, begun %s\n",
                ana_kept_run_number(kept), store, ana_kept_run_begun(kept));
        return;
    case ANA_KEPT_COMPLETE:
        fprintf(stderr, "answered from run %" PRId64 " of %s, begun %s; --again does it anew\n",
                ana_kept_run_number(kept), store, ana_kept_run_begun(kept));
    }
}

static status open_store(const cli_arguments *arguments, const char *store,
                         const ana_kept_options *about, ana_kept_run **kept, error_message *err)
{
    ana_kept_options options = *about;
    options.store = store;
    options.command_line = cli_command_line(arguments);
    options.tool_version = DYNMO_VERSION;
    options.is_anew = cli_has(arguments, "--again");
    TRY(ana_kept_run_open(&options, kept, err));
    tell_state(store, *kept);
    return STATUS_OK;
}

status cli_keep_open(const cli_arguments *arguments, ana_spread *spread,
                     const ana_kept_options *about, ana_kept_run **kept, error_message *err)
{
    const char *store = cli_value(arguments, "--store");
    status code = STATUS_OK;
    *kept = NULL;
    if (store == NULL && cli_has(arguments, "--again")) {
        return error_set(err, STATUS_INVALID, "--again needs --store");
    }
    if (store == NULL) return STATUS_OK;
    if (ana_spread_is_leader(spread)) code = open_store(arguments, store, about, kept, err);
    code = ana_spread_agree(spread, code, err);
    if (code == STATUS_OK && *kept != NULL) ana_spread_keep(spread, ana_kept_run_keeper(*kept));
    return code;
}

status cli_keep_close(ana_kept_run *kept, status outcome, error_message *err)
{
    error_message why = {.code = outcome};
    if (outcome != STATUS_OK && err != NULL) why = *err;
    if (kept != NULL && outcome == STATUS_BACKEND) { // interrupted, or a rank was lost
        fprintf(stderr, "what was done is kept; the same command goes on with it\n");
    }
    const status ended = ana_kept_run_finish(kept, &why, outcome == STATUS_OK ? err : NULL);
    return outcome != STATUS_OK ? outcome : ended;
}
