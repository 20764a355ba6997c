#include "balance/control/change_detector.h"

#include <math.h>
#include <string.h>

void bal_change_detector_init(bal_change_detector *detector, int layer_count, double change_ratio,
                              arena *memory)
{
    int64_t *both = arena_array(memory, (size_t)layer_count * 6, sizeof *both);
    *detector = (bal_change_detector){
        .layer_count = layer_count,
        .change_ratio = change_ratio,
        .reference_ns = both,
        .current_ns = both + (int64_t)layer_count * 3,
    };
}

static int64_t mean_of(const int64_t *row, int count)
{
    int64_t sum = 0;
    for (int column = 0; column < count; column++) {
        sum += row[column];
    }
    return sum / count;
}

static bool layer_has_changed(const int64_t *reference, const int64_t *current, double ratio)
{
    int64_t before = 0;
    int64_t now = 0;
    for (int phase = 0; phase < 3; phase++) {
        if ((reference[phase] == 0) != (current[phase] == 0)) return true;
        before += reference[phase];
        now += current[phase];
    }
    return fabs((double)now - (double)before) > ratio * (double)before;
}

bool bal_change_detector_observe(bal_change_detector *detector, const bal_layer_costs *layers)
{
    const int columns = layers->microbatch_count;
    bool changed = false;
    for (int layer = 0; layer < detector->layer_count; layer++) {
        const int64_t row = (int64_t)layer * columns;
        int64_t *current = detector->current_ns + (int64_t)layer * 3;
        current[0] = mean_of(layers->forward_ns + row, columns);
        current[1] = mean_of(layers->backward_input_ns + row, columns);
        current[2] = mean_of(layers->backward_weight_ns + row, columns);
        changed = changed || layer_has_changed(detector->reference_ns + (int64_t)layer * 3, current,
                                               detector->change_ratio);
    }
    const bool is_first = !detector->has_reference;
    if (changed || is_first) {
        memcpy(detector->reference_ns, detector->current_ns,
               (size_t)detector->layer_count * 3 * sizeof *detector->current_ns);
        detector->has_reference = true;
    }
    return changed && !is_first;
}
