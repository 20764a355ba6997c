/// The variation that a recorded run has from iteration to iteration, resampled.
#pragma once

#include "base/rng.h"

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
