/* secret.c: commands whose answer is a new secret, of a VM or of a node: it is printed once, or written to a file. */
#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"
#include "cpu/common/secret.h"

/* As commands and files are called. */
static const char *command_word(const char *noun) { return strcmp(noun, "VM") == 0 ? "vm" : noun; }

enum { SECRET_PATH_SIZE = 4096 };

/* Where the secret is to be written; NULL: it is printed. */
static const char *secret_path(const struct flytctl *ctl, const char *name, char path[SECRET_PATH_SIZE])
{
    const char *folder = NULL;
    if (option_find(ctl->command->options, "secret-folder", strlen("secret-folder"), '\0'))
        folder = option(ctl, "secret-folder");
    if (!folder)
        return option(ctl, "secret-file");
    snprintf(path, SECRET_PATH_SIZE, "%s/%s.secret", folder, name);
    return path;
}

/* The secret exists nowhere else any more: where it cannot be written to its file it is printed after all. */
static int give_secret(struct flytctl *ctl, const char *noun, const char *what, const char *name,
                       const admin_vm_add_result *result)
{
    char error[EXPLAIN_SIZE], path[SECRET_PATH_SIZE];
    const char *file = secret_path(ctl, name, path), *secret = result->secret, *remark = result->status.text;
    int code = EXIT_FINE;
    if (file && *secret) {
        if (secret_write_for_daemon(file, secret, strlen(secret), error)) {
            code =
                complain(ctl, EXIT_FAILED, "the %s was %s, but its secret could not be written: %s", noun, what, error);
            file = NULL;
            if (ctl->json)
                fprintf(stderr, "flytctl: the secret: %s\n", secret);
        }
    }
    json_t *members =
        json_pack("{s:o, s:o}", "name", json_text(name), "secret", file || !*secret ? json_null() : json_text(secret));
    if (!*secret)
        report(ctl, members, "%s %s %s%s%s", noun, name, what, *remark ? ": " : "", remark);
    else if (file)
        report(ctl, members, "%s %s %s; its secret is in %s%s%s", noun, name, what, file, *remark ? ". " : "", remark);
    else if (ctl->json && code == EXIT_FINE)
        report(ctl, members, "%s %s %s%s%s", noun, name, what, *remark ? ": " : "", remark);
    else if (!ctl->json)
        report(ctl, members,
               "%s %s %s%s%s. Its secret, which is shown only now, belongs in /etc/flyt/%s.secret of the %s "
               "(root:flyt, mode 0640):\n%s",
               noun, name, what, *remark ? ": " : "", remark, command_word(noun), noun, secret);
    else
        json_decref(members);
    return code;
}

/* The change may be made yet, and then this is the secret, which nobody could ask for again. A file with the
   secret that holds until then stays as it is. */
static int give_secret_perhaps(struct flytctl *ctl, const char *noun, const char *name,
                               const admin_vm_add_result *result)
{
    char error[EXPLAIN_SIZE], usual[SECRET_PATH_SIZE], path[SECRET_PATH_SIZE + 8] = "";
    const char *file = secret_path(ctl, name, usual), *secret = result->secret;
    if (!*secret)
        return complain_status(ctl, &result->status);
    if (file)
        snprintf(path, sizeof path, "%s%s", file, option_count(ctl, "new-secret") ? ".new" : "");
    if (file && secret_write(path, secret, strlen(secret), error) == 0)
        return complain_more(
            ctl, EXIT_UNKNOWN,
            json_pack("{s:o, s:n, s:o}", "name", json_text(name), "secret", "secret_file", json_text(path)),
            "%s. If the change is made, the secret of %s %s is the one in %s", result->status.text, noun, name, path);
    return complain_more(ctl, EXIT_UNKNOWN,
                         json_pack("{s:o, s:o}", "name", json_text(name), "secret", json_text(secret)),
                         "%s. If the change is made, the secret of %s %s is this one, which is shown only now:%s%s",
                         result->status.text, noun, name, ctl->json ? "" : "\n", ctl->json ? " see `secret`" : secret);
}

/* Before anything is changed: could the secret be written there? */
static int check_secret_file(struct flytctl *ctl, const char *name)
{
    char path[SECRET_PATH_SIZE], folder[SECRET_PATH_SIZE];
    const char *file = secret_path(ctl, name, path);
    struct stat there;
    if (!file)
        return EXIT_FINE;
    snprintf(folder, sizeof folder, "%s", file);
    if (access(dirname(folder), W_OK | X_OK) != 0)
        return complain(ctl, EXIT_FAILED, "--secret-file: nothing can be written to %s: %s. Nothing was changed",
                        folder, strerror(errno));
    if (stat(file, &there) == 0 && !S_ISREG(there.st_mode))
        return complain(ctl, EXIT_USAGE, "--secret-file: %s is no file. Nothing was changed", file);
    return EXIT_FINE;
}

int ask_for_secret(struct flytctl *ctl, uint32_t procedure, const void *args, const char *noun, const char *what,
                   const char *name)
{
    admin_vm_add_result result;
    int code = check_secret_file(ctl, name);
    if (code)
        return code;
    look_with(ctl, "flytctl %s show %s", command_word(noun), name);
    code = ask_raw(ctl, procedure, args, &result);
    if (code)
        return code;
    if (result.status.code == CTL_OK)
        code = give_secret(ctl, noun, what, name, &result);
    else if (result.status.code == CTL_UNKNOWN)
        code = give_secret_perhaps(ctl, noun, name, &result);
    else
        code = complain_status(ctl, &result.status);
    protocol_free((xdrproc_t)xdr_admin_vm_add_result, &result);
    return code;
}
