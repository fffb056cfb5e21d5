/*
 * wire.h: the heads of ONC RPC messages, RFC 5531 sections 9 and 11, for the data plane and the control plane. Written
 * and read by hand: they are the same for every call, and what a peer says is checked in one place.
 */
#ifndef FLYT_COMMON_WIRE_H
#define FLYT_COMMON_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rpc/rpc.h>

/* Record marking: a number of 4 bytes before each fragment of a record. */
enum { RPC_MARK_SIZE = 4 };
#define RPC_MARK_LAST UINT32_C(0x80000000)

/* RPC_WIRE_CALL_ROOM: a record's mark and the head of a call, bytes. */
enum {
    RPC_WIRE_CALL_WORDS = 10,
    RPC_WIRE_REPLY_WORDS = 6,
    RPC_WIRE_CALL_ROOM = RPC_MARK_SIZE + RPC_WIRE_CALL_WORDS * 4
};

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
bool_t rpc_wire_put_call(XDR *, uint32_t xid, uint32_t program, uint32_t version, uint32_t procedure);
/* Puts the head with the record's mark before it, for a call with `size` bytes of arguments behind it. */
void rpc_wire_call_room(uint8_t room[RPC_WIRE_CALL_ROOM], uint32_t xid, uint32_t program, uint32_t version,
                        uint32_t procedure, size_t size);
/* Puts the head of an accepted reply; what follows depends on the status. */
bool_t rpc_wire_put_accepted(XDR *, uint32_t xid, enum accept_stat);
/* Whole replies that deny a call. */
bool_t rpc_wire_put_version_mismatch(XDR *, uint32_t xid);
bool_t rpc_wire_put_auth_error(XDR *, uint32_t xid, enum auth_stat);

/* Read the head of a record. 0, or -EPROTO: this is no call (no reply). xid is filled in where there was one. The
   result points into the record. */
int rpc_wire_get_call(const uint8_t *bytes, size_t size, struct rpc_wire_call *);
int rpc_wire_get_reply(const uint8_t *bytes, size_t size, struct rpc_wire_reply *);

/* Decodes all of body; what is left over is an error. On failure everything is freed, and the object zero where
   it was allocated. */
bool rpc_wire_decode(const uint8_t *body, size_t size, xdrproc_t, void *object);

#endif
