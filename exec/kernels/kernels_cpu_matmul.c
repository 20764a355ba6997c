// Products of matrices by tiles: 6 rows of a times 16 packed columns of b (12 rows with vectors of
// 512 bits), whose sums stay in registers while the inner index runs. Each element of c adds its
// products in ascending order of the inner index, one by one, however tiles are cut; so bits depend
// on nothing but the operands. A sum that goes on from c begins with c + 0.0 and so is never -0.0:
// products of 0 leave it as it is, and kernels_cpu_csr.c may leave them out.
#include "exec/kernels/kernels_cpu.h"

#include <string.h>

enum {
    TILE_ROWS = 6,
    TALL_TILE_ROWS = 12,
    TILE_COLUMNS = EXEC_CPU_PANEL_COLUMNS,
    HALF = TILE_COLUMNS / 2
};

/// Eight floats at any address, and sixteen.
typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef float wide_lanes __attribute__((vector_size(64), aligned(4), may_alias));

/// Elements of a and of c that a tile begins at, and the packed columns of b.
typedef struct tile {
    int inner;
    const float *a;
    ptrdiff_t a_row, a_inner;
    const float *panel; // [inner][TILE_COLUMNS]
    float *c;           // TILE_COLUMNS wide
    ptrdiff_t c_row;
} tile;

/// c += a panel of `rows` rows, which is constant where this is inlined.
EXEC_CPU_INLINE void multiply_tile(const tile *at, int rows)
{
    lanes left[TILE_ROWS], right[TILE_ROWS];
#pragma GCC unroll 6
    for (int row = 0; row < rows; row++) {
        left[row] = *(const lanes *)(at->c + row * at->c_row) + 0.0F;
        right[row] = *(const lanes *)(at->c + row * at->c_row + HALF) + 0.0F;
    }
    const float *a = at->a;
    const float *panel = at->panel;
    for (int k = 0; k < at->inner; k++, a += at->a_inner, panel += TILE_COLUMNS) {
        const lanes b_left = *(const lanes *)panel;
        const lanes b_right = *(const lanes *)(panel + HALF);
#pragma GCC unroll 6
        for (int row = 0; row < rows; row++) {
            const float factor = a[row * at->a_row];
            left[row] += factor * b_left;
            right[row] += factor * b_right;
        }
    }
#pragma GCC unroll 6
    for (int row = 0; row < rows; row++) {
        *(lanes *)(at->c + row * at->c_row) = left[row];
        *(lanes *)(at->c + row * at->c_row + HALF) = right[row];
    }
}

EXEC_CPU_INLINE void multiply_rows(const tile *at, int rows)
{
    switch (rows) {
    case 1:
        multiply_tile(at, 1);
        return;
    case 2:
        multiply_tile(at, 2);
        return;
    case 3:
        multiply_tile(at, 3);
        return;
    case 4:
        multiply_tile(at, 4);
        return;
    case 5:
        multiply_tile(at, 5);
        return;
    default:
        multiply_tile(at, TILE_ROWS);
        return;
    }
}

EXEC_CPU_WIDE static void multiply_rows_wide(const tile *at, int rows)
{
    multiply_rows(at, rows);
}

/// multiply_tile with TALL_TILE_ROWS rows, each in one register.
EXEC_CPU_WIDEST static void multiply_tall_tile(const tile *at)
{
    wide_lanes sum[TALL_TILE_ROWS];
#pragma GCC unroll 12
    for (int row = 0; row < TALL_TILE_ROWS; row++) {
        sum[row] = *(const wide_lanes *)(at->c + row * at->c_row) + 0.0F;
    }
    const float *a = at->a;
    const float *panel = at->panel;
    for (int k = 0; k < at->inner; k++, a += at->a_inner, panel += TILE_COLUMNS) {
        const wide_lanes b = *(const wide_lanes *)panel;
#pragma GCC unroll 12
        for (int row = 0; row < TALL_TILE_ROWS; row++) {
            sum[row] += a[row * at->a_row] * b;
        }
    }
#pragma GCC unroll 12
    for (int row = 0; row < TALL_TILE_ROWS; row++) {
        *(wide_lanes *)(at->c + row * at->c_row) = sum[row];
    }
}

/// Copies columns of b from element (first, column) on, after each other per inner index, filled
/// up with zeros.
static void pack(const exec_cpu_product *product, int first, int inner, int column, int columns,
                 float *panel)
{
    const float *from = product->b + first * product->b_inner + column * product->b_column;
    if (product->b_column == 1 && columns == TILE_COLUMNS) {
        for (int k = 0; k < inner; k++) {
            memcpy(panel + k * TILE_COLUMNS, from + k * product->b_inner,
                   TILE_COLUMNS * sizeof *panel);
        }
        return;
    }
    if (columns < TILE_COLUMNS) {
        memset(panel, 0, (size_t)inner * TILE_COLUMNS * sizeof *panel);
    }
    for (int j = 0; j < columns; j++) {
        const float *source = from + j * product->b_column;
        for (int k = 0; k < inner; k++) {
            panel[k * TILE_COLUMNS + j] = source[k * product->b_inner];
        }
    }
}

static void multiply_at(const exec_cpu *cpu, const tile *at, int rows)
{
    if (rows == TALL_TILE_ROWS) {
        multiply_tall_tile(at);
    } else if (cpu->is_wide) {
        multiply_rows_wide(at, rows);
    } else {
        multiply_rows(at, rows);
    }
}

/// A tile that is less than TILE_COLUMNS wide is computed beside c.
static void multiply_at_edge(const exec_cpu *cpu, tile *at, int rows, int columns)
{
    float edge[TALL_TILE_ROWS * TILE_COLUMNS] = {0};
    float *c = at->c;
    const ptrdiff_t c_row = at->c_row;
    for (int row = 0; row < rows; row++) {
        memcpy(edge + row * TILE_COLUMNS, c + row * c_row, (size_t)columns * sizeof *edge);
    }
    at->c = edge;
    at->c_row = TILE_COLUMNS;
    multiply_at(cpu, at, rows);
    for (int row = 0; row < rows; row++) {
        memcpy(c + row * c_row, edge + row * TILE_COLUMNS, (size_t)columns * sizeof *edge);
    }
}

/// Rows of the tile that begins where `rest` rows are left.
static int tile_rows(const exec_cpu *cpu, int rest)
{
    if (rest >= TALL_TILE_ROWS && cpu->is_widest) return TALL_TILE_ROWS;
    return rest < TILE_ROWS ? rest : TILE_ROWS;
}

/// All rows of c in the columns of the panel.
static void multiply_panel(const exec_cpu *cpu, const exec_cpu_product *product, int first,
                           int inner, int column, int columns)
{
    int row = 0;
    while (row < product->rows) {
        const int rows = tile_rows(cpu, product->rows - row);
        tile at = {.inner = inner,
                   .a = product->a + row * product->a_row + first * product->a_inner,
                   .a_row = product->a_row,
                   .a_inner = product->a_inner,
                   .panel = cpu->panel,
                   .c = product->c + row * product->c_row + column,
                   .c_row = product->c_row};
        if (columns == TILE_COLUMNS) {
            multiply_at(cpu, &at, rows);
        } else {
            multiply_at_edge(cpu, &at, rows, columns);
        }
        row += rows;
    }
}

void exec_cpu_multiply(exec_cpu *cpu, const exec_cpu_product *product)
{
    if (!product->accumulates) {
        for (int row = 0; row < product->rows; row++) {
            memset(product->c + row * product->c_row, 0,
                   (size_t)product->columns * sizeof *product->c);
        }
    }
    for (int first = 0; first < product->inner; first += EXEC_CPU_PANEL_INNER) {
        const int rest = product->inner - first;
        const int inner = rest < EXEC_CPU_PANEL_INNER ? rest : EXEC_CPU_PANEL_INNER;
        for (int column = 0; column < product->columns; column += TILE_COLUMNS) {
            const int left = product->columns - column;
            const int columns = left < TILE_COLUMNS ? left : TILE_COLUMNS;
            pack(product, first, inner, column, columns, cpu->panel);
            multiply_panel(cpu, product, first, inner, column, columns);
        }
    }
}

void exec_cpu_matmul(exec_kernels *kernels, const exec_matmul *shape, const void *a, const void *b,
                     void *c)
{
    const exec_cpu_product product = {
        .rows = shape->rows,
        .columns = shape->columns,
        .inner = shape->inner,
        .a = a,
        .a_row = shape->transposes_a ? 1 : shape->inner,
        .a_inner = shape->transposes_a ? shape->rows : 1,
        .b = b,
        .b_inner = shape->transposes_b ? 1 : shape->columns,
        .b_column = shape->transposes_b ? shape->inner : 1,
        .c = c,
        .c_row = shape->columns,
        .accumulates = shape->accumulates,
    };
    exec_cpu_multiply((exec_cpu *)kernels, &product);
}
