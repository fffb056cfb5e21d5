/*
 * figures.c: what the programs of a server have done, from the books that its workers keep
 * (cpu/common/tenant_ledger.h).
 *
 * The books are the server's own, and a server that was taken over writes there what it likes: the figures are what it
 * says of itself. So much is sure that they never fall while its process lives.
 */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/tenant_ledger.h"

_Static_assert((int)CTL_TIMES == (int)LEDGER_TIMES && sizeof(ctl_figures) == sizeof(struct ledger_figures) &&
                   offsetof(ctl_figures, times) == offsetof(struct ledger_figures, times),
               "read as they are");

enum { AT_ONCE = 64, TRIES = 3, FIGURES = LEDGER_FIGURES };

static bool read_at(int fd, void *to, size_t size, size_t at)
{
    return pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* Of all its workers, those that have ended included. false: a worker's figures were moved meanwhile. */
static bool sum(int fd, uint64_t all[FIGURES])
{
    uint64_t part[AT_ONCE][FIGURES], folds, again;
    uint32_t high = 0;
    if (!read_at(fd, &folds, sizeof folds, offsetof(struct ledger, folds)) || folds % 2 ||
        !read_at(fd, &high, sizeof high, offsetof(struct ledger, high)) ||
        !read_at(fd, all, FIGURES * sizeof *all, offsetof(struct ledger, ended)))
        return false;
    for (uint32_t slot = 0; slot < high && slot < LEDGER_SLOTS; slot += AT_ONCE) {
        uint32_t count = LEDGER_SLOTS - slot < AT_ONCE ? LEDGER_SLOTS - slot : AT_ONCE;
        if (!read_at(fd, part, count * sizeof *part, offsetof(struct ledger, figures) + slot * sizeof *part))
            return false;
        for (uint32_t i = 0; i < count; i++)
            for (int k = 0; k < FIGURES; k++)
                all[k] += part[i][k];
    }
    return read_at(fd, &again, sizeof again, offsetof(struct ledger, folds)) && again == folds;
}

void figures_look(struct node_server *server)
{
    uint64_t all[FIGURES], epoch = server->process.started << 22 | (uint64_t)server->process.pid;
    u_quad_t *kept = (u_quad_t *)&server->figures;
    bool good = false;
    if (server->process.pid <= 0)
        return;
    if (server->epoch != epoch)
        memset(&server->figures, 0, sizeof server->figures);
    server->epoch = epoch;
    int fd = own_open_file(server, "memory");
    for (int i = 0; fd >= 0 && !good && i < TRIES; i++)
        good = sum(fd, all);
    if (fd >= 0)
        close(fd);
    for (int k = 0; good && k < FIGURES; k++)
        kept[k] = all[k] > kept[k] ? all[k] : kept[k];
}
