//! Facts of the commands about sorted sets.

use super::spec::{Flags, Group, Spec};

const FAST_GROWTH: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST);
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const GROWTH: Flags = Flags::WRITE.and(Flags::DENY_OOM);
const READ: Flags = Flags::READ;
const WRITE: Flags = Flags::WRITE;

const RANGE_COST: &str = "O(log n), and one step a member of the answer";
const REDIS_RANGE_COST: &str = "O(log n + m), m with the offset";
const REMOVE_COST: &str = "O(log n), and O(log n) for each member; one step a leaf if all go";
const UNION_COST: &str = "O(n + m log m) for n members of the inputs and m of the result";
const INTERSECTION_COST: &str = "O(k n log n) for k inputs and n members of the smallest";
const DIFFERENCE_COST: &str = "O(k n log n) for k inputs and n members of the first";

/// The lines.
pub(super) const SPECS: &[Spec] = &[
    Spec::new("zadd", -4, FAST_GROWTH, Group::SortedSet)
        .keys(1, 1, 1)
        .about(
            "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
            "Gives members of a sorted set their scores; members that are new are added.",
            "1.2.0",
        )
        .costs("O(log n) for each member", "O(log n) for each member"),
    Spec::new("zincrby", 4, FAST_GROWTH, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key increment member", "Adds to a member's score; a new member starts from 0.", "1.2.0")
        .costs("O(log n)", "O(log n)"),
    Spec::new("zcard", 2, FAST_READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key", "How many members a sorted set has.", "1.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("zscore", 3, FAST_READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key member", "The score of a member.", "1.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("zmscore", -3, FAST_READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key member [member ...]", "The scores of members.", "6.2.0")
        .costs("O(log n) for each member", "O(1) for each member"),
    Spec::new("zrank", -3, FAST_READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key member [WITHSCORE]", "The rank of a member, counted from the lowest score.", "2.0.0")
        .costs("O(log n)", "O(log n)"),
    Spec::new("zrevrank", -3, FAST_READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key member [WITHSCORE]", "The rank of a member, counted from the highest score.", "2.0.0")
        .costs("O(log n)", "O(log n)"),
    Spec::new("zrem", -3, FAST_WRITE.and(Flags::FREES), Group::SortedSet)
        .keys(1, 1, 1)
        .about("key member [member ...]", "Removes members.", "1.2.0")
        .costs("O(log n) for each member", "O(log n) for each member"),
    Spec::new("zpopmin", -2, FAST_WRITE.and(Flags::FREES), Group::SortedSet)
        .keys(1, 1, 1)
        .about("key [count]", "Removes and answers the members with the lowest scores.", "5.0.0")
        .costs("O(m log n) for m members", "O(m log n)"),
    Spec::new("zpopmax", -2, FAST_WRITE.and(Flags::FREES), Group::SortedSet)
        .keys(1, 1, 1)
        .about("key [count]", "Removes and answers the members with the highest scores.", "5.0.0")
        .costs("O(m log n) for m members", "O(m log n)"),
    Spec::new("zmpop", -4, WRITE.and(Flags::FREES), Group::SortedSet)
        .about(
            "numkeys key [key ...] MIN | MAX [COUNT count]",
            "Removes and answers members at one end of the first of the sorted sets that exists.",
            "7.0.0",
        )
        .costs("O(k) and O(m log n) for m members", "O(k) + O(m log n)"),
    Spec::new("zrandmember", -2, READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key [count [WITHSCORES]]", "Members drawn at random, each as likely as any other.", "6.2.0")
        .costs("O(m log n) for m members", "O(m)"),
    Spec::new("zrange", -4, READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about(
            "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
            "Members in a range of ranks, of scores, or of names.",
            "1.2.0",
        )
        .costs(RANGE_COST, REDIS_RANGE_COST),
    Spec::new("zrangestore", -5, GROWTH, Group::SortedSet)
        .keys(1, 2, 1)
        .about(
            "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
            "Puts the members in a range into another sorted set.",
            "6.2.0",
        )
        .costs("O(log n), and O(log n) for each member", "O(log n + m)"),
    Spec::new("zrevrange", -4, READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key start stop [WITHSCORES]", "Members in a range of ranks counted from the end.", "1.2.0")
        .costs(RANGE_COST, REDIS_RANGE_COST),
    Spec::new("zrangebyscore", -4, READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key min max [WITHSCORES] [LIMIT offset count]", "Members in a range of scores.", "1.0.5")
        .costs(RANGE_COST, REDIS_RANGE_COST),
    Spec::new("zrevrangebyscore", -4, READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about(
            "key max min [WITHSCORES] [LIMIT offset count]",
            "Members in a range of scores, from the highest down.",
            "2.2.0",
        )
        .costs(RANGE_COST, REDIS_RANGE_COST),
    Spec::new("zrangebylex", -4, READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key min max [LIMIT offset count]", "Members in a range of names, in a set of one score.", "2.8.9")
        .costs(RANGE_COST, REDIS_RANGE_COST),
    Spec::new("zrevrangebylex", -4, READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key max min [LIMIT offset count]", "Members in a range of names, from the last to the first.", "2.8.9")
        .costs(RANGE_COST, REDIS_RANGE_COST),
    Spec::new("zcount", 4, FAST_READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key min max", "How many members have scores in a range.", "2.0.0")
        .costs("O(log n)", "O(log n)"),
    Spec::new("zlexcount", 4, FAST_READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about("key min max", "How many members lie in a range of names.", "2.8.9")
        .costs("O(log n)", "O(log n)"),
    Spec::new("zremrangebyrank", 4, WRITE.and(Flags::FREES), Group::SortedSet)
        .keys(1, 1, 1)
        .about("key start stop", "Removes the members in a range of ranks.", "2.0.0")
        .costs(REMOVE_COST, "O(log n + m)"),
    Spec::new("zremrangebyscore", 4, WRITE.and(Flags::FREES), Group::SortedSet)
        .keys(1, 1, 1)
        .about("key min max", "Removes the members with scores in a range.", "1.2.0")
        .costs(REMOVE_COST, "O(log n + m)"),
    Spec::new("zremrangebylex", 4, WRITE.and(Flags::FREES), Group::SortedSet)
        .keys(1, 1, 1)
        .about("key min max", "Removes the members in a range of names.", "2.8.9")
        .costs(REMOVE_COST, "O(log n + m)"),
    Spec::new("zunion", -3, READ, Group::SortedSet)
        .about(
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]",
            "The members that any of the sorted sets has.",
            "6.2.0",
        )
        .costs(UNION_COST, "O(n) + O(m log m)"),
    Spec::new("zinter", -3, READ, Group::SortedSet)
        .about(
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]",
            "The members that all of the sorted sets have.",
            "6.2.0",
        )
        .costs(INTERSECTION_COST, "O(n k) + O(m log m)"),
    Spec::new("zdiff", -3, READ, Group::SortedSet)
        .about("numkeys key [key ...] [WITHSCORES]", "The members of the first sorted set that no other has.", "6.2.0")
        .costs(DIFFERENCE_COST, "O(l + (n - k) log n)"),
    Spec::new("zintercard", -3, READ, Group::SortedSet)
        .about(
            "numkeys key [key ...] [LIMIT limit]",
            "The number of members that all of the sorted sets have.",
            "7.0.0",
        )
        .costs(INTERSECTION_COST, "O(n k)"),
    Spec::new("zunionstore", -4, GROWTH, Group::SortedSet)
        .keys(1, 1, 1)
        .about(
            "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX]",
            "Puts the members that any of the sorted sets has at a key.",
            "2.0.0",
        )
        .costs(UNION_COST, "O(n) + O(m log m)"),
    Spec::new("zinterstore", -4, GROWTH, Group::SortedSet)
        .keys(1, 1, 1)
        .about(
            "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX]",
            "Puts the members that all of the sorted sets have at a key.",
            "2.0.0",
        )
        .costs(INTERSECTION_COST, "O(n k) + O(m log m)"),
    Spec::new("zdiffstore", -4, GROWTH, Group::SortedSet)
        .keys(1, 1, 1)
        .about(
            "destination numkeys key [key ...]",
            "Puts the members of the first sorted set that no other has at a key.",
            "6.2.0",
        )
        .costs(DIFFERENCE_COST, "O(l + (n - k) log n)"),
    Spec::new("zscan", -3, READ, Group::SortedSet)
        .keys(1, 1, 1)
        .about(
            "key cursor [MATCH pattern] [COUNT count]",
            "Some of the members of a sorted set, and a cursor for the next ones.",
            "2.8.0",
        )
        .costs("O(log n) for each member, O(n) in places where many share a score", "O(1) for each call"),
];
