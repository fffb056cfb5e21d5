/*
 * share_order.h: what flyt-node-manager and a running GPU server say to each other over the control socket.
 *
 * The node manager makes the socket (AF_UNIX, SOCK_SEQPACKET), and the server inherits it, listening: the server cannot
 * connect to anything, and programs cannot reach the socket, which lies where no server sees it. The node manager
 * connects, sends orders and gets one answer to each; a node manager that was started again connects again, and the new
 * connection replaces the old one. An order that waits when its connection ends is dropped: all is as it was.
 *
 * Each message has one length, its numbers are little-endian, and its text ends with a NUL. A server runs programs of a
 * tenant and may have been taken over: the node manager believes nothing in an answer beyond what it ordered.
 *
 *   order   magic 4, kind 4, number 8, memory 8, sms 4, within_ms 4                     32 bytes
 *   BRIDGE  magic 4, kind 4, number 8, program 8, 1 (departs) or 2, 0 4                 32 bytes, and a descriptor
 *   LANES   as BRIDGE that departs, address 512                                         544 bytes, 1 to 8 descriptors
 *   LINKS   as LANES                                                                    544 bytes, 1 to 17 descriptors
 *   answer  magic 4, code 4, number 8, memory 8, used 8, sms 4, 0 4, text 216           256 bytes
 */
#ifndef FLYT_COMMON_SHARE_ORDER_H
#define FLYT_COMMON_SHARE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHARE_ORDER_SIZE = 32, SHARE_ANSWER_SIZE = 256, SHARE_ANSWER_TEXT = 216 };
enum { SHARE_ADDRESS_SIZE = 512, SHARE_ORDER_MOST_SIZE = SHARE_ORDER_SIZE + SHARE_ADDRESS_SIZE };
enum { SHARE_LANES_MOST = 8, SHARE_LINKS_MOST = 17 };
enum { SHARE_ORDER_MOST_SMS = 1024, SHARE_ORDER_MOST_WITHIN_MS = 3600 * 1000 };
#define SHARE_ORDER_MOST_MEMORY (UINT64_C(1) << 60)

/* LOOK: what is granted. SET: from now on the server has these SMs and this memory. BRIDGE: comes with the descriptor
   of one end of a connection (AF_UNIX, SOCK_SEQPACKET). Another server of the node gets the other end, for the worker
   of the same program there: the program moves between the two (cpu/common/bridge_message.h). A server that takes it
   says so by the word SHARE_BRIDGES in its answer to LOOK; one of an earlier release would close the connection.
   LANES: comes with connections that the node manager has made to `address`, where the server of another node listens
   to which the program moves; word SHARE_DIRECT. LINKS: to a server to which the program has a link; word
   SHARE_LINKED. */
enum share_order_kind { SHARE_LOOK = 1, SHARE_SET = 2, SHARE_BRIDGE = 3, SHARE_LANES = 4, SHARE_LINKS = 5 };
#define SHARE_BRIDGES "bridge"    /* the text of an answer to LOOK: words with blanks between them */
#define SHARE_DIRECT  "lanes"
#define SHARE_LINKED  "links"
struct share_order {
    uint32_t kind, sms;           /* sms, memory: of SET; 0: as they are */
    uint64_t number, memory;      /* number: the answer says it again. memory: bytes */
    uint32_t within_ms;           /* how long the server may wait until its programs hold no more than `memory` */
    /* Of BRIDGE, LANES and LINKS, in place of sms and memory: the number of the program in its tickets, never 0.
       departs: it is at this server now; else it comes here. */
    uint64_t program;
    bool departs;
    char address[SHARE_ADDRESS_SIZE]; /* of LANES and LINKS: a URI */
};

/* IN_USE: the programs hold more. CANNOT: this GPU, or this server, cannot do it. INVALID, to BRIDGE: it has no such
   program. */
enum share_answer_code { SHARE_DONE = 0, SHARE_INVALID = 1, SHARE_IN_USE = 2, SHARE_CANNOT = 3, SHARE_BUSY = 4 };
struct share_order_answer {
    uint32_t code, sms;           /* sms, memory: granted now; 0: the server does not know */
    uint64_t number, memory, used;
    char text[SHARE_ANSWER_TEXT];
};

/* The size of the message. */
size_t share_order_put(const struct share_order *, uint8_t out[SHARE_ORDER_MOST_SIZE]);
void share_answer_put(const struct share_order_answer *, uint8_t out[SHARE_ANSWER_SIZE]);
/* False: the bytes are no such message, or a number is out of its bounds. */
bool share_order_get(const uint8_t *, size_t size, struct share_order *);
bool share_answer_get(const uint8_t *, size_t size, struct share_order_answer *);

#endif
