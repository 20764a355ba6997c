/// What is promised about the rounds of max-neighbor, and what the spectrum of a graph predicts.
/// Derivations: README.md of this folder.
#pragma once

#include <stdint.h>

typedef enum ana_stop {
    ANA_STOP_PHI, ///< the potential, the sum over all pairs of the difference, is at most gamma
    ANA_STOP_GAP, ///< no two loads differ by more than gamma
    ANA_STOP_COUNT
} ana_stop;

extern const char *const ana_stop_names[ANA_STOP_COUNT];

/// A question about bounds. The total load is node_count.
typedef struct ana_bound_question {
    int node_count;
    double potential; // at the start
    ana_stop stop;
    double gamma; // > 0
    double delta; // chance of needing more, in (0, 1)
} ana_bound_question;

/// A round is good if the potential drops by at least spread times this: 1 / (60 ln(2 N)).
double ana_good_round_share(int node_count);

/// Good rounds that Lemma 2 of the DynMo paper allows until phi <= gamma, with the constants of its
/// proof: 60 N^2 ln(2 N) ln(S N^2 / gamma), rounded up. The home of this formula.
/// @param total S, the sum of the loads, in the unit of gamma
double ana_paper_good_rounds(int node_count, double total, double gamma);

/// The same for S = N, at most 2^53; for ANA_STOP_GAP the smaller of that and
/// 60 N S ln(2 N) / gamma.
int64_t ana_bound_paper(const ana_bound_question *question);

/// Rounds that max-neighbor exceeds with a chance of at most delta:
/// 4 N^2 ln(potential / (gamma delta)). For ANA_STOP_GAP the smaller of that with (N - 1) gamma in
/// the place of gamma, and 16 (N - 1) S / (gamma delta).
int64_t ana_bound_repaired(const ana_bound_question *question);

/// Rounds in which a deviation that shrinks by contraction per round brings the potential to gamma
/// (ANA_STOP_GAP: to gamma (N - 1), below which no two loads can differ by more).
/// @param contraction in [0, 1); 0: one round. NaN gives NaN.
double ana_rounds_predicted(const ana_bound_question *question, double contraction);

/// rounds / (N^2 ln(potential / gamma)); NaN if the start is at gamma already.
double ana_convergence_constant(const ana_bound_question *question, double rounds);
