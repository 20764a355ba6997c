/// What Llama's blocks have beside GPT-2's: rotary positions, shared keys and values, gated units.
#include "exec/kernels/kernels_cpu_row.h"

/// head [head_width] to `to`, rotated by angles, or by minus these.
static void rotate(const float *head, const float *rotation, int head_width, float sign, float *to)
{
    const int half = head_width / 2;
    for (int pair = 0; pair < half; pair++) {
        const float cosine = rotation[2 * pair];
        const float sine = sign * rotation[2 * pair + 1];
        const float first = head[pair];
        const float second = head[pair + half];
        to[pair] = first * cosine - second * sine;
        to[pair + half] = second * cosine + first * sine;
    }
}

/// The angles of a row; NULL: it is not rotated.
static const float *rotation_of(const exec_heads *heads, int row)
{
    if (heads->rotation == NULL) return NULL;
    const int position = (heads->row == NULL ? row : heads->row[row]) % heads->sequence_length;
    return heads->rotation + (ptrdiff_t)position * heads->head_width;
}

void exec_cpu_spread_heads(exec_kernels *kernels, const exec_heads *heads, const void *from,
                           int rows, void *qkv)
{
    (void)kernels;
    const int width = heads->head_width;
    const int group = heads->head_count / heads->kv_head_count;
    const int from_count = heads->head_count + 2 * heads->kv_head_count;
    for (int row = 0; row < rows; row++) {
        const float *rotation = rotation_of(heads, row);
        const float *compact = (const float *)from + (ptrdiff_t)row * from_count * width;
        float *to = (float *)qkv + (ptrdiff_t)row * 3 * heads->head_count * width;
        for (int head = 0; head < 3 * heads->head_count; head++, to += width) {
            const int shared = heads->head_count + (head - heads->head_count) / group;
            const float *source = compact + (head < heads->head_count ? head : shared) * width;
            if (rotation != NULL && head < 2 * heads->head_count) {
                rotate(source, rotation, width, 1, to);
            } else {
                memcpy(to, source, (size_t)width * sizeof *to);
            }
        }
    }
}

void exec_cpu_spread_heads_input(exec_kernels *kernels, const exec_heads *heads,
                                 const void *qkv_gradient, int rows, void *gradient)
{
    const int width = heads->head_width;
    const int group = heads->head_count / heads->kv_head_count;
    const int to_count = heads->head_count + 2 * heads->kv_head_count;
    float *sum = exec_cpu_scratch((exec_cpu *)kernels, (size_t)width);
    for (int row = 0; row < rows; row++) {
        const float *rotation = rotation_of(heads, row);
        const float *from =
            (const float *)qkv_gradient + (ptrdiff_t)row * 3 * heads->head_count * width;
        float *to = (float *)gradient + (ptrdiff_t)row * to_count * width;
        for (int head = 0; head < to_count; head++, to += width) {
            const int served = head < heads->head_count ? 1 : group;
            memcpy(sum, from, (size_t)width * sizeof *sum);
            from += width;
            for (int other = 1; other < served; other++, from += width) {
                exec_cpu_add_floats(kernels, sum, from, (size_t)width);
            }
            if (rotation != NULL && head < heads->head_count + heads->kv_head_count) {
                rotate(sum, rotation, width, -1, to);
            } else {
                memcpy(to, sum, (size_t)width * sizeof *to);
            }
        }
    }
}

EXEC_CPU_INLINE void swiglu(const float *gate, const float *up, int width, float *output)
{
    for (int column = 0; column < width; column++) {
        const float x = gate[column];
        output[column] = x / (1.0F + exec_cpu_exp(-x)) * up[column];
    }
}

EXEC_CPU_WIDE static void swiglu_wide(const float *gate, const float *up, int width, float *output)
{
    swiglu(gate, up, width, output);
}

void exec_cpu_swiglu(exec_kernels *kernels, const void *input, int rows, int width, void *output)
{
    const bool is_wide = ((exec_cpu *)kernels)->is_wide;
    for (int row = 0; row < rows; row++) {
        const float *gate = (const float *)input + (ptrdiff_t)row * 2 * width;
        float *to = (float *)output + (ptrdiff_t)row * width;
        (is_wide ? swiglu_wide : swiglu)(gate, gate + width, width, to);
    }
}

/// With s = 1 / (1 + exp(-x)): silu(x) = x s, silu'(x) = s (1 + x (1 - s)). to [2 * width].
EXEC_CPU_INLINE void swiglu_input(const float *gate, const float *given, int width, float *to)
{
    const float *up = gate + width;
    for (int column = 0; column < width; column++) {
        const float x = gate[column];
        const float s = 1.0F / (1.0F + exec_cpu_exp(-x));
        to[column] = given[column] * up[column] * (s * (1.0F + x * (1.0F - s)));
        to[width + column] = given[column] * (x * s);
    }
}

EXEC_CPU_WIDE static void swiglu_input_wide(const float *gate, const float *given, int width,
                                            float *to)
{
    swiglu_input(gate, given, width, to);
}

void exec_cpu_swiglu_input(exec_kernels *kernels, const void *input, const void *output_gradient,
                           int rows, int width, void *input_gradient)
{
    const bool is_wide = ((exec_cpu *)kernels)->is_wide;
    for (int row = 0; row < rows; row++) {
        const float *gate = (const float *)input + (ptrdiff_t)row * 2 * width;
        const float *given = (const float *)output_gradient + (ptrdiff_t)row * width;
        float *to = (float *)input_gradient + (ptrdiff_t)row * 2 * width;
        (is_wide ? swiglu_input_wide : swiglu_input)(gate, given, width, to);
    }
}
