/// In place of the kernels' files where only streams are tested, thousands of runs of them:
/// operations of the plain C backend, at the time at which a GPU would run them. Their bits are
/// that backend's.

#include "emulation.h"

extern "C" {
#include "exec/cuda/kernels_cuda.h"
}

#include <string.h>
#include <tuple>
#include <type_traits>
#include <vector>

static exec_kernels *cpu()
{
    static exec_kernels *const opened = [] {
        exec_kernels *kernels = nullptr;
        if (exec_kernels_cpu_open(&kernels) != STATUS_OK) abort();
        return kernels;
    }();
    return opened;
}

static void later(exec_kernels *kernels, std::function<void()> operation)
{
    const cudaStream_t stream = (cudaStream_t)((const exec_cuda_queue *)kernels)->stream;
    exec_cuda_note(kernels, (int)gpu::enqueue_work(stream, std::move(operation)), "an operation");
}

/// Rows, or elements, of an operation that is over so many, as limit_rows has them when it runs:
/// its first count.
struct limited {
    const int *extent;
    int most;
    bool is_first = true;

    explicit limited(exec_kernels *kernels)
        : extent(((const exec_cuda_queue *)kernels)->extent),
          most(((const exec_cuda_queue *)kernels)->most)
    {
    }

    template <typename Argument> Argument of(Argument argument)
    {
        if constexpr (std::is_same_v<Argument, int> || std::is_same_v<Argument, size_t>) {
            if (extent != nullptr && is_first) argument = argument / most * extent[1];
            is_first = false;
        }
        return argument;
    }
};

template <auto ROW> struct quick;

/// A row of the table whose arguments are numbers and device memory.
template <typename... Arguments, void (*exec_kernel_table::*ROW)(exec_kernels *, Arguments...)>
struct quick<ROW> {
    static void enqueue(exec_kernels *kernels, Arguments... arguments)
    {
        later(kernels, [=] { (cpu()->table->*ROW)(cpu(), arguments...); });
    }

    /// Of an operation that limit_rows concerns.
    static void over_rows(exec_kernels *kernels, Arguments... arguments)
    {
        later(kernels, [=, limit = limited(kernels)]() mutable {
            std::tuple<exec_kernels *, Arguments...> all{cpu(), limit.of(arguments)...};
            std::apply(cpu()->table->*ROW, all);
        });
    }
};

static void enqueue_adamw(exec_kernels *kernels, const exec_adamw *options, float *master,
                          float *moment1, float *moment2, const float *gradient,
                          const uint8_t *keep, void *weights, size_t count)
{
    later(kernels, [=, kept = *options] {
        cpu()->table->adamw(cpu(), &kept, master, moment1, moment2, gradient, keep, weights, count);
    });
}

int exec_cuda_square_parts(exec_kernels *kernels, const float *values, size_t count,
                           double *partial)
{
    later(kernels, [=] { *partial = cpu()->table->sum_of_squares(cpu(), values, count); });
    return 1;
}

/// A shape of attention, whose first rows the caller may change after the call.
struct kept_attention {
    exec_attention shape;
    std::vector<int> first_row;
    exec_cuda_lists lists;

    explicit kept_attention(const exec_attention &asked) : shape(asked), lists()
    {
        first_row.assign(asked.first_row, asked.first_row + asked.sequence_count + 1);
    }

    exec_attention attention() const
    {
        exec_attention made = shape;
        made.first_row = shape.live_first_row != nullptr ? shape.live_first_row : first_row.data();
        made.block_count = 0;
        for (int sequence = 0; sequence < shape.sequence_count; sequence++) {
            made.block_count += exec_blocks_of(&made, sequence);
        }
        return made;
    }

    /// Whether the device's dense lists are those of the shape, when they are used.
    bool are_there() const
    {
        if (shape.first_entry != nullptr || shape.live_first_row != nullptr) return true;
        if (lists.block_count == 0) return true;
        const exec_cuda_block &last = lists.block[lists.block_count - 1];
        return lists.block[0].first_row == first_row[0] &&
               last.first_row + last.row_count == first_row.back();
    }
};

static void enqueue_attention(exec_kernels *kernels, const exec_attention *shape, const void *qkv,
                              void *output, float *log_sum)
{
    kept_attention kept(*shape);
    if (!exec_cuda_find_lists(kernels, shape, &kept.lists)) return;
    later(kernels, [=] {
        const exec_attention attention = kept.attention();
        if (kept.are_there()) cpu()->table->attention(cpu(), &attention, qkv, output, log_sum);
    });
}

static void enqueue_attention_input(exec_kernels *kernels, const exec_attention *shape,
                                    const void *qkv, const void *output, const float *log_sum,
                                    const void *output_gradient, void *qkv_gradient)
{
    kept_attention kept(*shape);
    const size_t pairs = (size_t)shape->first_row[shape->sequence_count] * shape->head_count;
    if (!exec_cuda_find_lists(kernels, shape, &kept.lists)) return;
    float *row_dot = (float *)exec_cuda_scratch(kernels, pairs * sizeof *row_dot);
    later(kernels, [=] { memset(row_dot, 0xff, pairs * sizeof *row_dot); });
    later(kernels, [=] {
        const exec_attention attention = kept.attention();
        if (!kept.are_there()) return;
        cpu()->table->attention_input(cpu(), &attention, qkv, output, log_sum, output_gradient,
                                      qkv_gradient);
    });
}

void exec_cuda_list_chosen(exec_kernels *, const exec_cuda_lists *, const exec_attention *, int,
                           exec_cuda_block *, int *)
{
}

void exec_cuda_list_live(exec_kernels *, const exec_cuda_lists *, const exec_attention *,
                         exec_cuda_block *)
{
}

static void fill_blocks(exec_kernel_table *table)
{
    table->choose_blocks = [](exec_kernels *kernels, const exec_attention *shape,
                              const exec_block_choice *choice, const float *projection) {
        const kept_attention kept(*shape);
        later(kernels, [=, chosen = *choice] {
            const exec_attention attention = kept.attention();
            cpu()->table->choose_blocks(cpu(), &attention, &chosen, projection);
        });
    };
}

static void fill_choice(exec_kernel_table *table)
{
    table->choose_rows = [](exec_kernels *kernels, const exec_chosen *chosen, const float *score) {
        later(kernels, [=, kept = *chosen] { cpu()->table->choose_rows(cpu(), &kept, score); });
    };
    table->gate_input = quick<&exec_kernel_table::gate_input>::enqueue;
    table->find_live = [](exec_kernels *kernels, const exec_live *live) {
        later(kernels, [=, kept = *live] { cpu()->table->find_live(cpu(), &kept); });
    };
    table->leave_rows = [](exec_kernels *kernels, const exec_leaving *leaving, int rows) {
        later(kernels, [=, kept = *leaving, limit = limited(kernels)]() mutable {
            cpu()->table->leave_rows(cpu(), &kept, limit.of(rows));
        });
    };
    table->judge_rows = [](exec_kernels *kernels, const exec_compared *states, double cosine,
                           const float *bias, float scale, int rows, float *confidence,
                           float *gradient, float *bias_gradient) {
        later(kernels, [=, kept = *states, limit = limited(kernels)]() mutable {
            cpu()->table->judge_rows(cpu(), &kept, cosine, bias, scale, limit.of(rows), confidence,
                                     gradient, bias_gradient);
        });
    };
}

static void fill_elements(exec_kernel_table *table)
{
    table->copy = quick<&exec_kernel_table::copy>::over_rows;
    table->to_values = quick<&exec_kernel_table::to_values>::enqueue;
    table->add = quick<&exec_kernel_table::add>::over_rows;
    table->add_floats = quick<&exec_kernel_table::add_floats>::enqueue;
    table->gelu = quick<&exec_kernel_table::gelu>::over_rows;
    table->gelu_input = quick<&exec_kernel_table::gelu_input>::over_rows;
    table->adamw = enqueue_adamw;
    table->mask = quick<&exec_kernel_table::mask>::enqueue;
}

static void fill_groups(exec_kernel_table *table)
{
    table->group_matmul = [](exec_kernels *kernels, const exec_matmul *shape,
                             const exec_groups *groups, const void *a, const void *b, void *c) {
        later(kernels, [=, kept = *shape, rows = *groups] {
            cpu()->table->group_matmul(cpu(), &kept, &rows, a, b, c);
        });
    };
}

static void fill_routing(exec_kernel_table *table)
{
    table->route = [](exec_kernels *kernels, const exec_routing *routing, const float *logits) {
        later(kernels, [=, kept = *routing] { cpu()->table->route(cpu(), &kept, logits); });
    };
    table->route_input = [](exec_kernels *kernels, const exec_routing *routing,
                            const float *weight_gradient, double balance, void *logits_gradient) {
        later(kernels, [=, kept = *routing] {
            cpu()->table->route_input(cpu(), &kept, weight_gradient, balance, logits_gradient);
        });
    };
}

static void fill_heads(exec_kernel_table *table)
{
    table->swiglu = quick<&exec_kernel_table::swiglu>::over_rows;
    table->swiglu_input = quick<&exec_kernel_table::swiglu_input>::over_rows;
    table->spread_heads = [](exec_kernels *kernels, const exec_heads *heads, const void *from,
                             int rows, void *qkv) {
        later(kernels, [=, kept = *heads, limit = limited(kernels)]() mutable {
            cpu()->table->spread_heads(cpu(), &kept, from, limit.of(rows), qkv);
        });
    };
    table->spread_heads_input = [](exec_kernels *kernels, const exec_heads *heads,
                                   const void *qkv_gradient, int rows, void *gradient) {
        later(kernels, [=, kept = *heads, limit = limited(kernels)]() mutable {
            cpu()->table->spread_heads_input(cpu(), &kept, qkv_gradient, limit.of(rows), gradient);
        });
    };
}

static void fill_rows(exec_kernel_table *table)
{
    table->add_bias = quick<&exec_kernel_table::add_bias>::over_rows;
    table->layer_norm = quick<&exec_kernel_table::layer_norm>::over_rows;
    table->layer_norm_input = quick<&exec_kernel_table::layer_norm_input>::over_rows;
    table->cross_entropy = quick<&exec_kernel_table::cross_entropy>::over_rows;
    table->embed = quick<&exec_kernel_table::embed>::enqueue;
    table->gather_rows = quick<&exec_kernel_table::gather_rows>::over_rows;
    table->scatter_rows = quick<&exec_kernel_table::scatter_rows>::over_rows;
    table->combine_rows = quick<&exec_kernel_table::combine_rows>::enqueue;
    table->scale_rows = quick<&exec_kernel_table::scale_rows>::over_rows;
    table->row_dots = quick<&exec_kernel_table::row_dots>::over_rows;
}

/// The sums ask for scratch memory as the kernels do.
static void fill_columns(exec_kernel_table *table)
{
    table->column_sums = [](exec_kernels *kernels, const void *values, int rows, int columns,
                            float *sum) {
        const size_t bytes = (size_t)rows * (size_t)columns * sizeof *sum;
        void *scratch = exec_cuda_scratch(kernels, bytes);
        later(kernels, [=] { memset(scratch, 0xff, bytes); });
        quick<&exec_kernel_table::column_sums>::over_rows(kernels, values, rows, columns, sum);
    };
    table->layer_norm_weight = quick<&exec_kernel_table::layer_norm_weight>::over_rows;
    table->embed_weight = quick<&exec_kernel_table::embed_weight>::enqueue;
}

static void fill_attention(exec_kernel_table *table)
{
    table->attention = enqueue_attention;
    table->attention_input = enqueue_attention_input;
}

void exec_cuda_fill_kernels(exec_kernel_table *table)
{
    fill_blocks(table);
    fill_choice(table);
    fill_elements(table);
    fill_groups(table);
    fill_routing(table);
    fill_heads(table);
    fill_rows(table);
    fill_columns(table);
    fill_attention(table);
}
