#include "lanes.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

// Stacks lie no power of two apart: their tops would share a few lines of the caches.
enum { LANES_MAX = 1024, WARP = 32, STACK_BYTES = (64 << 10) + 5 * 64 };

/// Where a warp has come to with the operation in progress.
typedef struct warp_meeting {
    lanes_operation *what;
    const void *in[WARP];
    void *out[WARP];
    int come_count;
    unsigned round; // grows when all have come
} warp_meeting;

static struct {
    jmp_buf end;             // of the block, where its last lane goes
    jmp_buf lane[LANES_MAX]; // where a lane that has yielded goes on
    bool is_made[LANES_MAX]; // has a stack, on which it ends block after block
    unsigned char *stacks;   // [LANES_MAX][STACK_BYTES]
    bool has_ended[LANES_MAX];
    unsigned running_count;
    uint64_t event_count; // lanes that have ended, or come to where they wait for others
    unsigned barrier_count, barrier_round;
    bool barrier_value, barrier_result;
    warp_meeting warp[LANES_MAX / WARP];
    unsigned char *shared;
    size_t shared_capacity;
    unsigned order[LANES_MAX]; // in which lanes take turns
    unsigned turn;             // whose it is
    uint64_t events_before;    // the turn of the first
    uint64_t random;
    void (*body)(const void *argument);
    const void *argument;
} machine;

/// Kernels of several stages take turns: there is one machine.
static pthread_mutex_t machine_lock = PTHREAD_MUTEX_INITIALIZER;
lanes_index threadIdx, blockIdx, blockDim, gridDim;
unsigned lanes_block_number;

static void fail(const char *what)
{
    fprintf(stderr, "emulated kernel: %s (block %u, lane %u)\n", what, blockIdx.x, threadIdx.x);
    abort();
}

/// Ends a barrier when all running lanes have come.
static void settle_barrier(void)
{
    if (machine.barrier_count == 0 || machine.barrier_count < machine.running_count) return;
    machine.barrier_result = machine.barrier_value;
    machine.barrier_value = false;
    machine.barrier_count = 0;
    machine.barrier_round++;
}

static void lane_main(void);

/// Goes on with the lane whose turn it is, on its stack. Does not return.
static void go_on(void)
{
    const unsigned lane = machine.order[machine.turn];
    threadIdx.x = lane;
    if (machine.is_made[lane]) _longjmp(machine.lane[lane], 1);
    ucontext_t context;
    if (getcontext(&context) != 0) fail("getcontext failed");
    context.uc_stack.ss_sp = machine.stacks + (size_t)lane * STACK_BYTES;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, lane_main, 0);
    machine.is_made[lane] = true;
    setcontext(&context);
}

/// Lets the next lane go on. Jumps, which unlike switches of contexts do not ask the operating
/// system.
static void yield(void)
{
    const unsigned own = threadIdx.x;
    if (_setjmp(machine.lane[own]) != 0) return;
    if (machine.running_count == 0) _longjmp(machine.end, 1);
    do {
        if (++machine.turn < blockDim.x) continue;
        if (machine.event_count == machine.events_before) fail("lanes wait for ever");
        machine.events_before = machine.event_count;
        machine.turn = 0;
    } while (machine.has_ended[machine.order[machine.turn]]);
    go_on();
}

/// A lane's life: one block after another.
static void lane_main(void)
{
    for (;;) {
        machine.body(machine.argument);
        machine.has_ended[threadIdx.x] = true;
        machine.running_count--;
        machine.event_count++;
        settle_barrier();
        yield();
    }
}

bool lanes_barrier(bool value)
{
    const unsigned round = machine.barrier_round;
    machine.barrier_value |= value;
    machine.barrier_count++;
    machine.event_count++;
    settle_barrier();
    while (machine.barrier_round == round) {
        yield();
    }
    return machine.barrier_result;
}

void lanes_together(lanes_operation *what, const void *in, void *out)
{
    warp_meeting *warp = &machine.warp[threadIdx.x / WARP];
    if (warp->come_count > 0 && warp->what != what) {
        fail("lanes of a warp have come to different operations");
    }
    warp->what = what;
    warp->in[threadIdx.x % WARP] = in;
    warp->out[threadIdx.x % WARP] = out;
    const unsigned round = warp->round;
    machine.event_count++;
    if (++warp->come_count == WARP) {
        what(warp->in, warp->out);
        warp->come_count = 0;
        warp->round++;
    }
    while (warp->round == round) {
        yield();
    }
}

void *lanes_shared(void)
{
    return machine.shared;
}

static void shuffle_lanes(void)
{
    for (unsigned at = 0; at < blockDim.x; at++) {
        machine.random =
            machine.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const unsigned other = (unsigned)(machine.random >> 33) % (at + 1);
        machine.order[at] = machine.order[other];
        machine.order[other] = at;
    }
}

static void begin_block(void)
{
    lanes_block_number++;
    shuffle_lanes();
    memset(machine.has_ended, 0, sizeof machine.has_ended);
    memset(machine.warp, 0, sizeof machine.warp);
    machine.running_count = blockDim.x;
    machine.turn = 0;
    machine.events_before = machine.event_count;
    machine.barrier_count = 0;
    machine.barrier_value = false;
    if (machine.shared != NULL) {
        memset(machine.shared, 0xff, machine.shared_capacity); // NaN where nobody has written
    }
}

static void run_block(void)
{
    begin_block();
    if (_setjmp(machine.end) == 0) go_on();
}

void lanes_run(lanes_index block_count, unsigned lane_count, size_t shared_bytes,
               void (*body)(const void *argument), const void *argument)
{
    pthread_mutex_lock(&machine_lock);
    if (lane_count > LANES_MAX || lane_count % WARP != 0) fail("a block of whole warps is wanted");
    if (machine.stacks == NULL) machine.stacks = malloc((size_t)LANES_MAX * STACK_BYTES);
    if (shared_bytes > machine.shared_capacity) {
        free(machine.shared);
        machine.shared = aligned_alloc(256, (shared_bytes + 255) / 256 * 256);
        machine.shared_capacity = shared_bytes;
    }
    machine.body = body;
    machine.argument = argument;
    gridDim = block_count;
    blockDim = (lanes_index){lane_count, 1, 1};
    for (unsigned y = 0; y < block_count.y; y++) {
        for (unsigned x = 0; x < block_count.x; x++) {
            blockIdx = (lanes_index){x, y, 0};
            run_block();
        }
    }
    pthread_mutex_unlock(&machine_lock);
}
