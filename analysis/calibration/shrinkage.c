/// A linear mixed model with coefficients that are not negative: inner products once, then
/// variances and terms in turn.
#include "analysis/calibration/shrinkage.h"

#include <assert.h>
#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { FIXED_MAX = ANA_SHRINKAGE_FIXED_MAX, ROUNDS = 3, SWEEPS = 2, GOLDEN_STEPS = 12 };
enum { GRID = 8, NODES_MAX = 40 };

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

/// The problem as inner products, and what follows from the present variances. Columns of the inner
/// products are the fixed ones, the target, then the random ones.
typedef struct solver {
    const ana_shrinkage_problem *problem;
    int fixed_count;
    int random_count;
    int column_count;          // without the target
    gsl_matrix_view gram_view; // [column_count + 1]^2; fixed columns have length 1
    double length[FIXED_MAX];  // that fixed columns had
    double residual;
    double deviation[ANA_SHRINKAGE_CLASSES_MAX];
    bool used[FIXED_MAX];
    // With the deviations eliminated, for the present variances:
    gsl_matrix_view inner_view;   // [random]^2 Cholesky factor of I + D Z'Z D / residual^2
    gsl_matrix_view outer_view;   // [random][fixed + 1]
    gsl_matrix_view reduced_view; // [fixed + 1]^2 lower half; the last row is the target's
    double log_volume;            // logarithm of the determinant of the covariance of the target
} solver;

static gsl_matrix_view make_matrix(int rows, int columns, arena *memory)
{
    const size_t cells = (size_t)rows * (size_t)columns;
    return gsl_matrix_view_array(arena_array(memory, cells, sizeof(double)), (size_t)rows,
                                 (size_t)columns);
}

/// Where the inner products have a column of the problem.
static size_t gram_index(const solver *s, int column)
{
    return (size_t)(column < s->fixed_count ? column : column + 1);
}

static double gram_at(const solver *s, int row, int column)
{
    return gsl_matrix_get(&s->gram_view.matrix, gram_index(s, row), gram_index(s, column));
}

/// The inner product of a column with the target.
static double moment_at(const solver *s, int column)
{
    return gsl_matrix_get(&s->gram_view.matrix, (size_t)s->fixed_count, gram_index(s, column));
}

/// Most columns of a row are zero: it belongs to one shape of each part.
static void multiply(solver *s, arena *memory)
{
    const ana_shrinkage_problem *problem = s->problem;
    const size_t columns = (size_t)s->column_count;
    double *filled_value = arena_array(memory, columns + 1, sizeof *filled_value);
    size_t *filled = arena_array(memory, columns + 1, sizeof *filled);
    for (int row = 0; row < problem->row_count; row++) {
        const double *values = problem->values + (size_t)row * columns;
        int count = 1;
        filled[0] = (size_t)s->fixed_count;
        filled_value[0] = problem->target[row];
        for (int column = 0; column < s->column_count; column++) {
            if (values[column] == 0.0) continue;
            filled[count] = gram_index(s, column);
            filled_value[count++] = values[column];
        }
        for (int left = 0; left < count; left++) {
            for (int right = 0; right < count; right++) {
                *gsl_matrix_ptr(&s->gram_view.matrix, filled[left], filled[right]) +=
                    filled_value[left] * filled_value[right];
            }
        }
    }
}

/// Gives fixed columns the length 1; those that are zero keep 0.
static void normalise(solver *s)
{
    for (size_t column = 0; column < (size_t)s->fixed_count; column++) {
        gsl_vector_view of_row = gsl_matrix_row(&s->gram_view.matrix, column);
        gsl_vector_view of_column = gsl_matrix_column(&s->gram_view.matrix, column);
        s->length[column] = sqrt(gsl_vector_get(&of_row.vector, column));
        if (s->length[column] <= 0) continue;
        gsl_vector_scale(&of_row.vector, 1 / s->length[column]);
        gsl_vector_scale(&of_column.vector, 1 / s->length[column]);
    }
}

static double deviation_of(const solver *s, int random)
{
    return s->deviation[s->problem->random_class[random]];
}

/// Eliminates the deviations under the present variances.
static void reduce(solver *s)
{
    const size_t known = (size_t)s->fixed_count + 1;
    const double weight = 1 / (s->residual * s->residual);
    gsl_matrix *inner = &s->inner_view.matrix;
    gsl_matrix *outer = &s->outer_view.matrix;
    gsl_matrix *reduced = &s->reduced_view.matrix;
    const gsl_matrix_view own = gsl_matrix_submatrix(&s->gram_view.matrix, 0, 0, known, known);
    gsl_matrix_memcpy(reduced, &own.matrix);
    gsl_matrix_scale(reduced, weight);
    s->log_volume = -s->problem->row_count * log(weight);
    if (s->random_count == 0) return;
    for (int left = 0; left < s->random_count; left++) {
        const double scale = deviation_of(s, left);
        for (int right = 0; right < s->random_count; right++) {
            const double product = scale * deviation_of(s, right) * weight;
            gsl_matrix_set(inner, (size_t)left, (size_t)right,
                           (left == right) +
                               product * gram_at(s, s->fixed_count + left, s->fixed_count + right));
        }
        for (size_t right = 0; right < known; right++) {
            gsl_matrix_set(outer, (size_t)left, right,
                           scale * weight *
                               gsl_matrix_get(&s->gram_view.matrix, known + (size_t)left, right));
        }
    }
    // Positive definite by its form: the identity plus a square.
    gsl_linalg_cholesky_decomp1(inner);
    gsl_blas_dtrsm(CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, 1, inner, outer);
    gsl_blas_dsyrk(CblasLower, CblasTrans, -1, outer, 1, reduced);
    for (size_t index = 0; index < (size_t)s->random_count; index++) {
        s->log_volume += 2 * log(gsl_matrix_get(inner, index, index));
    }
}

static double reduced_at(const solver *s, int row, int column)
{
    const gsl_matrix *reduced = &s->reduced_view.matrix;
    return row > column ? gsl_matrix_get(reduced, (size_t)row, (size_t)column)
                        : gsl_matrix_get(reduced, (size_t)column, (size_t)row);
}

/// Weighted square of the target with no fixed term.
static double misfit_without_terms(const solver *s)
{
    return reduced_at(s, s->fixed_count, s->fixed_count);
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
    double cells[FIXED_MAX * FIXED_MAX];
    double moments[FIXED_MAX];
    int members[FIXED_MAX];
    int count = 0;
    for (int column = 0; column < s->fixed_count; column++) {
        if (taken[column]) members[count++] = column;
    }
    if (count == 0) return answer;
    gsl_matrix_view factor = gsl_matrix_view_array(cells, (size_t)count, (size_t)count);
    gsl_vector_view moment = gsl_vector_view_array(moments, (size_t)count);
    for (int row = 0; row < count; row++) {
        moments[row] = reduced_at(s, s->fixed_count, members[row]);
        for (int column = 0; column < count; column++) {
            cells[row * count + column] = reduced_at(s, members[row], members[column]);
        }
    }
    answer.is_singular = gsl_linalg_cholesky_decomp1(&factor.matrix) != GSL_SUCCESS;
    for (int row = 0; row < count && !answer.is_singular; row++) {
        const double pivot = cells[row * count + row] * cells[row * count + row];
        answer.is_singular = !(pivot > pivot_min * reduced_at(s, members[row], members[row]));
        answer.log_volume += log(pivot);
    }
    if (answer.is_singular) return answer;
    gsl_blas_dtrsv(CblasLower, CblasNoTrans, CblasNonUnit, &factor.matrix, &moment.vector);
    gsl_blas_ddot(&moment.vector, &moment.vector, &answer.gain);
    gsl_blas_dtrsv(CblasLower, CblasTrans, CblasNonUnit, &factor.matrix, &moment.vector);
    for (int row = 0; row < count; row++) {
        answer.values[members[row]] = moments[row];
    }
    return answer;
}

/// The column that would lessen the misfit most if it grew from zero; -1: none.
static int steepest(const solver *s, const bool *allowed, const bool *taken, const bool *barred,
                    const double *values)
{
    int best = -1;
    double best_slope = 1e-9;
    for (int column = 0; column < s->fixed_count; column++) {
        if (!allowed[column] || taken[column] || barred[column]) continue;
        double slope = reduced_at(s, s->fixed_count, column);
        for (int other = 0; other < s->fixed_count; other++) {
            slope -= reduced_at(s, column, other) * values[other];
        }
        slope /= sqrt(reduced_at(s, column, column));
        if (slope <= best_slope) continue;
        best_slope = slope;
        best = column;
    }
    return best;
}

/// Moves values towards an answer until the first of them is zero; that column is given up.
///
/// @return whether the answer was reached
static bool approach(const solver *s, const subset_answer *answer, bool *taken, double *values)
{
    double share = 1;
    for (int column = 0; column < s->fixed_count; column++) {
        if (!taken[column] || answer->values[column] > 0) continue;
        share = fmin(share, values[column] / (values[column] - answer->values[column]));
    }
    for (int column = 0; column < s->fixed_count; column++) {
        if (!taken[column]) continue;
        values[column] += share * (answer->values[column] - values[column]);
        if (share >= 1 || answer->values[column] > 0 || values[column] > 1e-12) continue;
        values[column] = 0;
        taken[column] = false;
    }
    return share >= 1;
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
        const int best = steepest(s, allowed, taken, barred, values);
        if (best < 0) break;
        taken[best] = true;
        subset_answer next = solve_subset(s, taken);
        if (next.is_singular || next.values[best] <= 0) {
            taken[best] = false;
            barred[best] = true;
            continue;
        }
        while (!approach(s, &next, taken, values)) {
            next = solve_subset(s, taken);
            if (next.is_singular) break;
        }
        answer = next;
    }
    return answer;
}

static int count_of(const solver *s, const bool *columns)
{
    int count = 0;
    for (int column = 0; column < s->fixed_count; column++) {
        count += columns[column];
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
        const double count = 1 + count_of(s, best_set); // with the residual's own variance
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
    return s->log_volume + misfit_without_terms(s) - answer.gain + answer.log_volume;
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
    const double degrees = fmax(1, s->problem->row_count - count_of(s, s->used));
    s->residual = fmax(s->problem->residual_min,
                       sqrt(fmax(0, misfit_without_terms(s) - answer.gain) / degrees));
    for (int class = 0; class < s->problem->class_count; class ++) {
        s->deviation[class] = fmax(0, s->problem->class_deviation[class]);
    }
    reduce(s);
    select_terms(s);
}

/// Some of the fixed terms, then all deviations, as the rows of one matrix. Each is counted in a
/// unit of its own, so that the numbers are of one size: fixed terms in use by the length of their
/// column, what has a standard deviation beforehand by that.
typedef struct members {
    int count;
    int *columns;        // [count]
    double *units;       // [count] of the caller's coefficient
    double *inner_units; // [count] of the inner products, where fixed columns have the length 1
    bool *is_expected;   // [count] it has a standard deviation beforehand
    gsl_matrix *inverse; // [count]^2 their covariance
} members;

/// @param takes_all with the terms that rows show, but that are not in use; those that no row shows
///                  are always there
static void list_members(const solver *s, bool takes_all, arena *memory, members *out)
{
    const size_t most = (size_t)s->column_count;
    *out = (members){.columns = arena_array(memory, most, sizeof *out->columns),
                     .units = arena_array(memory, most, sizeof *out->units),
                     .inner_units = arena_array(memory, most, sizeof *out->inner_units),
                     .is_expected = arena_array(memory, most, sizeof *out->is_expected)};
    for (int column = 0; column < s->column_count; column++) {
        const bool is_fixed = column < s->fixed_count;
        const bool is_used = is_fixed && s->used[column];
        if (is_fixed && !is_used && s->length[column] > 0 && !takes_all) continue;
        const int member = out->count++;
        out->columns[member] = column;
        out->is_expected[member] = !is_used;
        out->units[member] = !is_fixed ? deviation_of(s, column - s->fixed_count)
                             : is_used ? 1 / s->length[column]
                                       : s->problem->fixed_deviation[column];
        out->inner_units[member] = out->units[member] * (is_fixed ? s->length[column] : 1);
    }
}

/// Lists the members and inverts their inner products. Release of->inverse with gsl_matrix_free.
static status invert(const solver *s, bool takes_all, arena *memory, members *of,
                     error_message *err)
{
    const double weight = 1 / (s->residual * s->residual);
    list_members(s, takes_all, memory, of);
    of->inverse = gsl_matrix_alloc((size_t)of->count, (size_t)of->count);
    for (int left = 0; left < of->count; left++) {
        for (int right = 0; right < of->count; right++) {
            const double value = weight * of->inner_units[left] * of->inner_units[right] *
                                 gram_at(s, of->columns[left], of->columns[right]);
            gsl_matrix_set(of->inverse, (size_t)left, (size_t)right,
                           value + (left == right && of->is_expected[left]));
        }
    }
    int code = gsl_linalg_cholesky_decomp1(of->inverse);
    if (code == GSL_SUCCESS) code = gsl_linalg_cholesky_invert(of->inverse);
    if (code == GSL_SUCCESS) return STATUS_OK;
    gsl_matrix_free(of->inverse);
    return error_set(err, STATUS_INVALID, "the fit's terms cannot be told apart: %s",
                     gsl_strerror(code));
}

/// Adds the members' covariance in the caller's units, times a share.
static void add_covariance(const solver *s, const members *of, double share, ana_shrinkage_fit *fit)
{
    for (int left = 0; left < of->count; left++) {
        const size_t at = (size_t)of->columns[left] * (size_t)s->column_count;
        for (int right = 0; right < of->count; right++) {
            fit->covariance[at + (size_t)of->columns[right]] +=
                share * of->units[left] * of->units[right] *
                gsl_matrix_get(of->inverse, (size_t)left, (size_t)right);
        }
    }
}

/// The members' coefficients in the caller's units, and the degrees of freedom: rows less the
/// coefficients that the data determine, 1 for each term in use and less for what is drawn to what
/// was expected.
static void solve_members(const solver *s, const members *of, ana_shrinkage_fit *fit)
{
    const double weight = 1 / (s->residual * s->residual);
    double determined = 0;
    for (int left = 0; left < of->count; left++) {
        double value = 0;
        for (int right = 0; right < of->count; right++) {
            value += gsl_matrix_get(of->inverse, (size_t)left, (size_t)right) * weight *
                     of->inner_units[right] * moment_at(s, of->columns[right]);
        }
        fit->coefficients[of->columns[left]] = value * of->units[left];
        const double open = gsl_matrix_get(of->inverse, (size_t)left, (size_t)left);
        determined += of->is_expected[left] ? 1 - open : 1;
    }
    fit->degrees = fmax(1, s->problem->row_count - determined);
}

/// Coefficients of the terms in use and of the deviations, and their covariance with what the terms
/// that are not in use leave open.
static status find_coefficients(const solver *s, arena *memory, ana_shrinkage_fit *fit,
                                error_message *err)
{
    members of;
    if (count_of(s, s->used) == 0) {
        return error_set(err, STATUS_INVALID, "no term explains the measured times");
    }
    TRY(invert(s, false, memory, &of, err));
    solve_members(s, &of, fit);
    add_covariance(s, &of, 1 - unused_share, fit);
    gsl_matrix_free(of.inverse);
    TRY(invert(s, true, memory, &of, err));
    add_covariance(s, &of, unused_share, fit);
    gsl_matrix_free(of.inverse);
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
    const double estimate = s->deviation[class];
    double value = fmax(estimate, deviation_min);
    double sum = 0;
    double best = INFINITY;
    while (value > deviation_min * node_ratio) {
        value /= node_ratio;
    }
    for (; value <= deviation_max && nodes.count < NODES_MAX; value *= node_ratio) {
        s->deviation[class] = nodes.values[nodes.count] = value;
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
    s->deviation[class] = estimate;
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
            if (!is_wider) continue;
            added[cell] += share * (at->covariance[cell] - estimate->covariance[cell]);
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
    for (int node = 0; node < nodes.count; node++) {
        const double value = nodes.values[node];
        if (nodes.shares[node] < share_min) continue;
        s->deviation[class] = value;
        memset(at.covariance, 0, count * count * sizeof *at.covariance);
        TRY(find_coefficients(s, memory, &at, err));
        add_node(&at, estimate, value > known, nodes.shares[node], count, added);
        if (value > known) square += nodes.shares[node] * (value * value - known * known);
    }
    s->deviation[class] = known;
    fit->class_deviation[class] = sqrt(square);
    return STATUS_OK;
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
    const size_t columns = (size_t)s->column_count;
    *fit = (ana_shrinkage_fit){
        .coefficients = arena_array(memory, columns, sizeof *fit->coefficients),
        .covariance = arena_array(memory, columns * columns, sizeof *fit->covariance),
        .states = arena_array(memory, (size_t)s->fixed_count, sizeof *fit->states),
        .residual = s->residual,
    };
    for (int column = 0; column < s->fixed_count; column++) {
        fit->states[column] = s->used[column]          ? ANA_STATE_USED
                              : s->length[column] <= 0 ? ANA_STATE_ABSENT
                                                       : ANA_STATE_NO_GAIN;
    }
    TRY(find_coefficients(s, memory, fit, err));
    memcpy(fit->class_deviation, s->deviation, sizeof fit->class_deviation);
    return widen_deviations(s, memory, fit, err);
}

status ana_shrinkage_solve(const ana_shrinkage_problem *problem, arena *memory,
                           ana_shrinkage_fit *fit, error_message *err)
{
    const int fixed = problem->fixed_count;
    const int random = problem->random_count > 0 ? problem->random_count : 1;
    assert(fixed <= FIXED_MAX);
    gsl_set_error_handler_off();
    solver s = {.problem = problem,
                .fixed_count = fixed,
                .random_count = problem->random_count,
                .column_count = fixed + problem->random_count,
                .inner_view = make_matrix(random, random, memory),
                .outer_view = make_matrix(random, fixed + 1, memory),
                .reduced_view = make_matrix(fixed + 1, fixed + 1, memory)};
    s.gram_view = make_matrix(s.column_count + 1, s.column_count + 1, memory);
    multiply(&s, memory);
    normalise(&s);
    begin(&s);
    for (int round = 0; round < ROUNDS && count_of(&s, s.used) > 0; round++) {
        search_variances(&s);
        reduce(&s);
        select_terms(&s);
    }
    return finish(&s, memory, fit, err);
}
