#include "cpu/rpc/quick.h"

#include <arpa/inet.h>
#include <string.h>

enum { HEAD_WORDS = 5, LAUNCH_WORDS = 11, WORD = 4 };

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return ntohl(word);
}

/* ---- the head of replies: nothing completed, nothing printed ---- */

static bool head_put(XDR *xdr, const flyt_head *head)
{
    int32_t *at = XDR_INLINE(xdr, HEAD_WORDS * WORD);
    if (!at)
        return false;
    at[0] = (int32_t)htonl((uint32_t)head->result);
    at[1] = (int32_t)htonl((uint32_t)head->latched);
    at[2] = (int32_t)htonl((uint32_t)head->sticky);
    at[3] = at[4] = 0;
    return true;
}

/* 1: done; 0: it has another form, and the stream stands where it stood. */
static int head_get(XDR *xdr, flyt_head *head)
{
    const int32_t *at = XDR_INLINE(xdr, HEAD_WORDS * WORD);
    if (!at)
        return 0;
    if (at[3] != 0 || at[4] != 0) {
        XDR_SETPOS(xdr, XDR_GETPOS(xdr) - HEAD_WORDS * WORD);
        return 0;
    }
    head->result = (int)ntohl((uint32_t)at[0]);
    head->latched = (int)ntohl((uint32_t)at[1]);
    head->sticky = (int)ntohl((uint32_t)at[2]);
    head->progress.progress_len = head->printed.printed_len = 0;
    return 1;
}

bool_t xdr_flyt_head(XDR *xdr, flyt_head *head)
{
    switch (xdr->x_op) {
    case XDR_ENCODE:
        if (head->progress.progress_len == 0 && head->printed.printed_len == 0 && head_put(xdr, head))
            return TRUE;
        break;
    case XDR_DECODE:
        if (head_get(xdr, head))
            return TRUE;
        break;
    case XDR_FREE:
        if (!head->progress.progress_val && !head->printed.printed_val)
            return TRUE;
        break;
    }
    return xdr_flyt_head_rpcgen(xdr, head);
}

/* ---- launches ---- */

_Static_assert(QUICK_LAUNCH_PARAMETERS == LAUNCH_WORDS * WORD, "the words stand before the parameters");

size_t quick_launch_put(const launch_args *args, uint8_t *at)
{
    const uint32_t size = args->params.params_len, words[LAUNCH_WORDS] = {
        htonl(args->function), htonl(args->stream),  htonl(args->grid.x),  htonl(args->grid.y),
        htonl(args->grid.z),   htonl(args->block.x), htonl(args->block.y), htonl(args->block.z),
        htonl(args->shared),   htonl(args->flags),   htonl(size),
    };
    memcpy(at, words, sizeof words);
    uint8_t *behind = at + QUICK_LAUNCH_PARAMETERS + size;
    memset(behind, 0, 2 * WORD);                            /* what fills up the last word, and no attributes */
    return QUICK_LAUNCH_PARAMETERS + RNDUP(size) + WORD;
}

bool quick_launch_decode(const uint8_t *body, size_t size, launch_args *args, void *room, size_t room_size)
{
    if (size < (LAUNCH_WORDS + 1) * WORD)
        return false;
    uint32_t length = word_at(body + (LAUNCH_WORDS - 1) * WORD);
    if (length > room_size || length > FLYT_MAX_PARAMS || size != (LAUNCH_WORDS + 1) * WORD + RNDUP(length) ||
        word_at(body + size - WORD) != 0)
        return false;
    *args = (launch_args){
        .function = word_at(body), .stream = word_at(body + WORD),
        .grid = { word_at(body + 2 * WORD), word_at(body + 3 * WORD), word_at(body + 4 * WORD) },
        .block = { word_at(body + 5 * WORD), word_at(body + 6 * WORD), word_at(body + 7 * WORD) },
        .shared = word_at(body + 8 * WORD), .flags = word_at(body + 9 * WORD),
        .params = { length, room },
    };
    memcpy(room, body + LAUNCH_WORDS * WORD, length);
    return true;
}
