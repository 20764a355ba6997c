#include "balance/control/forecast.h"

#include <stdbool.h>

static const double fast_factor = 0.3;
static const double slow_factor = 0.05;
static const double level_factor = 0.5;
static const double slope_factor = 0.3;
static const double damping = 0.98;
static const double error_memory = 0.95;
static const double jump_limit = 5.0;  // times the usual error
static const double jump_weight = 4.0; // of the errors that tell what is usual

void bal_forecast_init(bal_forecast *forecast, int layer_count, arena *memory)
{
    const size_t count = (size_t)layer_count;
    bal_forecast made = {.layer_count = layer_count};
    made.layers = arena_array(memory, count, sizeof *made.layers);
    made.whole_ns = arena_array(memory, count, sizeof *made.whole_ns);
    *forecast = made;
}

static void start_layer(bal_layer_forecast *layer, double time_ns)
{
    for (int method = 0; method < BAL_FORECAST_METHODS; method++) {
        layer->next_ns[method] = time_ns;
    }
    layer->level_ns = time_ns;
    layer->slope_ns = 0;
    layer->seen_count = 1;
}

static int method_of(const bal_layer_forecast *layer)
{
    int best = 0;
    for (int method = 1; method < BAL_FORECAST_METHODS; method++) {
        if (layer->error_ns[method] < layer->error_ns[best]) best = method;
    }
    return best;
}

static double distance(double left, double right)
{
    return left < right ? right - left : left - right;
}

/// Whether the value is much further from its forecast than values were so far.
static bool is_jump(const bal_layer_forecast *layer, double time_ns)
{
    const int method = method_of(layer);
    const double usual_ns = layer->error_ns[method] / layer->error_weight;
    return layer->error_weight >= jump_weight &&
           distance(time_ns, layer->next_ns[method]) > jump_limit * usual_ns;
}

static void step_layer(bal_layer_forecast *layer, double time_ns)
{
    const bool jumps = is_jump(layer, time_ns);
    layer->error_weight = error_memory * layer->error_weight + 1;
    for (int method = 0; method < BAL_FORECAST_METHODS; method++) {
        layer->error_ns[method] *= error_memory;
        layer->error_ns[method] += distance(time_ns, layer->next_ns[method]);
    }
    if (jumps) {
        start_layer(layer, time_ns);
        return;
    }
    const double plain = 1.0 / (layer->seen_count + 1); // means of few values are plain means
    const double fast = plain > fast_factor ? plain : fast_factor;
    const double slow = plain > slow_factor ? plain : slow_factor;
    layer->seen_count++;
    layer->next_ns[0] = time_ns;
    layer->next_ns[1] += fast * (time_ns - layer->next_ns[1]);
    layer->next_ns[2] += slow * (time_ns - layer->next_ns[2]);
    const double expected = layer->level_ns + damping * layer->slope_ns;
    double level = expected + level_factor * (time_ns - expected);
    if (level < 0) level = 0;
    layer->slope_ns = damping * layer->slope_ns +
                      slope_factor * (level - layer->level_ns - damping * layer->slope_ns);
    layer->level_ns = level;
    // A trend that would turn a time negative, or double it in one step, is none.
    double trend = level + damping * layer->slope_ns;
    if (trend < 0) trend = 0;
    if (trend > 2 * level) trend = 2 * level;
    layer->next_ns[3] = trend;
}

void bal_forecast_observe(bal_forecast *forecast, const bal_layer_times *times)
{
    for (int layer = 0; layer < forecast->layer_count; layer++) {
        const double time_ns = (double)bal_layer_time_ns(times, layer);
        if (forecast->layers[layer].seen_count == 0) {
            start_layer(&forecast->layers[layer], time_ns);
        } else {
            step_layer(&forecast->layers[layer], time_ns);
        }
    }
}

int bal_forecast_method(const bal_forecast *forecast, int layer)
{
    return method_of(&forecast->layers[layer]);
}

void bal_forecast_fill(const bal_forecast *forecast, const bal_layer_times *times,
                       bal_layer_times *out)
{
    for (int layer = 0; layer < forecast->layer_count; layer++) {
        const int method = bal_forecast_method(forecast, layer);
        forecast->whole_ns[layer] = forecast->layers[layer].next_ns[method];
    }
    bal_layer_times_split(forecast->whole_ns, times, out);
}
