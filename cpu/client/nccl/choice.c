/*
 * choice.c: whose NCCL the program uses: these functions, or those of an NCCL of its own, because its GPU server
 * carries out no collectives. The first call that needs to know asks the server, once for the process; then all entries
 * (entries.awk) jump straight to the functions chosen. So no communicator of one library meets a function of the other.
 *
 * A process that cannot be connected has chosen nothing yet: its call fails here, and its next one asks again.
 */
#include "cpu/client/nccl/nccl.h"

#include "cpu/client/nccl/own.h"
#include "cpu/common/log.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Made by entries.awk, by number. Programs jump to what is in nccl_entries at any moment. */
extern void *_Atomic nccl_entries[];
extern void *const nccl_bodies[];
extern const char *const nccl_names[];
extern const unsigned nccl_entry_count;

/* For own.c, which looks for it in other libraries. */
extern const char flyt_libnccl __attribute__((visibility("default")));
const char flyt_libnccl = 1;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool chosen;        /* under the lock */
static char own[PATH_MAX]; /* the library that the program uses in place of this one; "" */

/* In place of a function that the program's own NCCL lacks. */
static nccl_result lacking(void)
{
    static atomic_bool said;
    if (!atomic_exchange(&said, true))
        log_warning("the program calls a function of NCCL that its own libnccl.so.2 (%s) lacks", own);
    return NCCL_INVALID_USAGE;
}

static void use_bodies(void)
{
    for (unsigned i = 0; i < nccl_entry_count; i++)
        atomic_store(&nccl_entries[i], nccl_bodies[i]);
}

static void use_own(void *library)
{
    for (unsigned i = 0; i < nccl_entry_count; i++) {
        void *function = dlsym(library, nccl_names[i]);
        atomic_store(&nccl_entries[i], function ? function : (void *)lacking);
    }
}

static const char *why_not(const struct core_comms_offer *offer, const char *server)
{
    if (strncmp(server, "local:", 6) == 0)
        return "it is a part of the program's process";
    return offer->comms ? "it is of an earlier release"
                        : "it does not see the memory of its GPUs, or is of an earlier "
                          "release";
}

/* Under the lock. */
static void choose(const void *caller)
{
    struct core_comms_offer offer;
    char server[CORE_WHY_SIZE];
    if (core_comms_offered(&offer))
        return;
    chosen = true;
    void *library = offer.comms && offer.kept ? NULL : nccl_own_find(caller, own);
    if (library)
        use_own(library);
    else
        use_bodies();
    if (offer.comms && offer.kept)
        return;
    core_server_address(NULL, server, sizeof server);
    if (library)
        log_info("the GPU server %s carries out no collectives (%s): the program uses its own NCCL, %s", server,
                 why_not(&offer, server), own);
    else
        log_warning("the GPU server %s carries out no collectives (%s), and no libnccl.so.2 of the program's own was "
                    "found, so functions of NCCL fail; FLYT_NCCL_PROGRAM may name one",
                    server, why_not(&offer, server));
}

/* Called by the code of entries.awk. caller: an address in the code that calls the function. Where that goes on. */
void *nccl_choose(unsigned number, const void *caller);
void *nccl_choose(unsigned number, const void *caller)
{
    NCCL_ENTER();
    pthread_mutex_lock(&lock);
    if (!chosen)
        choose(caller);
    void *to = chosen ? atomic_load(&nccl_entries[number]) : nccl_bodies[number];
    pthread_mutex_unlock(&lock);
    return to;
}
