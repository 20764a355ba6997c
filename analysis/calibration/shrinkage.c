#include "analysis/calibration/shrinkage.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <string.h>

enum { FIXED_MAX = 64, ROUNDS = 3, SWEEPS = 2, GOLDEN_STEPS = 12, NODES_MAX = 40 };

/// A pivot below this share of its column's own square is taken for rounding: the column cannot be
/// told apart from those before it.
static const double pivot_min = 1e-9;
/// A term that rows show and that is not in use is as likely to be there as not: the covariance is
/// the mean of both.
static const double unused_share = 0.5;
/// Gains closer than this are equal: the term that stands first is taken, whatever the rounding.
static const double tie_ratio = 1e-9;
static const double deviation_min = 1e-3;
static const double deviation_max = 3;
/// Median of a class's standard deviation before any row is seen: half-Cauchy, as Gelman advises
/// where groups are few ("Prior distributions for variance parameters", Bayesian Analysis 1, 2006).
static const double deviation_scale = 0.1;
/// Of a class's standard deviation from one node to the next.
static const double node_ratio = 1.35;
/// Nodes that are less likely are left out.
static const double share_min = 1e-4;

/// The problem as inner products, and what follows from the present variances.
typedef struct solver {
    const ana_shrinkage_problem *problem;
    int fixed_count;
    int random_count;
    int column_count;
    double *gram;   // [column_count][column_count] inner products; fixed columns have length 1
    double *moment; // [column_count] with the target
    double square;  // of the target
    double *length; // [fixed_count] that fixed columns had
    double residual;
    double deviation[ANA_SHRINKAGE_CLASSES_MAX];
    bool used[FIXED_MAX];
    // With the deviations eliminated, for the present variances:
    gsl_matrix *inner;      // [random][random] Cholesky factor of I + D Z'Z D / residual^2
    gsl_matrix *outer;      // [random][fixed + 1]
    gsl_matrix *reduced;    // [fixed][fixed]
    double *reduced_moment; // [fixed]
    double misfit;          // weighted square of the target, with no fixed term
    double log_volume;      // logarithm of the determinant of the covariance of the target
} solver;

static double gram_at(const solver *s, int row, int column)
{
    return s->gram[(size_t)row * (size_t)s->column_count + (size_t)column];
}

static double value_at(const ana_shrinkage_problem *problem, int row, int column)
{
    if (column < problem->fixed_count) {
        return problem->fixed[(size_t)row * (size_t)problem->fixed_count + (size_t)column];
    }
    const size_t at = (size_t)row * (size_t)problem->random_count;
    return problem->random[at + (size_t)(column - problem->fixed_count)];
}

/// Most columns of a row are zero: it belongs to one shape of each part.
static void multiply(solver *s, double *values, int *filled)
{
    const ana_shrinkage_problem *problem = s->problem;
    for (int row = 0; row < problem->row_count; row++) {
        int count = 0;
        for (int column = 0; column < s->column_count; column++) {
            values[column] = value_at(problem, row, column);
            if (values[column] < 0 || values[column] > 0) filled[count++] = column;
        }
        for (int left = 0; left < count; left++) {
            const double value = values[filled[left]];
            double *line = s->gram + (size_t)filled[left] * (size_t)s->column_count;
            for (int right = 0; right < count; right++) {
                line[filled[right]] += value * values[filled[right]];
            }
            s->moment[filled[left]] += value * problem->target[row];
        }
        s->square += problem->target[row] * problem->target[row];
    }
}

/// Gives fixed columns the length 1; those that are zero keep 0.
static void normalise(solver *s)
{
    for (int column = 0; column < s->fixed_count; column++) {
        s->length[column] = sqrt(gram_at(s, column, column));
        if (s->length[column] <= 0) continue;
        const double factor = 1 / s->length[column];
        for (int other = 0; other < s->column_count; other++) {
            s->gram[(size_t)column * (size_t)s->column_count + (size_t)other] *= factor;
            s->gram[(size_t)other * (size_t)s->column_count + (size_t)column] *= factor;
        }
        s->moment[column] *= factor;
    }
}

static double deviation_of(const solver *s, int random)
{
    return s->deviation[s->problem->random_class[random]];
}

/// Eliminates the deviations under the present variances.
static void reduce(solver *s)
{
    const int fixed = s->fixed_count;
    const int random = s->random_count;
    const double weight = 1 / (s->residual * s->residual);
    s->log_volume = -s->problem->row_count * log(weight);
    for (int left = 0; left < random; left++) {
        const double scale = deviation_of(s, left);
        for (int right = 0; right < random; right++) {
            const double product = scale * deviation_of(s, right) * weight;
            gsl_matrix_set(s->inner, (size_t)left, (size_t)right,
                           (left == right) + product * gram_at(s, fixed + left, fixed + right));
        }
        for (int right = 0; right < fixed; right++) {
            gsl_matrix_set(s->outer, (size_t)left, (size_t)right,
                           scale * weight * gram_at(s, fixed + left, right));
        }
        gsl_matrix_set(s->outer, (size_t)left, (size_t)fixed,
                       scale * weight * s->moment[fixed + left]);
    }
    if (random > 0) {
        // Positive definite by its form: the identity plus a square.
        gsl_linalg_cholesky_decomp1(s->inner);
        gsl_blas_dtrsm(CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, 1, s->inner, s->outer);
    }
    for (int index = 0; index < random; index++) {
        s->log_volume += 2 * log(gsl_matrix_get(s->inner, (size_t)index, (size_t)index));
    }
    s->misfit = weight * s->square;
    for (int left = 0; left <= fixed; left++) {
        for (int right = 0; right <= left; right++) {
            double removed = 0;
            for (int index = 0; index < random; index++) {
                removed += gsl_matrix_get(s->outer, (size_t)index, (size_t)left) *
                           gsl_matrix_get(s->outer, (size_t)index, (size_t)right);
            }
            if (left < fixed) {
                const double value = weight * gram_at(s, left, right) - removed;
                gsl_matrix_set(s->reduced, (size_t)left, (size_t)right, value);
                gsl_matrix_set(s->reduced, (size_t)right, (size_t)left, value);
            } else if (right < fixed) {
                s->reduced_moment[right] = weight * s->moment[right] - removed;
            } else {
                s->misfit -= removed;
            }
        }
    }
}

/// Least squares over some of the fixed terms, deviations eliminated.
typedef struct subset_answer {
    bool is_singular;
    double gain;              // what the misfit falls by
    double log_volume;        // logarithm of the determinant of the reduced matrix
    double values[FIXED_MAX]; // by fixed column, of the normalised columns
} subset_answer;

static subset_answer solve_subset(const solver *s, const bool *taken)
{
    subset_answer answer = {0};
    double factor[FIXED_MAX][FIXED_MAX];
    double moment[FIXED_MAX];
    int members[FIXED_MAX];
    int count = 0;
    for (int column = 0; column < s->fixed_count; column++) {
        if (taken[column]) members[count++] = column;
    }
    for (int row = 0; row < count; row++) {
        moment[row] = s->reduced_moment[members[row]];
        for (int column = 0; column <= row; column++) {
            double value =
                gsl_matrix_get(s->reduced, (size_t)members[row], (size_t)members[column]);
            for (int index = 0; index < column; index++) {
                value -= factor[row][index] * factor[column][index];
            }
            if (column < row) {
                factor[row][column] = value / factor[column][column];
                continue;
            }
            const double own =
                gsl_matrix_get(s->reduced, (size_t)members[row], (size_t)members[row]);
            if (!(value > pivot_min * own)) return (subset_answer){.is_singular = true};
            factor[row][row] = sqrt(value);
            answer.log_volume += log(value);
        }
        for (int index = 0; index < row; index++) {
            moment[row] -= factor[row][index] * moment[index];
        }
        moment[row] /= factor[row][row];
        answer.gain += moment[row] * moment[row];
    }
    for (int row = count - 1; row >= 0; row--) {
        for (int below = row + 1; below < count; below++) {
            moment[row] -= factor[below][row] * moment[below];
        }
        moment[row] /= factor[row][row];
        answer.values[members[row]] = moment[row];
    }
    return answer;
}

/// Least squares over the allowed terms with none of them negative (Lawson & Hanson): taken says
/// which of them are positive.
static subset_answer solve_positive(const solver *s, const bool *allowed, bool *taken)
{
    double values[FIXED_MAX] = {0};
    bool barred[FIXED_MAX] = {false};
    subset_answer answer = {0};
    memset(taken, 0, FIXED_MAX * sizeof *taken);
    for (int step = 0; step < 4 * FIXED_MAX; step++) {
        int best = -1;
        double best_slope = 1e-9;
        for (int column = 0; column < s->fixed_count; column++) {
            if (!allowed[column] || taken[column] || barred[column]) continue;
            double slope = s->reduced_moment[column];
            for (int other = 0; other < s->fixed_count; other++) {
                slope -= gsl_matrix_get(s->reduced, (size_t)column, (size_t)other) * values[other];
            }
            slope /= sqrt(gsl_matrix_get(s->reduced, (size_t)column, (size_t)column));
            if (slope > best_slope) {
                best_slope = slope;
                best = column;
            }
        }
        if (best < 0) break;
        taken[best] = true;
        subset_answer next = solve_subset(s, taken);
        if (next.is_singular || next.values[best] <= 0) {
            taken[best] = false;
            barred[best] = true;
            continue;
        }
        for (;;) {
            double share = 1;
            for (int column = 0; column < s->fixed_count; column++) {
                if (!taken[column] || next.values[column] > 0) continue;
                const double reach = values[column] / (values[column] - next.values[column]);
                if (reach < share) share = reach;
            }
            const bool is_inside = share >= 1;
            for (int column = 0; column < s->fixed_count; column++) {
                if (!taken[column]) continue;
                const bool falls = next.values[column] <= 0;
                values[column] += share * (next.values[column] - values[column]);
                if (!is_inside && falls && values[column] <= 1e-12) {
                    values[column] = 0;
                    taken[column] = false;
                }
            }
            if (is_inside) break;
            next = solve_subset(s, taken);
            if (next.is_singular) break;
        }
        answer = next;
    }
    return answer;
}

static int count_used(const solver *s)
{
    int count = 0;
    for (int column = 0; column < s->fixed_count; column++) {
        count += s->used[column];
    }
    return count;
}

/// Takes terms in, the best first, while the corrected information criterion falls.
static void select_terms(solver *s)
{
    bool set[FIXED_MAX] = {false};
    double score = INFINITY;
    for (;;) {
        bool best_set[FIXED_MAX];
        double best_gain = 0;
        for (int column = 0; column < s->fixed_count; column++) {
            if (set[column] || s->length[column] <= 0) continue;
            bool allowed[FIXED_MAX];
            bool taken[FIXED_MAX];
            memcpy(allowed, set, sizeof allowed);
            allowed[column] = true;
            const subset_answer answer = solve_positive(s, allowed, taken);
            if (answer.gain <= best_gain * (1 + tie_ratio)) continue;
            best_gain = answer.gain;
            memcpy(best_set, taken, sizeof best_set);
        }
        if (best_gain <= 0) break;
        double count = 1; // the residual's own variance
        for (int column = 0; column < s->fixed_count; column++) {
            count += best_set[column];
        }
        const double left = s->problem->row_count - count - 1;
        if (left <= 0) break;
        const double best_score = 2 * count + 2 * count * (count + 1) / left - best_gain;
        if (best_score >= score) break;
        score = best_score;
        memcpy(set, best_set, sizeof set);
    }
    memcpy(s->used, set, sizeof s->used);
}

/// Minus twice the logarithm of the restricted likelihood of the present variances.
static double restricted_misfit(solver *s)
{
    reduce(s);
    const subset_answer answer = solve_subset(s, s->used);
    if (answer.is_singular) return INFINITY;
    return s->log_volume + s->misfit - answer.gain + answer.log_volume;
}

/// The misfit with one standard deviation at low * exp(place).
static double misfit_at(solver *s, double *deviation, double low, double place)
{
    *deviation = low * exp(place);
    return restricted_misfit(s);
}

/// Golden section for the place of the smallest misfit between left and right.
static double search_place(solver *s, double *deviation, double low, double left, double right)
{
    const double golden = 0.6180339887498949;
    double first = right - golden * (right - left);
    double second = left + golden * (right - left);
    double first_misfit = misfit_at(s, deviation, low, first);
    double second_misfit = misfit_at(s, deviation, low, second);
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        if (first_misfit < second_misfit) {
            right = second;
            second = first;
            second_misfit = first_misfit;
            first = right - golden * (right - left);
            first_misfit = misfit_at(s, deviation, low, first);
        } else {
            left = first;
            first = second;
            first_misfit = second_misfit;
            second = left + golden * (right - left);
            second_misfit = misfit_at(s, deviation, low, second);
        }
    }
    return (left + right) / 2;
}

/// Searches one standard deviation, on a logarithmic scale, others fixed: a coarse grid, then
/// golden section around its best point. Zero is tried too where it is allowed.
static void search_deviation(solver *s, double *deviation, double low, double high,
                             bool may_be_zero)
{
    enum { GRID = 8 };
    const double step = log(high / low) / GRID;
    double best = INFINITY;
    double best_place = 0;
    for (int point = 0; point <= GRID; point++) {
        const double misfit = misfit_at(s, deviation, low, step * point);
        if (misfit >= best) continue;
        best = misfit;
        best_place = step * point;
    }
    const double place = search_place(s, deviation, low, fmax(0, best_place - step),
                                      fmin(step * GRID, best_place + step));
    const double misfit = misfit_at(s, deviation, low, place);
    if (misfit < best) {
        best = misfit;
        best_place = place;
    }
    *deviation = 0;
    const bool is_zero = may_be_zero && restricted_misfit(s) <= best;
    *deviation = is_zero ? 0 : low * exp(best_place);
}

static void search_variances(solver *s)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        search_deviation(s, &s->residual, s->problem->residual_min, 1, false);
        for (int class = 0; class < s->problem->class_count; class ++) {
            if (s->problem->class_deviation[class] >= 0) continue;
            search_deviation(s, &s->deviation[class], deviation_min, deviation_max, true);
        }
    }
}

/// All terms that may be positive, without deviations: where the search begins.
static void begin(solver *s)
{
    bool allowed[FIXED_MAX];
    for (int column = 0; column < s->fixed_count; column++) {
        allowed[column] = s->length[column] > 0;
    }
    s->residual = 1;
    reduce(s);
    const subset_answer answer = solve_positive(s, allowed, s->used);
    const double degrees = fmax(1, s->problem->row_count - count_used(s));
    s->residual = fmax(s->problem->residual_min, sqrt(fmax(0, s->misfit - answer.gain) / degrees));
    for (int class = 0; class < s->problem->class_count; class ++) {
        const double given = s->problem->class_deviation[class];
        s->deviation[class] = given >= 0 ? given : 0;
    }
    reduce(s);
    select_terms(s);
}

/// Some of the fixed terms, then all deviations, as the rows of one matrix. Each is counted in a
/// unit of its own, so that the numbers are of one size: fixed terms in use by the length of their
/// column, what has a standard deviation beforehand by that.
typedef struct members {
    int count;
    int *columns;      // [count] of the inner products
    double *units;     // [count] of the caller's coefficient
    bool *is_expected; // [count] it has a standard deviation beforehand
} members;

/// @param takes_all with the terms that rows show, but that are not in use; those that no row shows
///                  are always there
static void list_members(const solver *s, bool takes_all, arena *memory, members *out)
{
    const size_t most = (size_t)s->column_count;
    *out = (members){.columns = arena_array(memory, most, sizeof *out->columns),
                     .units = arena_array(memory, most, sizeof *out->units),
                     .is_expected = arena_array(memory, most, sizeof *out->is_expected)};
    for (int column = 0; column < s->column_count; column++) {
        const bool is_fixed = column < s->fixed_count;
        const bool is_shown = is_fixed && !s->used[column] && s->length[column] > 0;
        if (is_shown && !takes_all) continue;
        const int member = out->count++;
        out->columns[member] = column;
        out->is_expected[member] = !is_fixed || !s->used[column];
        out->units[member] = !is_fixed         ? deviation_of(s, column - s->fixed_count)
                             : s->used[column] ? 1 / s->length[column]
                                               : s->problem->fixed_deviation[column];
    }
}

/// From a member's unit to that of the inner products, where fixed columns have the length 1.
static double inner_unit(const solver *s, const members *of, int member)
{
    const int column = of->columns[member];
    if (column >= s->fixed_count) return of->units[member];
    return of->units[member] * s->length[column];
}

/// Inner products of the members; inverted it is their covariance.
static gsl_matrix *joint_matrix(const solver *s, const members *of)
{
    const double weight = 1 / (s->residual * s->residual);
    gsl_matrix *joint = gsl_matrix_alloc((size_t)of->count, (size_t)of->count);
    if (joint == NULL) return NULL;
    for (int left = 0; left < of->count; left++) {
        const double left_unit = inner_unit(s, of, left);
        for (int right = 0; right < of->count; right++) {
            const double value = weight * left_unit * inner_unit(s, of, right) *
                                 gram_at(s, of->columns[left], of->columns[right]);
            gsl_matrix_set(joint, (size_t)left, (size_t)right,
                           value + (left == right && of->is_expected[left]));
        }
    }
    return joint;
}

/// The inverse of the members' joint matrix. Release with gsl_matrix_free.
static status invert(const solver *s, const members *of, gsl_matrix **inverse, error_message *err)
{
    gsl_matrix *joint = joint_matrix(s, of);
    int code = gsl_linalg_cholesky_decomp1(joint);
    if (code == GSL_SUCCESS) code = gsl_linalg_cholesky_invert(joint);
    if (code == GSL_SUCCESS) {
        *inverse = joint;
        return STATUS_OK;
    }
    gsl_matrix_free(joint);
    return error_set(err, STATUS_INVALID, "the fit's terms cannot be told apart: %s",
                     gsl_strerror(code));
}

/// Rows less the coefficients that the data determine: 1 for each term in use, and less for what is
/// drawn to what was expected.
static double degrees_left(const solver *s, const members *of, const gsl_matrix *inverse)
{
    double determined = 0;
    for (int member = 0; member < of->count; member++) {
        const double left = gsl_matrix_get(inverse, (size_t)member, (size_t)member);
        determined += of->is_expected[member] ? 1 - left : 1;
    }
    return fmax(1, s->problem->row_count - determined);
}

/// Adds the members' covariance in the caller's units, times a share.
static void add_covariance(const solver *s, const members *of, const gsl_matrix *inverse,
                           double share, ana_shrinkage_fit *fit)
{
    for (int left = 0; left < of->count; left++) {
        const size_t at = (size_t)of->columns[left] * (size_t)s->column_count;
        for (int right = 0; right < of->count; right++) {
            fit->covariance[at + (size_t)of->columns[right]] +=
                share * of->units[left] * of->units[right] *
                gsl_matrix_get(inverse, (size_t)left, (size_t)right);
        }
    }
}

/// What the members' coefficients are, in the caller's units.
///
/// @param values [column_count] out; 0 for what is no member
static void solve_members(const solver *s, const members *of, const gsl_matrix *inverse,
                          double *values)
{
    const double weight = 1 / (s->residual * s->residual);
    for (int left = 0; left < of->count; left++) {
        double value = 0;
        for (int right = 0; right < of->count; right++) {
            value += gsl_matrix_get(inverse, (size_t)left, (size_t)right) * weight *
                     inner_unit(s, of, right) * s->moment[of->columns[right]];
        }
        values[of->columns[left]] = value * of->units[left];
    }
}

/// Coefficients of the terms in use and of the deviations.
static status find_coefficients(const solver *s, arena *memory, ana_shrinkage_fit *fit,
                                error_message *err)
{
    members used;
    gsl_matrix *inverse = NULL;
    list_members(s, false, memory, &used);
    if (count_used(s) == 0) {
        return error_set(err, STATUS_INVALID, "no term explains the measured times");
    }
    TRY(invert(s, &used, &inverse, err));
    solve_members(s, &used, inverse, fit->coefficients);
    fit->degrees = degrees_left(s, &used, inverse);
    add_covariance(s, &used, inverse, 1 - unused_share, fit);
    gsl_matrix_free(inverse);
    return STATUS_OK;
}

/// What the terms that are not in use leave open.
static status widen_covariance(const solver *s, arena *memory, ana_shrinkage_fit *fit,
                               error_message *err)
{
    members all;
    gsl_matrix *inverse = NULL;
    list_members(s, true, memory, &all);
    TRY(invert(s, &all, &inverse, err));
    add_covariance(s, &all, inverse, unused_share, fit);
    gsl_matrix_free(inverse);
    return STATUS_OK;
}

/// Nodes of one class's standard deviation and how likely each is, the others as estimated.
typedef struct deviation_nodes {
    int count;
    double values[NODES_MAX];
    double shares[NODES_MAX]; // sum 1
} deviation_nodes;

/// Weight of a standard deviation before any row is seen, on a logarithmic scale.
static double expected_weight(double deviation)
{
    const double relative = deviation / deviation_scale;
    return relative / (1 + relative * relative);
}

/// One node is the estimate, so that where it is sharp nothing else counts.
static deviation_nodes list_nodes(solver *s, int class)
{
    deviation_nodes nodes = {0};
    double misfits[NODES_MAX];
    double *deviation = &s->deviation[class];
    const double estimate = *deviation;
    double value = fmax(estimate, deviation_min);
    double sum = 0;
    double best = INFINITY;
    while (value > deviation_min * node_ratio) {
        value /= node_ratio;
    }
    for (; value <= deviation_max && nodes.count < NODES_MAX; value *= node_ratio) {
        *deviation = nodes.values[nodes.count] = value;
        misfits[nodes.count] = restricted_misfit(s);
        best = fmin(best, misfits[nodes.count++]);
    }
    for (int node = 0; node < nodes.count; node++) {
        nodes.shares[node] = expected_weight(nodes.values[node]) * exp((best - misfits[node]) / 2);
        sum += nodes.shares[node];
    }
    for (int node = 0; node < nodes.count; node++) {
        nodes.shares[node] /= sum;
    }
    *deviation = estimate;
    return nodes;
}

/// Adds what a node's coefficients and covariance are beyond those of the estimate. The covariance
/// grows with the deviation in every direction, so that the sum remains one.
static void add_node(const ana_shrinkage_fit *at, const ana_shrinkage_fit *estimate, bool is_wider,
                     double share, size_t count, double *added)
{
    for (size_t left = 0; left < count; left++) {
        const double moved = at->coefficients[left] - estimate->coefficients[left];
        for (size_t right = 0; right < count; right++) {
            const size_t cell = left * count + right;
            added[cell] +=
                share * moved * (at->coefficients[right] - estimate->coefficients[right]);
            if (is_wider) {
                added[cell] += share * (at->covariance[cell] - estimate->covariance[cell]);
            }
        }
    }
}

/// Widens by what is not known of one class's standard deviation; few shapes tell little of it.
static status widen_class(solver *s, int class, const ana_shrinkage_fit *estimate, double *added,
                          arena *memory, ana_shrinkage_fit *fit, error_message *err)
{
    const size_t count = (size_t)s->column_count;
    const double known = s->deviation[class];
    const deviation_nodes nodes = list_nodes(s, class);
    ana_shrinkage_fit at = {.coefficients = arena_array(memory, count, sizeof *at.coefficients),
                            .covariance = arena_array(memory, count * count, sizeof(double))};
    double square = known * known;
    status result = STATUS_OK;
    for (int node = 0; node < nodes.count && result == STATUS_OK; node++) {
        const double value = nodes.values[node];
        if (nodes.shares[node] < share_min) continue;
        s->deviation[class] = value;
        memset(at.covariance, 0, count * count * sizeof *at.covariance);
        result = find_coefficients(s, memory, &at, err);
        if (result == STATUS_OK) result = widen_covariance(s, memory, &at, err);
        if (result != STATUS_OK) break;
        add_node(&at, estimate, value > known, nodes.shares[node], count, added);
        if (value > known) square += nodes.shares[node] * (value * value - known * known);
    }
    s->deviation[class] = known;
    fit->class_deviation[class] = sqrt(square);
    return result;
}

/// Intervals that took the estimated standard deviations for the true ones would be too narrow.
static status widen_deviations(solver *s, arena *memory, ana_shrinkage_fit *fit, error_message *err)
{
    const size_t cells = (size_t)s->column_count * (size_t)s->column_count;
    double *added = arena_array(memory, cells, sizeof *added);
    const ana_shrinkage_fit estimate = *fit;
    for (int class = 0; class < s->problem->class_count; class ++) {
        if (s->problem->class_deviation[class] >= 0) continue;
        TRY(widen_class(s, class, &estimate, added, memory, fit, err));
    }
    for (size_t cell = 0; cell < cells; cell++) {
        fit->covariance[cell] += added[cell];
    }
    return STATUS_OK;
}

static status finish(solver *s, arena *memory, ana_shrinkage_fit *fit, error_message *err)
{
    for (int column = 0; column < s->fixed_count; column++) {
        fit->uses[column] = s->used[column]          ? ANA_TERM_USED
                            : s->length[column] <= 0 ? ANA_TERM_ABSENT
                                                     : ANA_TERM_NO_GAIN;
    }
    TRY(find_coefficients(s, memory, fit, err));
    TRY(widen_covariance(s, memory, fit, err));
    fit->residual = s->residual;
    memcpy(fit->class_deviation, s->deviation, sizeof fit->class_deviation);
    return widen_deviations(s, memory, fit, err);
}

static status allocate(solver *s, arena *memory, ana_shrinkage_fit *fit, error_message *err)
{
    const size_t columns = (size_t)s->column_count;
    const size_t random = (size_t)(s->random_count > 0 ? s->random_count : 1);
    const size_t fixed = (size_t)s->fixed_count;
    s->gram = arena_array(memory, columns * columns, sizeof *s->gram);
    s->moment = arena_array(memory, columns, sizeof *s->moment);
    s->length = arena_array(memory, fixed, sizeof *s->length);
    s->reduced_moment = arena_array(memory, fixed, sizeof *s->reduced_moment);
    s->inner = gsl_matrix_calloc(random, random);
    s->outer = gsl_matrix_calloc(random, fixed + 1);
    s->reduced = gsl_matrix_calloc(fixed, fixed);
    fit->coefficients = arena_array(memory, columns, sizeof *fit->coefficients);
    fit->covariance = arena_array(memory, columns * columns, sizeof *fit->covariance);
    fit->uses = arena_array(memory, fixed, sizeof *fit->uses);
    if (s->gram != NULL && s->moment != NULL && s->length != NULL && s->reduced_moment != NULL &&
        s->inner != NULL && s->outer != NULL && s->reduced != NULL && fit->coefficients != NULL &&
        fit->covariance != NULL && fit->uses != NULL) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_NO_MEMORY, "out of memory");
}

static void release(solver *s)
{
    gsl_matrix_free(s->inner);
    gsl_matrix_free(s->outer);
    gsl_matrix_free(s->reduced);
}

static status search(solver *s, arena *memory, ana_shrinkage_fit *fit, error_message *err)
{
    double *values = arena_array(memory, (size_t)s->column_count, sizeof *values);
    int *filled = arena_array(memory, (size_t)s->column_count, sizeof *filled);
    multiply(s, values, filled);
    normalise(s);
    begin(s);
    for (int round = 0; round < ROUNDS && count_used(s) > 0; round++) {
        search_variances(s);
        reduce(s);
        select_terms(s);
    }
    return finish(s, memory, fit, err);
}

status ana_shrinkage_solve(const ana_shrinkage_problem *problem, arena *memory,
                           ana_shrinkage_fit *fit, error_message *err)
{
    gsl_set_error_handler_off();
    if (problem->fixed_count > FIXED_MAX) {
        return error_set(err, STATUS_INVALID, "%d terms are more than %d", problem->fixed_count,
                         FIXED_MAX);
    }
    solver s = {.problem = problem,
                .fixed_count = problem->fixed_count,
                .random_count = problem->random_count,
                .column_count = problem->fixed_count + problem->random_count};
    status result = allocate(&s, memory, fit, err);
    if (result == STATUS_OK) result = search(&s, memory, fit, err);
    release(&s);
    return result;
}
