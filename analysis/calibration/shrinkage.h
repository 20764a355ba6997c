/// Least squares with coefficients that are not negative, and with deviations that are drawn
/// towards zero as far as the data say that they are small.
///
///     target = fixed * coefficients + random * deviations + residual
///
/// Residuals are independent with one standard deviation; deviations of a class are independent
/// with the class's standard deviation, which is estimated unless it is given. The same model is
/// known as a linear mixed model, its answer as best linear unbiased prediction.
/// Sources: Robinson, "That BLUP is a good thing", Statistical Science 6 (1991); variances by
/// restricted maximum likelihood, Patterson & Thompson, Biometrika 58 (1971); non-negative least
/// squares, Lawson & Hanson, "Solving Least Squares Problems" (1974), chapter 23; corrected
/// information criterion, Hurvich & Tsai, Biometrika 76 (1989).
///
/// Few shapes tell little of a class's standard deviation. Coefficients are those under the
/// likeliest one; the covariance, and the deviation that is told, hold what larger ones would add,
/// each by its restricted likelihood and a half-Cauchy expectation (Gelman, Bayesian Analysis 1,
/// 2006), the other deviations as estimated; and how far coefficients move (Kackar & Harville, JASA
/// 79, 1984).
#pragma once

#include "base/arena.h"
#include "base/status.h"

enum { ANA_SHRINKAGE_FIXED_MAX = 64, ANA_SHRINKAGE_CLASSES_MAX = 8 };

typedef struct ana_shrinkage_problem {
    int row_count;
    int fixed_count; // at most ANA_SHRINKAGE_FIXED_MAX
    int random_count;
    int class_count;
    const double *values;    // [row_count][fixed_count + random_count] fixed columns first
    const double *target;    // [row_count]
    const int *random_class; // [random_count]
    // [class_count] standard deviation that is known beforehand; < 0: to be estimated
    double class_deviation[ANA_SHRINKAGE_CLASSES_MAX];
    // [fixed_count] standard deviation around zero of a term that is not taken in: nothing says
    // that it is zero, only that the rows do not show it. It widens the covariance.
    const double *fixed_deviation;
    double residual_min; // floor of the residual's standard deviation, > 0
} ana_shrinkage_problem;

/// Whether a fixed coefficient is in use; where it is not, why it is zero.
typedef enum ana_term_state {
    ANA_STATE_USED,
    ANA_STATE_ABSENT,  ///< its quantity is zero in all rows
    ANA_STATE_NO_GAIN, ///< the fit is not better with it by more than its own count is worth, or
                       ///< it would be negative, or cannot be told apart from terms in use
} ana_term_state;

typedef struct ana_shrinkage_fit {
    double *coefficients;   // [fixed_count + random_count] fixed first
    double *covariance;     // [fixed_count + random_count]^2, symmetric
    ana_term_state *states; // [fixed_count]
    // as given; or estimated, and widened by what the estimate leaves open
    double class_deviation[ANA_SHRINKAGE_CLASSES_MAX];
    double residual; // standard deviation
    double degrees;  // rows less the number of coefficients that the data determine, >= 1
} ana_shrinkage_fit;

/// Fits. Terms are taken in one by one, the best first, as long as the corrected information
/// criterion falls; variances and terms in turn.
///
/// @return STATUS_INVALID if no fixed term is of use
/// Time O(rows * (fixed + random) + 1000 * random^3), memory O((fixed + random)^2).
status ana_shrinkage_solve(const ana_shrinkage_problem *problem, arena *memory,
                           ana_shrinkage_fit *fit, error_message *err);
