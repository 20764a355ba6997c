/// How the emulated GPUs behave: what a test sets, and what the emulated libraries share.
///
/// Nothing that is enqueued runs until a thread of the host waits for something, or until the dice
/// of the seed say so; then heads of the streams run in an order that the seed draws. So a copy
/// reads its source as late as a GPU might, and what nobody waits for may come last.
#pragma once

#include "cuda_runtime_api.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpu_emulation {
    uint64_t seed;
    int device_count;
    int eagerness;       // in 100: how often a call lets the devices get on
    size_t eager_bytes;  // NCCL: what is longer is sent only when its receiver is there
    int failing_task;    // the number, from 1, of the kernel that fails for good; 0: none
    bool guards_memory;  // the host cannot touch device memory: only kernels and copies can
    bool repeats_gpu;    // NCCL: takes two ranks to be on one GPU
    int failing_message; // NCCL: the number, from 1, of the kernel with which its communicator
                         // fails on this rank: it says so when asked, and its kernels wait until it
                         // is aborted; 0: none
} gpu_emulation;

/// Before any other call: how all devices behave from now on.
void gpu_emulation_begin(const gpu_emulation *behaviour);

/// Kernels and copies that have run since then.
int gpu_emulation_task_count(void);
/// Kernels of NCCL that have begun since then.
int gpu_emulation_message_count(void);
/// How often this thread of the host has waited for a device since then.
int gpu_emulation_wait_count(void);
/// Enqueues work(argument) with a copy of the argument.
cudaError_t gpu_emulation_enqueue(cudaStream_t stream, void (*work)(const void *argument),
                                  const void *argument, size_t bytes);
/// What all streams have still to do.
int gpu_emulation_queued_count(void);

#ifdef __cplusplus
}

#include <functional>

namespace gpu
{
/// What a stream does next; false: it cannot yet. It runs with the lock held.
typedef std::function<bool()> task;

extern gpu_emulation behaviour;
extern int message_count; // with the lock held

/// Number in [0, below), by the seed. With the lock held.
unsigned draw(unsigned below);

/// With the lock held.
void push(cudaStream_t stream, task next);
/// Lets whoever runs touch guarded memory, or nobody. With the lock held.
void open_memory(bool is_open);
/// A kernel or a copy: what may fail, and is not run on a device that has failed.
cudaError_t enqueue_work(cudaStream_t stream, std::function<void()> work);

/// The shared memory beyond the usual that a kernel may be launched with; 0 until it is told.
void allow_shared_bytes(const void *kernel, size_t bytes);
size_t allowed_shared_bytes(const void *kernel);

/// Whether the stream's device has failed. With the lock held.
bool has_failed(cudaStream_t stream);

/// Runs heads of streams until something holds, which is asked with the lock held.
void drive_until(const std::function<bool()> &holds);
/// Runs some heads of streams, if there are any that can.
void drive_some();

/// Runs what changes the libraries' own state, with the lock held; waiting threads look again.
void change(const std::function<void()> &what);
} // namespace gpu
#endif
