/// What a schedule takes by formula, for equal stages, with the conditions under which the formula
/// holds. A check on the players and a number for people; decisions use neither.
#pragma once

#include <stdint.h>

/// Equal stages. Times are of a rank and one microbatch; with V chunks a chunk takes 1/V of them.
/// Where a rank holds two copies of stages (chimera), a chunk takes all of them, and
/// microbatch_count counts both directions. All ops and messages of the iteration together must not
/// exceed INT64_MAX / 4 ns.
typedef struct bal_equal_stages {
    int rank_count;
    int microbatch_count;
    int chunk_count;
    int64_t forward_ns;
    int64_t backward_input_ns;
    int64_t backward_weight_ns;
    int64_t send_ns; // end of an op until its message is on the neighbouring rank
} bal_equal_stages;

/// A length in ns, or why the formula does not hold here.
typedef struct bal_closed_ns {
    int64_t ns;          // -1 where because is set
    const char *because; // NULL where the formula holds; static storage
} bal_closed_ns;

typedef struct bal_closed_form {
    bal_closed_ns makespan;
    bal_closed_ns span;
} bal_closed_form;

/// Makespan and span of a schedule by formula, equal to a play to the nanosecond where they hold.
/// With T = F + B + W and latency c:
///
/// | schedule         | length                                              | holds               |
/// | gpipe            | (M+P-1)T + 2(P-1)c                                  | always              |
/// | 1f1b             | (M+P-1)T + 2(N - floor(N/P))c, N = M+P-2            | always              |
/// | interleaved-1f1b | MT + (P-1)T/V + 2(PV-1)c                            | c <= min(F, B+W)/V  |
/// | zb-h1            | MT + (P-1)max(F, B, F+B-W) + 4(P-1)c                | M >= P if c = 0;    |
/// |                  | span: the same without the F in max                 | else M >= 2P-1 and  |
/// |                  |                                                     | 2c <= W <= min(F,B) |
/// | zb-h2            | span: MT + (P-1)max(0, F+B+2c - 2min(F,W))          | M >= 2P-1, 2c <= W  |
/// | v-half           | MT + (3P-7)F/2 for even P, (3P-4)F/2 for odd;       | F = B = W, c = 0,   |
/// |                  | P = 2: MT + F/2                                     | M >= P+2            |
/// | v-min            | MT + (4P-5)F/2, where 3 divides P (4P-7)F/2         | F = B = W, c = 0,   |
/// |                  |                                                     | M >= P+1            |
/// | 1f1b-v           | MT + (5P-5)F/2 for P = 1 mod 3, (5P-7)F/2 for       | F = B = W, c = 0,   |
/// |                  | P = 2 mod 3; P = 2: MT + 2F                         | M >= P              |
/// | interleaved-zb   | MT + (P-1)max(F, B, F+B-W)/V; span: no F in max     | c = 0, M >= P       |
/// | zb-v-hand        | MT + (P-1)max(F/2, F-W); span: MT + (P-1)(F-W)      | c = 0, F = B >= W,  |
/// |                  |                                                     | M >= 2P-1           |
/// | dualpipe-v       | MT + (P-1)F                                         | c = 0, F = B = W    |
/// | chimera          | MT + (P-2)(max(F,BW) + (M/P-1)abs(F-BW));           | c = 0, P divides M; |
/// |                  | MT + (P-2)T - (M-2)min(F,BW)                        | c = 0, M <= P       |
/// v-half, v-min and 1f1b-v take MT where P = 1.
///
/// Sources: Qi et al., Zero bubble pipeline parallelism, ICLR 2024, with max(F, ...) and the
/// latency terms derived from the orders' critical paths and tested over grids. Those of the V
/// blocks are read off plays: tested for P up to 32.
bal_closed_form bal_closed_form_of(const char *schedule, const bal_equal_stages *stages);

/// The bubble ratio that the DynMo paper prints as Equation 1 for zero-bubble schedules. It is
/// Chimera's with as many microbatches as ranks: neither M nor W appear in it. Offered for
/// reproduction under the name `published-eq1`; never used for a decision.
///
/// @param backward_ns the full backward
/// @return idle / total in [0, 1) for an even rank_count >= 2; NaN for others, for which the
///         paper's counts are no integers, and where all times are 0
double bal_published_eq1_ratio(int rank_count, int64_t forward_ns, int64_t backward_ns,
                               int64_t send_ns);

/// Equation 1 of ranks whose loads are given, messages free of charge.
typedef struct bal_published_eq1 {
    double printed_ratio; // with the mean rank's F and B, as the paper defines them
    double unequal_ratio; // what it becomes where ranks differ: the path at the largest F and the
                          // largest B, the work as it is; NaN where printed_ratio is
} bal_published_eq1;

/// 1 - (sum F + sum B) / (P max F + (2 P - 2) max B): of equal ranks the printed formula.
///
/// @param forward_ns, backward_ns [rank_count] of one microbatch; backward in full
bal_published_eq1 bal_published_eq1_of(const double *forward_ns, const double *backward_ns,
                                       int rank_count);
