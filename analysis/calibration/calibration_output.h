/// A calibration's score for people and for programs; of a fit without predictions the terms and
/// the error of the fitted rows.
#pragma once

#include "analysis/calibration/calibration_score.h"
#include "base/text.h"

/// Everything that is shown. Borrowed for the call.
typedef struct ana_calibration_shown {
    const ana_measured_runs *runs;
    const ana_calibration *calibration;
    const ana_calibration_score *score;
    bool with_runs; // each predicted run too
} ana_calibration_shown;

void ana_calibration_write_json(const ana_calibration_shown *shown, text_buffer *out);
void ana_calibration_write_text(const ana_calibration_shown *shown, text_buffer *out);
