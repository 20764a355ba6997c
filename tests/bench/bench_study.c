/// What a point of a what-if study costs, all included: its text made and read, costs from the
/// model, the plan, the order, the play, the bound, the result written and read; and how that grows
/// with stages, microbatches and points.
#include "analysis/whatif/whatif.h"
#include "base/arena.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

/// A study of point_count points: latencies of the network, at the sizes that are measured.
static char *make_study(const char *schedule, int stages, int microbatches, int point_count)
{
    text_buffer text = {0};
    text_format(
        &text,
        "{\"schema\":\"dynmo-study/1\",\"model\":\"gpt2-xl\",\"hardware\":\"h100-sxm\","
        "\"training\":{\"microbatches\":%d},\"pipeline\":{\"stages\":%d,\"schedule\":\"%s\"},"
        "\"cluster\":{\"links\":{\"inter\":{\"latency_ns\":1,\"bytes_per_s\":50000000000}}},"
        "\"vary\":{\"cluster.links.inter.latency_ns\":[",
        microbatches, stages, schedule);
    const int inner = point_count < 1000 ? point_count : 1000;
    for (int value = 0; value < inner; value++) {
        text_format(&text, "%s%d", value > 0 ? "," : "", 1000 + value);
    }
    text_append(&text, "],\"training.optimizer_step_ns\":[");
    for (int value = 0; value < point_count / inner; value++) {
        text_format(&text, "%s%d", value > 0 ? "," : "", value);
    }
    text_append(&text, "]}}");
    return text.bytes;
}

/// Plays all points in one thread.
static double play_s(ana_whatif *study)
{
    error_message err = {0};
    text_buffer result = {0};
    const int64_t begin_ns = bench_now_ns();
    void *worker = ana_whatif_begin_worker();
    for (int64_t item = 0; item < study->item_count; item++) {
        text_clear(&result);
        bench_require(ana_whatif_evaluate(study, worker, item, &result, &err), &err);
        bench_require(ana_whatif_put(study, item, &result, &err), &err);
    }
    bench_require(ana_whatif_finish(study, &err), &err);
    ana_whatif_end_worker(worker);
    text_free(&result);
    return (double)(bench_now_ns() - begin_ns) / 1e9;
}

static void measure(const char *schedule, int stages, int microbatches, int point_count)
{
    error_message err = {0};
    const ana_whatif_options options = {.objective = ANA_OBJECTIVE_TIME};
    arena *memory = arena_create(1 << 20);
    char *text = make_study(schedule, stages, microbatches, point_count);
    ana_whatif *study = memory_array(1, sizeof *study);
    bench_require(ana_whatif_open("bench", text, &options, memory, study, &err), &err);
    const double seconds = play_s(study);
    bench_print("study_points_per_s", (double)study->item_count / seconds, "1/s",
                "P=%d M=%d %s L=50, %d points, one thread", stages, microbatches, schedule,
                (int)study->item_count);
    free(study);
    free(text);
    arena_destroy(memory);
}

int main(int argc, char **argv)
{
    static const int sizes[][2] = {{4, 16}, {8, 32}, {24, 96}, {48, 192}};
    const bool smoke = bench_is_smoke(argc, argv);
    for (int size = 0; size < (smoke ? 1 : 4); size++) {
        measure("1f1b", sizes[size][0], sizes[size][1], smoke ? 4 : 2000);
        measure("zb-h1", sizes[size][0], sizes[size][1], smoke ? 4 : 2000);
    }
    for (int points = 1000; points <= 100000 && !smoke; points *= 10) {
        measure("1f1b", 24, 96, points);
    }
    return 0;
}
