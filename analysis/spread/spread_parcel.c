#include "analysis/spread/spread_parcel.h"

#include <assert.h>
#include <string.h>

typedef struct parcel_head {
    int64_t item;
    int64_t code;
    int64_t byte_count;
} parcel_head;

void ana_parcel_append(text_buffer *out, const ana_result *result)
{
    const parcel_head head = {.item = result->item,
                              .code = (int64_t)result->code,
                              .byte_count = (int64_t)result->text.length};
    text_append_bytes(out, (const char *)&head, sizeof head);
    if (head.byte_count > 0) text_append_bytes(out, result->text.bytes, result->text.length);
}

bool ana_parcel_read(ana_parcel *parcel, ana_result *result)
{
    parcel_head head;
    if (parcel->byte_count == 0) return false;
    assert(parcel->byte_count >= (int64_t)sizeof head);
    memcpy(&head, parcel->bytes, sizeof head);
    assert(head.byte_count <= parcel->byte_count - (int64_t)sizeof head);
    *result = (ana_result){.item = head.item, .code = (status)head.code};
    if (head.byte_count > 0) {
        text_append_bytes(&result->text, parcel->bytes + sizeof head, (size_t)head.byte_count);
    }
    parcel->bytes += (int64_t)sizeof head + head.byte_count;
    parcel->byte_count -= (int64_t)sizeof head + head.byte_count;
    return true;
}
