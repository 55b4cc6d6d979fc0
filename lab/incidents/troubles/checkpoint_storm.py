"""A batch job changes more than the log of the database may hold between two checkpoints."""

from incidents.judging import Culprit, Truth
from incidents.troubles.parts import device_name

MAKES = "an UPDATE of a million rows has PostgreSQL write checkpoint after checkpoint (max_wal_size 64 MB)"
NEEDS = ["pg_ctlcluster", "setpriv", "losetup", "mkfs.ext4"]
# another table than the one that the others use, so that nobody waits for its locks
TABLE = "create table ledger as select * from pgbench_accounts"
BATCH = "update ledger set abalance = abalance + 1, filler = md5(aid::text);"


def prepare(ground):
    disk = ground.disk("many-at-once", {
        "disk.plain.servers": 1, "disk.plain.service": "{ uniform_us = [2400, 3600] }", "disk.capacity": "4GiB"})
    folder = ground.mount_ext4(disk, "3g")
    server = ground.postgres(folder, scale=10, max_wal_size="64MB", min_wal_size="32MB")
    server.sql(TABLE)
    ground.victim = server.bench(4, rate=60, script="simple-update")

    def begin():
        server.session(" ".join([BATCH] * 20))
        return Truth(resources=[("disk", device_name(disk))], culprits=[Culprit(["postgres: ", "checkpointer"])])

    return begin
