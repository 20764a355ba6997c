/// What the instances of a sweep say together: quantiles, shares, bounds beside them; and straight
/// lines through the points.
#pragma once

#include "analysis/converge/converge_sweep.h"
#include "base/text.h"

/// An estimate and the interval that holds it with 95 % (Student's t).
typedef struct ana_estimate {
    double value;
    double low;
    double high;
} ana_estimate;

typedef struct ana_point_summary {
    int64_t rounds_median; // nearest rank, as all quantiles here
    int64_t rounds_p95;
    int64_t rounds_max;
    double potential_first;  // the largest
    double constant;         // median of rounds / (N^2 ln(potential / gamma)); NaN: at gamma
    double good_round_ratio; // of all rounds; NaN without any
    int64_t bound_paper;
    int64_t bound_repaired;       // from the largest potential
    double within_repaired_ratio; // instances that keep the bound of their own potential
    double rounds_spectral;       // NaN: the spectrum says nothing about this scheme
} ana_point_summary;

typedef struct ana_sweep_fit {
    bool has_nodes;             // at least 3 numbers of nodes, one gamma
    ana_estimate exponent;      // of the median of rounds in N
    ana_estimate log_corrected; // of it over ln(potential / gamma)
    ana_estimate constant;      // mean of the points' constants
    bool has_gammas;            // at least 3 gammas, one number of nodes
    ana_estimate per_decade;    // rounds more for a gamma ten times smaller
} ana_sweep_fit;

/// Question and answer. Borrowed.
typedef struct ana_sweep_answer {
    const ana_sweep *sweep;
    const ana_sweep_point *points;
    ana_point_summary summaries[ANA_SWEEP_POINTS_MAX]; // [ana_sweep_point_count]
    ana_sweep_fit fit; // points that are at gamma from the start are left out
} ana_sweep_answer;

/// Fills summaries and fit. @param scratch [instance_count]
void ana_sweep_summarise(ana_sweep_answer *answer, double *scratch);

// In sweep_output.c.

/// Appends a line of JSON: the point if there is one, else {"points":[...],"fit":{...}}.
void ana_sweep_write_json(const ana_sweep_answer *answer, text_buffer *out);

/// Appends what was measured beside each bound.
void ana_sweep_write_text(const ana_sweep_answer *answer, text_buffer *out);
