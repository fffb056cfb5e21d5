/*
 * bridge_message.h: what two workers say to each other over a bridge.
 *
 * A program moves between two GPU servers of one node. The node manager has given one end of a socket pair (AF_UNIX,
 * SOCK_SEQPACKET) to the worker that the program leaves, and the other end to the worker to which it comes
 * (cpu/common/share_order.h). Nobody else has an end: what a client says decides neither who is connected nor with
 * whom. The new worker asks, the old one answers, with descriptors of the files in which the memory of its software GPU
 * lies. So the new one maps the very pages.
 *
 * The two may be of different releases. Each message has one length, and its numbers are little-endian.
 *
 *   question  magic 4, kind 4, number 8, name 8, address 8, size 8                       40 bytes
 *   answer    magic 4, status 4, number 8, count 4, 0 4, sizes 8 each                    536 bytes, count descriptors
 */
#ifndef FLYT_COMMON_BRIDGE_MESSAGE_H
#define FLYT_COMMON_BRIDGE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BRIDGE_PARTS = 64, BRIDGE_QUESTION_SIZE = 40, BRIDGE_ANSWER_SIZE = 24 + 8 * BRIDGE_PARTS };

/* PIECES: what the context `name` has in [address, address + size), one piece behind the other from `address` on, as
   many as a message takes. HANDLE: all of the memory handle `name`. */
enum bridge_kind { BRIDGE_PIECES = 1, BRIDGE_HANDLE = 2 };
struct bridge_question {
    uint32_t kind;
    uint64_t number;              /* the answer says it again */
    uint64_t name, address, size;
};

/* status: a CUresult, not 0: no parts. size: bytes of each part; the descriptors come in the same order. */
struct bridge_answer {
    uint32_t status, count;
    uint64_t number;
    uint64_t size[BRIDGE_PARTS];
};

void bridge_question_put(const struct bridge_question *, uint8_t out[BRIDGE_QUESTION_SIZE]);
void bridge_answer_put(const struct bridge_answer *, uint8_t out[BRIDGE_ANSWER_SIZE]);
/* False: the bytes are no such message. Of an answer with status 0 each part has a size, and all together fit in 64
   bits. */
bool bridge_question_get(const uint8_t *, size_t size, struct bridge_question *);
bool bridge_answer_get(const uint8_t *, size_t size, struct bridge_answer *);

#endif
