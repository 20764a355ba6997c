// Products with matrices in compressed rows. Rows of the other operand are turned, ROWS at a time,
// so that a vector has the same column of several rows, and an entry is multiplied with all of
// them. As in kernels_cpu_matmul.c each sum adds its products one by one in ascending order of the
// inner index, from 0.0 or c + 0.0 on; products with what is not held are 0 and change no sum.
#include "exec/kernels/kernels_cpu.h"

#include <stdint.h>
#include <string.h>

enum { LANES = EXEC_CPU_LANES, ROWS = 64, VECTORS = ROWS / LANES, SAMPLE_TILES = 2 };

/// Eight floats at any address.
typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));

/// Lane i of row j becomes lane j of row i.
EXEC_CPU_INLINE void transpose(lanes row[LANES])
{
    lanes pair[LANES], four[LANES];
#pragma GCC unroll 4
    for (int at = 0; at < LANES; at += 2) {
        pair[at] = __builtin_shufflevector(row[at], row[at + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pair[at + 1] = __builtin_shufflevector(row[at], row[at + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 4
    for (int at = 0; at < LANES; at += 4) {
#pragma GCC unroll 2
        for (int odd = 0; odd < 2; odd++) {
            four[at + 2 * odd] = __builtin_shufflevector(pair[at + odd], pair[at + odd + 2], 0, 1,
                                                         8, 9, 4, 5, 12, 13);
            four[at + 2 * odd + 1] = __builtin_shufflevector(pair[at + odd], pair[at + odd + 2], 2,
                                                             3, 10, 11, 6, 7, 14, 15);
        }
    }
#pragma GCC unroll 4
    for (int at = 0; at < LANES / 2; at++) {
        row[at] = __builtin_shufflevector(four[at], four[at + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        row[at + 4] = __builtin_shufflevector(four[at], four[at + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/// A tile of up to LANES x LANES numbers: to (column, row) = from (row, column).
EXEC_CPU_INLINE void turn_tile(const float *from, size_t from_row, int rows, int columns, float *to,
                               size_t to_row)
{
    if (rows < LANES || columns < LANES) {
        for (size_t at = 0; at < (size_t)rows * (size_t)columns; at++) {
            const size_t row = at / (size_t)columns, column = at % (size_t)columns;
            to[column * to_row + row] = from[row * from_row + column];
        }
        return;
    }
    lanes tile[LANES];
#pragma GCC unroll 8
    for (size_t at = 0; at < LANES; at++) {
        tile[at] = *(const lanes *)(from + at * from_row);
    }
    transpose(tile);
#pragma GCC unroll 8
    for (size_t at = 0; at < LANES; at++) {
        *(lanes *)(to + at * to_row) = tile[at];
    }
}

static int least(int left, int right)
{
    return left < right ? left : right;
}

/// to [width][ROWS] = the transpose of from [rows][width].
EXEC_CPU_INLINE void turn(const float *from, int rows, int width, float *to)
{
    for (int row = 0; row < rows; row += LANES) {
        for (int at = 0; at < width; at += LANES) {
            turn_tile(from + (size_t)row * (size_t)width + at, (size_t)width,
                      least(rows - row, LANES), least(width - at, LANES),
                      to + (size_t)at * ROWS + row, ROWS);
        }
    }
}

/// to [rows][width] = the transpose of from [width][ROWS]. As above, the rows that are not turned
/// are walked along.
EXEC_CPU_INLINE void turn_back(const float *from, int rows, int width, float *to)
{
    for (int row = 0; row < rows; row += LANES) {
        for (int at = 0; at < width; at += LANES) {
            turn_tile(from + (size_t)at * ROWS + row, ROWS, least(width - at, LANES),
                      least(rows - row, LANES), to + (size_t)row * (size_t)width + at,
                      (size_t)width);
        }
    }
}

/// A product of up to ROWS rows, turned.
typedef struct turned_product {
    const exec_csr *csr;
    const float *value; // [entries]
    int rows;           // of them
    const float *a;     // [csr->rows or csr->columns][ROWS]
    float *c;           // the other of the two
} turned_product;

/// c [csr->columns][ROWS] += what each row of the matrix has for it, rows ascending.
EXEC_CPU_INLINE void multiply(const turned_product *by)
{
    const exec_csr *csr = by->csr;
    for (int row = 0; row < csr->rows; row++) {
        lanes factor[VECTORS];
#pragma GCC unroll 8
        for (int at = 0; at < VECTORS; at++) {
            factor[at] = *(const lanes *)(by->a + (size_t)row * ROWS + at * LANES);
        }
        for (int64_t entry = csr->first[row]; entry < csr->first[row + 1]; entry++) {
            float *c = by->c + (size_t)csr->column[entry] * ROWS;
            const float value = by->value[entry];
#pragma GCC unroll 8
            for (int at = 0; at < VECTORS; at++) {
                *(lanes *)(c + at * LANES) += factor[at] * value;
            }
        }
    }
}

/// c [csr->rows][ROWS] += of each row of the matrix the products of its entries.
EXEC_CPU_INLINE void multiply_transpose(const turned_product *by)
{
    const exec_csr *csr = by->csr;
    for (int row = 0; row < csr->rows; row++) {
        float *c = by->c + (size_t)row * ROWS;
        lanes sum[VECTORS];
#pragma GCC unroll 8
        for (int at = 0; at < VECTORS; at++) {
            sum[at] = *(const lanes *)(c + at * LANES);
        }
        for (int64_t entry = csr->first[row]; entry < csr->first[row + 1]; entry++) {
            const float *a = by->a + (size_t)csr->column[entry] * ROWS;
            const float value = by->value[entry];
#pragma GCC unroll 8
            for (int at = 0; at < VECTORS; at++) {
                sum[at] += *(const lanes *)(a + at * LANES) * value;
            }
        }
#pragma GCC unroll 8
        for (int at = 0; at < VECTORS; at++) {
            *(lanes *)(c + at * LANES) = sum[at];
        }
    }
}

/// Adds to the sums of entries of one row of the matrix: a lane has an entry, so that its products
/// are added one by one. A tile of lanes waits for one addition after the other, two hardly longer.
///
/// @param tiles       of LANES entries, constant where this is inlined
/// @param a           [ROWS] of the entries' row
/// @param b           [tiles * LANES][ROWS] of their columns
/// @param entry_count of the lanes that have an entry
EXEC_CPU_INLINE void sample_entries(int tiles, int rows, const float *a, const float *const *b,
                                    int entry_count, float *c)
{
    float held[SAMPLE_TILES * LANES] = {0};
    lanes sum[SAMPLE_TILES];
    memcpy(held, c, (size_t)entry_count * sizeof *c);
#pragma GCC unroll 2
    for (int tile = 0; tile < tiles; tile++) {
        sum[tile] = *(const lanes *)(held + tile * LANES) + 0.0F;
    }
    for (int row = 0; row < rows; row += LANES) {
        const lanes factor = *(const lanes *)(a + row);
#pragma GCC unroll 2
        for (int tile = 0; tile < tiles; tile++) {
            lanes product[LANES];
#pragma GCC unroll 8
            for (int lane = 0; lane < LANES; lane++) {
                product[lane] = factor * *(const lanes *)(b[tile * LANES + lane] + row);
            }
            transpose(product);
#pragma GCC unroll 8
            for (int at = 0; at < LANES; at++) {
                if (row + at < rows) sum[tile] += product[at];
            }
        }
    }
#pragma GCC unroll 2
    for (int tile = 0; tile < tiles; tile++) {
        *(lanes *)(held + tile * LANES) = sum[tile];
    }
    memcpy(c, held, (size_t)entry_count * sizeof *c);
}

/// by->a is of the matrix's rows, `columns` [csr->columns][ROWS] of its columns; c [entries] +=
EXEC_CPU_INLINE void sample(const turned_product *by, const float *columns)
{
    enum { ENTRIES = SAMPLE_TILES * LANES };
    const exec_csr *csr = by->csr;
    for (int row = 0; row < csr->rows; row++) {
        const float *a = by->a + (size_t)row * ROWS;
        for (int64_t entry = csr->first[row]; entry < csr->first[row + 1]; entry += ENTRIES) {
            const int64_t left = csr->first[row + 1] - entry;
            const int count = left < ENTRIES ? (int)left : ENTRIES;
            const float *b[ENTRIES];
            for (int lane = 0; lane < ENTRIES; lane++) { // lanes without an entry: any
                b[lane] = columns + (size_t)csr->column[entry + (lane < count ? lane : 0)] * ROWS;
            }
            if (count > LANES) {
                sample_entries(SAMPLE_TILES, by->rows, a, b, count, by->c + entry);
            } else {
                sample_entries(1, by->rows, a, b, count, by->c + entry);
            }
        }
    }
}

/// Up to ROWS rows of csr_matmul; scratch as large as both turned operands.
EXEC_CPU_INLINE void multiply_rows(const exec_csr *csr, int rows, bool transposes_b,
                                   bool accumulates, const float *a, const float *b, float *c,
                                   float *scratch)
{
    const int inner = transposes_b ? csr->columns : csr->rows;
    const int outer = transposes_b ? csr->rows : csr->columns;
    float *sums = scratch + (size_t)inner * ROWS;
    const turned_product product = {.csr = csr, .value = b, .rows = rows, .a = scratch, .c = sums};
    turn(a, rows, inner, scratch);
    if (accumulates) turn(c, rows, outer, sums);
    for (size_t at = 0; at < (size_t)outer * ROWS; at++) {
        sums[at] = accumulates ? sums[at] + 0.0F : 0.0F;
    }
    if (transposes_b) {
        multiply_transpose(&product);
    } else {
        multiply(&product);
    }
    turn_back(sums, rows, outer, c);
}

EXEC_CPU_INLINE void sample_rows(const exec_csr *csr, int rows, const float *a, const float *b,
                                 float *c, float *scratch)
{
    float *columns = scratch + (size_t)csr->rows * ROWS;
    const turned_product product = {.csr = csr, .rows = rows, .a = scratch, .c = c};
    turn(a, rows, csr->rows, scratch);
    turn(b, rows, csr->columns, columns);
    sample(&product, columns);
}

EXEC_CPU_WIDE static void multiply_rows_wide(const exec_csr *csr, int rows, bool transposes_b,
                                             bool accumulates, const float *a, const float *b,
                                             float *c, float *scratch)
{
    multiply_rows(csr, rows, transposes_b, accumulates, a, b, c, scratch);
}

EXEC_CPU_WIDE static void sample_rows_wide(const exec_csr *csr, int rows, const float *a,
                                           const float *b, float *c, float *scratch)
{
    sample_rows(csr, rows, a, b, c, scratch);
}

/// Room for both turned operands, in which vectors do not cross cache lines. Lanes without a row
/// compute with what was left there, and nobody reads what comes of it.
static float *turned_scratch(exec_cpu *cpu, const exec_csr *csr)
{
    enum { LINE = 64 };
    const size_t count = ((size_t)csr->rows + (size_t)csr->columns) * ROWS;
    const uintptr_t scratch = (uintptr_t)exec_cpu_scratch(cpu, count + LINE / sizeof(float));
    return (float *)((scratch + LINE - 1) / LINE * LINE);
}

void exec_cpu_csr_matmul(exec_kernels *kernels, const exec_csr *csr, int rows, bool transposes_b,
                         bool accumulates, const void *a, const void *b, void *c)
{
    exec_cpu *cpu = (exec_cpu *)kernels;
    const size_t inner = (size_t)(transposes_b ? csr->columns : csr->rows);
    const size_t outer = (size_t)(transposes_b ? csr->rows : csr->columns);
    float *scratch = turned_scratch(cpu, csr);
    for (int first = 0; first < rows; first += ROWS) {
        const int count = least(rows - first, ROWS);
        (cpu->is_wide ? multiply_rows_wide : multiply_rows)(
            csr, count, transposes_b, accumulates, (const float *)a + (size_t)first * inner, b,
            (float *)c + (size_t)first * outer, scratch);
    }
}

void exec_cpu_csr_sample(exec_kernels *kernels, const exec_csr *csr, int rows, const void *a,
                         const void *b, float *c)
{
    exec_cpu *cpu = (exec_cpu *)kernels;
    float *scratch = turned_scratch(cpu, csr);
    for (int first = 0; first < rows; first += ROWS) {
        const int count = least(rows - first, ROWS);
        (cpu->is_wide ? sample_rows_wide : sample_rows)(
            csr, count, (const float *)a + (size_t)first * (size_t)csr->rows,
            (const float *)b + (size_t)first * (size_t)csr->columns, c, scratch);
    }
}
