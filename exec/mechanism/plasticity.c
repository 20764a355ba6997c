#include "exec/mechanism/plasticity.h"

#include <math.h>

bool exec_freezing_decides(const exec_freezing_options *options, int iteration)
{
    return (iteration + 1) % options->interval == 0;
}

double exec_parameter_movement(const float *now, const float *before, int64_t count)
{
    double moved = 0;
    double size = 0;
    for (int64_t at = 0; at < count; at++) {
        const double value = (double)now[at];
        const double change = value - (double)before[at];
        moved += change * change;
        size += value * value;
    }
    return size > 0 ? sqrt(moved / size) : 0;
}

void exec_plasticity_observe(exec_plasticity *plasticity, double movement, bool is_first,
                             const exec_freezing_options *options)
{
    plasticity->movement =
        plasticity->decision_count == 0 ? movement : (plasticity->movement + movement) / 2;
    plasticity->decision_count++;
    if (plasticity->movement > plasticity->largest) plasticity->largest = plasticity->movement;
    const bool is_calm = plasticity->movement < options->tolerance * plasticity->largest;
    plasticity->calm_count = is_calm && is_first ? plasticity->calm_count + 1 : 0;
}

int exec_frozen_layer_count(const int64_t *is_frozen, const int64_t *is_calm, int layer_count,
                            const exec_freezing_options *options)
{
    const int most = (int)(options->largest_share * layer_count);
    int count = 0;
    while (count < layer_count && is_frozen[count] != 0) {
        count++;
    }
    while (count < most && is_calm[count] != 0) {
        count++;
    }
    return count;
}
