#include "analysis/converge/drift_floor.h"

#include "balance/partition/balancer.h"

#include <string.h>

enum { ARENA_BYTES = 1 << 18 };

static const char *const names[ANA_DRIFT_FLOORS] = {"even", "partition", "diffusion",
                                                    "diffusion-published"};

/// Who owns which layer, whatever form the answer has.
static void read_owners(const bal_answer *answer, int layer_count, int stage_count, int *owner)
{
    if (answer->owner != NULL) {
        memcpy(owner, answer->owner, (size_t)layer_count * sizeof *owner);
        return;
    }
    for (int stage = 0; stage < stage_count; stage++) {
        for (int layer = answer->first_layer[stage]; layer < answer->first_layer[stage + 1];
             layer++) {
            owner[layer] = stage;
        }
    }
}

static void add_sample(const bal_answer *answer, ana_drift_floor *floor)
{
    floor->gap_mean += answer->load_spread_ratio;
    floor->imbalance_mean += answer->imbalance_ratio;
    if (answer->load_spread_ratio > floor->gap_max) floor->gap_max = answer->load_spread_ratio;
    if (answer->imbalance_ratio > floor->imbalance_max) {
        floor->imbalance_max = answer->imbalance_ratio;
    }
}

/// @param owner, before [layer_count] scratch
static status follow(const ana_layer_course *course, int stage_count, const char *name,
                     arena *scratch, int *owner, int *before, ana_drift_floor *floor,
                     error_message *err)
{
    const bal_balancer *balancer = bal_balancer_find(name);
    const int layers = course->layer_count;
    int64_t moved = 0;
    *floor = (ana_drift_floor){.balancer = name};
    for (int sample = 0; sample < course->sample_count; sample++) {
        arena_reset(scratch);
        int64_t *zeros = arena_array(scratch, (size_t)layers, sizeof *zeros);
        bal_problem problem = {.layers = {.layer_count = layers,
                                          .microbatch_count = 1,
                                          .forward_ns = &course->time_ns[(int64_t)sample * layers],
                                          .backward_input_ns = zeros,
                                          .backward_weight_ns = zeros},
                               .stage_count = stage_count};
        if (balancer->owns_freely && sample > 0) problem.current_owner = before;
        bal_answer answer;
        TRY(bal_balance(balancer, &problem, scratch, &answer, err));
        read_owners(&answer, layers, stage_count, owner);
        for (int layer = 0; layer < layers && sample > 0; layer++) {
            moved += owner[layer] != before[layer] ? 1 : 0;
        }
        memcpy(before, owner, (size_t)layers * sizeof *owner);
        add_sample(&answer, floor);
    }
    floor->gap_mean /= course->sample_count;
    floor->imbalance_mean /= course->sample_count;
    floor->moved_mean = (double)moved / (course->sample_count - 1);
    return STATUS_OK;
}

status ana_drift_floors(const ana_layer_course *course, int stage_count, arena *memory,
                        ana_drift_floor *floors, error_message *err)
{
    const size_t layers = (size_t)course->layer_count;
    int *owner = arena_array(memory, layers, sizeof *owner);
    int *before = arena_array(memory, layers, sizeof *before);
    arena *scratch = arena_create(ARENA_BYTES);
    status result = STATUS_OK;
    for (int index = 0; index < ANA_DRIFT_FLOORS && result == STATUS_OK; index++) {
        result =
            follow(course, stage_count, names[index], scratch, owner, before, &floors[index], err);
    }
    arena_destroy(scratch);
    return result;
}
