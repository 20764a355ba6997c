/// What indivisible layers leave: discrete balancers on the layers of every sample of a course.
#pragma once

#include "analysis/converge/drift.h"
#include "base/arena.h"
#include "base/status.h"

typedef struct ana_drift_floor {
    const char *balancer;
    double gap_mean; // (max - min) of the stage loads in units of their mean, over the samples
    double gap_max;
    double imbalance_mean; // max in units of the mean
    double imbalance_max;
    double moved_mean; // layers that change their stage from sample to sample
} ana_drift_floor;

enum { ANA_DRIFT_FLOORS = 4 };

/// The balancers even, partition, diffusion, and diffusion-published, which goes on from where it
/// was; each decides from the very times that are then executed.
///
/// @param memory for scratch
/// @param floors [ANA_DRIFT_FLOORS] out
/// @return STATUS_INVALID if the layers do not make that many stages; STATUS_NO_MEMORY
status ana_drift_floors(const ana_layer_course *course, int stage_count, arena *memory,
                        ana_drift_floor *floors, error_message *err);
