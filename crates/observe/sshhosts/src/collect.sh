# Runs on the other host, by its `sh`, with nothing but POSIX: looks for our program, takes a copy of it if one is
# offered, and otherwise prints files of /proc and /sys at each tick. It writes nothing but that copy.
#
# Arguments: interval and duration in seconds (0: until the connection ends), the bytes, the SHA-256 and the processor
# of the copy (0 bytes: none is offered), then, if another command than the collection is to run, its words.
#
# What the other side reads:
#   diskwright-ssh 1 program|copied VERSION   our program's output follows
#   diskwright-ssh 1 send                     the bytes of the copy are awaited
#   diskwright-ssh 1 shell KERNEL; REASON     ticks follow: `@ tick SECONDS`, lines `FILE:CONTENT`, `@ end`
#   diskwright-ssh 1 none REASON              the command needs our program
main() {
    LC_ALL=C
    export LC_ALL
    umask 077
    every=$1 lasts=$2 bytes=$3 hash=$4 machine=$5
    shift 5
    reason='diskwright is not installed there'
    own=$(command -v diskwright 2>/dev/null) && run_program "$own" program "$@"
    [ "$bytes" -gt 0 ] && receive_copy && run_program "$copy" copied "$@"
    if [ $# -gt 0 ]; then
        echo "diskwright-ssh 1 none $reason"
    elif [ -r /proc/stat ] && [ -r /proc/uptime ]; then
        echo "diskwright-ssh 1 shell $(uname -srm); $reason"
        print_ticks
    else
        echo "diskwright-ssh 1 none $reason, and it has no /proc ($(uname -srm))"
    fi
}

# Becomes the program, if it can do what is needed.
run_program() {
    program=$1 way=$2
    shift 2
    version=$("$program" --version 2>/dev/null) || { reason="$program does not start there"; return 1; }
    if ! "$program" stream-counters --check >/dev/null 2>&1; then
        reason="$version there cannot be read from here"
        return 1
    fi
    echo "diskwright-ssh 1 $way $version"
    # a running program needs no name
    [ "$way" = copied ] && { sleep 1; rm -f "$copy"; } </dev/null >/dev/null 2>&1 &
    if [ $# -gt 0 ]; then exec "$program" "$@"; fi
    exec "$program" stream-counters --every "${every}s" --for "${lasts}s"
}

# Receives a copy of the program into a private file, which is removed within a minute whatever happens.
receive_copy() {
    copy=
    [ "$(uname -m)" = "$machine" ] || { reason="its processor is $(uname -m), and the copy is for $machine"; return 1; }
    command -v sha256sum >/dev/null || { reason='it has no sha256sum to check a copy'; return 1; }
    for folder in "${XDG_RUNTIME_DIR:-}" /dev/shm /tmp /var/tmp "${HOME:-}"; do
        [ -n "$folder" ] && [ -d "$folder" ] && [ -w "$folder" ] || continue
        copy=$folder/.diskwright-copy-$$
        # never through a link or into a file of others
        (set -C && : >"$copy") 2>/dev/null || { copy=; continue; }
        printf '#!/bin/sh\nexit 7\n' >"$copy" && chmod 700 "$copy"
        "$copy" 2>/dev/null
        [ $? -eq 7 ] && break
        rm -f "$copy"
        copy=
    done
    [ -n "$copy" ] || { reason='no folder there takes a program'; return 1; }
    { sleep 50; rm -f "$copy"; } </dev/null >/dev/null 2>&1 &
    trap 'rm -f "$copy"' 0 1 2 13 15
    echo 'diskwright-ssh 1 send'
    head -c "$bytes" >"$copy" 2>/dev/null
    sum=$(sha256sum <"$copy")
    if [ "${sum%% *}" != "$hash" ]; then
        rm -f "$copy"
        reason='the copy did not arrive whole'
        return 1
    fi
    trap - 0 1 2 13 15
}

print_ticks() {
    read -r begin rest </proc/uptime
    begin=${begin%%.*} tick=0 depth=4
    # the costly part comes every ten seconds
    slow=$((10 / every))
    [ "$slow" -gt 0 ] || slow=1
    while :; do
        echo "@ tick $(date +%s)"
        print_counters
        [ $((tick % slow)) -eq 0 ] && print_facts
        echo '@ end' || exit 0
        tick=$((tick + 1))
        read -r now rest </proc/uptime
        [ "$lasts" -gt 0 ] && [ $((${now%%.*} - begin)) -ge "$lasts" ] && exit 0
        # a host with thousands of processes is asked less often
        sleep $((every + processes / 1000))
    done
}

# What changes at every tick.
print_counters() {
    set -- /proc/[0-9]*
    processes=$#
    set -- /proc/uptime /proc/stat /proc/diskstats /proc/meminfo /proc/vmstat /proc/loadavg /proc/pressure/* \
        /proc/interrupts /proc/softirqs /proc/net/dev /proc/swaps /proc/mdstat /proc/net/rpc/nfsd \
        /proc/self/mountstats /proc/spl/kstat/zfs/arcstats
    groups='cpu.stat memory.current memory.max memory.high memory.swap.current memory.stat memory.events io.stat
        io.max cpu.max io.pressure memory.pressure cpu.pressure cgroup.controllers'
    for file in $groups; do add_levels /sys/fs/cgroup "$file"; done
    for file in memory.usage_in_bytes memory.limit_in_bytes memory.failcnt memory.oom_control memory.stat; do
        add_levels /sys/fs/cgroup/memory "$file"
    done
    for file in io_serviced io_service_bytes read_iops_device write_iops_device read_bps_device write_bps_device; do
        add_levels /sys/fs/cgroup/blkio "blkio.throttle.$file"
    done
    for file in cpu.stat cpu.cfs_quota_us cpu.cfs_period_us; do add_levels /sys/fs/cgroup/cpu "$file"; done
    add_levels /sys/fs/cgroup/cpuacct cpuacct.usage
    # shellcheck disable=SC2086 # patterns of files
    grep -s '' "$@" $levels
    levels=
    if [ "$processes" -le 5000 ]; then
        grep -s '' /proc/[0-9]*/stat /proc/[0-9]*/io /proc/[0-9]*/schedstat
    fi
}

# Adds a file of a tree of control groups at each level.
levels=
add_levels() {
    [ -d "$1" ] || return 0
    levels="$levels $1/$2 $1/*/$2 $1/*/*/$2"
    [ "$depth" -gt 2 ] && levels="$levels $1/*/*/*/$2 $1/*/*/*/*/$2"
}

# What seldom changes: devices and what they stand on, names, mounts.
print_facts() {
    set -- /sys/fs/cgroup/*/*/*/ /sys/fs/cgroup/*/*/*/*/
    depth=4
    [ $# -gt 600 ] && depth=2
    echo '@ links'
    ls -l /sys/block /sys/class/block /sys/dev/block /sys/class/net /sys/block/*/slaves /sys/block/*/device \
        /sys/fs/btrfs/*/devices 2>/dev/null
    echo '@ files'
    grep -s '' /proc/self/mountinfo /proc/cgroups /proc/self/cgroup /proc/sys/kernel/hostname \
        /proc/sys/kernel/osrelease /proc/sys/kernel/task_delayacct /proc/sys/vm/* /etc/passwd
    grep -s '' /sys/block/*/size /sys/block/*/dev /sys/block/*/hidden /sys/block/*/removable /sys/block/*/ro \
        /sys/block/*/queue/* /sys/block/*/device/model /sys/block/*/device/vendor /sys/block/*/device/queue_depth \
        /sys/block/*/device/state /sys/block/*/dm/* /sys/block/*/md/* /sys/block/*/md/*/slot /sys/block/*/md/*/state \
        /sys/block/*/loop/* /sys/block/*/bcache/* /sys/class/block/*/partition /sys/class/block/*/size \
        /sys/class/block/*/dev /sys/class/net/*/speed /sys/class/net/*/operstate /sys/fs/btrfs/*/label \
        /sys/fs/btrfs/*/allocation/*/*/used_bytes
    if [ "$processes" -le 5000 ]; then
        grep -s '' /proc/[0-9]*/cgroup /proc/[0-9]*/status /proc/[0-9]*/wchan
        echo '@ commands'
        ps -A -o pid= -o args= 2>/dev/null
    fi
    echo '@ space'
    df -Pk 2>/dev/null
}

main "$@"
exit
