"""A forgotten transaction holds a lock that everybody wants; nothing of the machine is short."""

from incidents.judging import Culprit, Truth

MAKES = "a session locks the table of PostgreSQL that eight clients update, and does nothing more"
NEEDS = ["pg_ctlcluster", "setpriv", "losetup", "mkfs.ext4"]
LOCK = "begin; lock table pgbench_accounts in access exclusive mode;"
HOLDER = """select pid from pg_locks where relation = 'pgbench_accounts'::regclass and granted
            and mode = 'AccessExclusiveLock'"""


def prepare(ground):
    server = ground.postgres(ground.mount_ext4(ground.fast_disk(1024), "900m"))
    ground.victim = server.bench(8, rate=80)

    def begin():
        server.session(LOCK)
        ground.wait_for(lambda: server.sql(HOLDER).isdigit(), "the lock")
        holder = int(server.sql(HOLDER))
        return Truth(resources=[("application", None)], culprits=[Culprit(["postgres"], lambda: [holder])],
                     events=[r"\block", rf"\b{holder}\b"])

    return begin
