/* recover_report.c: see recover_report.h. It is said at the first opportunity, and when it has changed. */
#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/rpc/manager_prot.h"
#include "recover_report.h"

void recover_report(void)
{
    static int said; /* the helper's alone */
    int state = journal_protects()           ? MANAGER_RECOVERY_PROTECTED
                : *journal_why_unprotected() ? MANAGER_RECOVERY_UNPROTECTED
                                             : 0;
    if (!state || state == said || !core_session.managed)
        return;
    said = state;
    manager_tell_recovery(state, state == MANAGER_RECOVERY_UNPROTECTED ? journal_why_unprotected() : "", 0, 0);
}
