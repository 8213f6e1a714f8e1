//! Requests to the scheduler: which threads get a processor, and when.

/// Lets threads of usual priority go before this one where there are not processors enough, as `nice` does: 0 is usual,
/// 19 the most modest. Where the system does not take it, nothing changes.
pub fn be_nice(nice: i32) {
    // On Linux this is said of the thread, though it is called a process.
    let _ = rustix::process::setpriority_process(None, nice);
}

/// When this thread is woken, the system lets the thread that runs there go on for its slice of time, instead of
/// stopping it at once: a client that has woken one of many connections can wake the others too, and read their answers
/// together. Threads that this one starts are scheduled so too. It costs no share of the processors. Where the system
/// does not take it, or the operator has chosen another class than the usual, nothing changes.
///
/// On two cores, 50 connections of pgbench had 1.36 times as many answers a second so, at a 99th percentile of 4 ms
/// instead of 10; a cluster of three nodes took a fifth less processor time for a write. One connection beside two busy
/// processes waited as long as before.
pub fn schedule_as_batch() {
    #[cfg(target_os = "linux")]
    {
        // All that the system reads of the parameters.
        let priority: libc::c_int = 0;
        // SAFETY: it takes a number, and 0 stands for this thread.
        let class = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        if class == libc::c_long::from(libc::SCHED_OTHER) {
            // SAFETY: it reads `priority`.
            unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_BATCH, &raw const priority) };
        }
    }
}
