/// How long kernels take on a GPU: products of matrices by their shape, attention by its kernel,
/// streams through memory; and how long the host takes to start them. README.md has the formulas
/// and the sources of the constants.
#pragma once

#include "models/cost/hardware.h"
#include "models/cost/layer_work.h"

#include <stdint.h>

/// Time of work on the GPU: FLOP at its dense rate times efficiency, or bytes at its bandwidth
/// times efficiency, whichever takes longer; rounded to the nearest ns, at most INT64_MAX / 4.
///
/// @param flop_per_s, bytes_per_s > 0, efficiency included
int64_t model_roofline_ns(model_work work, double flop_per_s, double bytes_per_s);

/// Time of the products of a part in a pass, one kernel after the other. A product is cut into
/// tiles, of which every multiprocessor has one at a time: what is lost in the last wave, in tiles
/// that stick out and in filling and draining each is in it; the best of some tiles counts.
/// Hardware that does not say its multiprocessors gets the roofline of all of them together.
///
/// @param products [count]
/// @param dtype    of the operands
int64_t model_products_ns(const model_product *products, int count, model_pass pass,
                          model_dtype dtype, const model_hardware *hardware);

/// Time of the attention core in a pass.
///
/// Flash reaches less of its rate with short sequences and narrow heads. Unfused is products over
/// heads, and streams over the scores between them.
int64_t model_attention_ns(const model_config *config, const model_shape *shape, model_work work,
                           model_pass pass, const model_hardware *hardware);

/// Time of streams through memory by so many kernels.
int64_t model_streams_ns(int64_t bytes, int64_t kernel_count, const model_hardware *hardware);

/// Time that the host takes to start a pass.
int64_t model_host_ns(model_launches launches, const model_hardware *hardware);
