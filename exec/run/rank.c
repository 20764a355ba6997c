#include "exec/run/rank.h"

/// When a message was there.
typedef struct arrival {
    bool is_message;  // false: no message was waited for
    bool was_there;   // when the rank came to the step
    int64_t ready_ns; // by the sender's deadlines
    int64_t here_ns;  // when it had been received
} arrival;

/// What a step has received.
typedef struct receipt {
    exec_payload payload;
    arrival arrived;
} receipt;

/// A rank in the midst of an iteration. Times are ns since the iteration's begin.
typedef struct running {
    const exec_rank_play *play;
    const exec_iteration *iteration;
    exec_rank_times *times;
    int64_t free_ns;           // by its deadlines: end of the op before
    int64_t outside_ns;        // spent in ops and in waits for messages
    receipt second_input;      // of an overlapped pair, whose first op waits for it too
    exec_payload first_output; // of a pair: leaves when the second op ends
} running;

static int64_t now_ns(const running *at)
{
    return exec_endpoint_now_ns(at->play->endpoint) - at->play->iteration_begin_ns;
}

static status sleep_until(const running *at, int64_t until_ns, error_message *err)
{
    exec_endpoint *endpoint = at->play->endpoint;
    return endpoint->transport->sleep_until(endpoint, at->play->iteration_begin_ns + until_ns, err);
}

static uint64_t key_of(const exec_iteration *iteration, const exec_step *step, int stage)
{
    const exec_message_kind kind =
        step->op.kind == OP_FORWARD ? EXEC_MESSAGE_FORWARD : EXEC_MESSAGE_BACKWARD;
    return exec_message_key(kind, iteration->iteration, stage, step->op.microbatch);
}

/// Takes the input of a step from another rank.
static status receive_input(running *at, const exec_step *step, exec_payload *input,
                            arrival *arrived, error_message *err)
{
    const exec_rank_play *play = at->play;
    exec_endpoint *endpoint = play->endpoint;
    const exec_transport *transport = endpoint->transport;
    const int from = play->world_rank[step->wait_place];
    const uint64_t key = key_of(at->iteration, step, step->stage);
    exec_message head;
    const int64_t begin_ns = exec_endpoint_now_ns(endpoint);
    const int64_t capacity = play->device->table->input_place(play->device, step, &input->bytes);
    arrived->is_message = true;
    arrived->was_there = transport->is_there(endpoint, from, key, NULL);
    TRY(transport->receive(endpoint, from, key, &head, input->bytes, capacity, err));
    const int64_t end_ns = exec_endpoint_now_ns(endpoint);
    input->byte_count = head.payload_bytes;
    arrived->ready_ns = head.ready_ns;
    arrived->here_ns = end_ns - play->iteration_begin_ns;
    at->times->message_count++;
    if (arrived->was_there) return STATUS_OK;
    at->outside_ns += end_ns - begin_ns;
    at->times->awaited_count++;
    const int64_t late_ns = arrived->here_ns - head.ready_ns;
    if (late_ns > 0 && play->clock != EXEC_CLOCK_NOMINAL) at->times->latency_ns += late_ns;
    return STATUS_OK;
}

/// What a step needs from another rank, where it needs anything.
static status take_input(running *at, const exec_step *step, receipt *input, error_message *err)
{
    exec_endpoint *endpoint = at->play->endpoint;
    *input = (receipt){0};
    exec_activity_set_op(&endpoint->activity, at->iteration->iteration, step->stage, step->op);
    if (step->wait_place >= 0 && step->wait_place != at->play->program->place) {
        return receive_input(at, step, &input->payload, &input->arrived, err);
    }
    // Else a rank that meets no other would not hear that the run has failed.
    return endpoint->transport->sleep_until(endpoint, 0, err);
}

/// The later of two messages: when both were there.
static arrival later_of(arrival a, arrival b)
{
    if (!a.is_message) return b;
    if (!b.is_message) return a;
    return (arrival){.is_message = true,
                     .was_there = a.was_there && b.was_there,
                     .ready_ns = a.ready_ns > b.ready_ns ? a.ready_ns : b.ready_ns,
                     .here_ns = a.here_ns > b.here_ns ? a.here_ns : b.here_ns};
}

/// When an op begins by deadlines alone.
static int64_t nominal_ns(const running *at, const arrival *arrived)
{
    return at->free_ns > arrived->ready_ns ? at->free_ns : arrived->ready_ns;
}

/// When an op of a modelled device begins. Under the real clock the transfer time of its input is
/// slept for; under the others deadlines take care of it.
static status begin_modelled(running *at, const arrival *arrived, int64_t *begin_ns,
                             error_message *err)
{
    const int64_t ready_ns = arrived->ready_ns;
    if (at->play->clock != EXEC_CLOCK_REAL) {
        *begin_ns = nominal_ns(at, arrived);
        const bool is_awaited = at->play->clock == EXEC_CLOCK_QUEUE && !arrived->was_there;
        if (is_awaited && arrived->here_ns > *begin_ns) *begin_ns = arrived->here_ns;
        return STATUS_OK;
    }
    *begin_ns = now_ns(at);
    if (*begin_ns >= ready_ns) return STATUS_OK;
    TRY(sleep_until(at, ready_ns, err));
    const int64_t woken_ns = now_ns(at);
    at->outside_ns += woken_ns - *begin_ns;
    at->times->wake_ns += woken_ns - ready_ns;
    *begin_ns = woken_ns;
    return STATUS_OK;
}

/// Plays a step of a modelled device: its time is slept for, except under the nominal clock.
static status play_modelled(running *at, const exec_step *step, const exec_payload *input,
                            const arrival *arrived, exec_payload *output, int64_t *begin_ns,
                            int64_t *end_ns, error_message *err)
{
    exec_device *device = at->play->device;
    int64_t duration_ns = 0;
    TRY(begin_modelled(at, arrived, begin_ns, err));
    TRY(device->table->play(device, step, input, output, &duration_ns, err));
    *end_ns = *begin_ns + duration_ns;
    if (at->play->clock == EXEC_CLOCK_NOMINAL) return STATUS_OK;
    const int64_t asleep_ns = now_ns(at);
    if (asleep_ns >= *end_ns) return STATUS_OK;
    TRY(sleep_until(at, *end_ns, err));
    const int64_t woken_ns = now_ns(at);
    at->outside_ns += woken_ns - asleep_ns;
    at->times->wake_ns += woken_ns - *end_ns;
    if (at->play->clock == EXEC_CLOCK_REAL) *end_ns = woken_ns;
    return STATUS_OK;
}

/// Plays a step of a device that computes: it takes what it takes, and only the nominal clock puts
/// that where it would have been had nothing else taken time.
static status play_computing(running *at, const exec_step *step, const exec_payload *input,
                             const arrival *arrived, exec_payload *output, int64_t *begin_ns,
                             int64_t *end_ns, error_message *err)
{
    exec_device *device = at->play->device;
    int64_t duration_ns = 0;
    const int64_t called_ns = now_ns(at);
    device->op_begin_ns = nominal_ns(at, arrived);
    TRY(device->table->play(device, step, input, output, &duration_ns, err));
    const int64_t returned_ns = now_ns(at);
    const bool is_nominal = at->play->clock == EXEC_CLOCK_NOMINAL;
    at->outside_ns += returned_ns - called_ns;
    *begin_ns = is_nominal ? device->op_begin_ns : called_ns;
    *end_ns = is_nominal ? device->op_begin_ns + duration_ns : returned_ns;
    return STATUS_OK;
}

/// Sends the output of a step that has ended, if it goes to another rank.
static status send_output(const running *at, const exec_step *step, const exec_payload *output,
                          error_message *err)
{
    const exec_rank_play *play = at->play;
    if (step->send_place < 0 || step->send_place == play->program->place) return STATUS_OK;
    exec_endpoint *endpoint = play->endpoint;
    const int64_t *send_ns =
        step->op.kind == OP_FORWARD ? play->send_forward_ns : play->send_backward_ns;
    const exec_message head = {
        .key = key_of(at->iteration, step, step->send_stage),
        .ready_ns = at->free_ns + (send_ns != NULL ? send_ns[step->stage] : 0),
        .payload_bytes = output->byte_count,
    };
    return endpoint->transport->send(endpoint, play->world_rank[step->send_place], &head,
                                     output->bytes, err);
}

/// Runs one op and notes when.
///
/// @param input of another rank, or NULL
static status play_op(running *at, int index, const exec_payload *input, const arrival *arrived,
                      exec_payload *output, error_message *err)
{
    const exec_rank_play *play = at->play;
    const exec_step *step = &play->program->steps[index];
    const bool is_modelled = play->device->table->is_modelled;
    exec_activity_set_op(&play->endpoint->activity, at->iteration->iteration, step->stage,
                         step->op);
    TRY((is_modelled ? play_modelled : play_computing)(at, step, input, arrived, output,
                                                       &at->times->begin_ns[index],
                                                       &at->times->end_ns[index], err));
    at->free_ns = at->times->end_ns[index];
    return STATUS_OK;
}

/// Plays a step: the first of an overlapped pair begins when the messages of both are there, and
/// its own leaves when the second ends.
static status play_step(running *at, int index, error_message *err)
{
    const exec_step *step = &at->play->program->steps[index];
    const bool is_second = index > 0 && step[-1].op.overlaps_next != 0;
    const bool is_first = step->op.overlaps_next != 0;
    receipt input = at->second_input;
    if (!is_second) TRY(take_input(at, step, &input, err));
    const bool has_message = input.arrived.is_message;
    arrival awaited = is_second ? (arrival){0} : input.arrived;
    if (is_first) {
        TRY(take_input(at, step + 1, &at->second_input, err));
        awaited = later_of(awaited, at->second_input.arrived);
    }
    exec_payload output = {0};
    TRY(play_op(at, index, has_message ? &input.payload : NULL, &awaited, &output, err));
    if (is_first) {
        at->first_output = output;
        return STATUS_OK;
    }
    if (is_second) TRY(send_output(at, step - 1, &at->first_output, err));
    return send_output(at, step, &output, err);
}

/// Ends the iteration on the device. The times of an asynchronous one, which it awaits here, count
/// from when its begin returned.
static status finish(running *at, int64_t begun_ns, error_message *err)
{
    exec_device *device = at->play->device;
    exec_rank_times *times = at->times;
    const int64_t called_ns = now_ns(at);
    TRY(device->table->finish(device, times->begin_ns, times->end_ns, err));
    if (!device->table->is_asynchronous) return STATUS_OK;
    at->outside_ns += now_ns(at) - called_ns;
    for (int step = 0; step < at->play->program->step_count; step++) {
        times->begin_ns[step] += begun_ns;
        times->end_ns[step] += begun_ns;
    }
    return STATUS_OK;
}

status exec_rank_iterate(const exec_rank_play *play, const exec_iteration *iteration,
                         exec_rank_times *times, error_message *err)
{
    exec_device *device = play->device;
    const exec_device_table *table = device->table;
    running at = {.play = play, .iteration = iteration, .times = times};
    if (table->is_asynchronous && play->clock == EXEC_CLOCK_NOMINAL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "clock 'nominal': ops of device '%s' end after their messages are sent",
                         table->name);
    }
    times->wake_ns = times->latency_ns = 0;
    times->awaited_count = times->message_count = 0;
    const bool is_nominal = play->clock == EXEC_CLOCK_NOMINAL;
    if (!is_nominal && now_ns(&at) < 0) TRY(sleep_until(&at, 0, err));
    const int64_t called_ns = now_ns(&at);
    TRY(table->begin(device, iteration, err));
    const int64_t begun_ns = now_ns(&at);
    for (int step = 0; step < play->program->step_count; step++) {
        TRY(play_step(&at, step, err));
    }
    TRY(finish(&at, begun_ns, err));
    times->overhead_ns = now_ns(&at) - called_ns - at.outside_ns;
    exec_activity_set_phase(&play->endpoint->activity, iteration->iteration, EXEC_PHASE_NONE);
    return STATUS_OK;
}
