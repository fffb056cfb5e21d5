/*
 * replay_places.h: values that a server chooses, and that depend on everything it has made before: names of arrays,
 * values of textures and surfaces, addresses of modules. A server at which a checkpoint was restored has not made the
 * objects that had ended by then. So PLACE says what the program was given for each object that came later.
 */
#ifndef FLYT_CLIENT_CORE_REPLAY_PLACES_H
#define FLYT_CLIENT_CORE_REPLAY_PLACES_H

#include "cpu/client/core/wire/journal.h"

struct replay_places {
    struct placed_module { bool loaded; flyt_id context; } *modules; /* by id */
    size_t count;
    flyt_id context; /* of the last array */
    uint64_t numbers[FLYT_MAX_PLACE];
};

/* Of a call that is about to be repeated. True: *args has to be said before it; it points into the structure. */
bool replay_place_find(struct replay_places *, const struct journal_entry *, place_args *);
void replay_places_close(struct replay_places *);

#endif
