#include "cli/shard_choice.h"

#include "analysis/shards/kept_run.h"
#include "base/arena.h"
#include "base/launcher.h"
#include "cli/interrupt.h"
#include "cli/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 4096, POLL_MS = 100, PATIENCE_MS = 5000, REMIND_MS = 60000 };

static status read_shard(const char *text, ana_shard *shard, error_message *err)
{
    char rest = 0;
    if (sscanf(text, "%d/%d%c", &shard->index, &shard->count, &rest) == 2 && shard->index >= 0 &&
        shard->index < shard->count && shard->count <= ANA_SHARDS_MAX) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "--shard: '%.40s' is not i/N with 0 <= i < N <= %d", text,
                     ANA_SHARDS_MAX);
}

/// The shard of this process: what --shard says, else its rank among those of a launcher.
static status choose_shard(const cli_arguments *arguments, ana_shard *shard, error_message *err)
{
    const int process_count = launcher_process_count(NULL);
    if (cli_has(arguments, "--shard")) {
        TRY(read_shard(cli_value(arguments, "--shard"), shard, err));
        if (cli_has(arguments, "--store")) return STATUS_OK;
        return error_set(err, STATUS_INVALID, "--shard needs --store");
    }
    if (process_count == 1) return STATUS_OK;
    *shard = (ana_shard){.index = launcher_rank(), .count = process_count};
    if (!cli_has(arguments, "--store")) {
        return error_set(err, STATUS_INVALID,
                         "started as one of %d processes: each does a shard, which needs --store",
                         process_count);
    }
    return STATUS_OK;
}

status cli_spread_open(const cli_arguments *arguments, ana_spread *spread, error_message *err)
{
    *spread = (ana_spread){0};
    TRY(cli_int(arguments, "--threads", 1, THREADS_MAX, 0, &spread->thread_count, err));
    TRY(choose_shard(arguments, &spread->shard, err));
    if (spread->thread_count == 0) {
        const int share = ana_spread_core_count() / launcher_here_count();
        spread->thread_count = share > 1 ? share : 1;
    }
    spread->interrupt = cli_interrupt_catch();
    return STATUS_OK;
}

static void show_step(void *context, int64_t put_count, int64_t item_count)
{
    cli_progress *progress = context;
    if (progress->total == 0) *progress = cli_progress_begin(progress->what, item_count);
    cli_progress_reach(progress, put_count);
}

void cli_spread_watch(ana_spread *spread, const char *what, cli_progress *progress)
{
    *progress = (cli_progress){.what = what};
    spread->step = launcher_rank() > 0 ? NULL : show_step;
    spread->step_context = progress;
}

void cli_spread_unwatch(ana_spread *spread)
{
    if (spread->step != NULL) cli_progress_end(spread->step_context);
    spread->step = NULL;
}

// The store

static void tell_state(const char *store, const ana_kept_run *kept)
{
    if (launcher_rank() > 0) return;
    switch (kept->state) {
    case ANA_KEPT_NEW:
        return;
    case ANA_KEPT_RESUMED:
        fprintf(stderr, "going on with run %" PRId64 " of %s, begun %s\n", kept->number, store,
                kept->begun);
        return;
    case ANA_KEPT_COMPLETE:
        fprintf(stderr, "answered from run %" PRId64 " of %s, begun %s\n", kept->number, store,
                kept->begun);
    }
}

/// All that the run depends on: what the command says, and the command line.
static ana_kept_options describe_run(const cli_arguments *arguments, const ana_kept_options *about,
                                     const char *store, const ana_shard *shard)
{
    ana_kept_options options = *about;
    options.store = store;
    options.command_line = cli_command_line(arguments);
    options.tool_version = DYNMO_VERSION;
    options.shard = *shard;
    return options;
}

static status open_store(const cli_arguments *arguments, const char *store, ana_spread *spread,
                         const ana_kept_options *about, error_message *err)
{
    const ana_kept_options options = describe_run(arguments, about, store, &spread->shard);
    TRY(ana_kept_run_open(&options, &spread->kept, err));
    spread->pass = 0;
    tell_state(store, spread->kept);
    return STATUS_OK;
}

status cli_keep_open(const cli_arguments *arguments, ana_spread *spread,
                     const ana_kept_options *about, error_message *err)
{
    const char *store = cli_value(arguments, "--store");
    return store != NULL ? open_store(arguments, store, spread, about, err) : STATUS_OK;
}

status cli_keep_close(ana_spread *spread, status outcome, error_message *err)
{
    error_message why = {.code = outcome};
    if (outcome != STATUS_OK && err != NULL) why = *err;
    if (spread->kept != NULL && outcome == STATUS_BACKEND) { // interrupted
        fprintf(stderr, "what was done is kept; the same command goes on with it\n");
    }
    const status ended = ana_kept_run_finish(spread->kept, &why, outcome == STATUS_OK ? err : NULL);
    spread->kept = NULL;
    return outcome != STATUS_OK ? outcome : ended;
}

// Shards

static status play_shard(const cli_arguments *arguments, const char *store, ana_spread *spread,
                         const ana_kept_options *about, cli_play play, void *context,
                         error_message *err)
{
    TRY(open_store(arguments, store, spread, about, err));
    return cli_keep_close(spread, play(context, spread, err), err);
}

/// The store of a rank's shard, beside that of the whole.
static const char *shard_store(const char *store, int rank, int rank_count, arena *memory)
{
    return arena_format(memory, "%s.shard-%d-of-%d", store, rank, rank_count);
}

/// Waits for a shard of another rank. A store that is being made cannot be read yet.
static status await_shard(const char *store, const char *whole, const ana_shard *shard,
                          const atomic_bool *interrupt, error_message *err)
{
    const struct timespec nap = {.tv_nsec = POLL_MS * 1000000L};
    char identity[ANA_IDENTITY_BYTES];
    bool is_complete = false;
    snprintf(identity, sizeof identity, "%.16s:%d/%d", whole, shard->index, shard->count);
    for (int waited_ms = 0;; waited_ms += POLL_MS) {
        if (atomic_load(interrupt)) return error_set(err, STATUS_BACKEND, "interrupted");
        (void)ana_kept_run_look(store, identity, &is_complete, NULL);
        if (is_complete) return STATUS_OK;
        if (waited_ms % REMIND_MS == PATIENCE_MS) {
            fprintf(stderr, "waiting for rank %d of %d to complete %s\n", shard->index,
                    shard->count, store);
        }
        nanosleep(&nap, NULL);
    }
}

/// On rank 0: waits for all shards and merges them.
static status join_ranks(const char *store, const char *whole, const ana_spread *spread,
                         arena *memory, error_message *err)
{
    const int count = spread->shard.count;
    const char **paths = arena_array(memory, (size_t)count, sizeof *paths);
    ana_merged merged;
    for (int rank = 0; rank < count; rank++) {
        const ana_shard shard = {.index = rank, .count = count};
        paths[rank] = shard_store(store, rank, count, memory);
        TRY(await_shard(paths[rank], whole, &shard, spread->interrupt, err));
    }
    return ana_shards_merge(store, paths, count, memory, &merged, err);
}

/// The shard of a rank under a launcher; rank 0 goes on with the whole.
static status play_rank(const cli_arguments *arguments, ana_spread *spread,
                        const ana_kept_options *about, cli_play play, void *context, arena *memory,
                        error_message *err)
{
    const char *store = cli_value(arguments, "--store");
    const char *own = shard_store(store, spread->shard.index, spread->shard.count, memory);
    char whole[ANA_IDENTITY_BYTES];
    bool is_complete = false;
    const ana_shard all = {0};
    const ana_kept_options options = describe_run(arguments, about, store, &all);
    TRY(ana_kept_run_identify(&options, whole, err));
    TRY(ana_kept_run_look(store, whole, &is_complete, err));
    if (!is_complete) {
        TRY(play_shard(arguments, own, spread, about, play, context, err));
        if (spread->shard.index == 0) TRY(join_ranks(store, whole, spread, memory, err));
    }
    if (spread->shard.index == 0) spread->shard = (ana_shard){0};
    return STATUS_OK;
}

status cli_shard_play(const cli_arguments *arguments, ana_spread *spread,
                      const ana_kept_options *about, cli_play play, void *context, arena *memory,
                      bool *is_part, error_message *err)
{
    *is_part = spread->shard.count > 0;
    if (!*is_part) return STATUS_OK;
    if (cli_has(arguments, "--shard")) {
        TRY(play_shard(arguments, cli_value(arguments, "--store"), spread, about, play, context,
                       err));
        fprintf(stderr,
                "shard %d of %d is complete in %s: %" PRId64 " items\n"
                "when all are: dynmo merge -o ALL.db SHARD.db..., then this command with --store "
                "ALL.db, without --shard\n",
                spread->shard.index, spread->shard.count, cli_value(arguments, "--store"),
                spread->put_count);
        return STATUS_OK;
    }
    TRY(play_rank(arguments, spread, about, play, context, memory, err));
    *is_part = spread->shard.count > 0;
    return STATUS_OK;
}
