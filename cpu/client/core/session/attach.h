/*
 * attach.h: whom session.c asks on its way to a server, and where.
 */
#ifndef FLYT_CLIENT_CORE_ATTACH_H
#define FLYT_CLIENT_CORE_ATTACH_H

#include "cpu/checkpoint/checkpoint.h"
#include "cpu/client/core/stream/move_pace.h"
#include "cpu/client/core/wire/state.h"

/* manager.c: the client manager of this VM, asked where FLYT_SERVER names no server. */
enum { MANAGER_PLACES = 8 };
struct manager_place {                /* of a GPU server; freed by manager_place_free, also after an error */
    char    *uris[MANAGER_PLACES];    /* best first */
    unsigned count;
    void    *ticket;
    size_t   ticket_size;
    uint64_t server;                  /* its number in the cluster */
    uint64_t program;                 /* that has it, likewise */
    unsigned parts;                   /* further servers that the program has: manager_parts.c */
};
/* Whether a client manager is to be asked: where one is, or where one is installed and default_server (unix://) is not
   there. */
bool manager_wanted(const char *default_server);
/* A result code; what failed has been said. May wait in the queue. Asked again, it gives back what it got before. */
int  manager_ask(struct manager_place *);
/* As manager_ask, for a program whose server was lost, and that stays the same program for the cluster, if it can. */
int  manager_ask_again(struct manager_place *);
/* Asks for another server than one that this program does not reach: *place becomes another one, or stays as it is
   where there is none. */
int  manager_ask_other(struct manager_place *, const char *why);
void manager_place_free(struct manager_place *);
/* A thread asks it what it wants of the session (mover.c), or for another server (recover.c): one at a time. */
extern atomic_bool manager_in_use;
/* Informs the client manager how the calls reach the GPU server, for `flytctl vm show`. Waits for nothing. */
void manager_tell_transport(const char *mode, const char *why);
/* Whether a client manager has given this program its server. */
bool manager_gives_servers(void);
/* manager_recovery.c: whether the program is to survive the loss of its server: what its VM is entitled to, "" where
   nobody says. */
void manager_ask_recovery(char *wish, size_t size);
/* Where the program is to keep what it has on the GPU ("": its environment says), and how many bytes its journal may
   have at most; 0: any. */
uint64_t manager_ask_store(char *folder, size_t size);
/* Reports to the client manager what came of a recovery: MANAGER_RECOVERY_…. Waits for no answer. why: may be "". */
void manager_tell_recovery(int state, const char *why, uint64_t outage_us, uint64_t bytes);
/* After a loss: logs what the cluster knows about it. Waits until `soon` (clock_now), and until `until` where the GPU
   server takes no connections then. */
void manager_tell_why(const struct client_session *, uint64_t soon, uint64_t until);
/* manager_links.c: how a program whose server the client manager gave makes links (manager_prot.x, LINK_OFFER,
   LINK_TAKE). The connection: NULL: the program's. offer: MANAGER_LINK_OFFER_SIZE bytes; why, address: `size` bytes.
   801: refused, and why. */
int manager_offer_link(rpc_client *, uint8_t *offer, char *why, size_t size);
int manager_take_link(rpc_client *, const uint8_t *offer, unsigned connections, char *address, char *why,
                      size_t size);
/* manager_parts.c: a program's further servers, each with a connection of its own. That of the session, counted from 1
   (its number); lead: as manager_ask said. Keeps session->manager, whose end is the part's. */
int manager_ask_part(struct client_session *, uint64_t lead, struct manager_place *);
/* manager_offer_link and manager_take_link for that server of the program's, one question at a time. */
int manager_part_offers(const struct client_session *, uint8_t *offer, char *why, size_t size);
int manager_part_takes(const struct client_session *, const uint8_t *offer, unsigned connections, char *address,
                       char *why, size_t size);
/* How the server of `calls` is connected to that of `waits`: what to name in LINK_JOIN (`size` bytes). */
int manager_link_parts(const struct client_session *calls, const struct client_session *waits, unsigned connections,
                       char *address, char *why, size_t size);
/* The client manager has ended, and there may be another. Comes back to it; move: that is being carried out, or 0. */
bool manager_is_away(void);
bool manager_come_back(uint64_t move);
/* How often manager_come_back has succeeded: the present client manager may not know what those before have heard. */
unsigned manager_comings(void);
/* Ends the connection. The client manager goes by the process meanwhile; the session is suspended. */
void manager_let_go(void);
/* The number of the server that the session uses from now on; none: it is suspended. */
void manager_note_server(uint64_t server);
void manager_note_suspended(void);
void manager_abandon(void);           /* in the child of a fork */

/* manager_moves.c: what the client manager wants of the session. */
/* True: the client manager has sent a message that is still to be read. */
bool manager_has_news(void);
/* False: it wants nothing. */
enum manager_action { MANAGER_ACTION_MOVE, MANAGER_ACTION_SUSPEND, MANAGER_ACTION_CHECKPOINT };
struct manager_move {
    struct manager_place place;       /* MOVE: from where it is, or of a session that is suspended */
    uint64_t number;
    unsigned patience_ms, within_ms;
    enum manager_action action;
    char *file, *base;                /* CHECKPOINT; SUSPEND: file may be "" */
    bool sealed;
    struct checkpoint_seal seal;      /* of the file */
    char *ended;                      /* nothing is wanted: a suspended session is not resumed any more, and why */
};
bool manager_ask_move(struct manager_move *);
void manager_move_free(struct manager_move *);
/* Whether it still wants it. A newer ticket that it has becomes the move's: place.ticket is another pointer then. */
bool manager_move_is_wanted(struct manager_move *);
/* How far the move is; limits: as the client manager answered, last. waits: for that; else the answer is taken with a
   later note, and none is sent while one is outstanding. A client manager of an earlier release gets none, and limits
   nothing. */
struct manager_progress_note { uint64_t number, done, total, rate; enum move_phase phase; };
void manager_report_progress(const struct manager_progress_note *, bool waits, struct move_limits *limits);
/* The last question before the session is the new server's: whether it may be. A client manager that has gone away
   forbids nothing. */
bool manager_permits_move(uint64_t number);
/* manager_groups.c: programs that share memory and move together. The number of the session at its server: waits for
   nothing. */
bool manager_takes_groups(void);
void manager_tell_session(uint64_t session);
/* As struct move_group has it. 500: it shares memory with nobody, and moves alone. */
struct move_partners;
int manager_meet_group(uint64_t number, int where, const struct move_partners *, char *why, size_t size);
/* code: of session_move; why, where it failed. False: nobody has heard it. */
bool manager_tell_moved(uint64_t number, int code, const char *why, uint64_t outage_us, uint64_t bytes);

/* session.c: informs the client manager how the calls reach the GPU server now. */
void session_tell_transport(void);

/* local.c */
int  local_open(const char *gpu, rpc_channel **out, char *error);
void local_close(void);

#endif
