/// What keeping results costs: a million of them into a new store, and out of it again.
#include "analysis/shards/kept_run.h"
#include "analysis/shards/spread.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// As long as the result of a point of a study.
static const char result_text[] =
    "{\"schema\":\"dynmo-point/1\",\"iteration_ns\":123456789,\"per_second\":1234567.8,"
    "\"gpu_count\":512,\"train_ns\":1234567890123456,\"gpu_hours\":123456.7,\"cost\":-1,"
    "\"peak_memory_bytes\":12345678901,\"bubble_ratio\":0.123456789,\"imbalance_ratio\":1.2345678,"
    "\"bound_ns\":100000000,\"learning\":{\"sequence_length\":2048,\"global_batch\":1024}}";

typedef struct load {
    int64_t item_count;
    int thread_count;
    ana_kept_run *kept; // or NULL
    int64_t put_count;
} load;

static status run(void *context, void *worker, int64_t item, text_buffer *result,
                  error_message *err)
{
    (void)context;
    (void)worker;
    (void)item;
    (void)err;
    text_append_bytes(result, result_text, sizeof result_text - 1);
    return STATUS_OK;
}

static status put(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    load *all = context;
    (void)item;
    (void)result;
    (void)err;
    all->put_count++;
    return STATUS_OK;
}

static void play(void *context)
{
    load *all = context;
    error_message err = {0};
    ana_spread spread = {.thread_count = all->thread_count, .kept = all->kept};
    const ana_items items = {.count = all->item_count, .context = all, .run = run, .put = put};
    bench_require(ana_spread_run(&spread, &items, NULL, &err), &err);
}

/// A million results into a new store, and out of it again.
static void measure_store(bool smoke)
{
    char folder[] = P_tmpdir "/dynmo-bench-XXXXXX";
    char path[64];
    error_message err = {0};
    if (mkdtemp(folder) == NULL) exit(1);
    snprintf(path, sizeof path, "%s/s.db", folder);
    const ana_kept_options options = {.store = path,
                                      .name = "bench",
                                      .command_line = "bench_spread",
                                      .tool_version = "",
                                      .config_json = "{}"};
    load all = {.item_count = smoke ? 1000 : 1000000, .thread_count = 1};
    for (int pass = 0; pass < 2; pass++) {
        ana_kept_run *kept = NULL;
        const int64_t begun_ns = bench_now_ns();
        bench_require(ana_kept_run_open(&options, &kept, &err), &err);
        all.kept = kept;
        play(&all);
        bench_require(ana_kept_run_finish(kept, NULL, &err), &err);
        bench_print(pass == 0 ? "spread_keep_ns_per_item" : "spread_recall_ns_per_item",
                    (double)(bench_now_ns() - begun_ns) / (double)all.item_count, "ns",
                    "items=%lld", (long long)all.item_count);
    }
    unlink(path);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    measure_store(smoke);
    return 0;
}
