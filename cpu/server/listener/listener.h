/* listener.h: the process that listens and keeps workers ready; see listener.c. */
#ifndef FLYT_SERVER_LISTENER_H
#define FLYT_SERVER_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/rpc/rpc.h"
#include "cpu/server/listener/ticket.h"

enum { LISTENER_MAX_URIS = 16 };
/* What --links says where the node manager connects for links: the sockets come by its orders (share_order.h), and
   nothing that a worker says has a part in where they lead. */
#define LINKS_ORDERED "managers"

struct listener_options {
    const char *uris[LISTENER_MAX_URIS];
    int fds[LISTENER_MAX_URIS];           /* of each: a socket that listens already; 0: none */
    int uri_count;
    const char *gpu;                      /* "auto", … */
    int spares;                           /* workers kept ready */
    int control;                          /* a socket on which orders.h listens, or -1 */
    bool show_device;                     /* says what the driver shows of the first device, before the addresses */
    bool tls, plain_tcp;                  /* some of uris is tls://; tcp:// beside it is meant */
    struct rpc_tls_files tls_files;       /* certificate NULL: one is made; ca: of clients, or NULL */
    const char *host_memory;              /* as given on the command line, NULL: the default */
    const char *bar;                      /* FILE[,SESSIONS], or NULL */
    const char *links;                    /* where links may go: addresses with commas (dial.h); NULL: nowhere */
    bool links_ordered;                   /* LINKS_ORDERED: the node manager connects */
};

/* Listens until SIGTERM or SIGINT. The process's exit code: 0 stopped as asked, 1 it cannot listen or run,
   3 there is no GPU of that kind. */
int listener_main(const struct listener_options *);

/* What a worker says to the listener, over a SOCK_SEQPACKET pair; the listener answers with one connection, what is
   known of it, and for TLS, behind that, what rpc_tls_identity_pack makes. Between workers it passes messages on. */
struct worker_gift {
    int word;                                 /* WORKER_CONNECTION */
    bool tls, passed;                         /* passed: its client has shown this pass */
    uint8_t pass[TICKET_PASS_SIZE];
    char refusal[TICKET_REFUSAL_SIZE];        /* why the pass was refused; empty: none was shown */
};
/* TAKEN: it has the connection, and has read nothing of it. GREETED: its client has proved itself. text: the numbers of
   the certificate that it showed (rpc_channel_tls_numbers). */
enum worker_word { WORKER_READY = 1, WORKER_FAILED = 2, WORKER_GREETED = 3, WORKER_CONNECTION = 4, WORKER_RELAY = 5,
                   WORKER_BRIDGE = 6, WORKER_LANES = 7, WORKER_DIAL = 8, WORKER_DIALLED = 9,
                   WORKER_TAKEN = 10, WORKER_LINKED = 11 };
/* A message from one worker to another, with up to SHARE_AT_ONCE descriptors. peer: whom it is for; the listener puts
   the process id of the sender there. Bytes behind `size` are not sent. */
enum { WORKER_RELAY_BYTES = 2048 };
struct worker_relay { int word; int32_t peer; uint32_t size, unused; uint8_t bytes[WORKER_RELAY_BYTES]; };
/* To a worker, with a descriptor: an end of a bridge (bridges.h). departs: its program leaves by it. */
struct worker_bridge { int word, departs; };
/* To a worker, with descriptors: connections to `address`, to which its program may leave (direct.c). LINKED: the same,
   for a link that it makes (dial.h). */
enum { WORKER_ADDRESS_SIZE = 512 };
struct worker_lanes { int word; char address[WORKER_ADDRESS_SIZE]; };
/* From a worker: it needs so many connections to that address (dial.h); and the answer, with them. status: 0 or
   -errno. */
enum { WORKER_WHY_SIZE = 256 };
struct worker_dial { int word; uint32_t serial, count, milliseconds; char address[WORKER_ADDRESS_SIZE]; };
struct worker_dialled { int word; uint32_t serial; int32_t status; char why[WORKER_WHY_SIZE]; };
/* multiprocessors: as the driver shows them */
struct worker_message { int word, multiprocessors; char text[512]; };
enum { WORKER_SOCKET = 3 };               /* the worker's end */

/* worker.c: serves one connection. gpu as above; cache: directory of images or NULL; tls: it may have to speak it;
   host_memory: bytes that it may share with a client on this machine; bar: memory of virtual machines on it
   (FILE[,SESSIONS]), or NULL; links: it may have links to other workers; links_ordered: its listener does not connect
   for it, the node manager does; usher: only to refuse a client, in words that it understands. Returns the exit
   code. */
struct worker_options {
    const char *gpu, *cache, *bar;
    size_t host_memory;
    bool tls, links, links_ordered, usher;
};
int worker_main(const struct worker_options *);

#endif
