//! Clusters of processes: one program, apart from the other tests, which would take ports and time from them.

mod cluster;
mod cluster_full_disk;
mod cluster_history;
mod cluster_members;
mod cluster_peers;
mod cluster_watch;
mod http;
mod nodes;
