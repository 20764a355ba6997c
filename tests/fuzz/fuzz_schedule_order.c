/// Any bytes as an order: refused with a message, or an order that the check then proves or
/// refuses.
#include "base/arena.h"
#include "cli/schedule/schedule_order.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>

/// Every op stands behind the one before it on its rank and after the one that it waits for.
static void check_topological(const bal_schedule *schedule, const int *topological)
{
    const int op_count = schedule->first_op[schedule->rank_count];
    int next[BAL_RANKS_MAX];
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        next[rank] = schedule->first_op[rank];
    }
    for (int index = 0; index < op_count; index++) {
        int rank = 0;
        while (topological[index] >= schedule->first_op[rank + 1]) {
            rank++;
        }
        assert(topological[index] == next[rank]++);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    bal_schedule schedule;
    error_message err = {0};
    arena *memory = arena_create(1 << 16);
    assert(memory != NULL);
    if (cli_schedule_order_parse("input", (const char *)bytes, count, memory, &schedule, &err) ==
        STATUS_OK) {
        const int op_count = schedule.first_op[schedule.rank_count];
        int *topological = memory_array((size_t)op_count, sizeof *topological);
        assert(topological != NULL);
        if (bal_schedule_check(&schedule, topological, &err) == STATUS_OK) {
            check_topological(&schedule, topological);
        } else {
            assert(err.message[0] != '\0');
        }
        free(topological);
    } else {
        assert(err.message[0] != '\0');
    }
    arena_destroy(memory);
    return 0;
}
