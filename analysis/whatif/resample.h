/// The variation that a recorded run has from iteration to iteration, resampled.
#pragma once

#include "base/rng.h"

/// How many iterations in a row are drawn together, so that what hangs together stays together.
///
/// The cube root of the count, rounded up (Kunsch, Annals of Statistics 17 (1989): the length that
/// loses least grows so), or the first lag at which the times are no more correlated than chance
/// allows, 2 / sqrt(count), if that is longer; at most a quarter of the count, at least 1.
///
/// @param times [count] of one point, iteration after iteration
int ana_resample_block(const double *times, int count);

/// Mean of a run that is made of blocks of this one, over the mean of this one.
///
/// Blocks begin anywhere and go round the end (circular block bootstrap, Politis & Romano 1992), so
/// that every iteration is drawn alike. Where a block begins depends on the generator and the two
/// counts only: points with as many iterations draw the same ones, which keeps their differences.
///
/// @param times [count] > 0, count >= 1
/// @param block 1 .. count (asserted)
/// Time O(count).
double ana_resample_factor(const double *times, int count, int block, rng *generator);
