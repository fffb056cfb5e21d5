/* share_order.c: see share_order.h. */
#include "cpu/common/share_order.h"

#include <string.h>

#include "cpu/common/little_endian.h"

enum { ORDER_MAGIC = 0x4F594C46, ANSWER_MAGIC = 0x41594C46, ANSWER_HEAD = 40 };
_Static_assert(ANSWER_HEAD + SHARE_ANSWER_TEXT == SHARE_ANSWER_SIZE, "the text fills the message");

enum { DEPARTS = 1, ARRIVES = 2 };

static bool has_address(const struct share_order *order)
{
    return order->kind == SHARE_LANES || order->kind == SHARE_LINKS;
}

static bool of_program(const struct share_order *order) { return order->kind == SHARE_BRIDGE || has_address(order); }

size_t share_order_put(const struct share_order *order, uint8_t out[SHARE_ORDER_MOST_SIZE])
{
    const bool bridge = of_program(order);
    out = little_put(out, ORDER_MAGIC, 4);
    out = little_put(out, order->kind, 4);
    out = little_put(out, order->number, 8);
    out = little_put(out, bridge ? order->program : order->memory, 8);
    out = little_put(out, bridge ? order->departs ? DEPARTS : ARRIVES : order->sms, 4);
    out = little_put(out, order->within_ms, 4);
    if (!has_address(order))
        return SHARE_ORDER_SIZE;
    memset(out, 0, SHARE_ADDRESS_SIZE);
    memcpy(out, order->address, strnlen(order->address, SHARE_ADDRESS_SIZE - 1));
    return SHARE_ORDER_MOST_SIZE;
}

void share_answer_put(const struct share_order_answer *answer, uint8_t out[SHARE_ANSWER_SIZE])
{
    out = little_put(out, ANSWER_MAGIC, 4);
    out = little_put(out, answer->code, 4);
    out = little_put(out, answer->number, 8);
    out = little_put(out, answer->memory, 8);
    out = little_put(out, answer->used, 8);
    out = little_put(out, answer->sms, 4);
    out = little_put(out, 0, 4);
    memset(out, 0, SHARE_ANSWER_TEXT);
    memcpy(out, answer->text, strnlen(answer->text, SHARE_ANSWER_TEXT - 1));
}

bool share_order_get(const uint8_t *at, size_t size, struct share_order *order)
{
    if (size < SHARE_ORDER_SIZE || little_get(&at, 4) != ORDER_MAGIC)
        return false;
    *order = (struct share_order){ .kind = (uint32_t)little_get(&at, 4) };
    if (size != (has_address(order) ? SHARE_ORDER_MOST_SIZE : SHARE_ORDER_SIZE))
        return false;
    order->number = little_get(&at, 8);
    if (of_program(order)) {
        order->program = little_get(&at, 8);
        uint64_t end = little_get(&at, 4);
        order->departs = end == DEPARTS;
        bool sound = order->program && (end == DEPARTS || end == ARRIVES) && little_get(&at, 4) == 0;
        if (order->kind == SHARE_BRIDGE || !sound)
            return sound;
        memcpy(order->address, at, SHARE_ADDRESS_SIZE);
        return order->departs && *order->address && memchr(order->address, '\0', SHARE_ADDRESS_SIZE);
    }
    order->memory = little_get(&at, 8);
    order->sms = (uint32_t)little_get(&at, 4);
    order->within_ms = (uint32_t)little_get(&at, 4);
    return (order->kind == SHARE_LOOK || order->kind == SHARE_SET) && order->sms <= SHARE_ORDER_MOST_SMS &&
           order->memory <= SHARE_ORDER_MOST_MEMORY && order->within_ms <= SHARE_ORDER_MOST_WITHIN_MS;
}

bool share_answer_get(const uint8_t *at, size_t size, struct share_order_answer *answer)
{
    if (size != SHARE_ANSWER_SIZE || little_get(&at, 4) != ANSWER_MAGIC)
        return false;
    *answer = (struct share_order_answer){ .code = (uint32_t)little_get(&at, 4) };
    answer->number = little_get(&at, 8);
    answer->memory = little_get(&at, 8);
    answer->used = little_get(&at, 8);
    answer->sms = (uint32_t)little_get(&at, 4);
    if (little_get(&at, 4) != 0 || answer->code > SHARE_BUSY || answer->sms > SHARE_ORDER_MOST_SMS ||
        answer->memory > SHARE_ORDER_MOST_MEMORY || memchr(at, '\0', SHARE_ANSWER_TEXT) == NULL)
        return false;
    memcpy(answer->text, at, SHARE_ANSWER_TEXT);
    return true;
}
