/*
 * wire.h: the heads of calls and replies, RFC 5531 section 9. Written and read by hand: they are the same for
 * every call, and what a peer says is checked in one place.
 */
#ifndef FLYT_RPC_WIRE_H
#define FLYT_RPC_WIRE_H

#include "cpu/rpc/block.h"
#include "cpu/rpc/rpc.h"

enum { RPC_WIRE_CALL_WORDS = 10, RPC_WIRE_REPLY_WORDS = 6 };

struct rpc_wire_call {
    uint32_t xid, rpc_version, program, version, procedure;
    uint32_t flavor;            /* of the credential */
    const uint8_t *body;        /* arguments */
    size_t         body_size;
};

struct rpc_wire_reply {
    uint32_t       xid;
    enum clnt_stat status;      /* RPC_SUCCESS: body holds the results */
    const uint8_t *body;
    size_t         body_size;
};

/* Puts the head of a call with AUTH_NONE. */
bool_t rpc_wire_put_call(XDR *, uint32_t xid, const struct rpc_program *, uint32_t procedure);
/* The same with the record's mark before it, for a call with `size` bytes of arguments behind it: RPC_CALL_ROOM bytes. */
void rpc_wire_call_room(uint8_t *room, uint32_t xid, const struct rpc_program *, uint32_t procedure, size_t size);
/* Puts the head of an accepted reply; what follows depends on the status. */
bool_t rpc_wire_put_accepted(XDR *, uint32_t xid, enum accept_stat);
/* Whole replies that deny a call. */
bool_t rpc_wire_put_version_mismatch(XDR *, uint32_t xid);
bool_t rpc_wire_put_auth_error(XDR *, uint32_t xid, enum auth_stat);

/* 0, or -EPROTO: this is no call (no reply). xid is filled in where there was one. */
int rpc_wire_get_call(const struct rpc_record *, struct rpc_wire_call *);
int rpc_wire_get_reply(const struct rpc_record *, struct rpc_wire_reply *);

/* Decodes all of body; what is left over is an error. On failure everything is freed, and the object zero where
   it was allocated. */
bool rpc_wire_decode(const uint8_t *body, size_t size, xdrproc_t, void *object);

#endif
