/* recover_report.c: see recover_report.h. It is said at the first opportunity, when it has changed, and to another
   client manager. */
#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/rpc/manager_prot.h"
#include "recover_report.h"

void recover_report(void)
{
    static int said; /* the helper's alone, as the next one: after how many comings it was said */
    static unsigned heard;
    const unsigned comings = manager_comings();
    int state = journal_protects()           ? MANAGER_RECOVERY_PROTECTED
                : *journal_why_unprotected() ? MANAGER_RECOVERY_UNPROTECTED
                                             : 0;
    if (!state || (state == said && comings == heard) || !core_session.managed)
        return;
    said = state;
    heard = comings;
    manager_tell_recovery(state, state == MANAGER_RECOVERY_UNPROTECTED ? journal_why_unprotected() : "", 0, 0);
}
