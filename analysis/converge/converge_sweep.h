/// Many instances at several numbers of nodes or several gammas; what they say together: quantiles,
/// shares, bounds beside them, and straight lines through the points; and the table for a paper.
#pragma once

#include "analysis/converge/converge_graph.h"
#include "analysis/converge/converge_scheme.h"
#include "analysis/shards/spread.h"
#include "base/text.h"

#include <stdatomic.h>

// One run of a scheme from its initial loads to gamma, and what was seen on the way.

typedef struct ana_instance_question {
    ana_initial initial;
    ana_stop stop;
    double gamma;
    uint64_t seed;
    const atomic_bool *interrupt; // set: give up; NULL: never
} ana_instance_question;

/// Plain numbers: it travels as bytes.
typedef struct ana_instance {
    int64_t round_count;      // the first round after which the stop holds; 0: from the start
    int64_t good_round_count; // drop of the potential >= spread * ana_good_round_share
    double potential_first;
} ana_instance;

/// Plays instance number `instance` of a seed: its coins and, with ANA_INITIAL_RANDOM, its loads
/// depend on these two alone.
///
/// @return STATUS_BACKEND "interrupted"; STATUS_INFEASIBLE if gamma is not reached in
///         400 N^2 (ln(potential / gamma) + 40) rounds, many times what any scheme here takes where
///         doubles can tell loads apart
status ana_instance_play(ana_scheme_run *run, const ana_instance_question *question,
                         int64_t instance, ana_instance *result, error_message *err);

enum { ANA_SWEEP_POINTS_MAX = 64, ANA_INSTANCES_MAX = 1000000 };

/// The question. Points are all pairs of nodes and gamma, gamma fastest.
typedef struct ana_sweep {
    const ana_scheme *scheme;
    ana_graph_kind graph;
    ana_instance_question instance; // gamma: that of the point
    int nodes[ANA_SWEEP_POINTS_MAX];
    int nodes_count;
    double gammas[ANA_SWEEP_POINTS_MAX];
    int gamma_count;
    int instance_count; // per point, >= 1
    double delta;       // of the repaired bound
} ana_sweep;

typedef struct ana_sweep_point {
    ana_graph graph;
    double gamma;
    ana_instance *instances; // [instance_count]
} ana_sweep_point;

int ana_sweep_point_count(const ana_sweep *sweep);

/// Whether all instances of a point are the same: neither coins nor loads are thrown. One is
/// played.
bool ana_sweep_is_certain(const ana_sweep *sweep);

/// Checks the question: graph, scheme, gammas.
///
/// @param points [ana_sweep_point_count] out: graph and gamma, instances from memory and empty
/// @return STATUS_INVALID, STATUS_UNSUPPORTED naming what does not go together
status ana_sweep_prepare(const ana_sweep *sweep, arena *memory, ana_sweep_point *points,
                         error_message *err);

/// Plays all instances, or those of a shard.
///
/// @return as ana_instance_play and ana_spread_run
status ana_sweep_play(const ana_sweep *sweep, ana_spread *spread, ana_sweep_point *points,
                      error_message *err);

// What they say together (sweep_answer.c).

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

/// Appends a line of JSON: the point if there is one, else {"points":[...],"fit":{...}}.
void ana_sweep_write_json(const ana_sweep_answer *answer, text_buffer *out);

/// Appends what was measured beside each bound.
void ana_sweep_write_text(const ana_sweep_answer *answer, text_buffer *out);

// In paper_table.c.

/// Plays max-neighbor (from all load on half of the nodes to phi <= S/N) on path, ring, star,
/// complete and dynamic graphs, tries every claim, and appends the table.
///
/// @param question nodes, instances, delta, seed and interrupt; the rest is the table's own
/// @param is_csv   RFC 4180, with a header; else a longtable of LaTeX
/// @return as ana_graph_make, ana_sweep_play and ana_claim_try
status ana_paper_append(const ana_sweep *question, ana_spread *spread, bool is_csv, arena *memory,
                        text_buffer *out, error_message *err);
