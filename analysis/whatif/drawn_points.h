/// Points of a study played in every draw of what is uncertain.
#pragma once

#include "analysis/shards/spread.h"
#include "analysis/whatif/draws.h"
#include "analysis/whatif/goodput.h"
#include "analysis/whatif/point.h"
#include "analysis/whatif/standing.h"
#include "base/arena.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// The variation that a recorded run has from iteration to iteration, resampled.

/// What is left of the times of a run when its mean and its trend, a straight line, are taken away:
/// iterations that get longer all the way are no chance.
///
/// @param times [count] in: of one point, iteration after iteration, count >= 1; out: what is left
/// @return the mean
double ana_resample_residuals(double *times, int count);

/// How many iterations in a row are drawn together, so that what hangs together stays together.
///
/// The cube root of the count, rounded up (Kunsch, Annals of Statistics 17 (1989): the length that
/// loses least grows so), or the first lag at which the residuals are no more correlated than
/// chance allows, 2 / sqrt(count), if that is longer; at most a quarter of the count and 512, at
/// least 1.
int ana_resample_block(const double *residuals, int count);

/// Mean of a run that is made of blocks of this one, over the mean of this one.
///
/// Blocks begin anywhere and go round the end (circular block bootstrap, Politis & Romano 1992), so
/// that every iteration is drawn alike. Where they begin depends on the generator, the count and
/// the block only: points with as many iterations draw the same ones, which keeps their
/// differences.
///
/// @param residuals [count] count >= 1
/// @param mean  of the times, > 0
/// @param block 1 .. count (asserted)
/// Time O(count).
double ana_resample_factor(const double *residuals, int count, double mean, int block,
                           rng *generator);

/// One point in one draw.
typedef struct ana_drawn_run {
    ana_refusal refusal; // NONE: what follows holds
    double iteration_ns;
    double per_second;
    double train_ns; // 0: not asked
    double gpu_count;
    double gpu_hours;         // 0: not asked
    double cost;              // -1: no price
    double peak_memory_bytes; // of the fullest rank
    ana_failures failures;    // mtbf_hours 0: failure-free
} ana_drawn_run;

typedef struct ana_drawn_points {
    int point_count;
    int draw_count;
    ana_drawn_run *nominal; // [point_count] with the inputs as the study has them
    ana_drawn_run *runs;    // [point_count][draw_count] with the error of a cost model
    double *recorded;       // [point_count][draw_count] factor of recorded variation on times
    double *fitted;         // [point_count][draw_count] factor of the calibration on times
    bool is_recorded;       // recorded differs from 1 somewhere
    bool is_fitted;
} ana_drawn_points;

/// Plays all points in all draws, and once as they are.
///
/// Recorded variation: where costs come from a trace, the iterations of the point as it is are
/// resampled in blocks (resample.h), the same blocks at all points with as many iterations. It is
/// the variation around what a run does, not around a trend of it.
///
/// @param draws with values
/// @param texts    [point_count] the study of each point
/// @param drawn out
/// @return what evaluation and ana_spread_run return
status ana_drawn_points_play(ana_spread *spread, const ana_draws *draws, const char *name,
                             const char *const *texts, arena *memory, ana_drawn_points *drawn,
                             error_message *err);

/// A run with the factors of its draw on its times, and what follows from them.
ana_drawn_run ana_drawn_run_of(const ana_drawn_points *drawn, int point, int draw);

/// What an objective wants to be small, of a run: where the training's length is not known the time
/// of a token, or of a microbatch. INFINITY if the run does not fit.
double ana_drawn_loss(ana_objective objective, const ana_drawn_run *run);
