/* share_order.c: see share_order.h. */
#include "cpu/common/share_order.h"

#include <string.h>

enum { ORDER_MAGIC = 0x4F594C46, ANSWER_MAGIC = 0x41594C46, ANSWER_HEAD = 40 };
_Static_assert(ANSWER_HEAD + SHARE_ANSWER_TEXT == SHARE_ANSWER_SIZE, "the text fills the message");

static uint8_t *put(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static uint64_t get(const uint8_t **at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)*(*at)++ << 8 * i;
    return value;
}

void share_order_put(const struct share_order *order, uint8_t out[SHARE_ORDER_SIZE])
{
    out = put(out, ORDER_MAGIC, 4);
    out = put(out, order->kind, 4);
    out = put(out, order->number, 8);
    out = put(out, order->memory, 8);
    out = put(out, order->sms, 4);
    put(out, order->within_ms, 4);
}

void share_answer_put(const struct share_answer *answer, uint8_t out[SHARE_ANSWER_SIZE])
{
    out = put(out, ANSWER_MAGIC, 4);
    out = put(out, answer->code, 4);
    out = put(out, answer->number, 8);
    out = put(out, answer->memory, 8);
    out = put(out, answer->used, 8);
    out = put(out, answer->sms, 4);
    out = put(out, 0, 4);
    memset(out, 0, SHARE_ANSWER_TEXT);
    memcpy(out, answer->text, strnlen(answer->text, SHARE_ANSWER_TEXT - 1));
}

bool share_order_get(const uint8_t *at, size_t size, struct share_order *order)
{
    if (size != SHARE_ORDER_SIZE || get(&at, 4) != ORDER_MAGIC)
        return false;
    *order = (struct share_order){ .kind = (uint32_t)get(&at, 4) };
    order->number = get(&at, 8);
    order->memory = get(&at, 8);
    order->sms = (uint32_t)get(&at, 4);
    order->within_ms = (uint32_t)get(&at, 4);
    return (order->kind == SHARE_LOOK || order->kind == SHARE_SET) && order->sms <= SHARE_ORDER_MOST_SMS &&
           order->memory <= SHARE_ORDER_MOST_MEMORY && order->within_ms <= SHARE_ORDER_MOST_WITHIN_MS;
}

bool share_answer_get(const uint8_t *at, size_t size, struct share_answer *answer)
{
    if (size != SHARE_ANSWER_SIZE || get(&at, 4) != ANSWER_MAGIC)
        return false;
    *answer = (struct share_answer){ .code = (uint32_t)get(&at, 4) };
    answer->number = get(&at, 8);
    answer->memory = get(&at, 8);
    answer->used = get(&at, 8);
    answer->sms = (uint32_t)get(&at, 4);
    if (get(&at, 4) != 0 || answer->code > SHARE_BUSY || answer->sms > SHARE_ORDER_MOST_SMS ||
        answer->memory > SHARE_ORDER_MOST_MEMORY || memchr(at, '\0', SHARE_ANSWER_TEXT) == NULL)
        return false;
    memcpy(answer->text, at, SHARE_ANSWER_TEXT);
    return true;
}
