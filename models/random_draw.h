/// Draws and functions of them that have the same bits on every machine: additions, products and
/// comparisons only, where libm differs between systems.
#pragma once

#include "base/rng.h"

/// Close to standard normal: mean 0, variance 1, within (-6, 6); the sum of twelve uniform numbers,
/// exact in binary.
double model_draw_normal(rng *generator);

/// e to the x, within 2e-15 of it, for x in [-700, 700] (asserted).
double model_portable_exp(double x);
