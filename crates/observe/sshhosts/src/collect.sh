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
    elif ! command -v grep >/dev/null || ! command -v sleep >/dev/null; then
        echo "diskwright-ssh 1 none $reason, and there is no grep or no sleep for a loop"
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
    [ "$way" = copied ] && (exec </dev/null >/dev/null 2>&1; sleep 1; rm -f "$copy") &
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
    # a shell keeps a copy of what it redirects for a function, and the connection would wait for it
    (exec </dev/null >/dev/null 2>&1; remove_when_still "$copy") &
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

# Removes a file that has not grown for half a minute, unless it is gone already.
remove_when_still() {
    size=
    while sleep 25 && [ -e "$1" ]; do
        last=$size
        size=$(wc -c <"$1")
        [ "$size" = "$last" ] && { rm -f "$1"; return; }
    done
}

print_ticks() {
    read -r begin rest </proc/uptime
    begin=${begin%%.*} tick=0
    # the costly part comes every ten seconds
    slow=$((10 / every))
    [ "$slow" -gt 0 ] || slow=1
    # names of files are split at blanks below, and no group's name is a pattern
    set -f
    while :; do
        is_slow=$((tick % slow))
        [ "$is_slow" -eq 0 ] && list_groups
        echo "@ tick $(date +%s 2>/dev/null)"
        print_counters
        [ "$is_slow" -eq 0 ] && print_facts
        echo '@ end' || exit 0
        tick=$((tick + 1))
        read -r now rest </proc/uptime
        [ "$lasts" -gt 0 ] && [ $((${now%%.*} - begin)) -ge "$lasts" ] && exit 0
        # a host with thousands of processes is asked less often
        sleep $((every + processes / 1000))
    done
}

# The files of the control groups: of version 2, and of the trees of version 1.
list_groups() {
    set +f
    group_files=
    for unified in /sys/fs/cgroup /sys/fs/cgroup/unified; do
        [ -e $unified/cgroup.controllers ] || continue
        group_files="$unified/cgroup.controllers"
        list_files $unified cpu.stat memory.current memory.max memory.high memory.swap.current memory.stat \
            memory.events io.stat io.max cpu.max io.pressure memory.pressure cpu.pressure
    done
    list_files /sys/fs/cgroup/memory memory.usage_in_bytes memory.limit_in_bytes memory.failcnt memory.oom_control \
        memory.stat
    list_files /sys/fs/cgroup/blkio blkio.throttle.io_serviced blkio.throttle.io_service_bytes \
        blkio.throttle.read_iops_device blkio.throttle.write_iops_device blkio.throttle.read_bps_device \
        blkio.throttle.write_bps_device
    list_files /sys/fs/cgroup/cpu cpu.stat cpu.cfs_quota_us cpu.cfs_period_us
    list_files /sys/fs/cgroup/cpuacct cpuacct.usage
    set -f
}

# Adds these files of the groups of a tree, at most 300 groups.
list_files() {
    tree=$1
    [ -d "$tree" ] || return 0
    shift
    names=$*
    set -- "$tree/" "$tree"/*/ "$tree"/*/*/ "$tree"/*/*/*/ "$tree"/*/*/*/*/
    left=300
    for group do
        for name in $names; do group_files="$group_files $group$name"; done
        left=$((left - 1))
        [ "$left" -gt 0 ] || break
    done
}

# What changes at every tick.
print_counters() {
    set +f
    set -- /proc/[0-9]*
    processes=$#
    set -- /proc/uptime /proc/stat /proc/diskstats /proc/meminfo /proc/vmstat /proc/loadavg /proc/pressure/* \
        /proc/interrupts /proc/softirqs /proc/net/dev /proc/swaps /proc/mdstat /proc/net/rpc/nfsd \
        /proc/self/mountstats /proc/spl/kstat/zfs/*
    [ "$processes" -le 5000 ] && set -- "$@" /proc/[0-9]*/stat /proc/[0-9]*/io /proc/[0-9]*/schedstat
    set -f
    # shellcheck disable=SC2086 # a list of files
    grep -s '' "$@" $group_files
}

# What seldom changes: devices and what they stand on, names, mounts.
print_facts() {
    set +f
    echo '@ links'
    ls -l /sys/block /sys/class/block /sys/dev/block /sys/class/net /sys/block/*/slaves /sys/block/*/device \
        /sys/fs/btrfs/*/devices 2>/dev/null
    echo '@ files'
    grep -s '' /proc/self/mountinfo /proc/cgroups /proc/self/cgroup /proc/sys/kernel/hostname \
        /proc/sys/kernel/osrelease /proc/sys/kernel/task_delayacct /proc/sys/vm/dirty* /proc/sys/vm/swappiness \
        /proc/sys/vm/overcommit* /proc/sys/vm/min_free_kbytes /proc/sys/vm/zone_reclaim_mode \
        /proc/sys/vm/vfs_cache_pressure /etc/passwd
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
    # without servers that may hang
    df -Pkl 2>/dev/null
    set -f
}

main "$@"
exit
