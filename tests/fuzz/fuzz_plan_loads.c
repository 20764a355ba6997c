/// Any bytes as the loads of `dynmo plan`: refused with a message, or answered by every balancer
/// with a plan that keeps its bound, or with a reason.
#include "balance/partition/balancer.h"
#include "cli/plan/plan_loads.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

enum { LAYERS_MAX = 200, STAGES = 3 };

static void ask_all(bal_problem *problem, arena *memory)
{
    int count = 0;
    const bal_balancer *table = bal_balancers(&count);
    for (int row = 0; row < count; row++) {
        for (int objective = 0; objective < BAL_OBJECTIVE_COUNT; objective++) {
            bal_answer answer;
            error_message err = {0};
            problem->weight = table[row].weight;
            problem->objective = (bal_objective)objective;
            if (bal_balance(&table[row], problem, memory, &answer, &err) != STATUS_OK) {
                assert(err.message[0] != '\0');
                continue;
            }
            assert(answer.bottleneck_lower_bound_ns <= answer.bottleneck_ns);
            assert((answer.first_layer == NULL) == (answer.owner != NULL));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    json_document *document = NULL;
    cli_plan_loads loads;
    error_message err = {0};
    arena *memory = arena_create(4096);
    assert(memory != NULL);
    if (json_open_bytes("input", (const char *)bytes, count, &document, &err) == STATUS_OK) {
        const cli_plan_shape shapes[] = {{STAGES, 1, BAL_PLACEMENT_LOOP},
                                         {STAGES, 2, BAL_PLACEMENT_V},
                                         {STAGES, 3, BAL_PLACEMENT_LOOP}};
        const cli_plan_shape shape = shapes[count % (sizeof shapes / sizeof shapes[0])];
        if (cli_plan_loads_of(json_root(document), shape, memory, &loads, &err) != STATUS_OK) {
            assert(err.message[0] != '\0');
        } else if (loads.problem.layers.layer_count <= LAYERS_MAX) {
            loads.problem.microbatch_count = 4;
            loads.problem.allow_empty_stages = count % 2 == 0;
            ask_all(&loads.problem, memory);
        }
        json_close(document);
    }
    arena_destroy(memory);
    return 0;
}
