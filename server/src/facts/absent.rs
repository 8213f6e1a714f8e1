//! Facts of the commands that Redis has and Quipu has not yet: they are known by name and by how many words they take,
//! and are refused in words that say so.

use super::spec::{Flags, Group, Spec};

const NONE: Flags = Flags::NONE;
const READ: Flags = Flags::READ;
const READ_FAST: Flags = READ.and(Flags::FAST);
const WRITE: Flags = Flags::WRITE;
const WRITE_FAST: Flags = WRITE.and(Flags::FAST);
const WRITE_DENY_OOM: Flags = WRITE.and(Flags::DENY_OOM);
const WRITE_DENY_OOM_FAST: Flags = WRITE_DENY_OOM.and(Flags::FAST);
const WRITE_DENY_OOM_ADMIN: Flags = WRITE_DENY_OOM.and(Flags::ADMIN);
const FAST: Flags = Flags::FAST;
const ADMIN: Flags = Flags::ADMIN;

/// What commands lack that wait for something.
pub const BLOCKING: &str = "blocking commands come";
/// What commands lack that are about a cluster.
pub const CLUSTERS: &str = "clusters come";

/// First and last key, and the step between keys.
type Keys = (i32, i32, i32);

/// Families of lines, each with what Quipu lacks for it.
macro_rules! families {
    ($($family:ident, $lack:expr;)*) => {$(
        const fn $family(name: &'static str, arity: i32, flags: Flags, keys: Keys, since: &'static str) -> Spec {
            Spec::new(name, arity, flags, Group::Absent)
                .keys(keys.0, keys.1, keys.2)
                .about("", "Is refused: it comes in a later version.", since)
                .costs("O(1)", "")
                .lacking($lack)
        }
    )*};
}

families! {
    hash, "hashes come";
    set, "sets come";
    list, "lists come";
    sorting, "sorting comes";
    stream, "streams come";
    geographic, "geographic sets come";
    hyperloglog, "HyperLogLogs come";
    channel, "channels come";
    script, "scripts and functions come";
    blocking, BLOCKING;
    cluster, CLUSTERS;
}

/// The lines, family by family.
#[rustfmt::skip]
pub(super) const SPECS: &[Spec] = &[
    // Hashes.
    hash("hdel", -3, WRITE_FAST, (1, 1, 1), "2.0.0"),
    hash("hexists", 3, READ_FAST, (1, 1, 1), "2.0.0"),
    hash("hget", 3, READ_FAST, (1, 1, 1), "2.0.0"),
    hash("hgetall", 2, READ, (1, 1, 1), "2.0.0"),
    hash("hincrby", 4, WRITE_DENY_OOM_FAST, (1, 1, 1), "2.0.0"),
    hash("hincrbyfloat", 4, WRITE_DENY_OOM_FAST, (1, 1, 1), "2.6.0"),
    hash("hkeys", 2, READ, (1, 1, 1), "2.0.0"),
    hash("hlen", 2, READ_FAST, (1, 1, 1), "2.0.0"),
    hash("hmget", -3, READ_FAST, (1, 1, 1), "2.0.0"),
    hash("hmset", -4, WRITE_DENY_OOM_FAST, (1, 1, 1), "2.0.0"),
    hash("hrandfield", -2, READ, (1, 1, 1), "6.2.0"),
    hash("hscan", -3, READ, (1, 1, 1), "2.8.0"),
    hash("hset", -4, WRITE_DENY_OOM_FAST, (1, 1, 1), "2.0.0"),
    hash("hsetnx", 4, WRITE_DENY_OOM_FAST, (1, 1, 1), "2.0.0"),
    hash("hstrlen", 3, READ_FAST, (1, 1, 1), "3.2.0"),
    hash("hvals", 2, READ, (1, 1, 1), "2.0.0"),
    // Sets.
    set("sadd", -3, WRITE_DENY_OOM_FAST, (1, 1, 1), "1.0.0"),
    set("scard", 2, READ_FAST, (1, 1, 1), "1.0.0"),
    set("sdiff", -2, READ, (1, -1, 1), "1.0.0"),
    set("sdiffstore", -3, WRITE_DENY_OOM, (1, -1, 1), "1.0.0"),
    set("sinter", -2, READ, (1, -1, 1), "1.0.0"),
    set("sintercard", -3, READ, (0, 0, 0), "7.0.0"),
    set("sinterstore", -3, WRITE_DENY_OOM, (1, -1, 1), "1.0.0"),
    set("sismember", 3, READ_FAST, (1, 1, 1), "1.0.0"),
    set("smembers", 2, READ, (1, 1, 1), "1.0.0"),
    set("smismember", -3, READ_FAST, (1, 1, 1), "6.2.0"),
    set("smove", 4, WRITE_FAST, (1, 2, 1), "1.0.0"),
    set("spop", -2, WRITE_FAST, (1, 1, 1), "1.0.0"),
    set("srandmember", -2, READ, (1, 1, 1), "1.0.0"),
    set("srem", -3, WRITE_FAST, (1, 1, 1), "1.0.0"),
    set("sscan", -3, READ, (1, 1, 1), "2.8.0"),
    set("sunion", -2, READ, (1, -1, 1), "1.0.0"),
    set("sunionstore", -3, WRITE_DENY_OOM, (1, -1, 1), "1.0.0"),
    // Lists, and what sorts them.
    sorting("sort", -2, WRITE_DENY_OOM, (1, 1, 1), "1.0.0"),
    sorting("sort_ro", -2, READ, (1, 1, 1), "7.0.0"),
    list("blmove", 6, WRITE_DENY_OOM, (1, 2, 1), "6.2.0"),
    list("blmpop", -5, WRITE, (0, 0, 0), "7.0.0"),
    list("blpop", -3, WRITE, (1, -2, 1), "2.0.0"),
    list("brpop", -3, WRITE, (1, -2, 1), "2.0.0"),
    list("brpoplpush", 4, WRITE_DENY_OOM, (1, 2, 1), "2.2.0"),
    list("lindex", 3, READ, (1, 1, 1), "1.0.0"),
    list("linsert", 5, WRITE_DENY_OOM, (1, 1, 1), "2.2.0"),
    list("llen", 2, READ_FAST, (1, 1, 1), "1.0.0"),
    list("lmove", 5, WRITE_DENY_OOM, (1, 2, 1), "6.2.0"),
    list("lmpop", -4, WRITE, (0, 0, 0), "7.0.0"),
    list("lpop", -2, WRITE_FAST, (1, 1, 1), "1.0.0"),
    list("lpos", -3, READ, (1, 1, 1), "6.0.6"),
    list("lpush", -3, WRITE_DENY_OOM_FAST, (1, 1, 1), "1.0.0"),
    list("lpushx", -3, WRITE_DENY_OOM_FAST, (1, 1, 1), "2.2.0"),
    list("lrange", 4, READ, (1, 1, 1), "1.0.0"),
    list("lrem", 4, WRITE, (1, 1, 1), "1.0.0"),
    list("lset", 4, WRITE_DENY_OOM, (1, 1, 1), "1.0.0"),
    list("ltrim", 4, WRITE, (1, 1, 1), "1.0.0"),
    list("rpop", -2, WRITE_FAST, (1, 1, 1), "1.0.0"),
    list("rpoplpush", 3, WRITE_DENY_OOM, (1, 2, 1), "1.2.0"),
    list("rpush", -3, WRITE_DENY_OOM_FAST, (1, 1, 1), "1.0.0"),
    list("rpushx", -3, WRITE_DENY_OOM_FAST, (1, 1, 1), "2.2.0"),
    // Streams.
    stream("xack", -4, WRITE_FAST, (1, 1, 1), "5.0.0"),
    stream("xadd", -5, WRITE_DENY_OOM_FAST, (1, 1, 1), "5.0.0"),
    stream("xautoclaim", -6, WRITE_FAST, (1, 1, 1), "6.2.0"),
    stream("xclaim", -6, WRITE_FAST, (1, 1, 1), "5.0.0"),
    stream("xdel", -3, WRITE_FAST, (1, 1, 1), "5.0.0"),
    stream("xgroup", -2, NONE, (0, 0, 0), "5.0.0"),
    stream("xinfo", -2, NONE, (0, 0, 0), "5.0.0"),
    stream("xlen", 2, READ_FAST, (1, 1, 1), "5.0.0"),
    stream("xpending", -3, READ, (1, 1, 1), "5.0.0"),
    stream("xrange", -4, READ, (1, 1, 1), "5.0.0"),
    stream("xread", -4, READ, (0, 0, 0), "5.0.0"),
    stream("xreadgroup", -7, WRITE, (0, 0, 0), "5.0.0"),
    stream("xrevrange", -4, READ, (1, 1, 1), "5.0.0"),
    stream("xsetid", -3, WRITE_DENY_OOM_FAST, (1, 1, 1), "5.0.0"),
    stream("xtrim", -4, WRITE, (1, 1, 1), "5.0.0"),
    // Geographic sets.
    geographic("geoadd", -5, WRITE_DENY_OOM, (1, 1, 1), "3.2.0"),
    geographic("geodist", -4, READ, (1, 1, 1), "3.2.0"),
    geographic("geohash", -2, READ, (1, 1, 1), "3.2.0"),
    geographic("geopos", -2, READ, (1, 1, 1), "3.2.0"),
    geographic("georadius", -6, WRITE_DENY_OOM, (1, 1, 1), "3.2.0"),
    geographic("georadius_ro", -6, READ, (1, 1, 1), "3.2.10"),
    geographic("georadiusbymember", -5, WRITE_DENY_OOM, (1, 1, 1), "3.2.0"),
    geographic("georadiusbymember_ro", -5, READ, (1, 1, 1), "3.2.10"),
    geographic("geosearch", -7, READ, (1, 1, 1), "6.2.0"),
    geographic("geosearchstore", -8, WRITE_DENY_OOM, (1, 2, 1), "6.2.0"),
    // HyperLogLogs.
    hyperloglog("pfadd", -2, WRITE_DENY_OOM_FAST, (1, 1, 1), "2.8.9"),
    hyperloglog("pfcount", -2, READ, (1, -1, 1), "2.8.9"),
    hyperloglog("pfdebug", 3, WRITE_DENY_OOM_ADMIN, (2, 2, 1), "2.8.9"),
    hyperloglog("pfmerge", -2, WRITE_DENY_OOM, (1, -1, 1), "2.8.9"),
    hyperloglog("pfselftest", 1, ADMIN, (0, 0, 0), "2.8.9"),
    // Channels.
    channel("psubscribe", -2, NONE, (0, 0, 0), "2.0.0"),
    channel("publish", 3, FAST, (0, 0, 0), "2.0.0"),
    channel("pubsub", -2, NONE, (0, 0, 0), "2.8.0"),
    channel("punsubscribe", -1, NONE, (0, 0, 0), "2.0.0"),
    channel("spublish", 3, FAST, (1, 1, 1), "7.0.0"),
    channel("ssubscribe", -2, NONE, (1, -1, 1), "7.0.0"),
    channel("subscribe", -2, NONE, (0, 0, 0), "2.0.0"),
    channel("sunsubscribe", -1, NONE, (1, -1, 1), "7.0.0"),
    channel("unsubscribe", -1, NONE, (0, 0, 0), "2.0.0"),
    // Scripts and functions.
    script("eval", -3, NONE, (0, 0, 0), "2.6.0"),
    script("eval_ro", -3, READ, (0, 0, 0), "7.0.0"),
    script("evalsha", -3, NONE, (0, 0, 0), "2.6.0"),
    script("evalsha_ro", -3, READ, (0, 0, 0), "7.0.0"),
    script("fcall", -3, NONE, (0, 0, 0), "7.0.0"),
    script("fcall_ro", -3, READ, (0, 0, 0), "7.0.0"),
    script("function", -2, NONE, (0, 0, 0), "7.0.0"),
    script("script", -2, NONE, (0, 0, 0), "2.6.0"),
    // Sorted sets, waited for.
    blocking("bzmpop", -5, WRITE, (0, 0, 0), "7.0.0"),
    blocking("bzpopmax", -3, WRITE_FAST, (1, -2, 1), "5.0.0"),
    blocking("bzpopmin", -3, WRITE_FAST, (1, -2, 1), "5.0.0"),
    // The cluster.
    cluster("asking", 1, FAST, (0, 0, 0), "3.0.0"),
    cluster("cluster", -2, NONE, (0, 0, 0), "3.0.0"),
    cluster("readonly", 1, FAST, (0, 0, 0), "3.0.0"),
    cluster("readwrite", 1, FAST, (0, 0, 0), "3.0.0"),
];

#[cfg(test)]
mod tests {
    use super::{Group, SPECS};

    #[test]
    fn what_is_absent_is_not_there() {
        for spec in SPECS {
            let lines = crate::facts::all().filter(|other| other.name == spec.name);
            assert_eq!(lines.map(|line| line.group).collect::<Vec<_>>(), [Group::Absent], "{}", spec.name);
        }
    }
}
