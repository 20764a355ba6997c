/// Early exit: the share of a microbatch's tokens that reach each layer.
#pragma once

#include <stdbool.h>

/// Share of tokens that go on from layer to layer where everybody may exit. It falls from initial
/// to final as the model grows confident: final + (initial - final) exp(-k / time_constant), taken
/// at the last multiple of interval that is not after iteration.
///
/// @param initial, final  in [0, 1]
/// @param time_constant   iterations, > 0
/// @param interval        >= 1
double model_exit_keep(double initial, double final, double time_constant, int interval,
                       int iteration);

/// Share of tokens at every transformer layer: 1 up to and including the first with an exit behind
/// it, keep^(l - that) where every later layer has one. Between exits nobody leaves: behind an exit
/// the share is what it would be had all layers since the first exit had one.
///
/// @param keep     in [0, 1]
/// @param has_exit [layer_count] an exit stands behind the layer
/// @param share    [layer_count] out: in [0, 1], not rising
void model_token_shares(double keep, const bool *has_exit, int layer_count, double *share);
