/// What a table of runs leaves open, found from its times: how attention is computed, what is made
/// again, and so on. The same trainings are played under other settings than the defaults, and
/// those are told under which what was measured is most likely.
#pragma once

#include "analysis/calibration/real_runs.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

enum { ANA_EXPLAINED_MAX = 4, ANA_EXPLAINED_ROWS_MAX = 24 };

/// A setting, as `--set` takes it.
typedef struct ana_explained {
    const char *column;
    const char *value;
} ana_explained;

typedef struct ana_explanation {
    int row_count; // that were played: ANA_EXPLAINED_ROWS_MAX at most, evenly among the table's
    int count;     // 0: the defaults explain the runs as well
    ana_explained settings[ANA_EXPLAINED_MAX];
    double gain;           // of the log of the runs' likelihood, over the defaults
    double error_before;   // mean of |predicted / measured - 1| of the defaults
    double error_after;    // of the settings
    ana_explained nearest; // with count 0: the one setting that brings the mean error below half,
                           // however likely; column NULL: none does
    double error_nearest;
} ana_explanation;

/// Finds the settings that make the runs most likely. How likely runs are is how well a correction
/// (correction.h) explains them: it takes a machine that is slower throughout for granted, but not
/// times that vary from layout to layout as a setting would have them vary. Without any one of the
/// settings the runs are less likely by e^2.5 or more, and all of them bring the mean error down by
/// a fifth. Only columns count that no row says. The search adds a setting at a time to the four
/// best so far.
///
/// @return STATUS_INVALID where nothing says the hardware, as another machine explains much; what
///         ana_real_play returns
status ana_explain(const ana_real_runs *runs, ana_explanation *out, error_message *err);

/// As a member "explanation" of the object that is being written.
void ana_explanation_write_json(const ana_explanation *explanation, json_writer *writer);

void ana_explanation_write_text(const ana_explanation *explanation, text_buffer *out);
