#include "cli/interrupt.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_bool is_interrupted;
static volatile sig_atomic_t caught_signal;

static void note(int signal_number)
{
    caught_signal = signal_number;
    atomic_store(&is_interrupted, true);
}

atomic_bool *cli_interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = note};
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &is_interrupted;
}

int cli_interrupt_signal(void)
{
    return caught_signal;
}
