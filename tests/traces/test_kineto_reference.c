/// A trace recorded elsewhere, for which DYNMO_REFERENCE_DATA names the folder.
#include "tests/test_memory.h"
#include "traces/import/kineto.h"

#include <stdio.h>
#include <stdlib.h>

/// The trace that DeepSeek published, unchanged; it has no licence and is not part of the project.
TEST(deepseek_v3_comes_as_four_layers_and_loses_nothing)
{
    static const int64_t expected_us[4][4] = {
        // F, B, W, communication
        {8561, 14241, 7032, 13384 + 14731},
        {8647, 14859, 7641, 13966 + 13478},
        {9613, 14776, 7432, 16598 + 13133},
        {9073, 14711, 7700, 17549 + 11682},
    };
    const char *folder = getenv("DYNMO_REFERENCE_DATA");
    char path[1024];
    trace_phase_map *map = NULL;
    trace_recording recording;
    int64_t sums_us[4][4] = {{0}};
    snprintf(path, sizeof path, "%s/deepseek-v3-train-h800.pt.trace.json.gz", folder);
    const trace_profile_source source = {.path = path};
    require(trace_phase_map_open("../traces/phase-maps/deepseek-v3.json", memory, &map, &why));
    trace_profile_source mapped = source;
    mapped.map = map;

    assert_int_equal(trace_kineto_read(&source, memory, &recording, &why), STATUS_INVALID);
    require(trace_kineto_read(&mapped, memory, &recording, &why));

    assert_int_equal(recording.ops.op_count, 983);
    assert_int_equal(recording.ops.loads, 983);
    assert_int_equal(recording.ops.total_ns, 244069000);
    assert_int_equal(recording.cell_count, 12);
    for (int cell = 0; cell < recording.cell_count; cell++) {
        const trace_cell *each = &recording.cells[cell];
        sums_us[each->layer][each->kind] += each->busy_ns / 1000;
        sums_us[each->layer][3] += each->communication_ns / 1000;
    }
    for (int layer = 0; layer < 4; layer++) {
        for (int column = 0; column < 4; column++) {
            assert_int_equal(sums_us[layer][column], expected_us[layer][column]);
        }
    }
}

int main(void)
{
    if (getenv("DYNMO_REFERENCE_DATA") == NULL) {
        puts("skipped: DYNMO_REFERENCE_DATA names no folder with "
             "deepseek-v3-train-h800.pt.trace.json.gz");
        return 77;
    }
    return run_all_tests(open_memory, close_memory);
}
