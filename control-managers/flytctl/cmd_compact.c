/* cmd_compact.c: a checkpoint and its changes become one (cpu/checkpoint/chain.h). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"
#include "cpu/checkpoint/chain.h"
#include "cpu/checkpoint/file.h"

static int add_all(struct flytctl *ctl, struct checkpoint_chain *chain, int *files, const uint8_t *key)
{
    char why[CHECKPOINT_WHY_SIZE] = "";
    for (int i = 1; i < ctl->argc; i++) {
        files[i] = open(ctl->argv[i], O_RDONLY | O_CLOEXEC);
        if (files[i] < 0)
            return complain(ctl, EXIT_FAILED, "%s cannot be read: %s", ctl->argv[i], strerror(errno));
        if (checkpoint_chain_add(chain, files[i], key, why))
            return complain(ctl, EXIT_FAILED, "%s cannot be used: %s", ctl->argv[i], why);
    }
    return EXIT_FINE;
}

/* Encrypted with a new key of its own if one of the files is. */
static int write_new(struct flytctl *ctl, struct checkpoint_chain *chain, const uint8_t *key)
{
    const char *path = ctl->argv[0];
    char why[CHECKPOINT_WHY_SIZE + CTL_MAX_PATH] = "";
    struct checkpoint_file file;
    struct checkpoint_seal seal;
    const bool seals = checkpoint_chain_sealed(chain);
    if (seals && (!key || !checkpoint_seal_make(key, &seal)))
        return complain(ctl, EXIT_FAILED, "no key could be made for %s", path);
    int fd = checkpoint_file_make(&file, path, why, sizeof why);
    int error = fd < 0 ? -errno : checkpoint_chain_write(chain, fd, seals ? &seal : NULL, why);
    if (error && fd >= 0)
        checkpoint_file_drop(&file);
    else if (!error && !checkpoint_file_name(&file, fd, why, sizeof why))
        error = -EIO;
    if (fd >= 0)
        close(fd);
    checkpoint_key_wipe(&seal, sizeof seal);
    return error ? complain(ctl, EXIT_FAILED, "%s was not made: %s", path, why) : EXIT_FINE;
}

int command_checkpoint_compact(struct flytctl *ctl)
{
    const char *key_file = option(ctl, "key");
    uint8_t key[CHECKPOINT_KEY];
    int files[MAX_WORDS], code = key_file ? checkpoint_key_file(ctl, key_file, key) : EXIT_FINE;
    if (code)
        return code;
    if (ctl->argc > CHECKPOINT_CHAIN_MOST)
        return complain(ctl, EXIT_USAGE, "at most %d files at once", CHECKPOINT_CHAIN_MOST - 1);
    for (int i = 0; i < ctl->argc; i++)
        files[i] = -1;
    struct checkpoint_chain *chain = checkpoint_chain_new();
    code = chain ? add_all(ctl, chain, files, key_file ? key : NULL) : complain(ctl, EXIT_FAILED, "no memory");
    if (!code)
        code = write_new(ctl, chain, key_file ? key : NULL);
    if (!code)
        report(ctl, json_pack("{s:o}", "file", json_text(ctl->argv[0])), "%s holds what %s and %d with changes held",
               ctl->argv[0], ctl->argv[1], ctl->argc - 2);
    checkpoint_chain_free(chain);
    for (int i = 0; i < ctl->argc; i++)
        if (files[i] >= 0)
            close(files[i]);
    checkpoint_key_wipe(key, sizeof key);
    return code;
}
