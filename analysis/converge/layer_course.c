#include "analysis/converge/layer_course.h"

#include "traces/store/catalog.h"
#include "traces/store/reader.h"

#include <inttypes.h>

/// What is read sample by sample; arrays grow in the arena.
typedef struct course_reading {
    trace_reader *reader;
    const trace_info *info;
    const char *path;
    arena *memory;
    int sample_count;
    int *iteration;   // [sample_count]
    int64_t *time_ns; // [sample_count][layer_count]
} course_reading;

static status count_samples(course_reading *reading, int first, int last, error_message *err)
{
    int sample = first - 1;
    TRY(trace_reader_next_sample(reading->reader, sample, &sample, err));
    while (sample >= 0 && sample <= last) {
        reading->sample_count++;
        TRY(trace_reader_next_sample(reading->reader, sample, &sample, err));
    }
    if (reading->sample_count >= 2) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: trace '%s': drift needs two samples in iterations %d:%d, not %d; it has "
                     "them from %" PRId64 " to %" PRId64,
                     reading->path, reading->info->name, first, last, reading->sample_count,
                     reading->info->first_iteration, reading->info->last_iteration);
}

static status read_sample(course_reading *reading, int iteration, int64_t *time_ns,
                          error_message *err)
{
    bal_layer_costs costs;
    bool changed = false;
    int64_t total = 0;
    TRY(trace_reader_costs_at(reading->reader, iteration, &costs, &changed, err));
    for (int layer = 0; layer < costs.layer_count; layer++) {
        time_ns[layer] = costs.forward_ns[layer] + costs.backward_input_ns[layer] +
                         costs.backward_weight_ns[layer];
        total += time_ns[layer];
    }
    if (total > 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: iteration %d of trace '%s' takes no time at all",
                     reading->path, iteration, reading->info->name);
}

static status read_samples(course_reading *reading, int first, int layer_count, error_message *err)
{
    const int64_t count = (int64_t)reading->sample_count * layer_count;
    if (count > ANA_COURSE_TIMES_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%s: %d samples of %d layers are more than %d times; choose a range of "
                         "--iterations",
                         reading->path, reading->sample_count, layer_count, ANA_COURSE_TIMES_MAX);
    }
    reading->iteration =
        arena_array(reading->memory, (size_t)reading->sample_count, sizeof *reading->iteration);
    reading->time_ns = arena_array(reading->memory, (size_t)count, sizeof *reading->time_ns);
    int iteration = first - 1;
    for (int sample = 0; sample < reading->sample_count; sample++) {
        TRY(trace_reader_next_sample(reading->reader, iteration, &iteration, err));
        reading->iteration[sample] = iteration;
        TRY(read_sample(reading, iteration, &reading->time_ns[(int64_t)sample * layer_count], err));
    }
    return STATUS_OK;
}

static status read_course(course_reading *reading, int first, int last, ana_layer_course *course,
                          error_message *err)
{
    TRY(count_samples(reading, first, last, err));
    const int layer_count = trace_reader_source(reading->reader).layer_count;
    TRY(read_samples(reading, first, layer_count, err));
    *course = (ana_layer_course){.layer_count = layer_count,
                                 .sample_count = reading->sample_count,
                                 .iteration = reading->iteration,
                                 .time_ns = reading->time_ns};
    return STATUS_OK;
}

status ana_layer_course_read(trace_store *store, const char *trace, int first, int last,
                             arena *memory, ana_layer_course *course, error_message *err)
{
    trace_info info;
    course_reading reading = {.info = &info, .path = trace_store_path(store), .memory = memory};
    TRY(trace_find(store, trace, memory, &info, err));
    TRY(trace_reader_open(store, info.trace_id, TRACE_COLUMNS_MEAN, &reading.reader, err));
    const status result = read_course(&reading, first, last, course, err);
    trace_reader_close(reading.reader);
    return result;
}
