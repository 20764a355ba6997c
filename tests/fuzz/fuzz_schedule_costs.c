/// Any bytes as the costs of a schedule: refused with a message, or costs
/// of every stage.
#include "cli/schedule/schedule_costs.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const cli_schedule_shape shapes[] = {
        {.rank_count = 2, .microbatch_count = 2, .chunk_count = 1},
        {.rank_count = 2, .microbatch_count = 2, .chunk_count = 2},
        {.rank_count = 2, .microbatch_count = 2, .chunk_count = 2, .placement = BAL_PLACEMENT_V},
        {.rank_count = 2,
         .microbatch_count = 2,
         .chunk_count = 2,
         .placement = BAL_PLACEMENT_BIDIRECTIONAL}};
    for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++) {
        cli_schedule_costs costs;
        error_message err = {0};
        arena *memory = arena_create(1 << 16);
        assert(memory != NULL);
        if (cli_schedule_costs_parse("input", (const char *)bytes, count, &shapes[shape], memory,
                                     &costs, &err) == STATUS_OK) {
            assert(costs.stages.stage_count ==
                   shapes[shape].rank_count * shapes[shape].chunk_count);
        } else {
            assert(err.message[0] != '\0');
        }
        arena_destroy(memory);
    }
    return 0;
}
