/// Pictures of a sweep.
#pragma once

#include "analysis/converge/converge_output.h"

/// Rounds of all points beside both bounds and the spectral prediction, over the nodes or, if there
/// is one number of nodes only, over gamma.
///
/// @param svg appended: an <svg> element
/// @return as ana_plot
status ana_sweep_draw_rounds(const ana_sweep_answer *answer, text_buffer *svg, error_message *err);

/// The potential over the rounds of the first instance of the last point, played once more.
status ana_sweep_draw_potential(const ana_sweep_answer *answer, text_buffer *svg,
                                error_message *err);
