#include "cli/run/run_device.h"

#include "cli/run/run_model.h"

#include <string.h>

static exec_backend backend_of(const cli_run_request *request)
{
    if (strcmp(request->device, "cuda") == 0) {
        return request->is_bf16 ? EXEC_BACKEND_CUDA_BF16 : EXEC_BACKEND_CUDA_FP32;
    }
    return request->uses_blas ? EXEC_BACKEND_CPU_BLAS : EXEC_BACKEND_CPU;
}

status cli_run_device_init(cli_run_device *device, const cli_run_request *request,
                           const cli_run_study *opened, arena *memory, error_message *err)
{
    const ana_setup *setup = &opened->setup;
    const char *text = NULL;
    device->learns = request->learns;
    device->layer_count = setup->source.layer_count;
    if (!request->learns) return STATUS_OK;
    TRY(cli_run_model_read(request, opened, memory, &device->model, &text, err));
    TRY(exec_training_text_read(text, device->model.sequence_length, &device->text, err));
    const bool shares_gpu = strcmp(request->transport, "local") == 0;
    const bool takes_device_memory = strcmp(request->transport, "mpi") != 0;
    const int ranks = setup->machine.rank_count * opened->study.parallel.data;
    device->layer_count = exec_model_layer_count(&device->model);
    device->options = (exec_training_device){
        .model = &device->model,
        .text = &device->text,
        .backend = backend_of(request),
        .replica_rank_count = setup->machine.rank_count,
        .gpu_place_count = shares_gpu ? ranks : 1,
        .hands_over_memory = takes_device_memory,
        .runs_ahead = request->clock != EXEC_CLOCK_NOMINAL,
        .counts_cpu_time = request->clock == EXEC_CLOCK_NOMINAL,
    };
    return STATUS_OK;
}

void cli_run_device_free(cli_run_device *device)
{
    exec_training_text_free(&device->text);
}

static status create(void *context, int world_rank, exec_device **out, error_message *err)
{
    const cli_run_device *device = context;
    if (!device->learns) return exec_device_timed_create(device->layer_count, out, err);
    return exec_training_device_create(&device->options, world_rank, out, err);
}

exec_device_maker cli_run_device_maker(cli_run_device *device)
{
    return (exec_device_maker){.context = device, .create = create};
}
