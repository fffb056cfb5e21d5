/*
 * move_bytes.c: the bytes of device memory and of arrays that a move takes along. They pass through this process:
 * several pieces are asked for at the old server while those that have come go on to the new one, so that both work at
 * once, and many small allocations do not cost a round trip each. Where one of the two servers is not there, the pieces
 * go into the move's store instead, or come from it. Where the servers are connected (direct_move.c), the bytes go from
 * the one to the other, and this process only says which. Where a store is to hold only what has changed, the old
 * server is asked first for the hashes of a piece, and then for those of its bytes that are not as they were.
 */
#include <stdlib.h>
#include <string.h>

#include "move.h"
#include "move_changes.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/wire.h"

enum { PIECES = 8, CONFIRM_EVERY = 16 << 20, CONFIRM_PIECES = 8 };
_Static_assert((int)MOVE_CHUNK == FLYT_FINGERPRINT_BYTES && (int)MOVE_CHUNKS_MOST >= FLYT_MAX_FINGERPRINTS,
               "a store keeps the hashes that a server makes");
_Static_assert(PIECES + 2 * CONFIRM_PIECES <= MOVE_WINDOW, "the new server has room for all that is on its way");

/* On its way from the old server. */
struct moving_piece {
    struct wire_call   call;
    copy_box_out_args  args;
    copy_out_result    bytes;
    struct move_part   part;
    bool               looks;               /* its hashes are asked for, into `found`; args say what the piece is */
    fingerprints_args  look;
    fingerprints_result found;
    struct move_hashes *hashes;             /* it is a part of `part`, from `at` on; NULL: it is all of it */
    uint64_t           at;
};

struct move_pipe {
    struct moving_piece     pieces[PIECES];
    uint8_t         *rooms[PIECES];         /* where the bytes of a piece come: FLYT_MAX_INLINE; NULL: not yet */
    unsigned         asked, arrived;        /* counted on and on */
    /* the new server need not keep more than twice CONFIRM_EVERY bytes, or CONFIRM_PIECES pieces on direct lanes */
    uint64_t         unconfirmed;
    unsigned         unconfirmed_pieces;
    bool             confirming;
    struct wire_call confirm;
    stream_args      confirm_args;
    plain_result     confirmed;
    int              code;                  /* of the first piece that failed */
    char             stored[];              /* a piece that comes from the store: FLYT_MAX_INLINE */
};

static uint64_t size_of(const flyt_extent *extent) { return extent->width * extent->height * extent->depth; }

/* ---- to the new server ---- */

static int confirm_wait(struct move *move)
{
    struct move_pipe *pipe = move->pipe;
    int code = CORE_OK;
    if (pipe->confirming) {
        move_go(move, MOVE_TARGET);
        code = wire_wait(&pipe->confirm);
        xdr_free((xdrproc_t)xdr_plain_result, &pipe->confirmed);
    }
    pipe->confirming = false;
    return code;
}

static int confirm(struct move *move, flyt_id stream)
{
    struct move_pipe *pipe = move->pipe;
    int code = confirm_wait(move);
    pipe->confirm_args.stream = stream;
    memset(&pipe->confirmed, 0, sizeof pipe->confirmed);
    wire_prepare(&pipe->confirm, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &pipe->confirm_args,
                 (xdrproc_t)xdr_plain_result, &pipe->confirmed);
    wire_submit(move_calls(move), &pipe->confirm);
    pipe->confirming = true;
    pipe->unconfirmed = 0;
    pipe->unconfirmed_pieces = 0;
    return code;
}

static int piece_send(struct move *move, core_context *c, const struct moving_piece *piece)
{
    copy_box_in_args args = { .to = piece->args.from, .extent = piece->args.extent, .data = piece->bytes.data };
    struct journal_stored stored;
    move_go(move, MOVE_TARGET);
    int code = move_stream(move, c, &args.stream);
    if (!code && rehearsal_here())
        move_store_name(&piece->part, &stored);
    if (!code)
        code = wire_send(move_calls(move), FLYT_COPY_BOX_IN, (xdrproc_t)xdr_copy_box_in_args, &args);
    move->pipe->unconfirmed += size_of(&args.extent);
    move->copied += rehearsal_here() ? 0 : size_of(&args.extent);
    move->pipe->unconfirmed_pieces += piece->args.via.lane != 0;
    if (!code && (move->pipe->unconfirmed >= CONFIRM_EVERY || move->pipe->unconfirmed_pieces >= CONFIRM_PIECES))
        code = confirm(move, args.stream);
    return code ? code : move_pace_passed(move);
}

static uint8_t **room_of(struct move_pipe *pipe, const struct moving_piece *piece)
{
    return &pipe->rooms[piece - pipe->pieces];
}

/* The store may keep the bytes, and give others. */
static int piece_goes(struct move *move, core_context *c, const struct moving_piece *piece)
{
    const u_int size = piece->bytes.data.flyt_bulk_u.bytes.bytes_len;
    uint8_t **room = room_of(move->pipe, piece);
    if (move->steps & MOVE_IN)
        return piece_send(move, c, piece);
    move->copied += size;
    int code = piece->hashes ? move_store_put_at(move, &piece->part, piece->hashes, piece->at, size, room)
                             : move_store_put_swap(move, &piece->part, room);
    return code ? code : move_pace_passed(move);
}

/* ---- from the store ---- */

/* The bytes have left the buffer when wire_send returns. */
static int piece_from_store(struct move *move, core_context *c, struct moving_piece *piece)
{
    struct move_pipe *pipe = move->pipe;
    const uint64_t wanted = piece->part.size;
    if (rehearsal_here()) {
        piece->bytes.data = (flyt_bulk){ .kind = FLYT_BULK_INLINE };
        return pipe->code = piece_send(move, c, piece);
    }
    int code = move_store_get(move, &piece->part, pipe->stored);
    if (!code && piece->part.size != wanted)
        code = CORE_UNKNOWN;
    if (code)
        return move_refuse(move, pipe->code = code, "%llu bytes at 0x%llx could not be read from the file for them "
                           "(error %d)", (unsigned long long)wanted, (unsigned long long)piece->args.from.address,
                           code);
    piece->bytes.data = (flyt_bulk){ .kind = FLYT_BULK_INLINE };
    piece->bytes.data.flyt_bulk_u.bytes.bytes_len = (u_int)wanted;
    piece->bytes.data.flyt_bulk_u.bytes.bytes_val = pipe->stored;
    return pipe->code = piece_send(move, c, piece);
}

/* ---- from the old server ---- */

/* Whether it is what was asked for, here or on its way to the new server. */
static bool is_whole(const struct moving_piece *piece)
{
    const flyt_bulk *data = &piece->bytes.data;
    const uint64_t size = size_of(&piece->args.extent);
    if (data->kind == FLYT_BULK_INLINE)
        return data->flyt_bulk_u.bytes.bytes_len == size;
    return piece->args.via.lane && data->kind == FLYT_BULK_LANE &&
           data->flyt_bulk_u.on_lane.transfer == piece->args.via.transfer && data->flyt_bulk_u.on_lane.size == size;
}

static void piece_wait(struct move *move, struct moving_piece *piece)
{
    struct move_pipe *pipe = move->pipe;
    const unsigned long long at = piece->args.from.address, size = size_of(&piece->args.extent);
    move_go(move, MOVE_SOURCE);
    int code = wire_wait(&piece->call);
    if (!code && !piece->looks && !is_whole(piece))
        code = CORE_UNKNOWN;
    if (code && !pipe->code)
        move_refuse(move, pipe->code = code, "%llu bytes at 0x%llx could not be read (error %d)", size, at, code);
}

/* Decoding puts the bytes where bytes_val points to. False: no memory. */
static bool bytes_await(struct move_pipe *pipe, struct moving_piece *piece)
{
    uint8_t **room = room_of(pipe, piece);
    memset(&piece->bytes, 0, sizeof piece->bytes);
    if (!*room && !(*room = malloc(FLYT_MAX_INLINE)))
        return false;
    piece->bytes.data.flyt_bulk_u.bytes.bytes_val = (char *)*room;
    return true;
}

/* Where decoding has failed, it may have freed the room. */
static void bytes_end(struct move_pipe *pipe, struct moving_piece *piece)
{
    flyt_bulk *data = &piece->bytes.data;
    if (data->kind == FLYT_BULK_INLINE && !data->flyt_bulk_u.bytes.bytes_val)
        *room_of(pipe, piece) = NULL;
    data->flyt_bulk_u.bytes.bytes_val = NULL;
    data->kind = FLYT_BULK_INLINE;
    xdr_free((xdrproc_t)xdr_copy_out_result, &piece->bytes);
}

static struct moving_piece *piece_next(struct move_pipe *pipe) { return &pipe->pieces[pipe->asked % PIECES]; }

/* args and part are filled in. There is room. */
static int piece_submit(struct move *move, core_context *c, struct moving_piece *piece)
{
    struct move_pipe *pipe = move->pipe;
    move_go(move, MOVE_SOURCE);
    int code = move_stream(move, c, &piece->args.stream);
    if (code)
        return code;
    if (move->direct_lanes)
        piece->args.via = (flyt_via){ FLYT_MAX_LANES + 1 + pipe->asked % move->direct_lanes, ++move->direct_transfer };
    if (piece->looks) {
        piece->look = (fingerprints_args){ piece->args.stream, piece->args.from, piece->args.extent };
        memset(&piece->found, 0, sizeof piece->found);
        wire_prepare(&piece->call, FLYT_FINGERPRINTS, (xdrproc_t)xdr_fingerprints_args, &piece->look,
                     (xdrproc_t)xdr_fingerprints_result, &piece->found);
    } else {
        if (!bytes_await(pipe, piece))
            return CORE_OUT_OF_MEMORY;
        wire_prepare(&piece->call, FLYT_COPY_BOX_OUT, (xdrproc_t)xdr_copy_box_out_args, &piece->args,
                     (xdrproc_t)xdr_copy_out_result, &piece->bytes);
    }
    wire_submit(move_calls(move), &piece->call);
    pipe->asked++;
    return CORE_OK;
}

/* The hashes of a piece have come: the bytes that are not as they were are asked for. Of a box these are all. */
static int piece_looked(struct move *move, core_context *c, const struct moving_piece *piece)
{
    struct move_hashes *hashes = calloc(1, sizeof *hashes);
    uint64_t at, size;
    if (!hashes)
        return CORE_OUT_OF_MEMORY;
    hashes->count = piece->found.all.all_len;
    for (unsigned i = 0; i < hashes->count; i++)
        hashes->of[i] = (struct move_hash){ piece->found.all.all_val[i].low, piece->found.all.all_val[i].high };
    int code = move_store_look_at(move, &piece->part, hashes, &at, &size);
    if (code || !size) {
        free(hashes);
        return code ? code : move_pace_passed(move);
    }
    struct moving_piece more = { .args = piece->args, .part = piece->part, .hashes = hashes, .at = at };
    if (piece->args.extent.height * piece->args.extent.depth == 1) {
        more.args.from.address += at;
        more.args.extent.width = size;
    } else {
        more.at = 0;
    }
    struct moving_piece *next = piece_next(move->pipe);         /* which may be this one */
    *next = more;
    code = piece_submit(move, c, next);
    if (code) {
        free(hashes);
        next->hashes = NULL;
    }
    return code;
}

/* The oldest piece. The context is that of all pieces: move_stream ends what another one has begun. */
static void piece_arrives(struct move *move, core_context *c)
{
    struct move_pipe *pipe = move->pipe;
    struct moving_piece *piece = &pipe->pieces[pipe->arrived++ % PIECES];
    const unsigned long long at = piece->args.from.address, size = size_of(&piece->args.extent);
    piece_wait(move, piece);
    fingerprints_result found = piece->found;
    if (piece->looks) {
        int code = pipe->code ? CORE_OK : piece_looked(move, c, piece);
        if (code)
            move_refuse(move, pipe->code = code, "%llu bytes at 0x%llx could not be compared (error %d)", size, at,
                        code);
        xdr_free((xdrproc_t)xdr_fingerprints_result, &found);
        return;
    }
    int code = pipe->code ? CORE_OK : piece_goes(move, c, piece);
    if (code)
        move_refuse(move, pipe->code = code, "%llu bytes at 0x%llx could not be written %s (error %d)", size, at,
                    move->steps & MOVE_IN ? "at the new server" : "to the file for them", code);
    free(piece->hashes);
    bytes_end(pipe, piece);
}

/* What is known to be as in the store before need not come. Only of memory that the object's address names: a handle's
   is mapped anew each time, and arrays and heaps lie elsewhere. */
static bool is_untouched(const struct move *move, const struct move_part *part, uint64_t address)
{
    return move->steps == MOVE_OUT && address == part->object + part->offset &&
           move_store_untouched(move->store, part, address);
}

static int piece_ask(struct move *move, core_context *c, uint64_t object, uint64_t offset, const flyt_box *from,
                     const flyt_extent *extent)
{
    const struct move_part part = { move->kind, object, offset, size_of(extent) };
    struct move_pipe *pipe = move->pipe;
    if (is_untouched(move, &part, from->address)) {
        int code = pipe->code ? pipe->code : move_store_keep_at(move, &part);
        return pipe->code = code ? code : move_pace_passed(move);
    }
    while (pipe->asked - pipe->arrived == PIECES)
        piece_arrives(move, c);
    if (pipe->code)
        return pipe->code;
    struct moving_piece *piece = piece_next(pipe);
    *piece = (struct moving_piece){ .args = { .from = *from, .extent = *extent }, .part = part };
    if (!(move->steps & MOVE_OUT))
        return piece_from_store(move, c, piece);
    piece->looks = !(move->steps & MOVE_IN) && !core_perf.no_fingerprints &&
                   core_session.hello.capabilities & FLYT_CAP_FINGERPRINTS &&
                   move_store_compares(move->store, &piece->part);
    return piece_submit(move, c, piece);
}

int move_bytes_there(struct move *move)
{
    struct move_pipe *pipe = move->pipe;
    while (pipe && pipe->arrived != pipe->asked)
        piece_arrives(move, move->streaming);
    int code = !pipe ? CORE_OK : pipe->code ? pipe->code : confirm(move, move->stream);
    int ended = move_bytes_end(move);
    return code ? code : ended;
}

int move_bytes_end(struct move *move)
{
    struct move_pipe *pipe = move->pipe;
    if (!pipe)
        return CORE_OK;
    while (pipe->arrived != pipe->asked)
        piece_arrives(move, move->streaming);
    int ended = confirm_wait(move), code = pipe->code ? pipe->code : ended;
    for (unsigned i = 0; i < PIECES; i++)
        free(pipe->rooms[i]);
    free(pipe);
    move->pipe = NULL;
    return code;
}

/* ---- what callers ask for ---- */

/* Begins with what belongs to one context: the pieces of another one have arrived. */
static int pipe_begin(struct move *move, core_context *c)
{
    int code = move->streaming && move->streaming != c ? move_stream_end(move) : CORE_OK;
    size_t stored = move->steps & MOVE_OUT ? 0 : FLYT_MAX_INLINE;
    if (!code && !move->pipe && !(move->pipe = calloc(1, sizeof *move->pipe + stored)))
        code = CORE_OUT_OF_MEMORY;
    return code;
}

/* Whole slices, or whole rows of one, or a part of one row: as many as `bytes` are enough for. */
static flyt_extent next_part(const struct core_extent *whole, uint64_t row, uint64_t left_of_row, uint64_t line,
                             uint64_t bytes)
{
    const uint64_t height = whole->height, most = bytes / row;
    uint64_t rows = height - line % height, slices = whole->depth - line / height;
    if (!most || left_of_row < row)
        return (flyt_extent){ left_of_row < bytes ? left_of_row : bytes, 1, 1 };
    if (rows < height || most < height)
        return (flyt_extent){ row, rows < most ? rows : most, 1 };
    return (flyt_extent){ row, height, slices < most / height ? slices : most / height };
}

static int box_copy(struct move *move, core_context *c, uint64_t object, uint64_t address,
                    const struct core_extent *extent)
{
    const uint64_t row = extent->width, lines = extent->height * extent->depth;
    const uint64_t most = move->direct_lanes && move->direct_chunk < FLYT_MAX_INLINE ? move->direct_chunk
                                                                                     : FLYT_MAX_INLINE;
    int code = pipe_begin(move, c);
    for (uint64_t at = 0; at < row * lines && !code;) {
        const flyt_extent part = next_part(extent, row, row - at % row, at / row, most);
        code = piece_ask(move, c, object, at, &(flyt_box){ address + at, row, extent->height }, &part);
        at += size_of(&part);
    }
    return code;
}

int move_box(struct move *move, core_context *c, uint64_t address, const struct core_extent *extent)
{
    return box_copy(move, c, address, address, extent);
}

int move_bytes_of(struct move *move, core_context *c, uint64_t object, uint64_t address, uint64_t size)
{
    return size ? box_copy(move, c, object, address, &(struct core_extent){ size, 1, 1 }) : CORE_OK;
}

int move_bytes(struct move *move, core_context *c, uint64_t address, uint64_t size)
{
    const struct ahead_context *ahead = move->prepares ? NULL : move_ahead_of(move->ahead, c);
    struct ahead_span next = { address, address };
    int code = CORE_OK;
    if (!ahead)
        return move_bytes_of(move, c, address, address, size);
    while (!code && move_ahead_next(move->ahead, ahead, next.end, address + size, UINT64_MAX, &next))
        code = move_bytes_of(move, c, next.start, next.start, next.end - next.start);
    return code;
}

int move_bytes_keep(struct move *move, uint64_t object, uint64_t size, bool *kept)
{
    struct move_part part = { move->kind, object, 0, 0 };
    int code = CORE_OK;
    *kept = true;
    for (; part.offset < size && *kept; part.offset += part.size) {
        part.size = size - part.offset < FLYT_MAX_INLINE ? size - part.offset : FLYT_MAX_INLINE;
        *kept = move_store_has(move->store, &part);
    }
    for (part.offset = 0; part.offset < size && *kept && !code; part.offset += part.size) {
        part.size = size - part.offset < FLYT_MAX_INLINE ? size - part.offset : FLYT_MAX_INLINE;
        code = move_store_keep_at(move, &part);
    }
    return code ? code : move_pace_passed(move);
}
