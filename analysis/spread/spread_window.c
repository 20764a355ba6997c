#include "analysis/spread/spread_window.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>

static ana_result *slot_of(const ana_window *window, int64_t item)
{
    return &window->slots[item & (window->capacity - 1)];
}

void ana_window_open(ana_window *window, int64_t count, const bool *is_done, int64_t capacity)
{
    assert(count >= 0 && capacity >= 1);
    *window = (ana_window){.count = count, .is_done = is_done, .capacity = 1};
    while (window->capacity < capacity) {
        window->capacity *= 2;
    }
    window->slots = memory_array((size_t)window->capacity, sizeof *window->slots);
    for (int64_t slot = 0; slot < window->capacity; slot++) {
        window->slots[slot].item = -1;
    }
    window->next = ana_window_first_open(window, 0);
}

void ana_window_close(ana_window *window)
{
    for (int64_t slot = 0; window->slots != NULL && slot < window->capacity; slot++) {
        text_free(&window->slots[slot].text);
    }
    free(window->slots);
    window->slots = NULL;
}

int64_t ana_window_first_open(const ana_window *window, int64_t item)
{
    while (window->is_done != NULL && item < window->count && window->is_done[item]) {
        item++;
    }
    return item;
}

bool ana_window_reaches(const ana_window *window, int64_t item)
{
    return item < window->count && item < window->next + window->capacity;
}

bool ana_window_has(const ana_window *window, int64_t item)
{
    if (window->is_done != NULL && window->is_done[item]) return true;
    return item < window->next || slot_of(window, item)->item == item;
}

bool ana_window_keep(ana_window *window, ana_result *result)
{
    if (ana_window_has(window, result->item)) {
        text_free(&result->text);
        return false;
    }
    assert(ana_window_reaches(window, result->item));
    *slot_of(window, result->item) = *result;
    window->held_bytes += (int64_t)result->text.length;
    result->text = (text_buffer){0};
    return true;
}

const ana_result *ana_window_front(const ana_window *window)
{
    const ana_result *front = slot_of(window, window->next);
    return window->next < window->count && front->item == window->next ? front : NULL;
}

void ana_window_pop(ana_window *window)
{
    ana_result *front = slot_of(window, window->next);
    assert(front->item == window->next);
    window->held_bytes -= (int64_t)front->text.length;
    text_free(&front->text);
    front->item = -1;
    window->next = ana_window_first_open(window, window->next + 1);
}
