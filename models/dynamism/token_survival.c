#include "models/dynamism/token_survival.h"

#include "models/dynamism/random_draw.h"

#include <assert.h>

enum { EXPONENT_MAX = 700 };

double model_exit_keep(double initial, double final, double time_constant, int interval,
                       int iteration)
{
    assert(time_constant > 0 && interval >= 1 && iteration >= 0);
    const int step = iteration - iteration % interval;
    const double exponent = step / time_constant;
    const double confident = exponent < EXPONENT_MAX ? model_portable_exp(-exponent) : 0;
    return final + (initial - final) * confident;
}

void model_token_shares(double keep, const bool *has_exit, int layer_count, double *share)
{
    assert(keep >= 0 && keep <= 1);
    double reaching = 1;
    double due = 1; // what would be left if every layer from the first exit on had one
    bool has_begun = false;
    for (int layer = 0; layer < layer_count; layer++) {
        share[layer] = reaching;
        has_begun = has_begun || has_exit[layer];
        if (has_begun) due *= keep;
        if (has_exit[layer]) reaching = due;
    }
}
