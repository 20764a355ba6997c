#include "sim/predictor.h"

#include "base/arena.h"
#include "sim/training_plan.h"

struct sim_predictor {
    arena *memory; // of the predictor itself, too
    sim_training_plan plan;
    bal_evaluator evaluator;
};

status sim_predictor_create(const bal_training *training, sim_predictor **predictor,
                            error_message *err)
{
    *predictor = NULL;
    TRY(bal_training_check(training, err));
    arena *memory = arena_create(1 << 12);
    sim_predictor *made = memory != NULL ? arena_array(memory, 1, sizeof *made) : NULL;
    if (made == NULL) {
        arena_destroy(memory);
        return error_set(err, STATUS_NO_MEMORY, "out of memory for predictions");
    }
    made->memory = memory;
    const status prepared = sim_training_plan_init(&made->plan, training, NULL, memory);
    if (prepared != STATUS_OK) {
        sim_predictor_destroy(made);
        return prepared;
    }
    made->evaluator = sim_training_plan_evaluator(&made->plan);
    *predictor = made;
    return STATUS_OK;
}

void sim_predictor_destroy(sim_predictor *predictor)
{
    if (predictor == NULL) return;
    sim_training_plan_free(&predictor->plan);
    arena_destroy(predictor->memory);
}

const bal_evaluator *sim_predictor_evaluator(const sim_predictor *predictor)
{
    return &predictor->evaluator;
}
